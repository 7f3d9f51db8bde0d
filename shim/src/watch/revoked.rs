//! The results of the program's driver calls once communicators are revoked.
//!
//! A revoke ends a collective without a result, and whatever was submitted behind it runs. Each call that answers for such work returns [`TIMEOUT`] in place of
//! success, until the program has ended the communicator, or destroyed the stream. A release never does: a destructor ignores its result. A submission that
//! would tell the program by the host's memory alone is not made, and returns the same ([`refuses`]).
//!
//! Protocol: the watchdog fills in the streams behind the revoked collectives ([`put`]) while the revokes are under way; calls that answer for work, and
//! waits that join streams, return once they are over. From then on a program thread that makes a stream wait for an event adds that stream ([`joins`]),
//! and one that ends a communicator or a stream takes it out. Each word is an atomic: a call that overlaps the end of a communicator counts as earlier.
//!
//! Must not: lock, or wait for longer than the revokes may take.

use super::revoke_phase::{wait_until_over, was_blocked};
use crate::lookup::driver::SUCCESS;
use crate::lookup::nccl;
use crate::record::{guard, Guard};
use crate::runtime::results::{self, REVOKED};
use crate::runtime::thread;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::diagnose::{waits_by_default, Behind};
use lazyguard_core::report::{REVOKED_RESULT, WATCHES_COLLECTIVES};
use lazyguard_core::state::{Stream, StreamKind};
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// `CUDA_ERROR_TIMEOUT` leaves the context as it is.
const TIMEOUT: i32 = REVOKED_RESULT;

/// A stream's part in revoked collectives.
#[derive(Default)]
struct Part {
    /// A bit for each revoked communicator that the program has not ended.
    communicators: AtomicU64,
    /// Work submitted before is not behind their collectives.
    since: AtomicU64,
    /// When the program has ended the last of them: a call that was entered before still answers for their work.
    ended: AtomicU64,
}

/// By the stream's number; made at the first revoke.
static PARTS: OnceLock<Box<[Part]>> = OnceLock::new();

/// Before the first revoke.
pub(super) fn prepare(guard: &Guard) {
    PARTS.get_or_init(|| (0..=guard.tracker.recorder().shape().streams).map(|_| Part::default()).collect());
}

fn part(stream: u32) -> Option<&'static Part> {
    PARTS.get()?.get(stream as usize)
}

pub(super) fn bit(communicator: u32) -> u64 {
    1u64.checked_shl(communicator).unwrap_or(0)
}

pub(super) fn put(one: &Behind) {
    let Some(part) = part(one.stream) else { return };
    let is_new = part.communicators.load(Ordering::Relaxed) == 0;
    if is_new || part.since.load(Ordering::Relaxed) > one.since {
        part.since.store(one.since, Ordering::Relaxed);
    }
    // Release: a call that sees the bits sees since when they count.
    part.communicators.fetch_or(one.communicators, Ordering::Release);
}

/// The program has made a stream (0: all of the event's context) wait for an event.
pub fn joins(guard: &'static Guard, stream: u32, event: u64, at: Nanos) {
    if !results::is_set(REVOKED) {
        return;
    }
    wait_until_over();
    let Some(recorded) = guard.tracker.recorded(event) else { return };
    let communicators = match recorded.stream {
        0 => each_of(guard, recorded.context).fold(0, |all, (_, _, part)| all | part.bits(recorded.at)),
        number => part(number).map_or(0, |part| part.bits(recorded.at)),
    };
    if communicators == 0 {
        return;
    }
    let join = |stream| put(&Behind { stream, communicators, since: at });
    match stream {
        0 => guard.tracker.streams().filter(|(_, s)| s.context() == recorded.context).for_each(|(n, _)| join(n)),
        stream => join(stream),
    }
}

/// The program has ended a communicator.
pub fn communicator_ended(number: u32, now: Nanos) {
    PARTS.get().into_iter().flatten().for_each(|part| part.leaves(bit(number), now));
}

/// Such streams are behind no work of these communicators, of which none was revoked.
pub(super) fn take_out(communicators: u64) {
    let parts = PARTS.get().into_iter().flatten();
    parts.for_each(|part| _ = part.communicators.fetch_and(!communicators, Ordering::Release));
}

/// The program destroys a stream; its number may be another one's afterwards.
pub fn stream_ends(number: u32, now: Nanos) {
    part(number).into_iter().for_each(|part| part.leaves(u64::MAX, now));
}

impl Part {
    fn leaves(&self, communicators: u64, now: Nanos) {
        let before = self.communicators.load(Ordering::Relaxed);
        if before & communicators != 0 {
            self.ended.store(now, Ordering::Relaxed);
            // Release: a call that finds no bit sees when that was.
            self.communicators.fetch_and(!communicators, Ordering::Release);
        }
    }

    /// The communicators that work of this time may be behind.
    fn bits(&self, at: Nanos) -> u64 {
        // Acquire: partner of the Release in `put` and `leaves`.
        let communicators = self.communicators.load(Ordering::Acquire);
        if at >= self.since.load(Ordering::Relaxed) {
            communicators
        } else {
            0
        }
    }

