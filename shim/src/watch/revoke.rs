//! `LAZYGUARD_ON_HANG=revoke`: ends the collectives that wait for good by `ncclCommRevoke`, and has the program learn of it.
//!
//! | measured on H100s with NCCL 2.28.9 | therefore |
//! |---|---|
//! | a revoke ends the collective's kernel; calls that wait behind it succeed, and the context works | calls that were blocked return an error instead |
//! | the memory that the collective should have filled holds what it held | so does each later call that answers for work behind it ([`super::revoked`]) |
//! | a host function behind it runs, and a copy into mapped memory | with such work on its way nothing is revoked; later on it is refused |
//! | another collective behind it passes on what the memory holds | its communicator is revoked as well |
//! | so does a send, to ranks that may not have begun to revoke | the revokes begin once the other ranks have acknowledged the marker, or have had time to |
//! | a revoke takes half a second; a program that gives the communicator up meanwhile may hang in that | blocked calls return, and calls of NCCL begin, once every revoke has returned |
//! | `ncclCommAbort` frees the handle behind the program's back | it is never called |
//!
//! All ranks of a communicator have to revoke it. The job's marker names the ids to the other processes; without one a process revokes all that it shares.
//!
//! Protocol: the watchdog alone revokes. It fills in [`BLOCKED_BEFORE`], then the phase with Release, and the flag of `runtime::results` last; a hook that finds
//! the flag reads the phase with Acquire. It reads the recording after that, and again after the revokes, half a second later: a call that has not found
//! the flag has its record by then.
//!
//! Must not: wait in a thread of the program's for longer than [`LIMIT`], or change a result of NCCL's own calls.

use super::live_report::what_is_known;
use super::revoke_phase::{wait_until_over, BLOCKED_BEFORE, OVER, PHASE, UNDER_WAY, UNTIL};
use super::revoked;
use super::telling::{keep_summary, say_that_it_is_due};
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::nccl;
use crate::record::marker::Marker;
use crate::record::Guard;
use crate::runtime::results::{self, REVOKED};
use crate::runtime::{clock, door, own_thread, standard_error, thread};
use lazyguard_core::api::{Call, Class};
use lazyguard_core::diagnose::{behind, chained, untold, Behind, BlockedCall, BusyStream, OperationSeen};
use lazyguard_core::report::{Block, GivenUp, HangReport, RevokedSeen, WATCHES_COLLECTIVES};
use lazyguard_core::settings::OnHang;
use lazyguard_core::state::Communicator;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::layout::header;
use lazyguard_core::Nanos;
use std::cell::Cell;
use std::sync::atomic::{fence, AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A revoke that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(5);

/// A call that has not found the flag when its process acknowledges is in the driver after this time.
const CALLS_BEGIN_WITHIN: Duration = Duration::from_millis(250);

/// NCCL's results are not negative.
const NONE_YET: i32 = -1;
const FAILED: i32 = -2;

/// The end of the newest revokes, on the guard's clock; or 0.
static REVOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Inside the handler of a fork: only stores.
pub fn forked() {
    PHASE.store(0, Ordering::Relaxed);
    REVOKED_AT.store(0, Ordering::Relaxed);
    results::clear(REVOKED);
}

/// A communicator's use by the program.
struct Use {
    /// The streams of its newest collectives, sends and receives, the newest first.
    streams: [AtomicU32; 4],
    /// The id with which it was revoked, and that which was acknowledged.
    revoked_id: AtomicU64,
    acknowledged_id: AtomicU64,
    /// The program is ending it.
    is_ending: AtomicBool,
}

impl Use {
    const fn new() -> Self {
        let streams = [const { AtomicU32::new(0) }; 4];
        let (revoked_id, acknowledged_id) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { streams, revoked_id, acknowledged_id, is_ending: AtomicBool::new(false) }
    }
}

static USES: [Use; header::COMMUNICATOR_COUNT] = [const { Use::new() }; header::COMMUNICATOR_COUNT];

fn use_of(communicator: &Communicator) -> Option<&'static Use> {
    USES.get(communicator.number.wrapping_sub(1) as usize)
}

/// The program is about to end it: a revoke that has begun returns first, and none begins with a freed handle.
pub fn before_the_end(communicator: &Communicator) {
    use_of(communicator).into_iter().for_each(|one| one.is_ending.store(true, Ordering::Relaxed));
    // Partner of the fence in `revoke`: one of the two sees the other.
    fence(Ordering::SeqCst);
    if results::is_set(REVOKED) {
        wait_until_over();
    }
}

