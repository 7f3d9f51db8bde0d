//! The decision: which patterns a snapshot shows, which operation or call is to blame, and what to change.
//!
//! Each thread that waits gives a finding: the wait-for path from what it waits for to what does not end ([`super::paths`]). The
//! first thing on that path that the program did not ask for gives the code. A thread whose call (a load, a release) blocks the
//! context explains the other threads blocked in that context.
//!
//! A wait with a pattern counts as a hang once it is past the threshold. A wait without one, or one that a runnable thread may end,
//! counts as slow until it has stood still for the longer patience: a long kernel and an endless one look the same from outside.
//! What is seen to move is slow.
//!
//! Must not: look at anything but the snapshot.

use super::messages;
use super::paths::{End, Path, Paths};
use super::snapshot::{BlockedCall, BusyStream, Extent, FedStream, OperationSeen, Snapshot, StreamRef, WaitSeen};
use super::verdict::{Confidence, Culprit, Diagnosis, Evidence, Status, Verdict};
use crate::api::{counted, Class, Code, ColdKind, EntryPoint, StreamKind, ThreadActivity};
use crate::demangle::demangle;
use crate::model::queue_may_be_full;
use crate::Nanos;

/// Why something counts.
struct Finding<'a> {
    code: Code,
    calls: Vec<&'a BlockedCall>,
    path: Path<'a>,
    culprits: Vec<Culprit>,
    /// The wait in one sentence, with its names.
    sentence: String,
    /// What cannot start or go on because of the culprits.
    held_back: Option<Culprit>,
    /// Sentences between the calls and the path.
    because: Vec<String>,
    fix: String,
    /// Whether it counts as soon as it is past the threshold.
    conclusive: bool,
}

/// What a snapshot means.
pub fn diagnose(snapshot: &Snapshot) -> Diagnosis {
    Decision { snapshot, paths: Paths::new(snapshot) }.decide()
}

fn class(call: &str) -> Option<Class> {
    Snapshot::entry_point(call).map(EntryPoint::class)
}

fn is_legacy(stream: &StreamRef) -> bool {
    stream.kind == StreamKind::Legacy
}

/// The call loads a module, for which the driver waits.
fn loads_module(call: &BlockedCall) -> bool {
    call.cold == Some(ColdKind::Module) || class(&call.call).is_some_and(Class::loads_module)
}

struct Decision<'a> {
    snapshot: &'a Snapshot,
    paths: Paths<'a>,
}

impl<'a> Decision<'a> {
    fn decide(&self) -> Diagnosis {
        let past: Vec<_> = self.snapshot.blocked.iter().filter(|c| c.past_threshold).collect();
        if self.snapshot.streams.is_empty() && self.snapshot.fed.is_empty() {
            return Diagnosis::default();
        }
        let mut findings: Vec<_> = past.iter().filter_map(|call| self.finding(call)).collect();
        if past.is_empty() {
            findings.extend(self.without_a_call());
        }
        let mut findings = self.merged(findings);
        self.let_others_help(&mut findings);
        self.join_the_held_up(&mut findings, &past);
        findings.sort_by_key(|finding| order(finding.code));
        let (stuck, slow): (Vec<_>, Vec<_>) = findings.into_iter().partition(|finding| self.counts(finding));
        if stuck.is_empty() {
            let slow: Vec<_> = slow.first().map(|finding| self.excuse(finding)).unwrap_or_default();
            let status = if slow.is_empty() { Status::Well } else { Status::Slow };
            return Diagnosis { status, verdicts: Vec::new(), slow };
        }
        let verdicts = stuck.into_iter().map(|finding| self.verdict(finding)).collect();
        Diagnosis { status: Status::Hang, verdicts, slow: Vec::new() }
    }

    // --- what a call waits for ---

