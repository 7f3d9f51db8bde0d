//! Kernel launches.
//!
//! Must not: cost a launch on the fast path an allocation, a lock or a system call.

use super::call::{observe, seen_again, Call, Entry, Real};
use super::objects::PER_THREAD;
use crate::lookup::driver::{Handle, LAUNCH_FAILED, SUCCESS};
use crate::preload::gate;
use crate::record::gpu_dump::stays_blocked;
use crate::record::{guard, path, Guard};
use crate::runtime::hot::HOT;
use crate::runtime::{clock, door, pass_through, readable, thread, tls};
use cudarc::driver::sys::{CUlaunchAttribute, CUlaunchConfig};
use lazyguard_core::hazard::rules;
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::{begin_fast, CallStep, FastLaunch, Known, LaunchFacts};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::RawPayload;
use lazyguard_core::Nanos;
use std::hint::black_box;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// The fast path, if the thread has made a launch of this kind before and no special state is set; else the slow path.
#[inline(always)]
pub(super) fn kernel(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Real + Copy) -> i32 {
    let Some(Some((guard, fast))) = door::leaf(|| begin(entry, function, stream, size)) else {
        // A copy, which the compiler does not see through: of `real` itself the slow path would get the address, and the fast path would have to
        // write to memory what it is made of.
        return launch_observed(entry.again(), function, stream, size, black_box(real));
    };
    let result = real();
    if result != SUCCESS {
        refused(guard, entry.again(), fast, result);
        return result;
    }
    fetch(fast.next_place());
    CallStep::Call.taken();
    // The time first: a signal handler on top of this may fork, and the less is done between the check and the end, the less often in between.
    let returned = now();
    // See `observe`.
    if guard.is_armed() && fast.end(returned, result, rules::BLOCKED_NANOS) {
        stood_out(guard, entry.again(), fast, result);
    }
    result
}

/// Lets the processor fetch memory that is written to soon. A recording is gone through once in a long time, so the line comes from far, and the driver's
/// next launch would wait for it: it orders its own stores behind those before them.
#[inline(always)]
fn fetch(memory: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of an address that need not be one of memory.
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{}]", in(reg) memory, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

/// The rest of a refused launch. Returns nothing, so that the export's frame, to which the entry points, stays beneath this one's.
#[cold]
#[inline(never)]
fn refused(guard: &'static Guard, entry: Entry, fast: FastLaunch, result: i32) {
    if result == LAUNCH_FAILED {
        stays_blocked();
    }
    CallStep::Call.taken();
    let returned = clock::now();
    if guard.is_armed() {
        fast.end(returned, result, rules::BLOCKED_NANOS);
        stood_out(guard, entry, fast, result);
    }
}

#[inline(always)]
fn begin(entry: Entry, function: Handle, stream: Handle, size: Extent) -> Option<(&'static Guard, FastLaunch)> {
    let guard = guard()?;
    let own = tls::own(&**guard)?;
    let Extent { grid, block, shared_bytes } = size;
    if !RawPayload::launch_fits(grid, block) {
        return None;
    }
    let (function, stream) = (function as u64, key(entry, stream));
    let facts = LaunchFacts { entry_point: entry.entry_point, function, stream, grid, block, shared_bytes };
    // SAFETY: for `begin_fast` alone.
    let hand = unsafe { own.at_hand() };
    // Acquire: see `Tracker::epoch`, which this is of the armed process.
    let epoch = HOT.epoch.load(Ordering::Acquire);
    let from = |kept: &_| path::from(kept, entry.caller());
    let fast = begin_fast(hand, facts, || entry.caller(), from, epoch, now)?;
    if !gate::is_open() {
        fast.cancel();
        return None;
    }
    CallStep::Gate.taken();
    fast.submit();
    Some((guard, fast))
}