pub fn after_the_end(communicator: &Communicator) {
    // Release: who sees it sees that the communicator has ended.
    use_of(communicator).into_iter().for_each(|one| one.is_ending.store(false, Ordering::Release));
}

/// One thread at a time uses a communicator.
pub fn submits_to(communicator: &Communicator, stream: u32) {
    let mut newer = stream;
    for place in use_of(communicator).into_iter().flat_map(|one| &one.streams) {
        let older = place.load(Ordering::Relaxed);
        place.store(newer, Ordering::Relaxed);
        if older == stream {
            break;
        }
        newer = older;
    }
}

/// The ids of the communicators that have used streams of the hang's path, or others on which a kernel waits for other ranks; for a graph, all. Beside them
/// those whose collectives are blocked in NCCL's own call.
fn concerned(guard: &Guard, report: &HangReport) -> Vec<u64> {
    let culprits = report.verdicts.iter().flat_map(|verdict| &verdict.culprits);
    let on_path: Vec<_> = culprits.filter(|culprit| culprit.operation.waits_for_peers()).collect();
    let in_calls = waited_for_in_calls(guard);
    let mut streams: Vec<_> = on_path.iter().map(|culprit| culprit.stream.number).collect();
    let waits = |busy: &&BusyStream| busy.operations.iter().any(OperationSeen::waits_for_peers);
    // The snapshot has the busy ones of the streams that the driver was asked about.
    let others = if on_path.is_empty() { &[][..] } else { &report.snapshot.streams };
    streams.extend(others.iter().filter(waits).map(|busy| busy.stream.number));
    let has_used = |one: &Communicator| {
        use_of(one).is_some_and(|one| one.streams.iter().any(|at| streams.contains(&at.load(Ordering::Relaxed))))
    };
    let is_graph = on_path.iter().any(|culprit| culprit.operation.graph.is_some());
    let is_concerned = |one: &Communicator| has_used(one) || is_graph || in_calls.contains(&one.number);
    guard.tracker.communicators().with_peers().filter(is_concerned).map(|one| one.id()).collect()
}

/// Communicators whose calls are blocked in NCCL, before any kernel: the first call connects the ranks.
fn waited_for_in_calls(guard: &Guard) -> Vec<u32> {
    let waits = |class| matches!(class, Class::Collective | Class::PointToPoint);
    let since = guard.now().saturating_sub(guard.settings.hang_after_nanos);
    let calls = guard.tracker.threads().filter(|(_, slot)| slot.in_use()).filter_map(|(_, slot)| slot.in_nccl());
    calls.filter(|(call, _, at)| waits(call.class()) && *at < since).map(|(_, one, _)| one).collect()
}

/// Whether the program makes a communicator again after a revoke: other ranks may come late.
pub fn waits_for_latecomers(report: &HangReport) -> bool {
    let makes = |call: &Call| matches!(call, Call::Known(one) if one.class() == Class::CommunicatorCreate);
    let mut calls = report.snapshot.blocked.iter().filter(|blocked| blocked.past_threshold);
    PHASE.load(Ordering::Acquire) == OVER && calls.any(|blocked| makes(&blocked.call))
}

/// Revokes for a hang if that is the user's action; `false` where not all were revoked.
pub fn revoke_for(guard: &'static Guard, report: &mut HangReport) -> bool {
    if guard.settings.on_hang != OnHang::Revoke {
        return false;
    }
    let ids = concerned(guard, report);
    let (mut seen, mut why) = (None, "no collective is on the path of this hang");
    if !ids.is_empty() {
        // The other ranks begin at the same time.
        raise(guard, &ids);
        say_that_it_is_due(guard, report);
        (seen, why) = (revoke(guard, Some(ids)), "its communicators were revoked before");
    }
    if seen.is_none() && was_ended(report) {
        // The context is to live.
        return true;
    }
    tell(guard, Some(report), seen.unwrap_or_else(|| none(guard, why)), None)
}

/// Whether calls that a revoke has ended may not have returned yet.
pub fn was_lately(guard: &Guard, now: Nanos) -> bool {
    let revoked = REVOKED_AT.load(Ordering::Relaxed);
    revoked != 0 && now < revoked + guard.settings.patience_nanos()
}

