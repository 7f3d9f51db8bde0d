//! The sentences of a hazard.

use super::{Flags, Hazard, StreamClass};
use crate::api::{counted, Class, Code, EntryPoint};
use crate::diagnose::messages::time;
use crate::diagnose::{Confidence, ShownRecord};
use crate::Nanos;

fn lasted(nanos: Nanos) -> String {
    match nanos {
        0..1_000_000 => format!("{:.0} us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

struct Words<'a> {
    hazard: &'a Hazard,
    flags: Flags,
    other_is_kernel: bool,
}

pub(super) fn put(hazard: &mut Hazard, flags: Flags, other_is_kernel: bool) {
    let words = Words { hazard, flags, other_is_kernel };
    (hazard.what, hazard.must_meet, hazard.evidence, hazard.fix) =
        (words.what(), words.must_meet(), words.evidence(), words.fix());
}

impl Words<'_> {
    fn kernel(&self) -> &str {
        self.hazard.kernel.as_deref().unwrap_or("a kernel")
    }

    fn other(&self) -> String {
        let first = &self.hazard.first;
        match (first.other.is_empty(), self.other_is_kernel) {
            (true, _) => "earlier work".to_owned(),
            (false, true) => format!("kernel {}", first.other),
            (false, false) => first.other.clone(),
        }
    }

    fn other_there(&self) -> String {
        match self.hazard.first.other_stream {
            0 => self.other(),
            stream => format!("{} on stream {stream}", self.other()),
        }
    }

    fn in_flight(&self) -> String {
        match self.hazard.first.other_at {
            0 => format!("{} was in flight", self.other_there()),
            at => format!("{} was in flight since {}", self.other_there(), time(at)),
        }
    }

    fn call_there(&self) -> String {
        match self.hazard.first.stream {
            0 => self.hazard.call.clone(),
            stream => format!("{} on stream {stream} ({})", self.hazard.call, self.hazard.stream_class.name()),
        }
    }

    fn what(&self) -> String {
        let Self { hazard, .. } = self;
        let (call, kernel, in_flight) = (self.call_there(), self.kernel(), self.in_flight());
        let (at, held, other_at) =
            (time(hazard.first.at), lasted(hazard.first.held_nanos), time(hazard.first.other_at));
        let (other, there) = (self.other(), self.other_there());
        let of_kernel = hazard.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        let memory = if self.flags.says(Flags::PAGEABLE) { "pageable memory" } else { "memory of the host" };
        let what = match hazard.code {
            Code::LG101 if hazard.prevented => {
                format!("{call} used {kernel} for the first time at {at}, while {in_flight}")
            }
            Code::LG101 => format!("{call} loaded {kernel} on its first use at {at}, while {in_flight}"),
            Code::LG102 if hazard.prevented => format!(
                "{call} of {kernel} was the first use of its module or library in the context, at {at}, while {in_flight}"
            ),
            Code::LG102 if hazard.kernel.is_some() => {
                format!("{call} brought the module or library of {kernel} into the context at {at}, while {in_flight}")
            }
            Code::LG102 => format!("{call} brought a module or library into the context at {at}, while {in_flight}"),
            Code::LG103 => format!("{call} was submitted at {at}; {there}, which satisfies it, only at {other_at}"),
            Code::LG104 if self.flags.says(Flags::UNSATISFIED) => format!(
                "{call} was called at {at}, while {there} waited since {other_at} for a value that nothing submitted writes"
            ),
            Code::LG104 => format!("{call} was called at {at}, while {in_flight}"),
            Code::LG105 => format!("{call} at {at} blocked the host for {held} with {memory}, while {in_flight}"),
            Code::LG106 => format!(
                "{call} of {kernel} at {at} blocked the host for {held}: hundreds of operations were outstanding on its \
                 stream, of which the oldest known is {other}"
            ),
            Code::LG107 => format!(
                "{call} of {kernel} at {at} needed more local memory than the context has set aside, while {in_flight}"
            ),
            Code::LG108 if self.flags.says(Flags::TIMED) => format!(
                "{call}{of_kernel} compiled code for {held} at {at}, in a process that had launched kernels before"
            ),
            Code::LG108 => format!("{call}{of_kernel} compiled code for {held} at {at}, while {in_flight}"),
            Code::LG109 => {
                format!("{call} of {kernel} at {at} was submitted while {in_flight}, whose grid fills the device")
            }
            Code::LG110 => {
                let is_alone = hazard.first.other_at == 0;
                let beside = if is_alone { "with nothing in flight".to_owned() } else { format!("while {in_flight}") };
                format!("{call}{of_kernel} loaded at {at}, when the program had said that it was ready, {beside}")
            }
            _ => format!("{call} at {at}, while {in_flight}"),
        };
        match hazard.prevented {
            true => format!("{what}; the guard had loaded it by then"),
            false => what,
        }
    }

    fn must_meet(&self) -> Vec<String> {
        let Self { hazard, .. } = self;
        let (kernel, other) = (self.kernel(), self.other());
        let call = &hazard.call;
        let later = format!("{other} waits for something that is submitted later");
        match hazard.code {
            Code::LG101 => vec![
                later,
                format!("the first use of {kernel} puts a barrier behind it: nothing submitted afterwards starts before \
                         everything earlier has ended"),
                "what it waits for is submitted after that, on any stream of the context".to_owned(),
            ],
            Code::LG102 => vec![
                later,
                format!("{call} holds its thread, and the context, until everything in flight there has ended"),
                "what it waits for has to come from that thread, or through that context".to_owned(),
            ],
            Code::LG103 => vec![
                format!("{call} stands in its stream until the value is written"),
                "something before the write waits for that stream: a synchronize, a release of memory, a load, a full queue"
                    .to_owned(),
                format!("{other}, which writes the value, is submitted only after that"),
            ],
            Code::LG104 => self.must_meet_a_whole_context(),
            Code::LG105 => vec![
                format!("{other} waits for something that the host does later"),
                format!("{call} stays with the host until its stream has come to it, because the memory is pageable"),
            ],
            Code::LG106 => vec![
                format!("{other} waits for something that the host does later"),
                format!("{call} finds the queue full, and stays until an operation there has ended"),
            ],
            Code::LG107 => vec![
                later,
                format!("{call} of {kernel} waits until everything in flight in the context has ended, to set more local \
                         memory aside"),
            ],
            Code::LG108 if self.flags.says(Flags::TIMED) => vec![
                format!("{call} compiles, which may take seconds, and holds its thread and the context meanwhile"),
                "another thread, or a clock of the program's, waits for what comes after it".to_owned(),
            ],
            Code::LG108 => vec![
                format!("{other} waits for something that is submitted later, or for a time that passes"),
                format!("{call} compiles, which may take seconds, and holds its thread and the context meanwhile"),
            ],
            Code::LG109 => vec![
                format!("{other} has every place of the device until it ends"),
                format!("{other} waits for something that {kernel} does"),
            ],
            Code::LG110 => vec![
                "work in flight waits for something that is submitted later".to_owned(),
                format!("{call} loads beside it, which waits for all work in flight"),
            ],
            _ => Vec::new(),
        }
    }

    fn must_meet_a_whole_context(&self) -> Vec<String> {
        let (call, other) = (&self.hazard.call, self.other());
        vec![
            match self.flags.says(Flags::UNSATISFIED) {
                true => format!("{other} stands in its stream until the value is written"),
                false => format!("{other} does not end by itself: it waits for the host, or for later work"),
            },
            match self.hazard.stream_class {
                StreamClass::Legacy => format!("{call} waits for every stream that was not created non-blocking"),
                _ => format!("{call} waits until everything in flight in the context has ended"),
            },
            "what it waits for has to come from the thread that is held, or through the context".to_owned(),
        ]
    }

    fn evidence(&self) -> Vec<ShownRecord> {
        let first = &self.hazard.first;
        let stream = |number: u32| (number != 0).then_some(number);
        let call = match (self.hazard.code, &self.hazard.kernel) {
            (Code::LG101 | Code::LG102, Some(kernel)) => format!("{kernel} is used for the first time"),
            (Code::LG102, None) => "a module or library is loaded".to_owned(),
            (Code::LG103, _) => "a wait for a value is submitted".to_owned(),
            (_, Some(kernel)) => format!("{} of {kernel} is called", self.hazard.call),
            (_, None) => format!("{} is called", self.hazard.call),
        };
        let mut evidence = vec![ShownRecord::new(call, first.at, Some(first.thread), stream(first.stream))];
        if first.other_at != 0 {
            let what = format!("{} is submitted", self.other());
            evidence.push(ShownRecord::new(what, first.other_at, None, stream(first.other_stream)));
        }
        evidence
    }

    fn fix(&self) -> String {
        let Self { hazard, .. } = self;
        let (kernel, other, call) = (self.kernel(), self.other(), hazard.call.as_str());
        let class = EntryPoint::by_base(call.as_bytes()).next().map(EntryPoint::class);
        match hazard.code {
            Code::LG101 => format!(
                "Load {kernel} before {other} is submitted: call cudaFuncGetAttributes or cuFuncLoad on it, or launch it \
                 once; LAZYGUARD_PRELOAD=auto does this."
            ),
            Code::LG102 if hazard.kernel.is_none() => format!("Call {call} before {other} is submitted."),
            Code::LG102 => format!(
                "Load {kernel} before {other} is submitted: launch it once, or call cudaFuncGetAttributes or \
                 cuKernelGetFunction on it; LAZYGUARD_PRELOAD=auto does this for libraries that are registered by then."
            ),
            Code::LG103 => format!("Submit {other} before {call}, or order the streams with an event."),
            Code::LG104 => match class {
                _ if call == "cuMemFree" => "Release the memory with cuMemFreeAsync (cudaFreeAsync), or after that work has ended."
                    .to_owned(),
                Some(Class::Free) => "Keep the memory until that work has ended, and release it then.".to_owned(),
                Some(Class::ModuleUnload | Class::LibraryUnload) => "Unload it after that work has ended, or keep it.".into(),
                _ if call == "cuCtxSetLimit" => "Set limits at the start, before anything is submitted.".to_owned(),
                _ if hazard.stream_class == StreamClass::Legacy => {
                    "Use an asynchronous copy on a stream of its own and synchronize with the stream that is meant, or \
                     create the streams with CU_STREAM_NON_BLOCKING."
                        .to_owned()
                }
                _ => format!("Call {call} before {other} is submitted, or after it has ended."),
            },
            Code::LG105 => "Copy from and to memory that is page-locked: allocate it with cuMemAllocHost \
                            (cudaMallocHost), or register it with cuMemHostRegister (cudaHostRegister)."
                .to_owned(),
            Code::LG106 => "Submit less at a time: synchronize, or record an event and wait for it, every few hundred \
                            operations; or put what is launched again and again into a graph."
                .to_owned(),
            Code::LG107 => format!(
                "Launch {kernel} once before {other} is submitted, or set cuCtxSetLimit (cudaDeviceSetLimit) with the \
                 limit of the stack at the start."
            ),
            Code::LG108 => "Build machine code for this device into the program (nvcc -gencode), or load the code at the \
                            start and launch it once; LAZYGUARD_PRELOAD=auto does the latter for libraries that are \
                            registered by then."
                .to_owned(),
            Code::LG109 => format!(
                "Submit {kernel} before {other}, or give {other} a smaller grid, so that it leaves room."
            ),
            Code::LG110 => match &hazard.kernel {
                Some(kernel) => format!("Launch {kernel} once before lazyguard_ready(); LAZYGUARD_PROFILE loads it ahead."),
                None if matches!(class, Some(Class::ModuleLoad | Class::LibraryLoad)) => {
                    format!("Call {call} before lazyguard_ready(); LAZYGUARD_PROFILE loads ahead what it loads.")
                }
                None => format!("Call {call} before lazyguard_ready()."),
            },
            _ => String::new(),
        }
    }
}

fn times(count: u64, at_least: bool) -> String {
    match (count, at_least) {
        (1, false) => "once".to_owned(),
        (n, false) => format!("{n} times"),
        (1, true) => "at least once".to_owned(),
        (n, true) => format!("at least {n} times"),
    }
}

/// The words before a hazard's code; a likely one needs none.
fn word(hazard: &Hazard) -> &'static str {
    match (hazard.prevented, hazard.confidence) {
        (true, _) => "prevented",
        (false, Confidence::Possible) => "possible hazard",
        (false, Confidence::Likely) => "hazard",
        (false, Confidence::Certain) => "certain hazard",
    }
}