    /// The busy streams that a call waits for, and up to when what was submitted to them.
    fn needs(&self, call: &BlockedCall) -> Vec<(u32, Nanos)> {
        let context = |s: &&BusyStream| call.context == 0 || s.stream.context == call.context;
        let blocking = |s: &&BusyStream| s.stream.kind != StreamKind::NonBlocking;
        // Queries go on: what was submitted since the first one is asked about as well.
        let until = if call.queries.is_some() { Nanos::MAX } else { call.entered };
        let streams = || self.snapshot.streams.iter().filter(context);
        let all = || streams().map(|s| (s.stream.number, until)).collect();
        let own = |stream: &StreamRef, until: Nanos| {
            let mut needs = vec![(stream.number, until)];
            if is_legacy(stream) {
                needs.extend(streams().filter(blocking).map(|s| (s.stream.number, until)));
            }
            needs
        };
        match (class(&call.call), &call.stream) {
            _ if loads_module(call) => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), Some(stream)) => {
                vec![(stream.number, call.event_recorded.unwrap_or(until))]
            }
            (Some(Class::Copy | Class::Set), _) => {
                streams().filter(blocking).map(|s| (s.stream.number, until)).collect()
            }
            // Ending a context waits for the others of its device as well.
            (Some(Class::ContextDestroy), _) => {
                self.snapshot.streams.iter().map(|s| (s.stream.number, until)).collect()
            }
            (Some(class), _) if class.waits_for_whole_context() || class == Class::ContextSynchronize => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), None) => all(),
            (Some(Class::Launch), Some(stream)) if !self.queue_is_full(stream) => all(),
            (Some(class), Some(stream)) if class.synchronizes() || waits_for_its_stream(class) => own(stream, until),
            _ => Vec::new(),
        }
    }

    fn queue_is_full(&self, stream: &StreamRef) -> bool {
        self.snapshot.stream(stream.number).is_some_and(|busy| queue_may_be_full(busy.outstanding))
    }

    /// The paths from what a call waits for.
    fn paths_of(&self, call: &BlockedCall) -> impl Iterator<Item = Path<'a>> + '_ {
        // What a launch that loads is to submit itself comes after the load.
        let own = call.stream.as_ref().filter(|_| loads_module(call)).map(|stream| (stream.number, call.entered));
        let is_own = move |stream: u32| own == self.snapshot.stream(stream).map(|busy| (stream, busy.oldest.at));
        let needs = self.needs(call).into_iter().filter(move |(stream, _)| !is_own(*stream));
        needs.filter_map(|(stream, until)| self.paths.from(stream, until))
    }

    /// What was submitted, while a call waits, to the stream that a path ends on: it may be getting on.
    fn fed_behind(&self, path: &Path<'a>) -> Option<&'a FedStream> {
        let End::Runs(culprit) = &path.end else { return None };
        self.snapshot.fed.iter().find(|fed| fed.stream.number == culprit.stream.number)
    }

    /// The path that explains a call best: the one least likely to end.
    fn path(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let path = self.paths_of(call).min_by_key(|path| (path.rank(), self.fed_behind(path).is_some()))?;
        // A copy on the default stream, or another call that waits for the very work behind which a barrier waits: the barrier
        // blocks what might end that work.
        if path.barrier().is_none() && !loads_module(call) {
            return Some(self.behind_the_same(&path).unwrap_or(path));
        }
        Some(path)
    }

    /// A path to the same end through a barrier, from a stream whose work the barrier blocks.
    fn behind_the_same(&self, path: &Path<'a>) -> Option<Path<'a>> {
        let End::Runs(culprit) = &path.end else { return None };
        let held_back = |s: &&BusyStream| s.stream.context == culprit.stream.context;
        let streams = self.snapshot.streams.iter().filter(held_back);
        streams
            .filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX))
            .find(|p| p.barrier().is_some() && p.culprit() == Some(culprit))
    }

    // --- findings ---

    fn finding(&self, call: &'a BlockedCall) -> Option<Finding<'a>> {
        let class = class(&call.call)?;
        let Some(path) = self.path(call) else { return self.starved(call, class) };
        if loads_module(call) {
            return Some(self.module_load(call, path));
        }
        if path.barrier().is_some() {
            return Some(self.barrier(vec![call], path));
        }
        let full = call.stream.as_ref().is_some_and(|s| self.queue_is_full(s));
        let submits = matches!(class, Class::Launch | Class::GraphLaunch | Class::HostFunction | Class::StreamSubmit);
        if full && submits && call.cold.is_none() {
            return Some(self.full_queue(call, path));
        }
        let whole = class.waits_for_whole_context() || class == Class::Launch;
        let by_legacy = matches!(class, Class::Copy | Class::Set)
            || class == Class::StreamSynchronize && call.stream.as_ref().is_some_and(is_legacy);
        // Work on the default stream itself is what the call is about.
        let others = matches!(&path.end, End::Runs(culprit) if !is_legacy(&culprit.stream));
        if whole || by_legacy && others {
            return Some(self.whole_context(call, class, path));
        }
        Some(self.by_its_end(vec![call], path))
    }

    /// LG202.
    fn module_load(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
        // The program submitted too little behind the work in flight to prove that it has ended, and enough to doubt that it never
        // does.
        let fed = self.fed_behind(&path);
        let others = self.paths_of(call).filter(|path| fed.is_some() || self.fed_behind(path).is_none());
        let mut culprits: Vec<Culprit> = Vec::new();
        for culprit in path.culprit().cloned().into_iter().chain(others.filter_map(|p| p.culprit().cloned())) {
            if !culprits.contains(&culprit) {
                culprits.push(culprit);
            }
        }
        let before = culprits.first().map_or_else(|| "that".to_owned(), |c| messages::submitting(&c.operation));
        let fix = match &call.function {
            _ if class(&call.call) == Some(Class::ModuleLoad) => format!("call {} before {before}", call.call),
            Some(function) => format!(
                "load {0} before {before}: cudaFuncGetAttributes({0}), or one launch of it; LAZYGUARD_PRELOAD=auto does this \
                 for libraries that are registered by then",
                demangle(function)
            ),
            None => format!(
                "use the library once before {before}; LAZYGUARD_PRELOAD=auto does this for libraries that are registered by \
                 then"
            ),
        };
        let waits = messages::waits_for(&path.end);
        let sentence = match call.function.as_deref().map(demangle) {
            Some(function) if class(&call.call) == Some(Class::Launch) => {
                format!("{function} cannot start: loading its module on its first launch waits for {waits}")
            }
            Some(function) => format!("{} cannot return: loading {function} waits for {waits}", call.call),
            None => format!("{} cannot return: loading waits for {waits}", call.call),
        };
        let mut because = vec![messages::loads(call)];
        if call.compiles {
            because.push("the driver has to compile its code first, which may take long by itself".to_owned());
        }
        because.extend(fed.map(messages::fed_behind));
        let conclusive = !call.compiles && fed.is_none() && self.cannot_be_helped(&path, true);
        let held_back = self.submitted_by(call);
        Finding { code: Code::LG202, calls: vec![call], path, culprits, sentence, held_back, because, fix, conclusive }
    }

    /// What a call that is in progress is to submit.
    fn submitted_by(&self, call: &BlockedCall) -> Option<Culprit> {
        let stream = call.stream.clone().filter(|_| call.function.is_some())?;
        let function = call.function.clone();
        let operation = OperationSeen {
            at: call.entered,
            call: call.call.clone(),
            function,
            extent: None,
            caller: call.caller,
            launch: None,
        };
        Some(Culprit { stream, operation })
    }

    /// LG202 or LG204 of a call for which the context is never idle: what was in flight when it was entered has ended, and more
    /// is submitted without a pause.
    fn starved(&self, call: &'a BlockedCall, class: Class) -> Option<Finding<'a>> {
        // A compiler may take as long as it likes, whatever else goes on.
        if call.compiles || !(loads_module(call) || class.needs_an_idle_context()) {
            return None;
        }
        let same = |fed: &&FedStream| fed.stream.context == call.context && fed.newest.at > call.entered;
        let fed: Vec<_> = self.snapshot.fed.iter().filter(same).collect();
        let culprits: Vec<_> =
            fed.iter().map(|fed| Culprit { stream: fed.stream.clone(), operation: fed.newest.clone() }).collect();
        let first = culprits.first()?.clone();
        let pause = format!("pause what is submitted to {} until {} has returned", messages::streams(&fed), call.call);
        let (code, because, fix) = match loads_module(call) {
            true => {
                let what = call.function.as_deref().map_or_else(|| "the module".to_owned(), demangle);
                let fix = format!("{pause}, or load {what} before that begins");
                (Code::LG202, messages::loads(call), fix)
            }
            false => (
                Code::LG204,
                messages::needs_idle(class).to_owned(),
                format!("{pause}, or make that call before it begins or after it ends"),
            ),
        };
        let path = Path::to(End::Fed(fed, first));
        let sentence = format!("{} cannot return: it waits for {}", call.call, messages::waits_for(&path.end));
        let (held_back, because) = (self.submitted_by(call), vec![because]);
        let conclusive = false;
        Some(Finding { code, calls: vec![call], path, culprits, sentence, held_back, because, fix, conclusive })
    }

    /// LG201.
    fn barrier(&self, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Finding<'a> {
        let what = path.barrier().and_then(|load| load.function.as_deref());
        let what = what.map_or_else(|| "the function".to_owned(), demangle);
        let before = path.culprit().map_or_else(|| "that".to_owned(), |c| messages::submitting(&c.operation));
        let load = path.barrier();
        let fix = if load.is_some_and(|load| load.first_launch) {
            format!("launch {what} once before {before}: loading it is not enough, because it prints")
        } else {
            format!("load {what} before {before}: cudaFuncGetAttributes({what}), or LAZYGUARD_PRELOAD=auto")
        };
        let sentence = load.map(messages::held_back).unwrap_or_default();
        let sentence = format!("{sentence} waits for {}", messages::waits_for(&path.end));
        let held_back = load.and_then(|load| {
            let operation = OperationSeen {
                at: load.at,
                call: load.call.clone(),
                function: load.function.clone(),
                extent: None,
                caller: load.caller,
                launch: None,
            };
            Some(Culprit { stream: load.stream.clone()?, operation })
        });
        // That it prints is read from a name in an image, which is less than to have seen a load.
        let loaded = load.is_some_and(|load| !load.first_launch);
        let conclusive = self.cannot_be_helped(&path, loaded);
        let (code, culprits, because) = (Code::LG201, path.culprits(), Vec::new());
        Finding { code, calls, culprits, path, sentence, held_back, because, fix, conclusive }
    }

    /// LG205.
    fn full_queue(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
        let count = call.stream.as_ref().and_then(|s| self.snapshot.stream(s.number)).map_or(0, |s| s.outstanding);
        let on = call.stream.as_ref().map_or_else(|| "its stream".to_owned(), messages::stream);
        let because = vec![format!("{} on {on} not known to have ended", are(count))];
        let fix =
            "submit less at a time: synchronize, or wait for an event, every few hundred operations behind work that \
                   waits for the host or for another stream"
                .to_owned();
        let sentence = format!(
            "{} cannot return: the queue of {on} is full, and its first operation waits for {}",
            call.call,
            messages::waits_for(&path.end)
        );
        let sentence = match &path.end {
            End::Runs(culprit) if call.stream.as_ref().is_some_and(|s| s.number == culprit.stream.number) => format!(
                "{} cannot return: the queue of {on} is full, and {} at its head has not ended",
                call.call,
                messages::name_of(&culprit.operation)
            ),
            _ => sentence,
        };
        let conclusive = self.cannot_be_helped(&path, false);
        let (code, culprits, held_back) = (Code::LG205, path.culprits(), self.submitted_by(call));
        Finding { code, calls: vec![call], culprits, path, sentence, held_back, because, fix, conclusive }
    }

    /// LG204.
    fn whole_context(&self, call: &'a BlockedCall, class: Class, path: Path<'a>) -> Finding<'a> {
        let (because, fix) = match class {
            Class::Free => (
                messages::needs_idle(class),
                "release it with cuMemFreeAsync (cudaFreeAsync), or after that work has ended",
            ),
            Class::ModuleUnload | Class::LibraryUnload => {
                (messages::needs_idle(class), "unload it after that work has ended, or keep it")
            }
            Class::Launch => (
                "that launch waits until the context is idle: it needs more local memory than the context has set aside, or \
                 sets up something else that all kernels share",
                "launch the kernel that needs most local memory once at the start, or call \
                 cudaDeviceSetLimit(cudaLimitStackSize) then",
            ),
            Class::ContextDestroy => (messages::needs_idle(class), "end it after that work has ended"),
            Class::Copy | Class::Set => (
                "the default stream waits for every stream that was created with default flags",
                "copy asynchronously on a stream of its own, or create the streams with CU_STREAM_NON_BLOCKING",
            ),
            Class::StreamSynchronize => (
                "the default stream waits for every stream that was created with default flags",
                "synchronize with the stream that is meant, or create the streams with CU_STREAM_NON_BLOCKING",
            ),
            _ => (messages::needs_idle(class), "make that call before this work is submitted, or after it has ended"),
        };
        let conclusive = self.cannot_be_helped(&path, false);
        let waits = messages::waits_for(&path.end);
        let sentence = match (class, call.function.as_deref().map(demangle)) {
            (Class::Launch, Some(function)) => {
                format!("{function} cannot start: its launch waits for an idle context, and so for {waits}")
            }
            (Class::Copy | Class::Set | Class::StreamSynchronize, _) => {
                format!("{} cannot return: the default stream waits for {waits}", call.call)
            }
            _ => format!("{} cannot return: it waits for an idle context, and so for {waits}", call.call),
        };
        let (because, fix, held_back) = (vec![because.to_owned()], fix.to_owned(), self.submitted_by(call));
        let (code, culprits) = (Code::LG204, path.culprits());
        Finding { code, calls: vec![call], culprits, path, sentence, held_back, because, fix, conclusive }
    }

    /// LG203, LG206, LG207 or LG299, by where the path ends.
    fn by_its_end(&self, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Finding<'a> {
        let conclusive = self.cannot_be_helped(&path, false);
        let mut culprits = path.culprits();
        let sentence = self.sentence_by_its_end(&calls, &path);
        let held_back = match &path.end {
            End::Filled(victim, _) => Some(victim.clone()),
            _ => None,
        };
        let (code, fix) = match &path.end {
            End::Unwritten(wait, _) => (
                Code::LG203,
                format!(
                    "submit the operation that writes {} to {:#x} before the call that waits for it, or from another thread; \
                     check the wait's address, value and condition ({})",
                    wait.value, wait.address, wait.condition
                ),
            ),
            End::Cycle(_) => (
                Code::LG203,
                "submit the write that each of these streams waits for before that stream's own wait, not behind it"
                    .to_owned(),
            ),
            End::Host(host, _) => (
                Code::LG207,
                format!(
                    "let the host function at {:#x} return: it must not wait for what its stream, or a thread that waits for \
                     its stream, has still to do",
                    host.address
                ),
            ),
            End::Filled(victim, filler) => (
                Code::LG206,
                format!(
                    "launch {} with fewer blocks, so that {1} finds room beside it, or launch {1} first",
                    messages::name_of(&filler.operation),
                    messages::name_of(&victim.operation)
                ),
            ),
            // The end of its path does not explain a call that waits for an idle context.
            End::Fed(..) => (Code::LG299, String::new()),
            End::Runs(culprit) => {
                // Other busy work beside it may be what it waits for.
                let context = culprit.stream.context;
                let others = self.snapshot.streams.iter().filter(|s| s.stream.context == context);
                culprits.extend(
                    others
                        .filter(|s| s.stream.number != culprit.stream.number)
                        .map(|s| Culprit { stream: s.stream.clone(), operation: s.oldest.clone() }),
                );
                (Code::LG299, format!("find out why {} does not end", messages::name_of(&culprit.operation)))
            }
        };
        Finding { code, calls, path, culprits, sentence, held_back, because: Vec::new(), fix, conclusive }
    }

    fn sentence_by_its_end(&self, calls: &[&BlockedCall], path: &Path<'a>) -> String {
        match &path.end {
            End::Unwritten(wait, _) => {
                format!("{} cannot go on: it waits {}", messages::stream(&wait.stream), messages::unwritten(wait))
            }
            End::Cycle(_) => {
                let streams = messages::numbered(&messages::streams_on(path));
                format!("{streams} cannot go on: they wait for each other, each behind its own wait")
            }
            End::Host(host, culprit) => format!(
                "{} cannot go on: its host function at {:#x} has not returned",
                messages::stream(&culprit.stream),
                host.address
            ),
            End::Filled(victim, filler) => format!(
                "{} on {} cannot start: {} on {} fills the device and has not ended",
                messages::name_of(&victim.operation),
                messages::stream(&victim.stream),
                messages::name_of(&filler.operation),
                messages::stream(&filler.stream)
            ),
            end @ (End::Runs(_) | End::Fed(..)) => match calls.first() {
                Some(call) if call.queries.is_some() => {
                    format!("{} goes on answering \"not ready\": it waits for {}", call.call, messages::waits_for(end))
                }
                Some(call) => format!("{} cannot return: it waits for {}", call.call, messages::waits_for(end)),
                None => format!("submitted work waits for {}", messages::waits_for(end)),
            },
        }
    }

    /// Whether nothing is known that may still end what a call waits for, so that it counts as soon as it is past the threshold.
    ///
    /// A kernel may always end. Behind one, a load on first use (`by_loading`) counts all the same: the program did not ask to wait
    /// there, and the work that the load blocks may be what the kernel waits for.
    fn cannot_be_helped(&self, path: &Path<'a>, by_loading: bool) -> bool {
        let on = path.culprit().and_then(|culprit| self.snapshot.stream(culprit.stream.number));
        // The guard cannot ask the driver about a destroyed stream, so its knowledge may be old.
        if on.is_some_and(|stream| stream.destroyed) {
            return false;
        }
        match &path.end {
            End::Cycle(_) => true,
            // A kernel that fills the device may end as any other, and the thread that feeds a stream may pause.
            End::Filled(..) | End::Fed(..) => false,
            End::Runs(_) => by_loading,
            // What the host can look at, it can write, and another process as well.
            End::Unwritten(wait, _) => {
                by_loading
                    || wait.holds.is_none()
                        && self.snapshot.runnable.is_empty()
                        && !on.is_some_and(|stream| may_have_passed(stream, wait))
                        && !self.may_be_written(wait)
            }
            End::Host(host, _) => {
                !host.doing.is_some_and(ThreadActivity::goes_on) && (by_loading || self.snapshot.runnable.is_empty())
            }
        }
    }

    /// Whether something is under way on another stream that may write anywhere, and may come to do so.
    fn may_be_written(&self, wait: &WaitSeen) -> bool {
        let others = self.snapshot.streams.iter().filter(|s| s.stream.number != wait.stream.number);
        others.filter(|s| s.outstanding > s.operations.len() as u64 || s.operations.iter().any(writes_anywhere)).any(
            |s| {
                self.paths.from(s.stream.number, Nanos::MAX).is_some_and(|path| match &path.end {
                    End::Runs(_) | End::Filled(..) => true,
                    End::Host(host, _) => host.doing.is_none_or(ThreadActivity::goes_on),
                    End::Unwritten(..) | End::Cycle(_) | End::Fed(..) => false,
                })
            },
        )
    }

    /// Where no thread is in a call: submitted work that cannot start, or cannot end.
    fn without_a_call(&self) -> Option<Finding<'a>> {
        let quiet = self.snapshot.at.saturating_sub(self.snapshot.last_activity);
        // No thread is known to wait, so there is no report before it counts.
        if self.snapshot.threshold_nanos == 0 || quiet < self.snapshot.patience_nanos {
            return None;
        }
        let streams = self.snapshot.streams.iter();
        let path = streams.filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX)).min_by_key(Path::rank)?;
        let quiet = format!("no thread has made a driver call for {}", messages::lasted(quiet));
        let mut finding = match &path.end {
            _ if path.barrier().is_some() => self.barrier(Vec::new(), path),
            End::Runs(_) => return None,
            // Armed for what the host will store some day: a program may idle so.
            End::Unwritten(wait, _) if wait.holds.is_some() => return None,
            _ => self.by_its_end(Vec::new(), path),
        };
        finding.because.insert(0, quiet);
        finding.conclusive = false;
        Some(finding)
    }

    /// Findings with the same code and culprit are one.
    fn merged(&self, findings: Vec<Finding<'a>>) -> Vec<Finding<'a>> {
        let mut merged: Vec<Finding<'a>> = Vec::new();
        for finding in findings {
            let same = |other: &&mut Finding<'a>| {
                // Of calls that block the context, the first one does.
                other.code == finding.code && (holds_up(other) || other.culprits.first() == finding.culprits.first())
            };
            match merged.iter_mut().find(same) {
                Some(other) => {
                    other.calls.extend(finding.calls);
                    other.conclusive |= finding.conclusive;
                }
                None => merged.push(finding),
            }
        }
        merged
    }

    /// A thread that is in a call which may return by itself may go on to do what others wait for.
    fn let_others_help(&self, findings: &mut [Finding<'a>]) {
        let stuck: Vec<u32> = findings
            .iter()
            .filter(|finding| finding.conclusive || holds_up(finding))
            .flat_map(|finding| finding.calls.iter().map(|call| call.thread))
            .collect();
        for finding in findings.iter_mut().filter(|f| matches!(f.code, Code::LG203 | Code::LG207)) {
            let own = |thread: u32| finding.calls.iter().any(|call| call.thread == thread);
            let may_help = |call: &BlockedCall| !own(call.thread) && !stuck.contains(&call.thread);
            if !matches!(finding.path.end, End::Cycle(_)) && self.snapshot.blocked.iter().any(may_help) {
                finding.conclusive = false;
            }
        }
    }

    /// Threads that wait because another thread's call blocks the context, or that cannot go on for it.
    fn join_the_held_up(&self, findings: &mut Vec<Finding<'a>>, past: &[&'a BlockedCall]) {
        let Some(holder) = findings.iter().map(holds_up).position(|holds| holds) else { return };
        let Some(first) = findings[holder].calls.first().copied() else { return };
        let context = first.context;
        let same = |call: &BlockedCall| call.context == 0 || context == 0 || call.context == context;
        let mut holder = findings.remove(holder);
        // The thread that blocks the context may be the one that would do what the others wait for.
        let explained = |finding: &Finding<'a>| {
            matches!(finding.code, Code::LG203 | Code::LG299 | Code::LG204)
                && !matches!(finding.path.end, End::Cycle(_))
                && finding.calls.iter().all(|call| same(call))
        };
        findings.retain_mut(|finding| {
            let explained = explained(finding);
            if explained {
                holder.calls.append(&mut finding.calls);
            }
            !explained
        });
        for call in past {
            let known = |finding: &Finding<'a>| finding.calls.iter().any(|c| std::ptr::eq(*c, *call));
            if same(call) && !known(&holder) && !findings.iter().any(known) {
                holder.calls.push(call);
            }
        }
        findings.insert(0, holder);
    }

    // --- from findings to verdicts ---

    /// For how long nothing has been seen to move there.
    fn stood(&self, finding: &Finding<'a>) -> Nanos {
        let entered = finding.calls.iter().map(|call| call.entered).min();
        let since = entered.unwrap_or(self.snapshot.last_activity);
        if matches!(finding.path.end, End::Fed(..)) {
            // That the streams move is why the call does not return.
            return self.snapshot.at.saturating_sub(since.max(self.snapshot.awake_since));
        }
        // A stream that is only asked about, and fed meanwhile, is never idle and yet not stuck: one that is would fill up.
        let asked_only = asked_only(finding);
        let moved = self.on(finding).map_or(0, |s| if asked_only { s.moved.max(s.last_submitted) } else { s.moved });
        self.snapshot.at.saturating_sub(since.max(moved).max(self.snapshot.awake_since))
    }

    /// The stream of what does not end.
    fn on(&self, finding: &Finding<'a>) -> Option<&'a BusyStream> {
        finding.culprits.first().and_then(|culprit| self.snapshot.stream(culprit.stream.number))
    }

    fn counts(&self, finding: &Finding<'a>) -> bool {
        let stood = self.stood(finding);
        // A kernel that is watched while the program gets on is meant to run.
        let watched = asked_only(finding)
            && matches!(finding.path.end, End::Runs(_))
            && self.snapshot.at.saturating_sub(self.snapshot.last_activity) < self.snapshot.threshold_nanos;
        let Snapshot { threshold_nanos, patience_nanos, .. } = *self.snapshot;
        !watched && (stood >= threshold_nanos && finding.conclusive || stood >= patience_nanos.max(threshold_nanos))
    }

    /// The facts of a finding, one each.
    fn chain(&self, finding: &Finding<'a>) -> Vec<String> {
        let mut chain: Vec<_> = finding.calls.iter().take(1).map(|call| messages::blocked(call)).collect();
        chain.extend(finding.because.iter().cloned());
        chain.extend(messages::path(self.snapshot, &finding.path));
        let others = finding.calls.iter().skip(1);
        chain.extend(others.map(|call| messages::waits_too(call)));
        chain
    }

    fn verdict(&self, finding: Finding<'a>) -> Verdict {
        let confidence = match (&finding.path.end, finding.code) {
            (_, Code::LG299) => Confidence::Possible,
            _ if !finding.conclusive => Confidence::Possible,
            (End::Cycle(_), _) => Confidence::Certain,
            _ => Confidence::Likely,
        };
        let calls = finding.calls.iter().map(|call| Evidence {
            what: format!("{} is entered", call.call),
            at: call.entered,
            thread: Some(call.thread),
            stream: call.stream.as_ref().map(|s| s.number),
        });
        let (title, fed) = match &finding.path.end {
            End::Fed(fed, _) => (messages::starved_title(finding.code), fed.iter().copied().cloned().collect()),
            _ => (finding.code.title(), Vec::new()),
        };
        Verdict {
            code: finding.code,
            title: title.to_owned(),
            confidence,
            sentence: format!("{}.", finding.sentence),
            held_back: finding.held_back.clone(),
            fed,
            threads: finding.calls.iter().map(|call| call.thread).collect(),
            chain: self.chain(&finding),
            evidence: calls.chain(messages::evidence(&finding.path)).collect(),
            culprits: finding.culprits,
            fix: finding.fix,
        }
    }

    /// Why a wait is not called a hang, and then what it waits for.
    fn excuse(&self, finding: &Finding<'a>) -> Vec<String> {
        let waits = messages::waits_for(&finding.path.end);
        let mut lines = vec![format!("waits for {waits}: {}.", self.why_not_a_hang(finding))];
        lines.extend(self.chain(finding));
        lines
    }

    fn why_not_a_hang(&self, finding: &Finding<'a>) -> String {
        let stood = self.stood(finding);
        let moved = self.on(finding).map_or(0, |stream| stream.moved);
        if matches!(finding.path.end, End::Fed(..)) {
            return "a pause in what is submitted lets that call go on, so it may only be slow".to_owned();
        }
        if stood < self.snapshot.threshold_nanos && moved > 0 {
            return format!("it is still moving, and something ended there at {}", messages::time(moved));
        }
        match (&finding.path.end, messages::runnable(self.snapshot)) {
            (End::Runs(_), _) => "nothing known keeps it from ending, so it may only be slow".to_owned(),
            (End::Host(host, _), _) if host.doing.is_some_and(ThreadActivity::goes_on) => {
                "the host function is under way, so it may only be slow".to_owned()
            }
            (End::Filled(..), _) => {
                "nothing known keeps what fills the device from ending, so it may only be slow".to_owned()
            }
            (_, Some(runnable)) => runnable,
            (End::Unwritten(wait, _), _) if wait.holds.is_some() => {
                "that is memory of the host, which may still write there".to_owned()
            }
            (End::Unwritten(wait, _), _) if self.on(finding).is_some_and(|stream| may_have_passed(stream, wait)) => {
                "the stream may have passed that wait and be at what comes behind it, so it may only be slow".to_owned()
            }
            (End::Host(..), _) => "another thread's call may return and do what the function waits for".to_owned(),
            _ => "what is in flight elsewhere may still do what is waited for".to_owned(),
        }
    }
}