/// The time. A library that measures what the clock costs (`scripts/build --without-clock`) has none.
#[inline(always)]
fn now() -> Nanos {
    if cfg!(lazyguard_without_clock) {
        1
    } else {
        clock::now_when_armed()
    }
}

/// A launch on the fast path was refused, or blocked the host.
#[cold]
#[inline(never)]
fn stood_out(guard: &'static Guard, entry: Entry, fast: FastLaunch, result: i32) {
    let Some(record) = fast.record() else { return };
    // Most slow launches are not due to a full queue.
    if result == SUCCESS && !rules::queue_is_deep(guard.tracker.outstanding_at_most(record.stream)) {
        return;
    }
    door::inside(|| {
        let Some(slot) = thread::slot_if_any(guard) else { return };
        if !slot.enter(entry.caller()) {
            return;
        }
        match result {
            SUCCESS => seen_again(guard, slot, entry, &record).held_by_launch(),
            _ => guard.tracker.launch_refused(record.stream, record.entered, record.returned),
        }
        slot.leave();
    });
}

/// The stream's handle, made different where a default stream is the calling thread's own.
#[inline(always)]
fn key(entry: Entry, stream: Handle) -> u64 {
    let handle = stream as u64;
    // No handle of the driver's is this small.
    if handle <= PER_THREAD && entry.entry_point.info().per_thread {
        handle + PER_THREAD + 1
    } else {
        handle
    }
}

/// The slow path. Later launches of the kind need not look up what it finds.
#[cold]
#[inline(never)]
fn launch_observed(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Real) -> i32 {
    may_be_held(entry, function, stream);
    let before = |call: &mut Call| launches(call, function, stream, size);
    observe(entry, before, real, |call, result| {
        call.launched(result);
        cold_launched(call, function, result);
        let default_stream = stream as u64 <= PER_THREAD;
        if result == SUCCESS && call.about.submits && call.guard.tracker.fast_launches(default_stream) {
            let (number, context) = (call.about.stream, call.about.context);
            let known = Known { stream: key(entry, stream), number, context, default_stream };
            call.slot.remember_stream(call.epoch, &known);
            thread::know_launches();
        }
    })
}

/// Before the first launch of a function on a stream, a schedule may hold the thread.
#[inline(never)]
fn may_be_held(entry: Entry, function: Handle, stream: Handle) {
    let Some((guard, schedule)) = guard().and_then(|guard| Some((guard, guard.schedule.as_ref()?))) else { return };
    let of = (function as u64, key(entry, stream));
    door::inside(|| schedule.launches(guard, entry.entry_point, entry.caller(), of));
}

