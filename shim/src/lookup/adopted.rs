//! The one driver or NCCL whose functions the hooks stand in front of. The addresses are set (Release) after the functions are.
//!
//! Must not: allocate.

use super::dynamic_linker::Symbol;
use super::objects::Loaded;
use crate::runtime::pass_through;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PassThrough;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The library that the hooks stand in front of, with a function for each entry point from `first` on.
pub struct Adopted<const FUNCTIONS: usize> {
    first: usize,
    functions: [AtomicPtr<c_void>; FUNCTIONS],
    addresses: [AtomicU64; 2],
    second: PassThrough,
}

impl<const FUNCTIONS: usize> Adopted<FUNCTIONS> {
    pub(super) const fn new(first: usize, second: PassThrough) -> Self {
        Self {
            first,
            functions: [const { AtomicPtr::new(null_mut()) }; FUNCTIONS],
            addresses: [const { AtomicU64::new(0) }; 2],
            second,
        }
    }

    pub fn is_there(&self) -> bool {
        self.addresses[1].load(Ordering::Acquire) != 0
    }

    pub fn addresses(&self) -> Range<u64> {
        let end = self.addresses[1].load(Ordering::Acquire);
        self.addresses[0].load(Ordering::Relaxed)..end
    }

    /// `None` for an entry point of the other kind.
    pub(super) fn place(&self, entry_point: EntryPoint) -> Option<&AtomicPtr<c_void>> {
        self.functions.get(entry_point.index().wrapping_sub(self.first))
    }

    /// Null where there is none.
    pub fn function(&self, entry_point: EntryPoint) -> *mut c_void {
        self.place(entry_point).map_or(null_mut(), |function| function.load(Ordering::Relaxed))
    }

    pub(super) fn is_free_for(&self, object: &Loaded<'_>) -> bool {
        if self.is_there() && object.addresses() != self.addresses() {
            pass_through::note(self.second);
        }
        !self.is_there()
    }

    pub(super) fn adopt(&self, object: &Loaded<'_>, others: impl FnOnce()) -> bool {
        let dynamic = object.dynamic();
        for (index, place) in self.functions.iter().enumerate() {
            let symbol = EntryPoint::from_index(self.first + index).and_then(Symbol::of);
            let function = symbol.and_then(|symbol| dynamic.defines(symbol.name()));
            place.store(function.unwrap_or(null_mut()), Ordering::Relaxed);
        }
        others();
        self.addresses[0].store(object.addresses().start, Ordering::Relaxed);
        self.addresses[1].store(object.addresses().end, Ordering::Release);
        true
    }

    pub(super) fn forget(&self) {
        self.addresses.iter().for_each(|place| place.store(0, Ordering::Relaxed));
        self.functions.iter().for_each(|place| place.store(null_mut(), Ordering::Relaxed));
    }
}

/// The functions that the guard calls itself, by name.
macro_rules! own_calls {
    ($( $(#[$doc:meta])* $field:ident = $symbol:literal ($($arg:ident : $ty:ty),*); )+) => {
        struct Own { $($field: AtomicPtr<c_void>,)+ }

        static OWN: Own = Own { $($field: AtomicPtr::new(null_mut()),)+ };

        impl Own {
            /// Looks the functions up in this object; `None` forgets them.
            fn look_up(&self, object: Option<Dynamic>) {
                $(
                    let function = object.and_then(|object| object.defines($symbol));
                    self.$field.store(function.unwrap_or(null_mut()), Ordering::Relaxed);
                )+
            }
        }

        $(
            $(#[$doc])*
            #[allow(clippy::too_many_arguments, reason = "the driver's functions have as many")]
            pub fn $field($($arg: $ty),*) -> Option<i32> {
                let function = OWN.$field.load(Ordering::Relaxed);
                if function.is_null() {
                    return None;
                }
                // SAFETY: the object's function of this name has these arguments and returns an enum (cuda.h, nccl.h).
                let function: unsafe extern "C" fn($($ty),*) -> c_int = unsafe { std::mem::transmute(function) };
                // SAFETY: callers in this crate pass handles that the object gave out and pointers to live variables.
                Some(unsafe { function($($arg),*) })
            }
        )+
    };
}

pub(super) use own_calls;
