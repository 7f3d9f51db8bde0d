//! Code that is loaded ahead and handed over: of images ([`super::ahead`]), and of fat binaries ([`super::libraries`]).

use crate::lookup::driver::{self, Handle};
use lazyguard_core::image::Prints;
use lazyguard_core::state::FunctionKind;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// A module in a context, or a library in the process.
#[derive(Debug, PartialEq, Eq)]
pub struct There {
    pub owner: u64,
    pub kind: FunctionKind,
    /// The functions that the program uses, where the profile names any.
    pub functions: Option<Vec<u64>>,
    pub is_new: bool,
    /// Known where it was loaded just now.
    pub prints: Prints,
}

impl There {
    pub fn of(owner: u64, kind: FunctionKind, names: &[CString], new: Option<Prints>) -> Self {
        let look_up = |name: &CString| {
            let found = driver::told(null_mut(), |function| match kind {
                FunctionKind::Kernel => driver::library_kernel(function, owner as Handle, name.as_ptr()),
                FunctionKind::Function => driver::module_function(function, owner as Handle, name.as_ptr()),
            });
            found.map(|function| function as u64)
        };
        let functions = (!names.is_empty()).then(|| names.iter().filter_map(look_up).collect());
        Self { owner, kind, functions, is_new: new.is_some(), prints: new.unwrap_or(Prints::Unknown) }
    }
}

#[derive(Default)]
pub struct Counted {
    pub loaded: AtomicU64,
    pub given: AtomicU64,
}

impl Counted {
    pub fn both(&self) -> (u64, u64) {
        (self.loaded.load(Ordering::Relaxed), self.given.load(Ordering::Relaxed))
    }
}