/// Whether a revoke has ended the collectives of the path: that knowledge is old.
fn was_ended(report: &HangReport) -> bool {
    let revoked = REVOKED_AT.load(Ordering::Relaxed);
    let mut culprits = report.verdicts.iter().flat_map(|verdict| &verdict.culprits).peekable();
    culprits.peek().is_some() && culprits.all(|one| one.operation.waits_for_peers() && one.operation.at < revoked)
}

/// Another process revokes: this one revokes the same, and those on which its own hang waits. Whether all were; `None` where its hang waits on none.
pub fn take_part(guard: &'static Guard, report: Option<&mut HangReport>) -> Option<bool> {
    let own = report.as_ref().map(|report| concerned(guard, report)).unwrap_or_default();
    let named = |marker: &Marker| marker.revoked().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    let mut ids = guard.marker.as_ref().map(named);
    if ids.as_ref().is_some_and(|ids| own.iter().any(|id| !ids.contains(id))) {
        raise(guard, &own);
    }
    ids.iter_mut().for_each(|ids| ids.extend(&own));
    let seen = revoke(guard, ids)?;
    let is_whole = tell(guard, report.filter(|_| !own.is_empty()), seen, Some("another process of the job hangs"));
    (!own.is_empty()).then_some(is_whole)
}

fn raise(guard: &Guard, ids: &[u64]) {
    guard.marker.iter().for_each(|marker| marker.raise_revoked(guard.id, &guard.rank, ids));
}

/// Whether all were revoked.
fn tell(guard: &Guard, report: Option<&mut HangReport>, seen: RevokedSeen, because: Option<&str>) -> bool {
    let is_whole = seen.missing.is_none();
    let lines = Block::marked(because.map(str::to_owned).into_iter().chain([seen.in_words()]));
    if is_whole {
        guard.reports.add(&lines);
    } else {
        // Why a process fails, another rank's lines do not say.
        standard_error::write(&lines);
    }
    if seen.is_done() {
        seen.clone().add_to(&mut lock(&guard.reports.revoked));
        keep_summary(guard);
    }
    if let Some(report) = report {
        (report.acts, report.revoked) = (true, Some(seen));
        say_that_it_is_due(guard, report);
    }
    is_whole
}

/// Revokes the communicators with these ids that have not been revoked; with `None` all with other ranks. `None` where there is none.
fn revoke(guard: &'static Guard, ids: Option<Vec<u64>>) -> Option<RevokedSeen> {
    let is_new = |one: &Communicator| use_of(one).is_none_or(|own| own.revoked_id.load(Ordering::Relaxed) != one.id());
    let of = |ids: Option<&[u64]>, one: &Communicator| is_new(one) && ids.is_none_or(|ids| ids.contains(&one.id()));
    if !guard.tracker.communicators().with_peers().any(|one| of(ids.as_deref(), &one)) {
        acknowledge(guard, ids.as_deref());
        return None;
    }
    if !nccl::can_revoke() {
        return Some(none(guard, "this NCCL has no ncclCommRevoke, which 2.28.7 brought"));
    }
    // The results of an earlier revoke are still to be reported.
    let was_before = results::is_set(REVOKED);
    begin(guard);
    fence(Ordering::SeqCst);
    let ids = ids.map(|ids| with_those_behind(guard, ids));
    let noted = Cell::new(0);
    let is_meant = |one: &Communicator| {
        let is_meant = of(ids.as_deref(), one);
        noted.set(noted.get() | if is_meant { revoked::bit(one.number) } else { 0 });
        is_meant
    };
    let mut untold = note_behind(guard, is_meant);
    if untold.is_none() && guard.marker.is_some() {
        acknowledge(guard, ids.as_deref());
        wait_for_the_others(guard, is_meant);
        // The work that was submitted meanwhile.
        untold = note_behind(guard, is_meant);
    }
    if let Some(why) = untold {
        revoked::take_out(noted.get());
        match was_before {
            true => PHASE.store(OVER, Ordering::Release),
            false => end(),
        }
        return Some(none(guard, &why));
    }
    let ending: Vec<_> = USES.iter().map(|one| one.is_ending.load(Ordering::Acquire)).collect();
    let meant = guard.tracker.communicators().with_peers().filter(|one| is_meant(one));
    let meant: Vec<_> = meant.filter(|one| !ending[one.number as usize - 1]).collect();
    let since = Instant::now();
    let answers: Arc<[AtomicI32]> = meant.iter().map(|_| AtomicI32::new(NONE_YET)).collect();
    for (number, one) in meant.iter().enumerate() {
        let (handle, context, answer) = (one.handle(), context_of(guard, one), answers.clone());
        let revoke = move || answer[number].store(revoke_here(handle as Handle, context), Ordering::Relaxed);
        if own_thread::begin("lazyguard-nccl", || (), revoke).is_err() {
            answers[number].store(FAILED, Ordering::Relaxed);
        }
    }
    let results = || answers.iter().map(|answer| answer.load(Ordering::Relaxed));
    while results().any(|result| result == NONE_YET) && since.elapsed() < LIMIT {
        door::pause(Duration::from_millis(2));
    }
    let results: Vec<_> = results().collect();
    // The work that was submitted meanwhile, by calls that had not found the flag.
    let are_same = |a: &Communicator, b: &Communicator| (a.number, a.id()) == (b.number, b.id());
    let untold = note_behind(guard, |one| meant.iter().any(|own| are_same(own, one)));
    // Those that the program was ending, or has ended because the revokes took too long for its call to wait, may have been noted after their end.
    let lives = |one: &&Communicator| guard.tracker.communicators().with_peers().any(|own| are_same(&own, one));
    let still: Vec<_> = meant.iter().filter(lives).copied().collect();
    revoked::take_out(noted.get() & !bits(&still));
    // Before any call returns.
    let at = guard.now();
    // A late revoke may still end a collective.
    match was_before || results.iter().any(|result| [nccl::SUCCESS, NONE_YET].contains(result)) {
        true => PHASE.store(OVER, Ordering::Release),
        false => end(),
    }
    if meant.is_empty() {
        return None;
    }
    let (done, not): (Vec<_>, Vec<_>) = meant.iter().zip(results).partition(|(_, result)| *result == nccl::SUCCESS);
    for (one, _) in &done {
        use_of(one).into_iter().for_each(|own| own.revoked_id.store(one.id(), Ordering::Relaxed));
        REVOKED_AT.store(at, Ordering::Relaxed);
    }
    let missing: Vec<_> = not.iter().map(|(one, result)| why_not(one.number, *result)).chain(untold).collect();
    Some(RevokedSeen {
        at,
        nanos: since.elapsed().as_nanos() as u64,
        communicators: done.iter().map(|(one, _)| given_up(one)).collect(),
        missing: (!missing.is_empty()).then(|| missing.join("; ")),
    })
}

