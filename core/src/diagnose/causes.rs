//! The findings of the codes that name a cause: a load, a full queue, a call that waits for the whole context, a shared hardware queue.

use super::finding::{copy_between_devices, Finding};
use super::messages;
use super::needs::{is_legacy, loads_module, Decision};
use super::operation::{FedStream, OperationSeen};
use super::path::{culprit, End, Path, Peers, SharedQueue};
use super::snapshot::BlockedCall;
use super::verdict::Culprit;
use crate::api::{Call, Class, Code};
use crate::demangle::demangle;
use crate::order;

impl<'a> Decision<'a> {
    pub(super) fn module_load(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
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

    pub(super) fn launched_by(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let busy = self.snapshot.stream(call.stream.as_ref()?.number)?;
        let listed = busy.operations.iter().find(|op| op.at == call.entered).map(|op| culprit(busy, op));
        let culprit = listed.or_else(|| self.submitted_by(call))?;
        Some(Path::to(match culprit.operation.waits_for_peers() {
            true => End::Peers(Peers { culprit, is_known: true, before: None }),
            false => End::Runs(culprit),
        }))
    }

    pub(super) fn submitted_by(&self, call: &BlockedCall) -> Option<Culprit> {
        let stream = call.stream.clone().filter(|_| call.function.is_some())?;
        let function = call.function.clone();
        let operation = OperationSeen::new(call.entered, call.call.clone(), function, call.origin.clone());
        Some(Culprit { stream, operation })
    }

    /// LG202 or LG204 of a context that is never idle: what was in flight at the call has ended, and more is submitted without a pause.
    pub(super) fn starved(&self, call: &'a BlockedCall, class: Class) -> Option<Finding<'a>> {
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
    pub(super) fn full_queue(&self, call: &'a BlockedCall, path: Path<'a>) -> Finding<'a> {
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

    pub(super) fn whole_context(&self, call: &'a BlockedCall, class: Class, path: Path<'a>) -> Finding<'a> {
        let copy = copy_between_devices(call, &path);
        let is_behind_its_own = path.culprit().is_some_and(|culprit| is_legacy(&culprit.stream));
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
            Class::Copy | Class::Set if is_behind_its_own => {
                "that call runs on the default stream, behind what was submitted there before"
            }
            Class::Copy | Class::Set | Class::StreamSynchronize => {
                "the default stream waits for every stream that was created with default flags"
            }
            _ => messages::needs_idle(class),
        };
        let fix = match class {
            _ if copy.is_some() => "make that copy before this work is submitted, or after it has ended",
            Class::Free if call.call.symbol() == "cuMemFree_v2" => {
                "release it with cuMemFreeAsync (cudaFreeAsync), or after that work has ended"
            }
            Class::Free => "release it after that work has ended",
            Class::ModuleUnload | Class::LibraryUnload => "unload it after that work has ended, or keep it",
            Class::Launch => {
                "launch the kernel that needs most local memory once at the start, or call cudaDeviceSetLimit(cudaLimitStackSize) then"
            }
            Class::GraphInstantiate | Class::GraphNode => {
                "make the graph executable before this work is submitted, or call cudaDeviceSetLimit(cudaLimitStackSize) at the start"
            }
            Class::ContextDestroy => "end it after that work has ended",
            Class::Copy | Class::Set if is_behind_its_own => {
                "copy asynchronously on a stream of its own that was created with CU_STREAM_NON_BLOCKING, or launch the kernel on one"
            }
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
            (Class::Copy | Class::Set, _) if is_behind_its_own => {
                format!("{} cannot return: the default stream has it behind {waits}", call.call)
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

    pub(super) fn shared_queue(
        &self,
        calls: Vec<&'a BlockedCall>,
        path: Path<'a>,
        shared: SharedQueue<'a>,
    ) -> Finding<'a> {
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
}
