//! The rules that make a hazard, by numbers alone. A reader of the program's source must be able to confirm each hazard of a run that passed.

use super::Flags;
use crate::api::{Class, Code, ColdKind, StreamKind};
use crate::replay::{more_than_a_queue_holds, queue_may_be_full};
use crate::state::InFlight;
use crate::Nanos;

/// An operation in flight for this long may not end soon; ordinary kernels end well within.
pub const LONG_IN_FLIGHT_NANOS: Nanos = 100_000_000;

/// A load with work in flight that takes so long waits for that work: loads alone were seen to take a third of it.
pub const LONG_LOAD_NANOS: Nanos = 500_000_000;

/// Work that outlasted a silence of this length, and ended when the next thing was submitted, has waited for that.
pub const SILENCE_NANOS: Nanos = 10_000_000;

/// A call that should return at once has blocked the host if it took so long: submitting takes microseconds.
pub const BLOCKED_NANOS: Nanos = 1_000_000;

/// Bytes of local memory a thread that every context has at first, by the default limit of a stack.
pub const LOCAL_BYTES_AT_START: u64 = 1024;

/// The least size of a copy before which the guard asks whether its stream is busy.
pub const BIG_COPY_BYTES: u64 = 1 << 20;

/// The hazard of a load: its code, and the operation in flight to name.
///
/// `own` is the stream of the launch that loads, or 0. `others`: another stream of the context has had work, or could get launches that wait
/// behind the barrier.
pub fn load_meets(kind: ColdKind, own: u32, others: bool, in_flight: &[InFlight]) -> Option<(Code, InFlight)> {
    let elsewhere = in_flight.iter().find(|busy| own != 0 && busy.stream != own).copied();
    match kind {
        ColdKind::Module => in_flight.first().map(|first| (Code::LG102, elsewhere.unwrap_or(*first))),
        ColdKind::Function => {
            let elsewhere = elsewhere.filter(|_| own != 0 || others);
            elsewhere.or_else(|| in_flight.first().copied().filter(|_| others)).map(|busy| (Code::LG101, busy))
        }
    }
}

/// The work that a call waits for beside the operation it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Everything in its context.
    Context,
    /// Everything on streams that synchronize with the legacy default stream.
    Blocking,
}

pub fn waits_for(class: Class, stream: Option<StreamKind>) -> Option<WaitsFor> {
    if class.waits_for_whole_context() {
        return Some(WaitsFor::Context);
    }
    let waits = class.waits_on_default_stream() || class == Class::StreamSynchronize;
    (waits && stream == Some(StreamKind::Legacy)).then_some(WaitsFor::Blocking)
}

impl WaitsFor {
    /// A stream whose creation was not seen may be of either kind.
    pub fn concerns(self, kind: StreamKind) -> bool {
        match self {
            Self::Context => true,
            Self::Blocking => matches!(kind, StreamKind::Blocking | StreamKind::Legacy | StreamKind::PerThread),
        }
    }
}

/// Goes by the time of the newest submission: the oldest operation may have ended.
pub fn long_in_flight(newest_submitted: Nanos, now: Nanos) -> bool {
    newest_submitted != 0 && now.saturating_sub(newest_submitted) >= LONG_IN_FLIGHT_NANOS
}

#[inline(always)]
pub const fn held(entered: Nanos, returned: Nanos) -> bool {
    returned.saturating_sub(entered) >= BLOCKED_NANOS
}

/// Whether the outstanding operations explain a launch that blocked the host. A count beyond what a queue holds means that most have ended.
pub const fn queue_is_deep(outstanding: u64) -> bool {
    queue_may_be_full(outstanding) && !more_than_a_queue_holds(outstanding)
}

pub const fn grows_local_memory(needs: u64, set_aside: u64) -> bool {
    needs > set_aside && needs > LOCAL_BYTES_AT_START
}