/// A launch has returned: if it has loaded its function, the function's attributes can be queried only now.
#[inline(always)]
fn cold_launched(call: &Call, function: Handle, result: i32) {
    if call.about.cold.is_some() && result == SUCCESS && call.is_first_launch() {
        call.sets_local_memory_aside(function);
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

impl Extent {
    /// Of a launch whose block shape was set on the function beforehand.
    pub fn of_grid(width: i32, height: i32) -> Self {
        Self { grid: [width as u32, height as u32, 1], ..Self::default() }
    }
}

#[inline(always)]
fn launches(call: &mut Call, function: Handle, stream: Handle, size: Extent) {
    call.slot.count_launch();
    let (raw, cut) = RawPayload::launch(size.grid, size.block, size.shared_bytes);
    call.about.raw = raw;
    call.about.flags = if cut { flag::CUT } else { 0 };
    call.submits_to(stream);
    call.uses(function);
    call.about.from = call.made_from(call.slot.path_to(call.use_key(function), call.about.context, call.epoch));
    if call.guard.tracker.slow_path() {
        call.beside_fillers();
    }
}

/// A launch all blocks of which have to be on the device at once: it takes the slow path each time.
pub(super) fn cooperative(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Real) -> i32 {
    may_be_held(entry, function, stream);
    let before = |call: &mut Call| {
        launches(call, function, stream, size);
        call.about.flags |= flag::AT_ONCE;
    };
    observe(entry, before, real, |call, result| {
        call.launched(result);
        cold_launched(call, function, result);
        if result == SUCCESS {
            let blocks = size.grid.iter().map(|&n| u64::from(n)).product();
            let threads = size.block.iter().fold(1u32, |all, &n| all.saturating_mul(n));
            call.launched_together(function, blocks, threads, size.shared_bytes);
        }
    })
}

pub(super) fn kernel_ex(entry: Entry, config: Handle, function: Handle, real: impl Real + Copy) -> i32 {
    if config.is_null() {
        pass_through::note(PassThrough::NoDescription);
        return real();
    }
    // SAFETY: the program passes a launch configuration, which the driver reads as well: on a card, whatever is wrong with the call.
    let config = unsafe { &*config.cast::<CUlaunchConfig>() };
    let size = Extent {
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared_bytes: config.sharedMemBytes,
    };
    if is_cooperative(config, function) {
        return cooperative(entry, function, config.hStream.cast(), size, real);
    }
    kernel(entry, function, config.hStream.cast(), size, real)
}

/// Whether a launch configuration asks for all blocks at once. The driver looks at the attributes after function, context and their number.
#[inline(always)]
fn is_cooperative(config: &CUlaunchConfig, function: Handle) -> bool {
    /// Of `CUlaunchAttributeID`, of which a newer driver has more than this build knows.
    const COOPERATIVE: u32 = 2;
    /// There are some twenty, and no launch has use for one of them twice.
    const MOST: u32 = (readable::PAGE / size_of::<CUlaunchAttribute>()) as u32;
    let may_have = !config.attrs.is_null() && (1..=MOST).contains(&config.numAttrs) && !function.is_null();
    (0..if may_have && has_attributes(config) { config.numAttrs as usize } else { 0 }).any(|n| {
        // SAFETY: the program passes so many attributes, which can be read; the number of each is read as an integer.
        let attribute = unsafe { config.attrs.add(n).cast::<u8>() };
        // SAFETY: as above.
        let id = unsafe { attribute.cast::<u32>().read() };
        // SAFETY: as above; an attribute of this number holds an integer.
        id == COOPERATIVE && unsafe { attribute.add(offset_of!(CUlaunchAttribute, value)).cast::<i32>().read() } != 0
    })
}

/// Whether the attributes, a page of them at most, can be read. They mostly lie beside the configuration, or where those of an earlier launch could be
/// read: a warm launch asks the kernel nothing.
#[inline(always)]
fn has_attributes(config: &CUlaunchConfig) -> bool {
    let first = config.attrs.addr();
    let last = first.wrapping_add(config.numAttrs as usize * size_of::<CUlaunchAttribute>() - 1);
    let page = |at: usize| at / readable::PAGE;
    let known = [std::ptr::from_ref(config).addr(), tls::attributes()].map(page);
    // The first page is nobody's.
    let is_known = |at: usize| page(at) != 0 && known.contains(&page(at));
    is_known(first) && is_known(last) || has_attributes_elsewhere(config.attrs.cast(), first, last)
}

#[cold]
#[inline(never)]
fn has_attributes_elsewhere(attributes: *const u8, first: usize, last: usize) -> bool {
    let can_be_read = readable::bytes(attributes, last.wrapping_sub(first) + 1).is_some();
    if can_be_read {
        tls::set_attributes(last);
    }
    can_be_read
}

/// `CUDA_LAUNCH_PARAMS`, which headers since 13.0 no longer describe.
#[derive(Clone, Copy)]
#[repr(C)]
struct LaunchParams {
    function: Handle,
    dimensions: [u32; 6],
    shared_memory_bytes: u32,
    stream: Handle,
    kernel_params: Handle,
}

/// A cooperative launch on several devices: one operation on each stream of the list.
pub(super) fn multi_device(entry: Entry, list: Handle, count: u32, real: impl Real) -> i32 {
    /// The driver takes one launch for each device at most. It refuses more, or flags that it does not know, before it looks at the list.
    const MOST: u32 = 256;
    let each = |call: &Call, what: &dyn Fn(&Call)| {
        for n in 0..if count <= MOST { count as usize } else { 0 } {
            let Some(launch) = readable::value(list.cast::<LaunchParams>().wrapping_add(n)) else { return };
            let mut one = *call;
            let [x, y, z, block @ ..] = launch.dimensions;
            let size = Extent { grid: [x, y, z], block, shared_bytes: launch.shared_memory_bytes };
            launches(&mut one, launch.function, launch.stream, size);
            what(&one);
        }
    };
    let before = |call: &mut Call| {
        each(call, &|one| {
            if let Some(stream) = one.about.stream_entry {
                one.slot.fold_launches();
                let _ = stream.submitting(one.operation(), one.guard.tracker.stream_idle_until(stream));
            }
        });
    };
    observe(entry, before, real, |call, _| {
        each(call, &|one| one.about.stream_entry.iter().for_each(|stream| stream.submitted(one.guard.now())));
    })
}

#[cfg(debug_assertions)]
#[cfg(test)]
mod tests {
    use super::super::caller::Frame;
    use super::*;
    use crate::preload::loader::Loader;
    use crate::record::gpu_dump::GpuDump;
    use crate::record::hazards::Hazards;
    use crate::record::log::Log;
    use crate::record::mappings::Mappings;
    use crate::record::path::Paths;
    use crate::record::recording::Backing;
    use crate::record::reports::Reports;
    use crate::record::requests::Requests;
    use crate::runtime::process::{self, Process};
    use lazyguard_core::api::EntryPoint;
    use lazyguard_core::settings::Settings;
    use lazyguard_core::state::{Caller, FunctionKind, StreamKey, StreamKind, Tracker};
    use lazyguard_core::trace::{Follower, Lane, ProcessFacts, Record, Recorder};
    use std::cell::Cell;

    const STREAM: StreamKey = StreamKey { handle: 0x2000, context: 0, thread: 0 };
    const FUNCTION: u64 = 0x3000;
    const REFUSED: i32 = 719;

    /// A guard without a folder, a driver or threads, which knows a context, a stream, and a function that is loaded.
    fn armed() -> &'static Guard {
        let backing = Backing::make(None, 0).unwrap();
        let recorder = Recorder::new(backing.words, backing.shape, &ProcessFacts::default()).unwrap();
        let settings = Settings::default();
        let guard: &'static Guard = Box::leak(Box::new(Guard {
            loader: Loader::default(),
            folder: None,
            requests: Requests::new(None, &backing),
            marker: None,
            backing,
            mappings: Mappings::default(),
            log: Log::new(settings.log),
            gpu_dump: GpuDump::default(),
            reports: Reports::default(),
            hazards: Hazards::default(),
            paths: Paths::default(),
            profile: None,
            schedule: None,
            process: Process {
                settings,
                tracker: Tracker::with_epoch(Box::leak(Box::new(recorder)), &HOT.epoch),
                id: std::process::id(),
                program: String::new(),
                rank: String::new(),
                driver_version: 13_000,
            },
        }));
        let tracker = &guard.tracker;
        let context = tracker.context(0x1000, 1);
        tracker.stream(STREAM, context, StreamKind::Unknown, 1);
        let function = tracker.function(FUNCTION, FunctionKind::Kernel, 0x4000);
        tracker.function_entry(function).unwrap().set_loaded_in(context);
        guard.arm();
        guard
    }

    /// What a launch leaves, but for its times.
    #[derive(Debug, PartialEq)]
    struct Left {
        steps: Vec<CallStep>,
        /// The call as another thread sees it while it is made: the entry point, the stream, the function and the context; and
        /// whether the stream is busy then.
        inside: (EntryPoint, u32, u32, u32, bool),
        record: Record,
        /// Calls and launches that it is counted as.
        counts: (u64, u64),
        outstanding: u64,
        is_published: bool,
    }

    fn launched(guard: &'static Guard, follower: &mut Follower, result: i32) -> Left {
        let slot = thread::slot(guard).unwrap();
        let stream = guard.tracker.stream_entry(guard.tracker.known_stream(STREAM).unwrap()).unwrap();
        let outstanding = || {
            assert!(guard.tracker.fold());
            stream.outstanding_count(guard.tracker.stream_idle_until(stream))
        };
        let is_busy = || {
            assert!(guard.tracker.fold());
            stream.busy(guard.tracker.stream_idle_until(stream))
        };
        stream.complete_until(guard.now());
        assert_eq!(outstanding(), 0);
        let before = guard.tracker.counts();
        CallStep::take_all();
        let inside = Cell::new(None);
        let here = 0;
        let entry = Entry { entry_point: EntryPoint::by_symbol(b"cuLaunchKernel").unwrap(), frame: Frame::of(&here) };
        let (function, to) = (FUNCTION as Handle, STREAM.handle as Handle);
        let size = Extent { grid: [7, 2, 1], block: [64, 1, 1], shared_bytes: 48 };
        let returned = kernel(entry, function, to, size, || {
            let call = slot.published().expect("a call is published while it is made");
            inside.set(Some((call.entry_point, call.stream, call.function, call.context, is_busy())));
            result
        });
        assert_eq!(returned, result);
        let after = guard.tracker.counts();
        let mut records = Vec::new();
        follower.follow(guard.tracker.recorder(), Lane::Work, &mut |followed| records.push(followed.record));
        assert_eq!(records.len(), 1, "a launch leaves one record: {records:?}");
        Left {
            steps: CallStep::take_all(),
            inside: inside.get().unwrap(),
            record: Record { entered: 0, returned: 0, ..records[0] },
            counts: (after.0 - before.0, after.1 - before.1),
            outstanding: outstanding(),
            is_published: slot.published().is_some(),
        }
    }

    /// Whether the next launch of the kind takes the fast path.
    fn is_fast(guard: &'static Guard) -> bool {
        let slot = thread::slot(guard).unwrap();
        let here = 0u8;
        let caller = Caller { address: 0x77, stack: std::ptr::from_ref(&here) as usize, frame: 0 };
        let facts = LaunchFacts {
            entry_point: EntryPoint::by_symbol(b"cuLaunchKernel").unwrap(),
            function: FUNCTION,
            stream: STREAM.handle,
            grid: [0; 3],
            block: [0; 3],
            shared_bytes: 0,
        };
        let from = |kept: &_| path::from(kept, caller);
        let begun = begin_fast(slot, facts, || caller, from, guard.tracker.epoch(), clock::now);
        begun.map(FastLaunch::cancel).is_some()
    }

    #[test]
    fn both_paths_of_a_launch_take_the_same_steps_and_leave_the_same() {
        let guard = armed();
        let mut follower = Follower::default();
        launched(guard, &mut follower, SUCCESS);
        for result in [SUCCESS, REFUSED] {
            // From one place in the code: the record has the return address.
            let [fast, slow] = [false, true].map(|slow_path| {
                guard.tracker.set_slow_path(slow_path);
                while !slow_path && !is_fast(guard) {
                    launched(guard, &mut follower, SUCCESS);
                }
                assert_eq!(is_fast(guard), !slow_path);
                launched(guard, &mut follower, result)
            });
            assert_eq!(fast, slow);
            assert_eq!(fast.steps, CallStep::ALL);
            assert_eq!((fast.counts, fast.inside.4, fast.is_published), ((1, 1), true, false));
            assert_eq!(fast.outstanding, u64::from(result == SUCCESS));
        }
        process::retire();
    }
}
