//! The hooks, made from the one table: the functions that take the place of the driver's and of NCCL's. A hook finds the real function and
//! hands it to its family as a closure, with the arguments that matter. The family calls it exactly once (a module that was loaded ahead is
//! handed over instead: [`super::module`]).
//!
//! Must not: hold any logic of a family.

use super::call::Entry;
use super::caller::Frame;
use super::image::Options;
use super::launch::Extent;
use super::nccl::{Arguments, UniqueId, NONE};
use super::shared::IpcHandle;
use super::{context, copy, event, graph, host, launch, library, memop, module, nccl, proc_address, shared, stream};
use crate::lookup::driver::{self, Handle};
use crate::lookup::nccl as real_nccl;
use crate::lookup::table::{Hook, HookTable};
use lazyguard_core::api::{EntryPoint, NCCL_ENTRY_POINTS};
use std::ffi::c_void;

/// A pointer of the program's; what it points to depends on the function.
type Ptr = *mut c_void;

const fn null() -> Handle {
    std::ptr::null_mut()
}

macro_rules! define_hook {
    ($library:ident $symbol:ident ($($arg:ident : $ty:ty),*) $family:ident $hook:ident ($($used:expr),*)) => {
        /// Stands for the library's function of this name.
        ///
        /// # Safety
        /// As that function: the program's arguments are passed on as they are.
        pub unsafe extern "C-unwind" fn $symbol($($arg: $ty),*) -> i32 {
            const FORM: EntryPoint = EntryPoint::named(stringify!($symbol));
            let here = 0;
            let entry = Entry { entry_point: FORM, frame: Frame::of(&here) };
            let Some(real) = $library::real(FORM) else { return $library::NOT_FOUND };
            // SAFETY: the library's function of this name has this calling sequence (the tables follow cuda.h and nccl.h, and the tests compare
            // the driver's with a second description).
            let real: unsafe extern "C-unwind" fn($($ty),*) -> i32 = unsafe { std::mem::transmute(real) };
            // By value: an argument whose address is taken has to be in memory on each path.
            // SAFETY: the program's own arguments, for the function it called.
            $family::$hook(entry, $($used,)* move || unsafe { real($($arg),*) })
        }
    };
}

macro_rules! define_hooks {
    ($(
        $class:ident $args:tt => $family:ident :: $hook:ident $used:tt { $( $id:literal $symbol:ident $since:literal; )+ }
    )+) => {
        $($( define_hook! { driver $symbol $args $family $hook $used } )+)+

        pub static HOOKS: HookTable = HookTable {
            exports: [ $($( Hook($symbol as *const c_void), )+)+ ],
            nccl: NCCL_HOOKS,
            loading_mode_for_runtime: Hook(proc_address::mode_for_runtime as *const c_void),
        };
    };
}

lazyguard_core::with_driver_api!(define_hooks);

macro_rules! define_nccl_hooks {
    ($( $id:literal $class:ident $symbol:ident $args:tt => $hook:ident $used:tt; )+) => {
        $( define_hook! { real_nccl $symbol $args nccl $hook $used } )+

        const NCCL_HOOKS: [Hook; NCCL_ENTRY_POINTS.len()] = [ $( Hook($symbol as *const c_void), )+ ];
    };
}

lazyguard_core::with_nccl_api!(define_nccl_hooks);

/// The bytes from the first to the last one of rows that lie a pitch apart.
fn pitched(pitch: usize, width: usize, rows: usize) -> usize {
    pitch.wrapping_mul(rows.saturating_sub(1)).wrapping_add(width)
}

#[cfg(test)]
mod tests {
    //! The table's calling sequences against a second description of them: the bindings that cudarc generates from cuda.h.

    use cudarc::driver::sys;

    trait Shape {
        const SIZES: &'static [usize];
    }

    macro_rules! shapes {
        ($($($arg:ident)*;)+) => {$(
            impl<R, $($arg),*> Shape for unsafe fn($($arg),*) -> R {
                const SIZES: &'static [usize] = &[size_of::<R>(), $(size_of::<$arg>()),*];
            }
            impl<R, $($arg),*> Shape for unsafe extern "C-unwind" fn($($arg),*) -> R {
                const SIZES: &'static [usize] = &[size_of::<R>(), $(size_of::<$arg>()),*];
            }
        )+};
    }
    shapes! { ; A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; A B C D E F G H I;
    A B C D E F G H I J; A B C D E F G H I J K; A B C D E F G H I J K L; }

    fn sizes<F: Shape>(_: F) -> &'static [usize] {
        F::SIZES
    }

    macro_rules! alike {
        ($($name:ident ($($_arg:tt)*);)+) => {
            #[test]
            fn calling_sequences_are_those_of_the_header() {
                $(assert_eq!(
                    sizes(super::$name as unsafe extern "C-unwind" fn($($_arg),*) -> _),
                    sizes(sys::$name as unsafe fn($($_arg),*) -> _),
                    stringify!($name)
                );)+
            }
        };
    }
    include!("signatures.in");
}
