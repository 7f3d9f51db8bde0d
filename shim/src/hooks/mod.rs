//! The exported functions, made of the one table, and what each family of them does around the real call.
//!
//! Every export is three lines: find the real function, hand the arguments that matter to its family, return what the real
//! function returned. A family's hook takes the real call as a closure and calls it exactly once.
//!
//! | file | family |
//! |---|---|
//! | [`call`] | what every hook shares: armed? re-entered? publish, gate, record, fold |
//! | `caller` | from where a call was made |
//! | [`cold`] | what happens when a function is used for the first time |
//! | `hazard` | what made a call that passed a hazard |
//! | [`launch`] | kernels |
//! | [`module`], [`library`] | loading, resolving, unloading |
//! | [`stream`], [`event`], [`memop`], [`copy`] | streams and what is submitted to them |
//! | [`context`] | contexts, and everything that waits for one as a whole |
//! | [`graph`] | graphs |

pub mod call;
mod caller;
pub mod cold;
mod context;
mod copy;
mod event;
mod graph;
mod hazard;
mod host;
mod image;
mod launch;
mod library;
mod memop;
mod module;
mod stream;

use self::call::Entry;
use self::caller::caller;
use crate::lookup::driver::{self, Handle, NOT_FOUND};
use crate::lookup::proc_address as lookup;
use lazyguard_core::api::{EntryPoint, ENTRY_POINTS};
use std::ffi::c_void;

/// A pointer of the program's; what it points to depends on the function.
type Ptr = *mut c_void;

const fn null() -> Handle {
    std::ptr::null_mut()
}

/// The entry_point of an exported symbol, at compile time.
const fn entry_point(symbol: &str) -> EntryPoint {
    let wanted = symbol.as_bytes();
    let mut index = 0;
    while index < ENTRY_POINTS.len() {
        let have = ENTRY_POINTS[index].symbol.as_bytes();
        if have.len() == wanted.len() {
            let mut at = 0;
            while at < have.len() && have[at] == wanted[at] {
                at += 1;
            }
            if at == have.len() {
                match EntryPoint::from_index(index) {
                    Some(entry_point) => return entry_point,
                    None => panic!("an index below the length is an index"),
                }
            }
        }
        index += 1;
    }
    panic!("every hook is made of a row of the table")
}

macro_rules! define_hook {
    ($symbol:ident ($($arg:ident : $ty:ty),*) $family:ident $hook:ident ($($used:expr),*)) => {
        /// Stands for the driver's function of this name.
        ///
        /// # Safety
        /// As the driver's function: the program's arguments are passed on as they are.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $symbol($($arg: $ty),*) -> i32 {
            const FORM: EntryPoint = entry_point(stringify!($symbol));
            let entry = Entry { entry_point: FORM, caller: caller() };
            let Some(real) = driver::real(FORM) else { return NOT_FOUND };
            // SAFETY: the driver's function of this name has this calling sequence (the table follows cuda.h, and the
            // tests compare it with a second description).
            let real: unsafe extern "C-unwind" fn($($ty),*) -> i32 = unsafe { std::mem::transmute(real) };
            // SAFETY: the program's own arguments, for the function it called.
            $family::$hook(entry, $($used,)* || unsafe { real($($arg),*) })
        }
    };
}

macro_rules! define_hooks {
    ($(
        $class:ident $args:tt => $family:ident :: $hook:ident $used:tt;
        { $( $id:literal $symbol:ident $base:ident $since:literal $convention:ident; )+ }
    )+) => {
        $($( define_hook! { $symbol $args $family $hook $used } )+)+

        /// The exports, in the order of the forms.
        static HOOKS: [Export; ENTRY_POINTS.len()] = [ $($( Export($symbol as *const c_void), )+)+ ];
    };
}

/// The address of an export.
struct Export(*const c_void);

// SAFETY: the address of a function may be read from anywhere.
unsafe impl Sync for Export {}

lazyguard_core::with_driver_api!(define_hooks);

/// From the first byte to the last of rows that lie a pitch apart.
fn pitched(pitch: usize, width: usize, rows: usize) -> usize {
    pitch.wrapping_mul(rows.saturating_sub(1)).wrapping_add(width)
}

/// The hook of a entry_point.
pub fn hook(entry_point: EntryPoint) -> *mut c_void {
    hook_at(entry_point.index())
}

/// The hook of the entry_point with this index.
pub fn hook_at(index: usize) -> *mut c_void {
    HOOKS[index].0.cast_mut()
}

/// The hook of a entry_point for a pointer that `cuGetProcAddress` hands out: runtimes look everything up that way, so a question
/// for the loading mode that comes by it is a runtime's.
pub fn hook_for_runtime(entry_point: EntryPoint) -> *mut c_void {
    if entry_point.symbol() == "cuModuleGetLoadingMode" {
        return module::loading_mode_for_runtime as *mut c_void;
    }
    hook(entry_point)
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