    /// Whether a call that was entered then answers for revoked work of this time.
    fn is_revoked(&self, entered: Nanos, at: Nanos) -> bool {
        self.bits(at) != 0 || entered <= self.ended.load(Ordering::Relaxed) && at >= self.since.load(Ordering::Relaxed)
    }
}

/// The streams of a context.
fn each_of(guard: &'static Guard, context: u32) -> impl Iterator<Item = (u32, &'static Stream, &'static Part)> {
    let of_context = guard.tracker.streams().filter(move |(_, stream)| stream.context() == context);
    of_context.filter_map(|(number, stream)| Some((number, stream, part(number)?)))
}

/// The result for the program of a driver call that returns to `caller`; `entered` is on the guard's clock.
pub fn result_of(entry_point: EntryPoint, caller: u64, entered: Option<Nanos>, result: i32) -> i32 {
    let class = entry_point.class();
    if result != SUCCESS || nccl::ADOPTED.addresses().contains(&caller) {
        return result;
    }
    let blocked = entered.is_some_and(was_blocked);
    let answers = class.asks_for_work() || entry_point.may_copy_to_the_host();
    if blocked || answers || class.releases() {
        wait_until_over();
    }
    let is_revoked = blocked && !class.releases() && has_revoked() || answers && answers_for_revoked(class, entered);
    match is_revoked && !is_excepted() {
        true => TIMEOUT,
        false => result,
    }
}

/// Whether a submission behind revoked work is not to be made, and returns [`TIMEOUT`]: a host function, a write of a value, a copy to the host, or a graph,
/// which may hold them. Who waits for these, or looks at the memory, asks no driver call. The call waits until the revokes are over.
pub fn refuses(guard: &'static Guard, entry_point: EntryPoint, caller: u64, stream: u32, entered: Nanos) -> bool {
    if !entry_point.may_tell_memory() || nccl::ADOPTED.addresses().contains(&caller) || is_excepted() {
        return false;
    }
    wait_until_over();
    has_revoked() && on_stream(guard, stream, entered, Nanos::MAX)
}

/// Whether any revoke has succeeded.
fn has_revoked() -> bool {
    results::is_set(REVOKED)
}

/// A thread inside a call of NCCL, which a runtime may have called in between; or one that only watches collectives, whose error would end the process.
fn is_excepted() -> bool {
    let in_nccl = || guard().and_then(|guard| thread::slot_if_any(guard)?.in_nccl()).is_some();
    in_nccl() || thread::own_name().starts_with(WATCHES_COLLECTIVES)
}

/// Whether the thread's call is about work behind a revoked collective; also where it is not known what the call is about.
fn answers_for_revoked(class: Class, entered: Option<Nanos>) -> bool {
    let Some(guard) = guard() else { return false };
    let slot = thread::slot_if_any(guard);
    let Some(record) = slot.and_then(|slot| slot.published()).map(|call| call.record) else {
        return PARTS.get().into_iter().flatten().any(|part| part.bits(Nanos::MAX) != 0);
    };
    // The first query of a poll, whose thread has not been answered since.
    let asking = slot.and_then(|slot| slot.asking()).filter(|_| !class.synchronizes());
    let entered = asking.map_or(record.entered, |asked| asked.since).min(entered.unwrap_or(Nanos::MAX));
    if matches!(class, Class::ContextSynchronize | Class::Copy) {
        return each_of(guard, record.context.into()).any(|(_, _, part)| part.is_revoked(entered, Nanos::MAX));
    }
    let recorded = record.event().and_then(|event| guard.tracker.recorded(event));
    match recorded {
        Some(one) if one.stream == 0 => {
            each_of(guard, one.context).any(|(_, _, part)| part.is_revoked(entered, one.at))
        }
        Some(one) => on_stream(guard, one.stream, entered, one.at),
        None => on_stream(guard, record.stream, entered, Nanos::MAX),
    }
}

/// Whether a stream's work of this time is behind a revoked collective, also by the order of the default streams.
fn on_stream(guard: &'static Guard, number: u32, entered: Nanos, at: Nanos) -> bool {
    if part(number).is_some_and(|part| part.is_revoked(entered, at)) {
        return true;
    }
    let Some((context, kind)) = guard.tracker.stream_entry(number).map(|one| (one.context(), one.kind())) else {
        return false;
    };
    if kind == StreamKind::NonBlocking {
        return false;
    }
    let submitted_to_default = || {
        let default = guard.tracker.streams().find(|(_, s)| s.context() == context && s.kind() == StreamKind::Legacy);
        default.map_or(0, |(number, stream)| {
            // A stream of which a launch is not folded yet may lack it.
            if guard.tracker.fold_of(number) {
                stream.last_submitted()
            } else {
                Nanos::MAX
            }
        })
    };
    each_of(guard, context).any(|(other, stream, part)| {
        let orders = waits_by_default(kind, stream.kind())
            || other != number
                && stream.kind() != StreamKind::NonBlocking
                && submitted_to_default() >= part.since.load(Ordering::Relaxed);
        orders && part.is_revoked(entered, at)
    })
}
