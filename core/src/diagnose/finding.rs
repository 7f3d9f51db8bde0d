//! A finding: a thread that waits, why, and what to change, for each code.

use super::messages;
use super::needs::{is_legacy, loads_module, may_have_passed, Decision};
use super::paths::{copies_between_devices, culprit, End, Path, Paths, Peers, SharedQueue, Step, Unseen};
use super::snapshot::{BlockedCall, BusyStream, Extent, FedStream, OperationSeen, Snapshot, WaitSeen};
use super::verdict::Culprit;
use super::view::is_of_a_pool;
use crate::api::{Call, Class, Code, ThreadActivity};
use crate::demangle::demangle;
use crate::{order, Nanos};

pub(super) struct Finding<'a> {
    pub code: Code,
    pub calls: Vec<&'a BlockedCall>,
    pub path: Path<'a>,
    pub culprits: Vec<Culprit>,
    pub sentence: String,
    pub held_back: Option<Culprit>,
    pub because: Vec<String>,
    pub fix: String,
    pub conclusive: bool,
    /// Since when a stream is at rest for which no thread waits.
    pub at_rest: Option<Nanos>,
}

impl<'a> Finding<'a> {
    /// A path whose end is to blame, without sentence and fix.
    fn new(code: Code, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Self {
        Self {
            code,
            calls,
            culprits: path.culprits(),
            path,
            sentence: String::new(),
            held_back: None,
            because: Vec::new(),
            fix: String::new(),
            conclusive: false,
            at_rest: None,
        }
    }
}

impl<'a> Decision<'a> {
    pub(super) fn finding(&self, call: &'a BlockedCall) -> Option<Finding<'a>> {
        let mut finding = self.finding_by_what_is_seen(call)?;
        // What is named may have ended, and the call wait for what cannot be named.
        let is_named = !matches!(finding.path.end, End::Unseen(_) | End::Fed(..) | End::Meeting | End::Driver);
        if let Some(unseen @ (Unseen::Stream | Unseen::Destroyed(_))) = self.unseen(call).filter(|_| is_named) {
            finding.conclusive &= self.paths.is_shown(&finding.path);
            finding.because.push(messages::unseen(&unseen));
        }
        Some(finding)
    }

    /// LG299: behind the work in flight that is least likely to end, in the call's context or else anywhere.
    pub(super) fn unexplained(&self, call: &'a BlockedCall) -> Finding<'a> {
        let streams = || self.snapshot.streams.iter().filter(|s| s.since() < call.entered);
        let is_own = |s: &&BusyStream| call.context == 0 || s.stream.context == call.context;
        let paths = |all: &mut dyn Iterator<Item = &'a BusyStream>| {
            let paths = all.filter_map(|s| self.paths.from(s.stream.number, call.entered)).collect();
            self.paths.without_doubtful(paths).into_iter().min_by_key(Path::rank)
        };
        let path = paths(&mut streams().filter(is_own)).or_else(|| paths(&mut streams()));
        let path = match call.no_entry {
            true => Path::to(End::Unseen(Unseen::Stream)),
            false => path.unwrap_or_else(|| Path::to(End::Driver)),
        };
        let mut finding = self.by_its_end(vec![call], path);
        if call.compiles {
            finding.because.push(messages::COMPILES.to_owned());
        }
        finding.conclusive = false;
        finding
    }

    /// A launch that returns when its kernel has ended, as `CUDA_LAUNCH_BLOCKING` has it.
    fn launch_blocking(&self, call: &'a BlockedCall, class: Class) -> Option<Finding<'a>> {
        let launches = matches!(class, Class::Launch | Class::GraphLaunch) && self.snapshot.launch_blocking;
        let stream = call.stream.as_ref().filter(|_| launches)?;
        let is_elsewhere = |path: &Path<'a>| path.culprit().is_none_or(|c| c.stream.number != stream.number);
        if call.cold.is_some() && self.paths_of(call).any(|path| is_elsewhere(&path)) {
            return None;
        }
        let path = self.paths.from(stream.number, call.entered)?;
        let path = match &path.end {
            // Each earlier launch has returned, so its kernel has ended.
            End::Runs(_) | End::Peers(_) if !is_elsewhere(&path) && path.steps.is_empty() => self.launched_by(call)?,
            _ => path,
        };
        let is_own = path.culprit().is_some_and(|culprit| culprit.operation.at == call.entered);
        let mut finding = self.by_its_end(vec![call], path);
        finding.because.push(messages::LAUNCH_BLOCKING.to_owned());
        if is_own {
            finding.fix += "; unset CUDA_LAUNCH_BLOCKING where this thread has still to do what that waits for";
        }
        Some(finding)
    }

    fn finding_by_what_is_seen(&self, call: &'a BlockedCall) -> Option<Finding<'a>> {
        let class = call.call.class()?;
        if class.is_of_nccl() {
            return Some(self.by_its_end(vec![call], Path::to(End::Meeting)));
        }
        if let Some(finding) = self.launch_blocking(call, class) {
            return Some(finding);
        }
        let Some(path) = self.path(call) else {
            // Nothing that takes time is known to run: all there is to name is the oldest operation.
            // A compiler may take as long as it likes.
            let oldest = || Some(self.by_its_end(vec![call], self.oldest(call).filter(|_| !call.compiles)?));
            let unseen = || Some(self.by_its_end(vec![call], Path::to(End::Unseen(self.waits_for_unseen(call)?))));
            return self.starved(call, class).or_else(unseen).or_else(oldest);
        };
        if loads_module(call) {
            return Some(self.module_load(call, path));
        }
        if path.barrier().is_some() {
            return Some(self.barrier(vec![call], path));
        }
        let full = call.stream.as_ref().is_some_and(|s| self.queue_is_full(s));
        if full && submits(class) && call.cold.is_none() {
            return Some(self.full_queue(call, path));
        }
        let whole = class.waits_for_whole_context()
            || copy_between_devices(call, &path).is_some()
            || class == Class::Launch
            || call.sets_aside;
        let by_legacy = matches!(class, Class::Copy | Class::Set)
            || class == Class::StreamSynchronize && call.stream.as_ref().is_some_and(is_legacy);
        // Work on the default stream is the call's own.
        let others =
            matches!(&path.end, End::Runs(culprit) | End::Peers(Peers { culprit, .. }) if !is_legacy(&culprit.stream));
        if whole || by_legacy && others {
            return Some(self.whole_context(call, class, path));
        }
        // A call that waits for a kernel that keeps others from starting, by the queue or by its size: one of those might end it.
        let keeps_others = |path: &Path<'a>| {
            matches!(path.end, End::Filled(..)) || path.shared_queue().is_some_and(|shared| shared.is_certain())
        };
        let through =
            Some(&path).filter(|_| call.queries.is_none()).and_then(|p| self.behind_the_same(p, keeps_others));
        Some(self.by_its_end(vec![call], through.unwrap_or(path)))
    }

    fn module_load(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
        // The submissions after the work in flight are too few to prove its end, and enough to doubt that it never ends.
        let fed = self.fed_behind(&path);
        let others = self.paths_of(call).filter(|path| fed.is_some() || self.fed_behind(path).is_none());
        let mut others: Vec<_> = others.collect();
        order::sort_by_key(&mut others, |path| self.paths.may_be_over(path));
        let mut culprits: Vec<Culprit> = Vec::new();
        for culprit in path.culprit().cloned().into_iter().chain(others.iter().filter_map(|p| p.culprit().cloned())) {
            if !culprits.contains(&culprit) {
                culprits.push(culprit);
            }
        }
        let before = messages::submitting(culprits.first());
        let function = call.function.as_deref().map(demangle).unwrap_or_default();
        let fix = match &call.function {
            _ if call.call.class() == Some(Class::ModuleLoad) => format!("call {} before {before}", call.call),
            Some(_) => format!(
                "load {function} before {before}: cudaFuncGetAttributes({function}), or one launch of it; \
                 LAZYGUARD_PRELOAD=auto does this for libraries that are registered by then"
            ),
            None => format!(
                "use the library once before {before}; LAZYGUARD_PRELOAD=auto does this for libraries that are registered by \
                 then"
            ),
        };
        let waits = messages::waits_for(&path);
        let sentence = match &call.function {
            Some(_) if call.call.class() == Some(Class::Launch) => {
                format!("{function} cannot start: loading its module on its first launch waits for {waits}")
            }
            Some(_) => format!("{} cannot return: loading {function} waits for {waits}", call.call),
            None => format!("{} cannot return: loading waits for {waits}", call.call),
        };
        let mut because = vec![messages::loads(call)];
        if call.compiles {
            because.push(messages::COMPILES.to_owned());
        }
        because.extend(fed.map(messages::fed_behind));
        let conclusive = !call.compiles && fed.is_none() && self.cannot_be_helped(&path, true);
        let held_back = self.submitted_by(call);
        let found = Finding::new(Code::LG202, vec![call], path);
        Finding { culprits, sentence, held_back, because, fix, conclusive, ..found }
    }

    fn launched_by(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let busy = self.snapshot.stream(call.stream.as_ref()?.number)?;
        let listed = busy.operations.iter().find(|op| op.at == call.entered).map(|op| culprit(busy, op));
        let culprit = listed.or_else(|| self.submitted_by(call))?;
        Some(Path::to(match culprit.operation.waits_for_peers() {
            true => End::Peers(Peers { culprit, is_known: true, before: None }),
            false => End::Runs(culprit),
        }))
    }

    fn submitted_by(&self, call: &BlockedCall) -> Option<Culprit> {
        let stream = call.stream.clone().filter(|_| call.function.is_some())?;
        let function = call.function.clone();
        let operation = OperationSeen::new(call.entered, call.call.clone(), function, call.origin.clone());
        Some(Culprit { stream, operation })
    }

    /// LG202 or LG204 of a context that is never idle: what was in flight at the call has ended, and more is submitted without a pause.
    fn starved(&self, call: &'a BlockedCall, class: Class) -> Option<Finding<'a>> {
        // Compilation may take any time, whatever the streams do.
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
        let sentence = format!("{} cannot return: it waits for {}", call.call, messages::waits_for(&path));
        let (held_back, because) = (self.submitted_by(call), vec![because]);
        let found = Finding::new(code, vec![call], path);
        Some(Finding { culprits, sentence, held_back, because, fix, ..found })
    }

    pub(super) fn barrier(&self, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Finding<'a> {
        let what = path.barrier().and_then(|load| load.function.as_deref());
        let what = what.map_or_else(|| "the function".to_owned(), demangle);
        let before = messages::submitting(path.culprit());
        let load = path.barrier();
        let fix = if load.is_some_and(|load| load.first_launch) {
            format!("launch {what} once before {before}: loading it is not enough, because it prints")
        } else {
            format!("load {what} before {before}: cudaFuncGetAttributes({what}), or LAZYGUARD_PRELOAD=auto")
        };
        let sentence = load.map(messages::held_back).unwrap_or_default();
        let sentence = format!("{sentence} waits for {}", messages::waits_for(&path));
        let held_back = load.and_then(|load| {
            let operation = OperationSeen::new(load.at, load.call.clone(), load.function.clone(), load.origin.clone());
            Some(Culprit { stream: load.stream.clone()?, operation })
        });
        // A `printf` symbol in an image is weaker evidence than a load.
        let loaded = load.is_some_and(|load| !load.first_launch);
        let conclusive = self.cannot_be_helped(&path, loaded);
        Finding { sentence, held_back, fix, conclusive, ..Finding::new(Code::LG201, calls, path) }
    }

    /// LG205, or LG208 where a collective is at the head of the queue.
    fn full_queue(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
        let count = call.stream.as_ref().and_then(|s| self.snapshot.stream(s.number)).map_or(0, |s| s.outstanding);
        let on = call.stream.as_ref().map_or_else(|| "its stream".to_owned(), ToString::to_string);
        let because = vec![format!("{} on {on} not known to have ended", messages::operations(count, ["is", "are"]))];
        if matches!(path.end, End::Peers(_)) {
            let because = vec![format!("{}, and its queue is full", because[0])];
            return Finding { because, held_back: self.submitted_by(call), ..self.by_its_end(vec![call], path) };
        }
        let fix =
            "submit less at a time: synchronize, or wait for an event, every few hundred operations behind work that \
                   waits for the host or for another stream"
                .to_owned();
        let why = match &path.end {
            End::Runs(culprit) if call.stream.as_ref().is_some_and(|s| s.number == culprit.stream.number) => {
                format!("{} at its head has not ended", culprit.operation.name())
            }
            _ => format!("its first operation waits for {}", messages::waits_for(&path)),
        };
        let sentence = format!("{} cannot return: the queue of {on} is full, and {why}", call.call);
        let conclusive = self.cannot_be_helped(&path, false);
        let (held_back, found) = (self.submitted_by(call), Finding::new(Code::LG205, vec![call], path));
        Finding { sentence, held_back, because, fix, conclusive, ..found }
    }

    fn whole_context(&self, call: &'a BlockedCall, class: Class, path: Path<'a>) -> Finding<'a> {
        let copy = copy_between_devices(call, &path);
        let because = match class {
            _ if copy.is_some() => "a copy between two devices waits for all work of the contexts of both",
            Class::Launch => {
                "that launch waits until the context is idle: it needs more local memory than the context has set aside, or \
                 sets up something else that all kernels share"
            }
            Class::GraphInstantiate | Class::GraphNode => {
                "that call waits until the context is idle: a kernel of the graph needs, or may need, more local memory than \
                 the context has set aside"
            }
            Class::Copy | Class::Set | Class::StreamSynchronize => {
                "the default stream waits for every stream that was created with default flags"
            }
            _ => messages::needs_idle(class),
        };
        let fix = match class {
            _ if copy.is_some() => "make that copy before this work is submitted, or after it has ended",
            Class::Free => "release it with cuMemFreeAsync (cudaFreeAsync), or after that work has ended",
            Class::ModuleUnload | Class::LibraryUnload => "unload it after that work has ended, or keep it",
            Class::Launch => {
                "launch the kernel that needs most local memory once at the start, or call cudaDeviceSetLimit(cudaLimitStackSize) then"
            }
            Class::GraphInstantiate | Class::GraphNode => {
                "make the graph executable before this work is submitted, or call cudaDeviceSetLimit(cudaLimitStackSize) at the start"
            }
            Class::ContextDestroy => "end it after that work has ended",
            Class::Copy | Class::Set => {
                "copy asynchronously on a stream of its own, or create the streams with CU_STREAM_NON_BLOCKING"
            }
            Class::StreamSynchronize => {
                "synchronize with the stream that is meant, or create the streams with CU_STREAM_NON_BLOCKING"
            }
            _ => "make that call before this work is submitted, or after it has ended",
        };
        let conclusive = self.cannot_be_helped(&path, false);
        let waits = messages::waits_for(&path);
        let sentence = match (class, call.function.as_deref().map(demangle)) {
            (Class::Launch, Some(function)) => {
                format!("{function} cannot start: its launch waits for an idle context, and so for {waits}")
            }
            _ if copy.is_some() => {
                let copies = copy.filter(|copy| **copy != call.call).map_or_else(|| "it".to_owned(), Call::to_string);
                format!("{} cannot return: {copies} waits for the work of both devices, and so for {waits}", call.call)
            }
            (Class::Copy | Class::Set | Class::StreamSynchronize, _) => {
                format!("{} cannot return: the default stream waits for {waits}", call.call)
            }
            _ => format!("{} cannot return: it waits for an idle context, and so for {waits}", call.call),
        };
        let (because, fix, held_back) = (vec![because.to_owned()], fix.to_owned(), self.submitted_by(call));
        let found = Finding::new(Code::LG204, vec![call], path);
        Finding { sentence, held_back, because, fix, conclusive, ..found }
    }

    fn shared_queue(&self, calls: Vec<&'a BlockedCall>, path: Path<'a>, shared: SharedQueue<'a>) -> Finding<'a> {
        let held_back = Culprit { stream: shared.waits.stream.clone(), operation: shared.held_back.clone() };
        let (first, head) = (held_back.operation.name(), shared.head.name());
        let mut fix = format!(
            "set CUDA_DEVICE_MAX_CONNECTIONS to the number of streams that have to run side by side (32 at most), or launch {first} before {head}"
        );
        if !shared.is_certain() {
            fix = format!("{fix}; if {first} does not end then either, find out why");
        }
        let sentence = messages::behind_in_a_queue(&shared, &path);
        let conclusive = shared.is_certain() && self.cannot_be_helped(&path, false);
        Finding { sentence, held_back: Some(held_back), fix, conclusive, ..Finding::new(Code::LG211, calls, path) }
    }

    /// LG203, LG206, LG207, LG208, LG211 or LG299, by where the path ends.
    pub(super) fn by_its_end(&self, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Finding<'a> {
        // A collective waits for other ranks, whatever it holds up here.
        let explains = |shared: &SharedQueue<'a>| match path.end {
            End::Peers(_) => false,
            End::Runs(_) | End::Cycle(_) => true,
            _ => shared.is_certain(),
        };
        if let Some(shared) = path.shared_queue().filter(explains) {
            return self.shared_queue(calls, path, shared);
        }
        let conclusive = self.cannot_be_helped(&path, false);
        let mut culprits = path.culprits();
        let sentence = messages::sentence_by_its_end(&calls, &path);
        let held_back = if let End::Filled(victim, _) = &path.end { Some(victim.clone()) } else { None };
        if let End::Runs(Culprit { stream, .. }) = &path.end {
            // Other busy work beside it may be what it waits for.
            let is_beside = |s: &&BusyStream| s.stream.context == stream.context && s.stream.number != stream.number;
            let mut others: Vec<_> = self.snapshot.streams.iter().filter(is_beside).collect();
            order::sort_by_key(&mut others, |s| self.paths.answers.is_silent(s.stream.number));
            culprits.extend(others.into_iter().filter_map(|s| Some(culprit(s, s.timed().next()?))));
        }
        let code = match &path.end {
            End::Unwritten(..) | End::Cycle(_) => Code::LG203,
            End::Filled(..) => Code::LG206,
            End::Host(..) => Code::LG207,
            End::Meeting | End::Peers(_) => Code::LG208,
            // For a call that waits for an idle context, the end of the path is no explanation.
            End::Fed(..) | End::Unseen(_) | End::Driver | End::Runs(_) => Code::LG299,
        };
        let fix = messages::fix_by_its_end(&path);
        Finding { culprits, sentence, held_back, fix, conclusive, ..Finding::new(code, calls, path) }
    }

    /// Whether nothing known may still end the wait. A kernel may always end; a load on first use (`by_loading`) behind a kernel still
    /// counts, because the kernel may wait for the work that the load blocks.
    fn cannot_be_helped(&self, path: &Path<'a>, by_loading: bool) -> bool {
        let on = path.culprit().and_then(|culprit| self.snapshot.stream(culprit.stream.number));
        // The guard cannot ask the driver about a destroyed stream, so its knowledge may be old.
        if on.is_some_and(|stream| stream.destroyed) {
            return false;
        }
        match &path.end {
            End::Cycle(_) => true,
            // A kernel that fills the device may end as any other, and the thread that feeds a stream may pause.
            End::Filled(..) | End::Fed(..) | End::Meeting | End::Driver | End::Unseen(_) => false,
            End::Runs(_) | End::Peers(..) => by_loading,
            // Memory that the host can read, the host or another process can write.
            End::Unwritten(wait, _) => {
                by_loading
                    || wait.holds.is_none()
                        && self.snapshot.runnable.is_empty()
                        && !on.is_some_and(|stream| may_have_passed(stream, wait))
                        && !self.may_be_written(wait)
            }
            End::Host(host, _) => {
                !host.or_another
                    && !host.doing.is_some_and(ThreadActivity::goes_on)
                    && (by_loading || self.snapshot.runnable.is_empty())
            }
        }
    }

    fn may_be_written(&self, wait: &WaitSeen) -> bool {
        let others = self.snapshot.streams.iter().filter(|s| s.stream.number != wait.stream.number);
        others.filter(|s| !s.lists_all() || s.operations.iter().any(writes_anywhere)).any(|s| {
            self.paths.from(s.stream.number, Nanos::MAX).is_some_and(|path| match &path.end {
                End::Runs(_) | End::Peers(..) | End::Filled(..) => true,
                End::Host(host, _) => host.doing.is_none_or(ThreadActivity::goes_on),
                End::Unwritten(..) | End::Cycle(_) | End::Fed(..) | End::Meeting | End::Driver | End::Unseen(_) => {
                    false
                }
            })
        })
    }

    /// Where no thread is in a call: submitted work that cannot start, or cannot end.
    pub(super) fn without_a_call(&self) -> Option<Finding<'a>> {
        let quiet = self.snapshot.at.saturating_sub(self.snapshot.last_activity);
        // No thread is known to wait, so there is no report before the patience is over.
        if self.snapshot.threshold_nanos == 0 || quiet < self.snapshot.patience_nanos {
            return None;
        }
        let streams = self.snapshot.streams.iter();
        let paths = streams.filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX)).collect();
        let path = self.paths.without_doubtful(paths).into_iter().min_by_key(Path::rank)?;
        let quiet = format!("no thread has made a driver call for {}", messages::lasted(quiet));
        let mut finding = match &path.end {
            _ if path.barrier().is_some() => self.barrier(Vec::new(), path),
            End::Runs(_) | End::Peers(..) => return None,
            // A stream that waits for a later store of the host: an idle program may do so.
            End::Unwritten(wait, _) if wait.holds.is_some() => return None,
            _ => self.by_its_end(Vec::new(), path),
        };
        finding.because.insert(0, quiet);
        finding.conclusive = false;
        Some(finding)
    }
}

