//! Conclusions from the driver calls that threads are in: what each waits for, and which codes of a hang fit.
//!
//! Must not: name a stream, a kernel or an operation: none is visible from outside. Promise that a call never ends.

use super::seen::{Candidate, DriverCall, ThreadOutside};
use lazyguard_core::api::{Class, Code, EntryPoint};
use lazyguard_core::diagnose::needs_idle;

pub(super) fn call(function: Option<&str>, lasts: bool) -> DriverCall {
    let class = function.and_then(class_of);
    DriverCall {
        function: function.map(str::to_owned),
        event: class.map(Class::event),
        waits_for: class.and_then(waits_for),
        lasts,
    }
}

fn class_of(function: &str) -> Option<Class> {
    EntryPoint::by_symbol(function.as_bytes()).map(EntryPoint::class)
}

fn waits_for(class: Class) -> Option<&'static str> {
    Some(match class {
        Class::ContextSynchronize => "it waits until all work of its context has ended",
        Class::StreamSynchronize => "it waits until all work of one stream has ended",
        Class::EventSynchronize => "it waits until the work before one event has ended",
        Class::ModuleLoad | Class::LibraryModule => {
            "it loads a module or library, and the driver does that only while the context is idle"
        }
        Class::LibraryLoad | Class::FunctionResolve | Class::KernelResolve | Class::KernelFunction | Class::FunctionLoad => {
            "it may load code on first use, and the driver does that only while the context is idle"
        }
        Class::Launch | Class::GraphLaunch | Class::GraphUpload => {
            "a launch returns at once, unless it loads code on first use, finds the launch queue full or needs more local memory"
        }
        Class::Free | Class::ModuleUnload | Class::LibraryUnload | Class::ContextDestroy => needs_idle(class),
        Class::ContextWait => "it waits until the context is idle",
        Class::Copy | Class::Set => "it does its work on the default stream, and returns when that is done",
        Class::CopyAsync => "it returns at once, unless the memory is pageable or the launch queue is full",
        Class::StreamQuery | Class::EventQuery => "it only asks whether work has ended: the thread asks again and again",
        _ => return None,
    })
}

/// The codes that fit, the likeliest first. `has_nccl`: a shared library of NCCL is mapped.
pub(super) fn candidates(threads: &[ThreadOutside], has_nccl: bool) -> Vec<Candidate> {
    let in_call = |thread: &&ThreadOutside| thread.call.as_ref().is_some_and(|call| call.lasts);
    let in_calls = threads.iter().filter(in_call).map(|thread| {
        let function = thread.call.as_ref().and_then(|call| call.function.as_deref());
        (thread, function.unwrap_or("a function that has no name"), function.and_then(class_of))
    });
    let in_calls: Vec<_> = in_calls.collect();
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |code: Code, because: String| {
        if !found.iter().any(|known| known.code == code) {
            found.push(Candidate { code, title: code.title(), because });
        }
    };
    if let Some(thread) = threads.iter().find(|thread| thread.runs_host_function) {
        let id = thread.thread;
        add(Code::LG207, format!("thread {id}, which the driver has started, runs a host function of the program"));
    }
    for (thread, function, class) in &in_calls {
        let at = format!("thread {} is in {function}", thread.thread);
        match class {
            Some(Class::ModuleLoad | Class::LibraryModule) => add(Code::LG202, at),
            Some(class) if class.event() == "load" => add(Code::LG202, format!("{at}, which may load on first use")),
            Some(class) if class.waits_for_whole_context() => add(Code::LG204, at),
            Some(Class::Launch | Class::GraphLaunch) => {
                add(Code::LG202, format!("{at}, and a first launch loads its library"));
                add(Code::LG205, format!("{at}, and a launch behind about a thousand others waits"));
            }
            Some(Class::Copy | Class::Set) => {
                add(Code::LG204, format!("{at}, which waits for every stream that was not created non-blocking"));
            }
            _ => {}
        }
    }
    let asks = |class| matches!(class, Class::StreamQuery | Class::EventQuery);
    let waits = in_calls.iter().find(|(.., class)| class.is_some_and(|class| class.synchronizes() || asks(class)));
    if let Some((thread, function, _)) = waits {
        let at = format!("thread {} is in {function}", thread.thread);
        if has_nccl {
            add(Code::LG208, format!("{at}, and the process has NCCL: look at the other ranks too"));
        }
        add(Code::LG201, format!("{at}, and a first use of a kernel may have come before"));
        add(Code::LG203, format!("{at}, and its stream may wait for a value"));
    }
    if !in_calls.is_empty() {
        let count = in_calls.len();
        let who = if count == 1 { "a thread has not left its call" } else { "threads have not left their calls" };
        add(Code::LG299, format!("{who}: a kernel that does not end, or a long one, looks the same"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32, function: Option<&str>, lasts: bool) -> ThreadOutside {
        ThreadOutside {
            thread: number,
            name: String::new(),
            state: String::new(),
            call: Some(call(function, lasts)),
            is_the_drivers: false,
            runs_host_function: false,
            was_stopped: false,
            is_whole: true,
            frames: Vec::new(),
            python: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn codes(threads: &[ThreadOutside], has_nccl: bool) -> Vec<&'static str> {
        candidates(threads, has_nccl).iter().map(|candidate| candidate.code.name()).collect()
    }

    #[test]
    fn the_codes_are_those_of_the_calls() {
        let one = |function: &str| codes(&[thread(1, Some(function), true)], false);
        assert_eq!(one("cuModuleLoadData"), ["LG202", "LG299"]);
        assert_eq!(one("cuLibraryGetModule"), ["LG202", "LG299"]);
        assert_eq!(one("cuMemFree_v2"), ["LG204", "LG299"]);
        assert_eq!(one("cuLaunchKernel"), ["LG202", "LG205", "LG299"]);
        assert_eq!(one("cuStreamSynchronize_ptsz"), ["LG201", "LG203", "LG299"]);
        assert_eq!(one("cuMemcpyHtoD_v2"), ["LG204", "LG299"]);
        assert_eq!(one("cuUnknownNew"), ["LG299"]);
        let both = [thread(1, Some("cuModuleLoadData"), true), thread(2, Some("cuCtxSynchronize"), true)];
        assert_eq!(codes(&both, true), ["LG202", "LG208", "LG201", "LG203", "LG299"]);
        assert_eq!(codes(&[thread(1, None, true)], false), ["LG299"]);
        assert_eq!(codes(&[thread(1, Some("cuModuleLoadData"), false)], false), [""; 0], "it has moved on");
        let host = ThreadOutside { runs_host_function: true, call: None, ..thread(9, None, false) };
        assert_eq!(codes(&[host, thread(1, Some("cuStreamSynchronize"), true)], false)[0], "LG207");
    }

    #[test]
    fn a_call_says_what_it_waits_for() {
        let found = call(Some("cuStreamSynchronize"), true);
        assert_eq!((found.event, found.lasts), (Some("synchronize"), true));
        assert!(found.waits_for.unwrap().contains("one stream"));
        let unknown = call(Some("cuNewThing"), false);
        assert_eq!((unknown.event, unknown.waits_for), (None, None));
    }
}
