//! `LAZYGUARD_ON_HANG=revoke`: ends the collectives that wait for good by `ncclCommRevoke`, and has the program learn of it.
//!
//! | measured on H100s with NCCL 2.28.9 | therefore |
//! |---|---|
//! | a revoke ends the collective's kernel; calls that wait behind it succeed, and the context works | calls that were blocked return [`TIMEOUT`] instead |
//! | the memory that the collective should have filled holds what it held | each other thread gets that error once, from the next call by which it would learn that work has ended; but not if a call of NCCL has told it before |
//! | a revoke takes half a second; a program that gives the communicator up meanwhile may hang in that | blocked calls return, and calls of NCCL begin, once every revoke has returned |
//! | `ncclCommAbort` frees the handle behind the program's back | it is never called |
//!
//! All ranks of a communicator have to revoke it. The job's marker names the communicators to the other processes; without a marker a process
//! revokes all that it shares with others.
//!
//! Protocol: the watchdog alone revokes. It fills in [`TO_TELL`] and [`BLOCKED_BEFORE`] before it sets the phase with Release, and the flag of
//! `runtime::results` last; a hook that finds the flag reads the phase with Acquire.
//!
//! Must not: wait in a thread of the program's for longer than [`LIMIT`], or change a result of NCCL's own calls.

use super::telling::say_that_it_is_due;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::nccl;
use crate::record::Guard;
use crate::runtime::results::{self, REVOKED};
use crate::runtime::{clock, door, own_thread, thread};
use lazyguard_core::api::{Call, Class, EntryPoint};
use lazyguard_core::report::{Block, HangReport, RevokedSeen, REVOKED_RESULT, WATCHES_COLLECTIVES};
use lazyguard_core::settings::OnHang;
use lazyguard_core::state::Communicator;
use lazyguard_core::trace::layout::header;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The error: `CUDA_ERROR_TIMEOUT`, which leaves the context as it is.
const TIMEOUT: i32 = REVOKED_RESULT;

/// A revoke that has not returned by then counts as failed.
const LIMIT: Duration = Duration::from_secs(5);

/// In place of a result of NCCL's, which are not negative.
const NONE_YET: i32 = -1;
const FAILED: i32 = -2;

const UNDER_WAY: u8 = 1;
const OVER: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(0);
/// Calls that were entered before were blocked when the revokes began, on the guard's clock.
static BLOCKED_BEFORE: AtomicU64 = AtomicU64::new(0);
/// When blocked calls return at the latest, on the system's monotonic clock.
static UNTIL: AtomicU64 = AtomicU64::new(0);
/// The threads that have not been told yet; 0 for one that has. A list that was set once stays.
static TO_TELL: AtomicPtr<Vec<AtomicU32>> = AtomicPtr::new(std::ptr::null_mut());

/// A forked child has no collective that waits. Only stores: the caller is the handler of a fork.
pub fn forked() {
    PHASE.store(0, Ordering::Relaxed);
    results::clear(REVOKED);
}

/// What became of it.
pub enum Outcome {
    /// The waits have been ended.
    Revoked(RevokedSeen),
    /// No communicator is concerned.
    None,
    /// They could not be.
    Failed(String),
}

/// The newest streams of a communicator's collectives, sends and receives. FSDP gathers on one stream and reduces on another.
type Streams = [AtomicU32; 4];

/// By the number of each communicator, from 1.
static STREAMS: [Streams; header::COMMUNICATOR_COUNT] =
    [const { [const { AtomicU32::new(0) }; 4] }; header::COMMUNICATOR_COUNT];

fn streams_of(communicator: &Communicator) -> Option<&'static Streams> {
    STREAMS.get(communicator.number.wrapping_sub(1) as usize)
}

/// A collective, a send or a receive is called. NCCL lets one thread at a time use a communicator.
pub fn submits_to(communicator: &Communicator, stream: u32) {
    let Some(places) = streams_of(communicator) else { return };
    if places.iter().all(|place| place.load(Ordering::Relaxed) != stream) {
        let mut newest = stream;
        places.iter().for_each(|place| newest = place.swap(newest, Ordering::Relaxed));
    }
}

