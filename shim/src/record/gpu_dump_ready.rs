//! Makes the driver ready for a GPU core dump on request, after `cuInit` and before the first context ([`super::gpu_dump`]).

use super::run_folder::{RunFolder, GPU_CORE, GPU_PIPE};
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::runtime::environment;
use lazyguard_core::gpu_dump::{is_virtual, obstacle, LONGEST_PATH, MPS_FOLDER};
use lazyguard_core::settings::GpuDump;
use std::ffi::{c_int, CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// The numbers are those of `CUcoredumpSettings`.
const ENABLE_ON_EXCEPTION: c_int = 1;
const ENABLE_USER_TRIGGER: c_int = 4;
const FILE: c_int = 5;
const PIPE: c_int = 6;
const GENERATION_FLAGS: c_int = 7;
/// `CU_COREDUMP_SKIP_ABORT`.
const SKIP_ABORT: u32 = 1 << 4;
pub(super) const ABORTS: &str =
    "the program's own dumps are without skip_abort (CUDA_COREDUMP_GENERATION_FLAGS): the driver would abort it";
/// Leaves memory out of the dump, and all images but the relocated ones.
const FLAGS: u32 = 0x3f;
/// `CU_COREDUMP_SKIP_SHARED_MEMORY`.
const SKIP_SHARED_MEMORY: u32 = 1 << 2;

/// Whether the driver tells when a dump begins, and has told it since the request.
pub(super) static TELLS: AtomicBool = AtomicBool::new(false);
pub(super) static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The driver calls this on a thread of its own.
extern "C" fn begins(_: Handle, _process: c_int, _device: c_int) {
    HAS_BEGUN.store(true, Ordering::Relaxed);
}

pub(super) struct Ready {
    pub pipe: PathBuf,
    pub file: PathBuf,
    /// The guard's pipe and file; else the program has named them.
    pub own_pipe: bool,
    pub own_file: bool,
    /// The driver aborts the process after the dump.
    pub aborts: bool,
    /// Calls look for the file: an error may come late.
    pub is_watched: bool,
}

pub(super) fn make_ready(folder: Option<&RunFolder>, is_local: bool, wanted: GpuDump) -> Result<Ready, String> {
    let no = |why: &str| Err(why.to_owned());
    let Some(folder) = folder else { return no("there is no run folder") };
    let (own_pipe, own_file) = (folder.path().join(GPU_PIPE), folder.path().join(GPU_CORE));
    if own_file.as_os_str().len() > LONGEST_PATH {
        return no("the run folder's path is longer than the driver takes");
    }
    if let Some(why) = what_surrounds() {
        return Err(why);
    }
    if let Some(why) = of_devices() {
        return no(why);
    }
    // In `cuInit` the driver has just read the same environment, in this thread.
    let Some(flags) = number(GENERATION_FLAGS) else { return no("the driver (before 12.5) has none on request") };
    let asked_for = switch(ENABLE_USER_TRIGGER);
    let (mut flags, mut own_exceptions) = (flags, asked_for);
    if !asked_for {
        set_text(PIPE, &own_pipe);
        // A program's own dumps at exceptions stay as set.
        own_exceptions = switch(ENABLE_ON_EXCEPTION);
        if !own_exceptions {
            set_text(FILE, &own_file);
            let left_out = if wanted == GpuDump::Full { FLAGS & !SKIP_SHARED_MEMORY } else { FLAGS };
            set(GENERATION_FLAGS, &mut left_out.to_ne_bytes());
            flags = number(GENERATION_FLAGS).unwrap_or(0);
        }
        if flags & SKIP_ABORT == 0 {
            return no(ABORTS);
        }
        set(ENABLE_USER_TRIGGER, &mut [1]);
        if switch(ENABLE_USER_TRIGGER) && !switch(ENABLE_ON_EXCEPTION) {
            set(ENABLE_USER_TRIGGER, &mut [0]);
            return no("CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0 is set: the driver has none on request then");
        }
    }
    let (true, Some(pipe), Some(file)) = (switch(ENABLE_USER_TRIGGER), text(PIPE), text(FILE)) else {
        return no("the driver refuses, or CUDA_ENABLE_USER_TRIGGERED_COREDUMP=0 is set");
    };
    let (is_own_pipe, is_own_file) = (pipe == own_pipe, file == own_file);
    // A file system may let calls wait.
    let is_watched = is_own_file && !own_exceptions && is_local;
    let aborts = flags & SKIP_ABORT == 0;
    let registered =
        driver::told(null_mut(), |registered| driver::core_dump_begins(begins as Handle, null_mut(), registered));
    TELLS.store(registered.is_some(), Ordering::Relaxed);
    Ok(Ready { own_pipe: is_own_pipe, own_file: is_own_file, pipe, file, aborts, is_watched })
}

fn what_surrounds() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (variable, folder, control) = MPS_FOLDER;
    let mps = Path::new(environment::get(variable).as_deref().unwrap_or(folder)).join(control).exists();
    obstacle(environment::tools().iter().map(String::as_str), &status, mps)
}

/// A context that is there already, or a virtual device.
fn of_devices() -> Option<&'static str> {
    const LATE: &str = "a context was there before the guard saw one made";
    if !driver::current_context().is_null() {
        return Some(LATE);
    }
    let mut name = [0u8; 256];
    for device in 0.. {
        let state = driver::told((0, 0), |(flags, active)| driver::primary_state(device, flags, active));
        let Some((_, active)) = state else { break };
        if active != 0 {
            return Some(LATE);
        }
        driver::device_name(name.as_mut_ptr().cast(), name.len() as c_int - 1, device);
        if CStr::from_bytes_until_nul(&name).is_ok_and(|name| is_virtual(&name.to_string_lossy())) {
            return Some("the device is a virtual GPU");
        }
    }
    None
}

/// `false` where the driver has no such attribute.
fn get(which: c_int, value: &mut [u8]) -> bool {
    let mut bytes = value.len();
    driver::core_dump_attribute(which, value.as_mut_ptr().cast(), &mut bytes) == Some(SUCCESS)
}

fn set(which: c_int, value: &mut [u8]) {
    let mut bytes = value.len();
    // The result is asked for afterwards.
    _ = driver::set_core_dump_attribute(which, value.as_mut_ptr().cast(), &mut bytes);
}

fn switch(which: c_int) -> bool {
    let mut value = [0];
    get(which, &mut value) && value != [0]
}

fn number(which: c_int) -> Option<u32> {
    let mut value = [0; 4];
    get(which, &mut value).then(|| u32::from_ne_bytes(value))
}

fn text(which: c_int) -> Option<PathBuf> {
    let mut value = [0; LONGEST_PATH + 1];
    let text = get(which, &mut value).then(|| CStr::from_bytes_until_nul(&value).ok())??;
    Some(PathBuf::from(OsStr::from_bytes(text.to_bytes())))
        .filter(|path| !text.is_empty() && path.file_name().is_some())
}

fn set_text(which: c_int, path: &Path) {
    set(which, &mut [path.as_os_str().as_bytes(), b"\0"].concat());
}
