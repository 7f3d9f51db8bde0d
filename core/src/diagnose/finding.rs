//! A finding: a thread that waits, why, and what to change, for each code.

use super::messages;
use super::needs::{is_legacy, loads_module, may_have_passed, Decision};
use super::operation::{BusyStream, Extent, OperationSeen};
use super::path::{culprit, End, Path, Peers, SharedQueue, Step, Unseen};
use super::paths::{copies_between_devices, Paths};
use super::snapshot::{BlockedCall, FailureSeen, Snapshot};
use super::verdict::Culprit;
use super::view::is_of_a_pool;
use super::wait::WaitSeen;
use crate::api::{Call, Class, Code, ThreadActivity};
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
    /// Whether no more is known against that stream than that the program asks about it now and then, or that no thread goes on.
    pub may_be_meant: bool,
    /// Whether every thread waits, and only a host function behind the end of the path is known to wake one.
    pub is_awaited: bool,
}

impl<'a> Finding<'a> {
    /// A path whose end is to blame, without sentence and fix.
    pub(super) fn new(code: Code, calls: Vec<&'a BlockedCall>, path: Path<'a>) -> Self {
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
            may_be_meant: false,
            is_awaited: false,
        }
    }
}

impl<'a> Decision<'a> {
    pub(super) fn finding(&self, call: &'a BlockedCall) -> Option<Finding<'a>> {
        let mut finding = self.finding_by_what_is_seen(call)?;
        // The named operation may have ended, and the call wait for something that cannot be named.
        let is_named =
            !matches!(finding.path.end, End::Unseen(_) | End::Fed(..) | End::Meeting | End::Driver | End::Failed(_));
        if let Some(unseen @ (Unseen::Stream | Unseen::Destroyed(_))) = self.unseen(call).filter(|_| is_named) {
            finding.conclusive &= finding.path.shows_itself() || self.paths.ends_busy(&finding.path);
            finding.because.push(messages::unseen(&unseen));
        }
        finding.because.extend(messages::is_guards(call));
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
        finding.because.extend(messages::is_guards(call));
        finding
    }

    /// LG212: no later call of the context succeeds.
    fn failed(&self, call: &'a BlockedCall, error: i32) -> Finding<'a> {
        let of_context = |failure: &&FailureSeen| {
            failure.result == error && failure.stream.as_ref().is_none_or(|stream| stream.context == call.context)
        };
        let first = self.snapshot.failures.iter().find(of_context);
        let culprit =
            first.and_then(|first| Some(Culprit { stream: first.stream.clone()?, operation: first.operation.clone() }));
        let finding = self.by_its_end(vec![call], Path::to(End::Failed(first)));
        Finding { culprits: culprit.into_iter().collect(), ..finding }
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
        if let Some(error) = call.error {
            return Some(self.failed(call, error));
        }
        let class = call.call.class()?;
        if class.is_of_nccl() || class == Class::Link {
            let end = if class == Class::Link { End::Driver } else { End::Meeting };
            return Some(self.by_its_end(vec![call], Path::to(end)));
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
        if whole {
            return Some(self.whole_context(call, class, path));
        }
        let by_rule = |path: &Path<'a>| self.is_by_the_default_stream(call, class, path);
        // A wait that the program submitted explains the call where it leads to the same operation.
        let asked = |other: &Path<'a>| other.culprit() == path.culprit() && !by_rule(other);
        let path = match by_rule(&path).then(|| self.paths_of(call).find(asked)) {
            None => path,
            Some(Some(asked)) => asked,
            Some(None) => return Some(self.whole_context(call, class, path)),
        };
        // One of the kernels that the awaited kernel keeps from starting, by the queue or by its size, might end the call's wait.
        let keeps_others = |path: &Path<'a>| {
            matches!(path.end, End::Filled(..)) || path.shared_queue().is_some_and(|shared| shared.is_certain())
        };
        let through =
            Some(&path).filter(|_| call.queries.is_none()).and_then(|p| self.behind_the_same(p, keeps_others));
        Some(self.by_its_end(vec![call], through.unwrap_or(path)))
    }

    /// Whether the rule of the default stream makes the call wait for the end of the path: that stream and the blocking ones take turns, and its own
    /// operations too. A wait that the program submitted to the default stream is no part of the rule.
    fn is_by_the_default_stream(&self, call: &BlockedCall, class: Class, path: &Path<'a>) -> bool {
        let copies = matches!(class, Class::Copy | Class::Set);
        let on_default = copies || class == Class::StreamSynchronize && call.stream.as_ref().is_some_and(is_legacy);
        let begins_on = path.begins_on().and_then(|number| self.snapshot.stream(number));
        match &path.end {
            _ if !on_default => false,
            End::Runs(culprit) if is_legacy(&culprit.stream) => {
                copies && path.steps.is_empty() && self.may_wait_for_the_copy(culprit, call)
            }
            End::Peers(Peers { culprit, .. }) if is_legacy(&culprit.stream) => false,
            End::Runs(_) | End::Peers(_) => {
                matches!(path.steps.first(), Some(Step::Legacy(..)))
                    || begins_on.is_none_or(|busy| !is_legacy(&busy.stream))
            }
            _ => false,
        }
    }

    /// Whether a kernel of the default stream may wait for a copy behind it: the copy writes to the device, and another thread waits for the kernel.
    /// A thread's own copy behind its own kernel is in the order that the program asked for.
    fn may_wait_for_the_copy(&self, kernel: &Culprit, copy: &BlockedCall) -> bool {
        let writes = !copy.call.symbol().contains("DtoH");
        let waits = |class: Class| class.synchronizes() || matches!(class, Class::StreamQuery | Class::EventQuery);
        let waits_for_it = |other: &BlockedCall| {
            other.thread != copy.thread
                && other.entered >= kernel.operation.at
                && other.stream.as_ref().is_none_or(is_legacy)
                && other.call.class().is_some_and(waits)
        };
        writes && kernel.operation.function.is_some() && self.snapshot.blocked.iter().any(waits_for_it)
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
        let (_, code) = path.end.rank_and_code();
        let fix = messages::fix_by_its_end(&path);
        Finding { culprits, sentence, held_back, fix, conclusive, ..Finding::new(code, calls, path) }
    }

    /// Whether nothing known may still end the wait. A kernel may always end; a load on first use (`by_loading`) behind a kernel still
    /// counts, because the kernel may wait for the work that the load blocks.
    pub(super) fn cannot_be_helped(&self, path: &Path<'a>, by_loading: bool) -> bool {
        let on = path.culprit().and_then(|culprit| self.snapshot.stream(culprit.stream.number));
        // The guard cannot ask the driver about a destroyed stream, so its knowledge may be old.
        if on.is_some_and(|stream| stream.destroyed) {
            return false;
        }
        match &path.end {
            // Whatever satisfies one of its waits breaks it.
            End::Cycle(_) => path.waits().all(|wait| by_loading || self.is_for_others_alone(wait)),
            // A kernel that fills the device may end as any other, and the thread that feeds a stream may pause.
            End::Filled(..) | End::Fed(..) | End::Meeting | End::Driver | End::Unseen(_) => false,
            End::Failed(_) => true,
            End::Runs(_) | End::Peers(..) => by_loading,
            End::Unwritten(wait, _) => {
                by_loading || !on.is_some_and(|stream| may_have_passed(stream, wait)) && self.is_for_others_alone(wait)
            }
            End::Host(host, _) => {
                !host.or_another
                    && !host.doing.is_some_and(ThreadActivity::goes_on)
                    && (by_loading || self.snapshot.runnable.is_empty())
            }
        }
    }

    /// Whether only work that is known to wait itself may end the wait. Memory that the host can read, the host or another process can write.
    fn is_for_others_alone(&self, wait: &WaitSeen) -> bool {
        wait.holds.is_none() && !wait.overtaken && self.snapshot.runnable.is_empty() && !self.may_be_written(wait)
    }

    fn may_be_written(&self, wait: &WaitSeen) -> bool {
        let others = self.snapshot.streams.iter().filter(|s| s.stream.number != wait.stream.number);
        others.filter(|s| !s.lists_all() || s.operations.iter().any(writes_anywhere)).any(|s| {
            self.paths.from(s.stream.number, Nanos::MAX).is_some_and(|path| match &path.end {
                End::Runs(_) | End::Peers(..) | End::Filled(..) => true,
                End::Host(host, _) => host.doing.is_none_or(ThreadActivity::goes_on),
                End::Unwritten(..) | End::Cycle(_) | End::Fed(..) | End::Meeting => false,
                End::Driver | End::Unseen(_) | End::Failed(_) => false,
            })
        })
    }

    /// The finding where no thread is in a call: submitted work that cannot start, or cannot end.
    pub(super) fn without_a_call(&self) -> Option<Finding<'a>> {
        let quiet = self.snapshot.at.saturating_sub(self.snapshot.last_activity);
        // No thread is known to wait, so there is no report before the patience is over.
        if self.snapshot.threshold_nanos == 0 || quiet < self.snapshot.patience_nanos {
            return None;
        }
        let streams = self.snapshot.streams.iter();
        let paths = streams.filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX)).collect();
        let path = self.paths.without_doubtful(paths).into_iter().min_by_key(Path::rank)?;
        if path.barrier().is_none() && path.may_be_meant() {
            return None;
        }
        let mut finding = self.of_path(path);
        let quiet = format!("no thread has made a driver call but of a poll for {}", messages::lasted(quiet));
        finding.because.insert(0, quiet);
        finding.conclusive = false;
        Some(finding)
    }
}

impl Snapshot {
    /// Says that a collective cannot start, because the collective at the end of the path has stopped the launches of a hardware queue.
    pub fn collective_behind_a_queue(&self) -> Option<String> {
        let paths = Paths::new(self);
        self.streams.iter().find_map(|stream| {
            let path = paths.from(stream.stream.number, Nanos::MAX).filter(|path| matches!(path.end, End::Peers(_)))?;
            let shared = path.shared_queue().filter(|shared| shared.held_back.waits_for_peers())?;
            Some(messages::behind_in_a_queue(&shared, &path))
        })
    }
}

/// The copy between two devices: the call itself, or the first wait on its path.
pub(super) fn copy_between_devices<'a>(call: &'a BlockedCall, path: &Path<'a>) -> Option<&'a Call> {
    match path.steps.first() {
        _ if copies_between_devices(&call.call) => Some(&call.call),
        Some(Step::Beside(_, copy, _)) if copies_between_devices(&copy.call) => Some(&copy.call),
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
    matches!(
        class,
        Class::Launch
            | Class::GraphLaunch
            | Class::HostFunction
            | Class::StreamSubmit
            | Class::CopyAsync
            | Class::SetAsync
    )
}