/// The line of several first uses beside the same work in flight.
pub fn line_of_all(hazards: &[&Hazard]) -> Option<String> {
    let first = match hazards {
        [] => return None,
        [one] => return Some(line(one)),
        [first, ..] => first,
    };
    let count = hazards.iter().map(|hazard| hazard.count).fold(0, u64::saturating_add);
    let count = times(count, hazards.iter().any(|hazard| hazard.at_least));
    let beside = first.waits.as_ref().unwrap_or(&first.first.other);
    let what = format!("{} first uses beside {beside}, {count}", hazards.len());
    Some(format!("{} {}: {what}: {}", word(first), first.code, first.title))
}

/// Occurrences: first uses, and other calls.
pub fn occurrences<'a>(hazards: impl IntoIterator<Item = &'a Hazard>) -> (u64, u64) {
    hazards.into_iter().fold((0, 0), |(first_uses, others), hazard| match hazard.code {
        Code::LG101 | Code::LG102 => (first_uses.saturating_add(hazard.count), others),
        _ => (first_uses, others.saturating_add(hazard.count)),
    })
}

/// How many occurrences are only possible: first uses, and other calls.
pub fn possible((first_uses, others): (u64, u64)) -> Option<String> {
    let parts = [(first_uses, "first use"), (others, if first_uses > 0 { "other call" } else { "call" })];
    let parts: Vec<_> = parts.into_iter().filter(|(count, _)| *count > 0).map(|(n, noun)| counted(n, noun)).collect();
    let line = || format!("{} beside work of which nothing says that it waits", parts.join(" and "));
    (!parts.is_empty()).then(line)
}

pub fn line(hazard: &Hazard) -> String {
    let count = times(hazard.count, hazard.at_least);
    let on = match hazard.stream_class {
        StreamClass::None => String::new(),
        stream => format!(" on {}", stream.words()),
    };
    let of = hazard.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
    let with = match hazard.first.other.as_str() {
        "" => String::new(),
        other => format!(", beside {other}"),
    };
    format!("{} {}: {}{of}{on}{with}, {count}: {}", word(hazard), hazard.code, hazard.call, hazard.title)
}
