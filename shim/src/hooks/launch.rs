//! Kernel launches.
//!
//! Must not: cost a launch on the fast path an allocation, a lock or a system call.

use super::call::{observe, Again, Call, Entry, Real};
use super::fast;
use crate::lookup::driver::{Handle, SUCCESS};
use crate::record::path;
use crate::record::schedule::Schedule;
use crate::runtime::{pass_through, readable};
use cudarc::driver::sys::{CUlaunchAttribute, CUlaunchConfig};
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::SubmissionFacts;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::RawPayload;
use std::mem::offset_of;
use std::sync::atomic::AtomicUsize;

/// The fast path, if the thread has made a launch of this kind before and no special state is set; else the slow path.
#[inline(always)]
pub(super) fn kernel(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Again) -> i32 {
    let begin = move || {
        let Extent { grid, block, shared_bytes } = size;
        if !RawPayload::launch_fits(grid, block) {
            return None;
        }
        let raw = RawPayload::launch_that_fits(grid, block, shared_bytes);
        let facts = SubmissionFacts::of(entry.entry_point, function as u64, fast::key(entry, stream), raw);
        fast::begin(entry, facts, |_, kept| path::from(kept, entry.caller()), |_, _| true)
    };
    let after = move |call: &Call, result| {
        call.launched(function, result);
        call.repeats(entry, (0, 0), stream, result);
    };
    let slowly = (move |call: &mut Call| launches(call, function, stream, size), after);
    fast::submission(entry, begin, real, |_, _, _| {}, slowly)
}

/// Before the first launch of a function on a stream, a schedule may hold the thread.
#[cold]
#[inline(never)]
fn may_be_held(call: &Call, schedule: &Schedule, of: (u64, u64)) {
    schedule.launches(call.guard, call.entry_point, call.caller, of);
}

/// A launch by one of the driver's oldest functions: it takes the slow path each time.
pub(super) fn former(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Real) -> i32 {
    let before = |call: &mut Call| launches(call, function, stream, size);
    observe(entry, before, real, |call, result| call.launched(function, result))
}

impl Call {
    /// The program's path to a launch, found by the path that is kept of an earlier one.
    pub fn made_from(&self, kept: Option<&AtomicUsize>) -> u64 {
        let known = kept.and_then(|kept| path::from(kept, self.caller));
        known.unwrap_or_else(|| self.guard.paths.find(self.guard, kept, self.caller))
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

impl Extent {
    /// The extent of a launch whose block shape was set on the function beforehand.
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
    if let Some(schedule) = &call.guard.schedule {
        may_be_held(call, schedule, (function as u64, stream as u64));
        // It comes behind what others submitted meanwhile.
        call.entered = call.guard.now();
    }
    call.submits_to(stream);
    call.uses(function);
    call.about.from = call.made_from(call.slot.path_to(call.use_key(function), call.about.context, call.epoch));
    if call.guard.tracker.slow_path() {
        call.beside_fillers();
    }
}

/// A launch all blocks of which have to be on the device at once: it takes the slow path each time.
pub(super) fn cooperative(entry: Entry, function: Handle, stream: Handle, size: Extent, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        launches(call, function, stream, size);
        call.about.flags |= flag::AT_ONCE;
    };
    observe(entry, before, real, |call, result| {
        call.launched(function, result);
        if result == SUCCESS {
            let blocks = size.grid.iter().map(|&n| u64::from(n)).product();
            let threads = size.block.iter().fold(1u32, |all, &n| all.saturating_mul(n));
            call.launched_together(function, blocks, threads, size.shared_bytes);
        }
    })
}

pub(super) fn kernel_ex(entry: Entry, config: Handle, function: Handle, real: impl Again) -> i32 {
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
    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`. A newer driver has attributes that this build does not know.
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
    let (first, bytes) = (config.attrs.addr(), config.numAttrs as usize * size_of::<CUlaunchAttribute>());
    let page = |at: usize| at / readable::PAGE;
    let own = page(std::ptr::from_ref(config).addr());
    own == page(first) && own == page(first.wrapping_add(bytes - 1)) || readable::again(config.attrs.cast(), bytes)
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