/// Whether all threads that wait poll, and none is blocked in a call.
fn asked_only(finding: &Finding<'_>) -> bool {
    !finding.calls.is_empty() && finding.calls.iter().all(|call| call.queries.is_some())
}

/// Whether a stream may have passed a wait unseen: something that takes time comes after it.
fn may_have_passed(stream: &BusyStream, wait: &WaitSeen) -> bool {
    let takes_time = |op: &OperationSeen| {
        op.extent.is_some() || matches!(class(&op.call), Some(Class::GraphLaunch | Class::HostFunction))
    };
    stream.outstanding > stream.operations.len() as u64
        || stream.operations.iter().any(|op| op.at > wait.at && takes_time(op))
}

/// Whether a call of this class returns only when its own stream has come to it.
fn waits_for_its_stream(class: Class) -> bool {
    matches!(
        class,
        Class::StreamQuery
            | Class::CopyAsync
            | Class::SetAsync
            | Class::Launch
            | Class::GraphLaunch
            | Class::HostFunction
            | Class::StreamSubmit
    )
}

/// Whether an operation may write to any address: a kernel, or a copy or memset of which the record does not say where it writes.
fn writes_anywhere(operation: &OperationSeen) -> bool {
    match operation.extent {
        Some(Extent::Grid { .. }) => true,
        Some(Extent::Memory { address, .. }) => address == 0,
        None => matches!(class(&operation.call), Some(Class::GraphLaunch | Class::ExternalWait)),
    }
}

/// Whether other threads' calls in the context wait for this finding's first one.
fn holds_up(finding: &Finding<'_>) -> bool {
    let class = finding.calls.first().and_then(|call| class(&call.call));
    finding.code == Code::LG202
        || finding.code == Code::LG205
        || finding.code == Code::LG204 && !matches!(class, Some(Class::Copy | Class::Set | Class::StreamSynchronize))
}

/// What is reported first, where there are several: the call that blocks the others. A code without a rank comes last.
fn order(code: Code) -> u8 {
    match code {
        Code::LG202 => 0,
        Code::LG201 => 1,
        Code::LG206 => 2,
        Code::LG207 => 3,
        Code::LG203 => 4,
        Code::LG205 => 5,
        Code::LG204 => 6,
        _ => 7,
    }
}

/// `1 operation is`, `2 operations are`.
fn are(operations: u64) -> String {
    format!("{} {}", counted(operations, "operation"), if operations == 1 { "is" } else { "are" })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
