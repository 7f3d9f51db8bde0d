//! Kernel launches.

use super::call::{observe, seen_again, Call, Entry, PER_THREAD};
use crate::lookup::driver::{Handle, SUCCESS};
use crate::preload::gate;
use crate::record::{guard, Guard};
use crate::runtime::{clock, door, pass_through, process, thread};
use cudarc::driver::sys::{CUlaunchAttribute, CUlaunchConfig};
use lazyguard_core::hazard::rules;
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::{FastLaunch, Known, LaunchFacts, ThreadSlot};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::pack_launch;
use std::mem::offset_of;

/// A launch with everything in its arguments.
#[inline(always)]
pub(super) fn kernel(
    entry: Entry,
    function: Handle,
    stream: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    real: impl FnOnce() -> i32,
) -> i32 {
    launch(entry, function, stream, Extent { grid, block, shared_bytes }, real)
}

/// The fast path, if the launch is like an earlier one of the thread and nothing is out of the ordinary; else the long one.
#[inline(always)]
fn launch(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl FnOnce() -> i32) -> i32 {
    let Some(Some((guard, slot, fast))) = door::leaf(|| begin(entry, function, stream, size)) else {
        return launch_observed(entry, function, stream, size, real);
    };
    let result = real();
    // See `observe`.
    if guard.is_armed() {
        if slot.end_fast(fast, guard.now(), result, rules::BLOCKED_NANOS) {
            held(guard, slot, entry, &fast, result);
        }
    } else {
        process::note_unarmed();
        slot.leave();
    }
    result
}

#[inline(always)]
fn begin(
    entry: Entry,
    function: Handle,
    stream: Handle,
    size: Extent,
) -> Option<(&'static Guard, &'static ThreadSlot, FastLaunch)> {
    let guard = guard()?;
    let slot = thread::slot_if_any(guard)?;
    let (extent, three, false) = pack_launch(size.grid, size.block) else { return None };
    let facts = LaunchFacts {
        entry_point: entry.entry_point,
        caller: entry.caller,
        function: function as u64,
        stream: key(entry, stream),
        extent,
        three,
        shared_bytes: size.shared_bytes,
    };
    let (mut fast, operation) = slot.begin_fast(facts, guard.tracker.epoch(), clock::now)?;
    if !gate::is_open() {
        slot.cancel_fast();
        return None;
    }
    slot.submit_fast(&mut fast, &operation);
    Some((guard, slot, fast))
}