/// This process's ranks in these communicators, also those that have ended, pass nothing meaningless on from now.
fn acknowledge(guard: &Guard, ids: Option<&[u64]>) {
    let Some((marker, ids)) = guard.marker.as_ref().zip(ids) else { return };
    let is_new = |one: &Communicator| {
        let acknowledged = use_of(one).map(|own| own.acknowledged_id.swap(one.id(), Ordering::Relaxed));
        acknowledged.is_some_and(|id| id != one.id())
    };
    let ranks = |id: u64| guard.tracker.communicators().with_id(id).filter(is_new).count() as u32;
    let new: Vec<_> = ids.iter().map(|id| (*id, ranks(*id))).filter(|(_, ranks)| *ranks > 0).collect();
    if !new.is_empty() {
        marker.acknowledge(&new);
    }
}

/// Returns once all ranks of these communicators have acknowledged that they are to be revoked, or the time for that is over.
fn wait_for_the_others(guard: &Guard, is_meant: impl Fn(&Communicator) -> bool) {
    let until = Instant::now() + Duration::from_nanos(guard.settings.notice_nanos());
    let have_all = |marker: &Marker| {
        let acknowledged = marker.revoked();
        let has_all =
            |one: Communicator| acknowledged.iter().any(|(id, ranks)| *id == one.id() && *ranks >= one.ranks());
        guard.tracker.communicators().with_peers().filter(|one| is_meant(one)).all(has_all)
    };
    while Instant::now() < until && !guard.marker.as_ref().is_some_and(have_all) {
        door::pause(CALLS_BEGIN_WITHIN / 10);
    }
    door::pause(CALLS_BEGIN_WITHIN);
}