/// The communicators, as all ranks know them, with work on the streams of the reported hang's path, and on others that the driver calls busy,
/// on which a kernel waits for other ranks. None where no such kernel is on the path, and no call of a collective is blocked itself.
pub fn concerned(guard: &Guard, report: &HangReport) -> Vec<u64> {
    let culprits = report.verdicts.iter().flat_map(|verdict| &verdict.culprits);
    let on_path = culprits.filter(|culprit| culprit.operation.waits_for_peers()).map(|culprit| culprit.stream.number);
    let says_busy = |stream: u32| report.probe.as_ref().is_some_and(|seen| seen.busy.contains(&stream));
    let waits = report
        .snapshot
        .streams
        .iter()
        .filter(|busy| busy.oldest.waits_for_peers() && says_busy(busy.stream.number))
        .map(|busy| busy.stream.number);
    let on_path: Vec<_> = on_path.collect();
    let streams: Vec<_> = if on_path.is_empty() { on_path } else { on_path.into_iter().chain(waits).collect() };
    let is_on = |stream: &AtomicU32| streams.contains(&stream.load(Ordering::Relaxed));
    let is_busy = |one: &Communicator| streams_of(one).is_some_and(|own| own.iter().any(is_on));
    let in_calls = waited_for_in_calls(guard);
    let is_concerned = |one: &Communicator| is_busy(one) || in_calls.contains(&one.number);
    guard.tracker.communicators().with_peers().filter(is_concerned).map(|one| one.id()).collect()
}

/// The numbers of the communicators whose collectives, sends or receives are blocked in NCCL's own call, for which no kernel stands yet: the
/// first one of a communicator connects the ranks.
fn waited_for_in_calls(guard: &Guard) -> Vec<u32> {
    let waits = |class| matches!(class, Class::Collective | Class::PointToPoint);
    let since = guard.now().saturating_sub(guard.settings.hang_after_nanos);
    let calls = guard.tracker.threads().filter(|(_, slot)| slot.in_use()).filter_map(|(_, slot)| slot.in_nccl());
    calls.filter(|(call, _, at)| waits(call.class()) && *at < since).map(|(_, one, _)| one).collect()
}

/// Whether the program was making a communicator again after a revoke, to which other ranks may come late.
pub fn waits_for_latecomers(report: &HangReport) -> bool {
    let makes = |call: &Call| matches!(call, Call::Known(one) if one.class() == Class::CommunicatorCreate);
    let mut calls = report.snapshot.blocked.iter().filter(|blocked| blocked.past_threshold);
    PHASE.load(Ordering::Acquire) == OVER && calls.any(|blocked| makes(&blocked.call))
}

/// Revokes the communicators on which a hang waits, where that is the user's action; `false` where none was.
pub fn revoke_for(guard: &'static Guard, report: &mut HangReport) -> bool {
    if guard.settings.on_hang != OnHang::Revoke {
        return false;
    }
    let ids = concerned(guard, report);
    let outcome = match ids.is_empty() {
        true => Outcome::Failed("no collective is on the path of this hang".to_owned()),
        false => {
            // The other ranks begin at the same time.
            guard.marker.iter().for_each(|marker| marker.raise_revoked(guard.id, &guard.rank, &ids));
            say_that_it_is_due(guard, report);
            revoke(guard, Some(&ids))
        }
    };
    let seen = match outcome {
        Outcome::Revoked(seen) => seen,
        Outcome::None => none(guard, "the process has no such communicator".to_owned()),
        Outcome::Failed(why) => none(guard, why),
    };
    let is_done = seen.is_done();
    guard.reports.add(&Block::marked([seen.in_words()]));
    report.revoked = Some(seen);
    say_that_it_is_due(guard, report);
    is_done
}

/// Revokes the communicators with these ids; `None`: all that have other ranks.
pub fn revoke(guard: &'static Guard, ids: Option<&[u64]>) -> Outcome {
    let is_meant = |one: &Communicator| ids.is_none_or(|ids| ids.contains(&one.id()));
    let meant: Vec<_> = guard.tracker.communicators().with_peers().filter(is_meant).collect();
    if meant.is_empty() {
        return Outcome::None;
    }
    if !nccl::can_revoke() {
        return Outcome::Failed("this NCCL has no ncclCommRevoke, which 2.28.7 brought".to_owned());
    }
    begin(guard);
    let since = Instant::now();
    let answers: Arc<[AtomicI32]> = meant.iter().map(|_| AtomicI32::new(NONE_YET)).collect();
    for (number, one) in meant.iter().enumerate() {
        let (handle, context, answer) = (one.handle(), context_of(guard, one), answers.clone());
        let revoke = move || answer[number].store(revoke_here(handle as Handle, context), Ordering::Relaxed);
        if own_thread::begin("lazyguard-nccl", || (), revoke).is_err() {
            answers[number].store(FAILED, Ordering::Relaxed);
        }
    }
    let count = |result: i32| answers.iter().filter(|answer| answer.load(Ordering::Relaxed) == result).count();
    while count(NONE_YET) > 0 && since.elapsed() < LIMIT {
        door::pause(Duration::from_millis(2));
    }
    let worked = count(nccl::SUCCESS);
    if worked < meant.len() {
        end();
        return Outcome::Failed(format!(
            "of {} calls of ncclCommRevoke, {worked} have succeeded in {LIMIT:?}",
            meant.len()
        ));
    }
    PHASE.store(OVER, Ordering::Release);
    let communicators = meant.iter().map(|one| one.number).collect();
    Outcome::Revoked(RevokedSeen {
        at: guard.now(),
        nanos: since.elapsed().as_nanos() as u64,
        communicators,
        missing: None,
    })
}