impl Snapshot {
    /// That a collective cannot start, because the collective at the end of the path has stopped the launches of a hardware queue.
    pub fn collective_behind_a_queue(&self) -> Option<String> {
        let paths = Paths::new(self);
        self.streams.iter().find_map(|stream| {
            let path = paths.from(stream.stream.number, Nanos::MAX).filter(|path| matches!(path.end, End::Peers(_)))?;
            let shared = path.shared_queue().filter(|shared| shared.held_back.waits_for_peers())?;
            Some(messages::behind_in_a_queue(&shared, &path))
        })
    }
}

/// The copy between two devices that a call is, or that waits first on its path.
fn copy_between_devices<'a>(call: &'a BlockedCall, path: &Path<'a>) -> Option<&'a Call> {
    match path.steps.first() {
        _ if copies_between_devices(&call.call) => Some(&call.call),
        Some(Step::Devices(_, copy, _)) => Some(&copy.call),
        _ => None,
    }
}

fn writes_anywhere(operation: &OperationSeen) -> bool {
    match operation.extent {
        Some(Extent::Memory { .. }) if operation.call.class().is_some_and(is_of_a_pool) => false,
        Some(Extent::Grid { .. }) => true,
        Some(Extent::Memory { address, .. }) => address == 0,
        None => match &operation.graph {
            Some(graph) => graph.runs_by_itself(),
            None => matches!(operation.call.class(), Some(Class::GraphLaunch | Class::ExternalWait)),
        },
    }
}

/// Whether a call of this class returns as soon as the queue of its stream has room.
pub(super) const fn submits(class: Class) -> bool {
    matches!(class, Class::Launch | Class::GraphLaunch | Class::HostFunction | Class::StreamSubmit)
}