/// Notes the streams behind the collectives of these communicators. Returns why no call could tell the program of all that a revoke makes meaningless.
fn note_behind(guard: &'static Guard, is_meant: impl Fn(&Communicator) -> bool) -> Option<String> {
    let meant: Vec<_> = guard.tracker.communicators().with_peers().filter(|one| is_meant(one)).collect();
    let all = bits(&meant);
    let Some(known) = what_is_known(guard, guard.settings.hang_after_nanos, 0) else {
        // Memory is short: any busy stream may be behind.
        let busy = guard.tracker.streams().filter(|(_, stream)| stream.busy(guard.tracker.stream_idle_until(stream)));
        busy.for_each(|(stream, _)| revoked::put(&Behind { stream, communicators: all, since: 0 }));
        return None;
    };
    let found = behind(&known.snapshot, all, |stream| used_by(&meant, stream));
    let is_own = |caller: u64| nccl::ADOPTED.addresses().contains(&caller);
    // The thread's call returns an error.
    let is_told = |call: &BlockedCall| !call.thread_name.starts_with(WATCHES_COLLECTIVES);
    let why = untold(&known.snapshot, &found, is_told, is_own);
    found.iter().for_each(revoked::put);
    why
}

/// These communicators, and those whose collectives are behind theirs: without a result of the former, they would pass meaningless data on. The other ranks
/// have to revoke them as well.
fn with_those_behind(guard: &'static Guard, mut ids: Vec<u64>) -> Vec<u64> {
    let all: Vec<_> = guard.tracker.communicators().with_peers().collect();
    let Some(known) = what_is_known(guard, guard.settings.hang_after_nanos, 0) else { return ids };
    loop {
        let meant: Vec<_> = all.iter().copied().filter(|one| ids.contains(&one.id())).collect();
        let found = behind(&known.snapshot, bits(&meant), |stream| used_by(&meant, stream));
        let more = chained(&known.snapshot, &found, |stream| used_by(&all, stream)) & !bits(&meant);
        let more: Vec<_> = all.iter().filter(|one| revoked::bit(one.number) & more != 0).map(|one| one.id()).collect();
        if more.is_empty() {
            return ids;
        }
        raise(guard, &more);
        ids.extend(more);
    }
}

fn bits(of: &[Communicator]) -> u64 {
    of.iter().fold(0, |all, one| all | revoked::bit(one.number))
}

/// A bit for each of these communicators that has used the stream.
fn used_by(communicators: &[Communicator], stream: u32) -> u64 {
    let has_used = |one: &&Communicator| {
        use_of(one).is_some_and(|own| own.streams.iter().any(|at| at.load(Ordering::Relaxed) == stream))
    };
    communicators.iter().filter(has_used).fold(0, |all, one| all | revoked::bit(one.number))
}

fn given_up(one: &Communicator) -> GivenUp {
    let (collective, transfer) = one.newest();
    GivenUp { number: one.number, collective, transfer }
}

fn why_not(number: u32, result: i32) -> String {
    let why = match result {
        NONE_YET => format!("has not returned in {LIMIT:?}"),
        FAILED => "could not be called".to_owned(),
        result => format!("returned {result}"),
    };
    format!("communicator {number}: ncclCommRevoke {why}")
}

/// The context in which it has worked, or 0.
fn context_of(guard: &Guard, one: &Communicator) -> u64 {
    let stream = guard.tracker.stream_entry(use_of(one).map_or(0, |own| own.streams[0].load(Ordering::Relaxed)));
    stream.and_then(|stream| guard.tracker.context_entry(stream.context())).map_or(0, |context| context.handle())
}

/// Revokes in a thread of the guard's. NCCL makes the former device current at the end: without a context that is the first one, where the runtime makes a
/// context.
fn revoke_here(communicator: Handle, context: u64) -> i32 {
    thread::becomes_own();
    let is_current = context != 0 && driver::ctx_push(context as Handle) == Some(SUCCESS);
    let result = nccl::comm_revoke(communicator, 0).unwrap_or(FAILED);
    if is_current {
        driver::ctx_pop(&mut std::ptr::null_mut());
    }
    result
}

fn none(guard: &Guard, why: &str) -> RevokedSeen {
    RevokedSeen { at: guard.now(), nanos: 0, communicators: Vec::new(), missing: Some(why.to_owned()) }
}

fn begin(guard: &Guard) {
    revoked::prepare(guard);
    BLOCKED_BEFORE.store(guard.now().saturating_sub(guard.settings.hang_after_nanos / 2), Ordering::Relaxed);
    let limit = guard.settings.notice_nanos() + (CALLS_BEGIN_WITHIN + LIMIT).as_nanos() as u64;
    UNTIL.store(clock::system_nanos() + limit, Ordering::Relaxed);
    PHASE.store(UNDER_WAY, Ordering::Release);
    results::set(REVOKED);
}

/// Nothing was revoked.
fn end() {
    results::clear(REVOKED);
    PHASE.store(0, Ordering::Release);
}