/// A launch on the fast path blocked the host.
#[cold]
#[inline(never)]
fn held(guard: &'static Guard, slot: &'static ThreadSlot, entry: Entry, fast: &FastLaunch, result: i32) {
    // Most of what is slow has nothing to do with the queue.
    if result != SUCCESS || !rules::queue_is_deep(fast.outstanding_count()) {
        return;
    }
    door::inside(|| {
        let Some(record) = fast.record() else { return };
        if slot.enter(entry.caller) {
            seen_again(guard, slot, entry, &record).held_by_launch();
            slot.leave();
        }
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

/// The slow path; what it finds out, later launches of the kind need not look up.
#[inline(never)]
fn launch_observed(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| launches(call, function, stream, size),
        real,
        |call, result| {
            call.launched(result);
            if call.about.cold.is_some() && result == SUCCESS && call.is_first_launch() {
                // It was not loaded before, and could not be asked.
                call.sets_local_memory_aside(function);
            }
            let default_stream = call.is_default(stream);
            if result == SUCCESS && call.about.submits && call.guard.tracker.fast_launches(default_stream) {
                let known = Known {
                    stream: key(entry, stream),
                    number: call.about.stream,
                    context: call.about.context,
                    default_stream,
                };
                call.slot.remember_stream(call.epoch, &known);
            }
        },
    )
}

/// How big a launch is.
#[derive(Clone, Copy, Default)]
struct Extent {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

#[inline(always)]
fn launches(call: &mut Call, function: Handle, stream: Handle, size: Extent) {
    call.slot.count_launch();
    let (extent, three, cut) = pack_launch(size.grid, size.block);
    call.about.extent = extent;
    call.about.three = three;
    call.about.flags = if cut { flag::CUT } else { 0 };
    call.about.detail = u64::from(size.shared_bytes);
    call.submits_to(stream);
    call.uses(function);
    if call.guard.tracker.slow_path() {
        call.beside_fillers();
    }
}

/// A launch all blocks of which have to be on the device at once: it goes the slow path each time.
pub(super) fn cooperative(
    entry: Entry,
    function: Handle,
    stream: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    real: impl FnOnce() -> i32,
) -> i32 {
    together(entry, function, stream, Extent { grid, block, shared_bytes }, real)
}

fn together(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| launches(call, function, stream, size),
        real,
        |call, result| {
            call.launched(result);
            if result == SUCCESS {
                let blocks = size.grid.iter().map(|&n| u64::from(n)).product();
                let threads = size.block.iter().fold(1u32, |all, &n| all.saturating_mul(n));
                call.launched_together(function, blocks, threads, size.shared_bytes);
            }
        },
    )
}

/// A launch described by a structure.
pub(super) fn kernel_ex(entry: Entry, config: Handle, function: Handle, real: impl FnOnce() -> i32) -> i32 {
    if config.is_null() {
        pass_through::note(PassThrough::NoDescription);
        return real();
    }
    // SAFETY: the program passes a launch configuration, which the driver reads as well.
    let config = unsafe { &*config.cast::<CUlaunchConfig>() };
    let size = Extent {
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared_bytes: config.sharedMemBytes,
    };
    if is_cooperative(config) {
        return together(entry, function, config.hStream.cast(), size, real);
    }
    launch(entry, function, config.hStream.cast(), size, real)
}

/// Whether a launch configuration asks for all blocks at once.
fn is_cooperative(config: &CUlaunchConfig) -> bool {
    /// Of `CUlaunchAttributeID`, of which a newer driver has more than this build knows.
    const COOPERATIVE: u32 = 2;
    (0..if config.attrs.is_null() { 0 } else { config.numAttrs as usize }).any(|n| {
        // SAFETY: the program passes so many attributes, which the driver reads as well; the number of each is read as an
        // integer.
        let attribute = unsafe { config.attrs.add(n).cast::<u8>() };
        // SAFETY: as above.
        let id = unsafe { attribute.cast::<u32>().read() };
        // SAFETY: as above; an attribute of this number holds an integer.
        id == COOPERATIVE && unsafe { attribute.add(offset_of!(CUlaunchAttribute, value)).cast::<i32>().read() } != 0
    })
}

/// A launch whose block shape was set on the function beforehand.
pub(super) fn shaped(
    entry: Entry,
    function: Handle,
    stream: Handle,
    width: i32,
    height: i32,
    real: impl FnOnce() -> i32,
) -> i32 {
    let size = Extent { grid: [width as u32, height as u32, 1], ..Extent::default() };
    launch(entry, function, stream, size, real)
}

/// `CUDA_LAUNCH_PARAMS`, which headers since 13.0 no longer describe.
#[repr(C)]
struct LaunchParams {
    function: Handle,
    dimensions: [u32; 6],
    shared_memory_bytes: u32,
    stream: Handle,
    kernel_params: Handle,
}

/// A cooperative launch on several devices: one operation on each stream of the list.
pub(super) fn multi_device(entry: Entry, list: Handle, count: u32, real: impl FnOnce() -> i32) -> i32 {
    let each = |call: &Call, what: &dyn Fn(&Call)| {
        for n in 0..if list.is_null() { 0 } else { count as usize } {
            // SAFETY: the program passes `count` launches, which the driver reads as well.
            let launch = unsafe { &*list.cast::<LaunchParams>().add(n) };
            let mut one = *call;
            let [x, y, z, block @ ..] = launch.dimensions;
            let size = Extent { grid: [x, y, z], block, shared_bytes: launch.shared_memory_bytes };
            launches(&mut one, launch.function, launch.stream, size);
            what(&one);
        }
    };
    observe(
        entry,
        |call| {
            each(call, &|one| {
                if let Some(stream) = one.about.stream_entry {
                    let op = one.operation();
                    let _ = stream.submitting(op, one.guard.tracker.stream_idle_until(stream));
                }
            });
        },
        real,
        |call, _| {
            each(call, &|one| {
                if let Some(stream) = one.about.stream_entry {
                    stream.submitted(one.guard.now());
                }
            });
        },
    )
}
