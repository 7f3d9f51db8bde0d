//! Kernel launches.

use super::call::{observe, Call};
use crate::lookup::driver::Handle;
use cudarc::driver::sys::CUlaunchConfig;
use lazyguard_core::api::Form;

/// A launch with everything in its arguments.
#[inline]
pub(super) fn kernel(
    form: Form,
    function: Handle,
    stream: Handle,
    _grid: [u32; 3],
    _block: [u32; 3],
    real: impl FnOnce() -> i32,
) -> i32 {
    observe(form, |call| launches(call, function, stream), real, |_, _| {})
}

#[inline]
fn launches(call: &mut Call, function: Handle, stream: Handle) {
    call.slot.count_launch();
    call.submits_to(stream);
    call.uses(function);
}

/// A launch described by a structure.
pub(super) fn kernel_ex(form: Form, config: Handle, function: Handle, real: impl FnOnce() -> i32) -> i32 {
    if config.is_null() {
        return real();
    }
    // SAFETY: the program passes a launch configuration, which the driver reads as well.
    let stream = unsafe { (*config.cast::<CUlaunchConfig>()).hStream }.cast();
    observe(form, |call| launches(call, function, stream), real, |_, _| {})
}

/// A launch whose block shape was set on the function beforehand.
pub(super) fn shaped(
    form: Form,
    function: Handle,
    stream: Handle,
    _width: i32,
    _height: i32,
    real: impl FnOnce() -> i32,
) -> i32 {
    observe(form, |call| launches(call, function, stream), real, |_, _| {})
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
pub(super) fn multi_device(form: Form, list: Handle, count: u32, real: impl FnOnce() -> i32) -> i32 {
    let each = |call: &Call, what: &dyn Fn(&Call)| {
        for n in 0..if list.is_null() { 0 } else { count as usize } {
            // SAFETY: the program passes `count` launches, which the driver reads as well.
            let launch = unsafe { &*list.cast::<LaunchParams>().add(n) };
            let mut one = *call;
            launches(&mut one, launch.function, launch.stream);
            what(&one);
        }
    };
    observe(
        form,
        |call| {
            each(call, &|one| {
                if let Some(stream) = one.about.stream_entry {
                    let op = one.operation();
                    let _ = stream.submitting(op, one.guard.world.stream_idle_until(stream));
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
