//! `cuGetProcAddress`, both calling sequences: runtimes look up everything that way.
//!
//! Must not: change the driver's result or status.

use super::call::{Entry, Real};
use super::context::observed;
use crate::lookup::driver::{Handle, SUCCESS};
use crate::lookup::proc_address::substitute;
use crate::runtime::door;

pub(super) fn get_proc_address(
    entry: Entry,
    symbol: Handle,
    pointer: Handle,
    version: i32,
    flags: u64,
    real: impl Real,
) -> i32 {
    let result = observed(entry, real);
    if result == SUCCESS {
        door::inside(|| substitute(symbol, pointer, version, flags));
    }
    result
}