/// The handle of the context in which a communicator has worked, or 0.
fn context_of(guard: &Guard, one: &Communicator) -> u64 {
    let newest = streams_of(one).map_or(0, |streams| streams[0].load(Ordering::Relaxed));
    let stream = guard.tracker.stream_entry(newest);
    stream.and_then(|stream| guard.tracker.context_entry(stream.context())).map_or(0, |context| context.handle())
}

/// Revokes in the calling thread, which is the guard's own. At its end NCCL makes the device current that was it before: for a thread without a
/// context that is the first one, on which the runtime then makes a context.
fn revoke_here(communicator: Handle, context: u64) -> i32 {
    thread::is_own();
    let is_current = context != 0 && driver::ctx_push(context as Handle) == Some(SUCCESS);
    let result = nccl::revoke(communicator).unwrap_or(FAILED);
    if is_current {
        driver::ctx_pop(&mut std::ptr::null_mut());
    }
    result
}

/// What is reported where none was revoked.
pub fn none(guard: &Guard, why: String) -> RevokedSeen {
    RevokedSeen { at: guard.now(), nanos: 0, communicators: Vec::new(), missing: Some(why) }
}

/// An error in a thread that watches collectives ends the process, before the program could go on; the threads that use the results are told.
fn is_to_know(thread: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    !name.is_ok_and(|name| name.starts_with(WATCHES_COLLECTIVES))
}

fn begin(guard: &Guard) {
    let threads = guard.tracker.threads().filter(|(_, slot)| slot.in_use()).map(|(_, slot)| slot.thread());
    let threads = threads.filter(|thread| is_to_know(*thread)).map(AtomicU32::new);
    // Hooks may read the former list for as long as the process lives.
    TO_TELL.store(Box::into_raw(Box::new(threads.collect())), Ordering::Relaxed);
    BLOCKED_BEFORE.store(guard.now().saturating_sub(guard.settings.hang_after_nanos / 2), Ordering::Relaxed);
    UNTIL.store(clock::system_nanos() + LIMIT.as_nanos() as u64, Ordering::Relaxed);
    PHASE.store(UNDER_WAY, Ordering::Release);
    results::set(REVOKED);
}

/// Nothing was revoked: results stay as they are.
fn end() {
    results::clear(REVOKED);
    PHASE.store(0, Ordering::Release);
}

/// Where a call of the program's is to come back only once every revoke has returned.
pub fn wait_until_over() {
    while PHASE.load(Ordering::Acquire) == UNDER_WAY && clock::system_nanos() < UNTIL.load(Ordering::Relaxed) {
        door::pause(Duration::from_millis(2));
    }
}

/// The result of a driver call that the thread made at `caller`, and entered at that time on the guard's clock.
pub fn result_of(entry_point: EntryPoint, caller: u64, entered: Option<Nanos>, result: i32) -> i32 {
    if nccl::ADOPTED.addresses().contains(&caller) {
        return result;
    }
    let was_blocked = entered.is_some_and(|at| at < BLOCKED_BEFORE.load(Ordering::Relaxed));
    let answers = result == SUCCESS && entry_point.class().answers_for_work();
    if was_blocked || answers {
        wait_until_over();
    }
    let tells = result == SUCCESS && (was_blocked || answers) && PHASE.load(Ordering::Acquire) == OVER;
    // A blocked call tells its thread whether or not that is on the list.
    match tells && (is_to_be_told() || was_blocked) {
        true => TIMEOUT,
        false => result,
    }
}

/// A call of NCCL has returned to the thread. By an error, or because it ends a communicator itself, the thread knows.
pub fn told_by_nccl(entry_point: EntryPoint, result: i32) {
    if !nccl::begun(result) || entry_point.class() == Class::CommunicatorEnd {
        is_to_be_told();
    }
}

/// Whether the calling thread is still to be told, which it is then.
fn is_to_be_told() -> bool {
    // SAFETY: null, or a list that is never freed.
    let Some(threads) = (unsafe { TO_TELL.load(Ordering::Relaxed).as_ref() }) else { return false };
    let own = thread::own_number();
    let told = |one: &AtomicU32| one.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let is_told_now = threads.iter().any(told);
    if threads.iter().all(|one| one.load(Ordering::Relaxed) == 0) {
        results::clear(REVOKED);
    }
    is_told_now
}
