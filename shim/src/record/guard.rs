//! The guard of an armed process: the process, what is preloaded, and what is kept of the run.
//!
//! Protocol: `lifecycle` builds one guard a process and never frees it. A forked child has none until it is armed itself. See
//! [`crate::runtime::process`].

use super::gpu_dump::GpuDump;
use super::hazards::Hazards;
use super::log::Log;
use super::mappings::Mappings;
use super::marker::Marker;
use super::path::Paths;
use super::profile;
use super::recording::Backing;
use super::reports::Reports;
use super::requests::Requests;
use super::run_folder::RunFolder;
use super::schedule::Schedule;
use super::statements::Statements;
use crate::preload::loader::Loader;
use crate::runtime::process::{self, Process};
use crate::runtime::tls;
use lazyguard_core::map::HashMap;
use lazyguard_core::sync::lock;
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::atomic::AtomicPtr;
use std::sync::Mutex;

#[repr(C)]
pub struct Guard {
    /// First, so that a pointer to the guard is one to the process.
    pub process: Process,
    pub loader: Loader,
    pub folder: Option<RunFolder>,
    pub backing: Backing,
    pub mappings: Mappings,
    pub log: Log,
    pub gpu_dump: GpuDump,
    pub reports: Reports,
    pub requests: Requests,
    pub marker: Option<Marker>,
    pub statements: Option<Statements>,
    pub hazards: Hazards,
    pub paths: Paths,
    pub profile: Option<profile::Notes>,
    pub schedule: Option<Schedule>,
    /// The blocks that the guard has put into graphs, by host function and its argument (`hooks::host`).
    pub of_graphs: Mutex<HashMap<(u64, u64), AtomicPtr<c_void>>>,
}

impl Deref for Guard {
    type Target = Process;

    #[inline(always)]
    fn deref(&self) -> &Process {
        &self.process
    }
}

#[inline]
pub fn guard() -> Option<&'static Guard> {
    // SAFETY: only `Guard::arm` arms a process, with a pointer to a leaked, initialised guard that begins with the process.
    unsafe { process::armed().cast::<Guard>().as_ref() }
}

pub fn last_guard() -> Option<&'static Guard> {
    // SAFETY: as in `guard`.
    unsafe { process::last().cast::<Guard>().as_ref() }
}

impl Guard {
    /// From here on, the guard sees calls.
    pub fn arm(&'static self) {
        tls::prepare();
        // SAFETY: a reference to all of a guard that is never freed, and which begins with its process.
        unsafe { process::arm(std::ptr::from_ref(self).cast()) };
    }

    /// Writes into the run folder, unless the exiting thread has: its files are the last.
    pub fn unless_ended(&self, write: impl FnOnce(&RunFolder)) {
        let ended = lock(&self.reports.ended);
        if let (Some(folder), false) = (&self.folder, *ended) {
            write(folder);
        }
    }

    pub fn before_a_context(&self) {
        let folder = self.folder.as_ref();
        let is_local = self.backing.in_file || folder.is_some_and(|folder| !folder.asked_for);
        self.gpu_dump.before_a_context(self, folder, is_local);
    }
}
