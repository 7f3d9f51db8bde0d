//! The memory and the events that other processes may have too: the tables. `sharing` has what is done with them.

use crate::api::SharedMemory;
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

#[derive(Default)]
pub struct Shared {
    /// By the driver: what has a handle for other processes, or was opened by one.
    pub(super) by_handle: Mutex<Vec<SharedMemory>>,
    pub(super) has_handles: AtomicBool,
    /// Mappings of files, as they were looked at last.
    pub(super) mapped: Mutex<Vec<SharedMemory>>,
}