/// Whether a load that had to compile is a hazard.
pub fn compiled(took: Nanos, in_flight: bool, launched_before: bool) -> Option<Flags> {
    match (took >= BLOCKED_NANOS, in_flight, launched_before) {
        (true, true, _) => Some(Flags::default()),
        (true, false, true) => Some(Flags::TIMED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Operation;

    fn in_flight(streams: &[u32]) -> Vec<InFlight> {
        let oldest = |stream: u32| Operation { at: u64::from(stream), entry_point: 1, function: 0 };
        streams.iter().map(|&stream| InFlight { stream, operation: oldest(stream) }).collect()
    }

    #[test]
    fn a_load_is_a_hazard_only_where_somebody_could_wait_behind_it() {
        use ColdKind::{Function, Module};
        for (kind, own, others, streams, expect) in [
            (Function, 1, true, &[][..], None),
            (Function, 1, false, &[2], Some((Code::LG101, 2))),
            (Function, 1, false, &[1], None), // no other work could wait
            (Function, 1, true, &[1], Some((Code::LG101, 1))),
            (Function, 1, true, &[1, 2], Some((Code::LG101, 2))), // another stream's work is named before the own
            (Function, 0, true, &[1], Some((Code::LG101, 1))),    // no launch: what is launched later may go elsewhere
            (Function, 0, false, &[1], None),
            (Module, 1, false, &[1], Some((Code::LG102, 1))),
            (Module, 1, false, &[1, 3], Some((Code::LG102, 3))),
            (Module, 0, false, &[], None),
        ] {
            let found = load_meets(kind, own, others, &in_flight(streams));
            assert_eq!(
                found.map(|(code, busy)| (code, busy.stream)),
                expect,
                "{kind:?} on {own}, others {others}, in flight {streams:?}"
            );
        }
    }

    #[test]
    fn calls_wait_for_the_context_or_for_blocking_streams() {
        use StreamKind::{Blocking, Legacy, NonBlocking, PerThread, Unknown};
        for (class, stream, expect) in [
            (Class::Free, None, Some(WaitsFor::Context)),
            (Class::ModuleUnload, None, Some(WaitsFor::Context)),
            (Class::ContextWait, None, Some(WaitsFor::Context)),
            (Class::ContextDestroy, None, Some(WaitsFor::Context)),
            (Class::Copy, Some(Legacy), Some(WaitsFor::Blocking)),
            (Class::Set, Some(Legacy), Some(WaitsFor::Blocking)),
            (Class::Copy, Some(PerThread), None),
            (Class::StreamSynchronize, Some(Legacy), Some(WaitsFor::Blocking)),
            (Class::StreamSynchronize, Some(Blocking), None),
            (Class::ContextSynchronize, None, None), // waiting for everything is what it is for
            (Class::FreeAsync, Some(Legacy), None),
            (Class::Launch, Some(Legacy), None),
        ] {
            assert_eq!(waits_for(class, stream), expect, "{class:?} {stream:?}");
        }
        for kind in [Blocking, Legacy, PerThread, NonBlocking, Unknown] {
            assert!(WaitsFor::Context.concerns(kind));
            assert_eq!(WaitsFor::Blocking.concerns(kind), !matches!(kind, NonBlocking | Unknown), "{kind:?}");
        }
    }

    #[test]
    fn thresholds_are_where_they_are_said_to_be() {
        let ms = 1_000_000;
        assert!(!long_in_flight(0, 1_000 * ms), "nothing was submitted");
        assert!(!long_in_flight(50 * ms, 149 * ms) && long_in_flight(50 * ms, 150 * ms));
        assert!(!held(5, 5 + ms - 1) && held(5, 5 + ms) && !held(5, 4));
        assert!(!queue_is_deep(512) && queue_is_deep(1021) && !queue_is_deep(5000));
        for (needs, set_aside, expect) in
            [(0, 0, false), (1024, 0, false), (1025, 0, true), (4096, 4096, false), (4097, 4096, true)]
        {
            assert_eq!(grows_local_memory(needs, set_aside), expect, "{needs} of {set_aside}");
        }
        for (took, in_flight, launched, expect) in [
            (ms, true, true, Some(Flags::default())),
            (ms, false, true, Some(Flags::TIMED)),
            (ms, false, false, None), // at the start no thread waits
            (ms - 1, true, true, None),
        ] {
            assert_eq!(compiled(took, in_flight, launched), expect, "{took} {in_flight} {launched}");
        }
    }
}
