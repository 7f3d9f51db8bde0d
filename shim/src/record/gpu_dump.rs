//! GPU core dumps: the driver is made ready for one before the first context, and asked for it at a hang that ends the program.
//!
//! The driver then reads where every thread of the device stands, and ends the context's work: blocked and later calls return error 719. With
//! `LAZYGUARD_ON_HANG=fail` that is the purpose.
//!
//! | measured (`testapps/simdriver/ground-truth/gpu-core-dumps.txt`) | therefore |
//! |---|---|
//! | attributes that are set before `cuInit` end the process; those that are set once there is a context have no effect | they are set right before the first context is made, by when the program may have set its own: at the call that makes it, or where a CUDA runtime starts, which makes it unseen |
//! | variables of the environment (`CUDA_COREDUMP_*`) have precedence over attributes | what is in force is asked for afterwards, and used |
//! | the trigger enables dumps at exceptions as well, and there is no pipe where these are disabled again | they stay enabled |
//! | at an exception the driver writes the file, lets calls that wait for the work succeed, and gives the error up to 0.7 s later | a call that has succeeded looks for the file, and waits for the error ([`late_error`]) |
//! | over a bad store a synchronize returns success 40 to 170 ms before there is any sign of the exception | nothing helps: no dump is asked for by default |
//! | the pipe cannot be changed once the trigger is set | see the first row |
//! | without `skip_abort` the driver aborts the process after the dump | the driver is not made ready without; what the program has set itself is used as it is, but not to fail calls |
//! | the driver truncates a file that is there, and keeps its mode | the guard makes the file first, for its owner alone |
//! | of requests to several processes of one card at about the same time the driver loses some: it has read the byte and writes nothing, and more bytes change nothing | it is asked once, and once more where it says that it has not begun (from 13.2 on); where nothing has begun in time, no error is promised, and `lazyguard run` ends the program |
//! | a launch that waits in a full queue returns success when the work ends, and the next call the error | that launch counts as failed on purpose |
//! | the driver removes the pipe when the file is complete | the file counts as complete then, if its table of sections is there; or once that is there and the size has not changed for half a second |
//!
//! Without `fail` the program does not see the error: its call stays blocked in the hook ([`stays_blocked`]) until the process is ended.
//!
//! Protocol: [`GpuDump::before_a_context`] decides once in a process, on a thread of the program's. The watchdog alone takes a dump, once.
//!
//! Must not: ask the driver for anything before `cuInit` has succeeded, or wait in a thread of the program's.

use super::gpu_dump_ready::{make_ready, Ready, ABORTS, HAS_BEGUN, TELLS};
use super::run_folder::{RunFolder, GPU_CORE};
use crate::lookup::driver::{self, LAUNCH_FAILED, SUCCESS};
use crate::runtime::process::Process;
use crate::runtime::results::{self, LATE_ERROR};
use crate::runtime::{clock, door, environment, files};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::gpu_dump::{is_whole, HEAD};
use lazyguard_core::report::{GpuDumpSeen, GPU_DUMP_ARMED};
use lazyguard_core::settings::{OnHang, RUN_KILLS};
use std::ffi::{c_int, CString};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{symlink, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// A larger file may fill a disk. A filled device is 127 MB.
const MOST_BYTES: u64 = 1 << 30;
/// The interval of looks, and how long the size stands still where the driver keeps the pipe.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const STANDS_STILL: Duration = Duration::from_millis(500);

/// Results that an exception of the device leaves behind: `CUDA_ERROR_ILLEGAL_ADDRESS`, `ASSERT`, `HARDWARE_STACK_ERROR` and so on.
const OF_EXCEPTIONS: [i32; 8] = [700, 710, 714, 715, 716, 717, 718, LAUNCH_FAILED];

#[derive(Default)]
pub struct GpuDump {
    decided: AtomicBool,
    ready: OnceLock<Result<Ready, String>>,
    taken: AtomicBool,
    /// Another process of the job fails its calls.
    job_fails: AtomicBool,
}

/// Whether the process is ended after the dump.
static ENDS: AtomicBool = AtomicBool::new(false);

/// A call has returned the error of a dump. If the process is to be ended for its hang, the call stays blocked: the program must not end itself first.
#[cold]
#[inline(never)]
pub fn stays_blocked() {
    while ENDS.load(Ordering::Relaxed) {
        // SAFETY: takes an integer only.
        unsafe { libc::usleep(10_000) };
    }
}

/// In a forked child, inside the handler of the fork: only stores.
pub fn forked() {
    ENDS.store(false, Ordering::Relaxed);
    results::clear(LATE_ERROR);
}

static OWN_FILE: OnceLock<CString> = OnceLock::new();
/// When the file was first seen, on the system's monotonic clock; or 0.
static DUMPED: AtomicU64 = AtomicU64::new(0);

/// More than four times the driver's longest delay of the error.
const LATEST_ERROR: Duration = Duration::from_secs(3);

fn watch(ready: &Ready) {
    let file = CString::new(ready.file.as_os_str().as_bytes());
    if ready.is_watched && file.is_ok_and(|file| OWN_FILE.set(file).is_ok()) {
        results::set(LATE_ERROR);
    }
}

/// The result of a successful call while [`LATE_ERROR`] is set. If it says that work has ended, and the driver has written a dump unasked, an exception
/// ended the work, and the call waits for its error. In another context it waits in vain, once.
#[cold]
#[inline(never)]
pub fn late_error(entry_point: EntryPoint) -> i32 {
    let late = || if entry_point.class().answers_for_work() { error_on_its_way() } else { SUCCESS };
    door::inside(late).unwrap_or(SUCCESS)
}

fn error_on_its_way() -> i32 {
    // SAFETY: the path ends with a zero byte.
    let written = OWN_FILE.get().is_some_and(|file| unsafe { libc::access(file.as_ptr(), libc::F_OK) } == 0);
    if !written {
        return SUCCESS;
    }
    let now = clock::system_nanos();
    let since = DUMPED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(now);
    let waited = || u128::from(clock::system_nanos().saturating_sub(since));
    while results::is_set(LATE_ERROR) && waited() < LATEST_ERROR.as_nanos() {
        match driver::stream_query(null_mut()) {
            Some(error) if OF_EXCEPTIONS.contains(&error) => return error,
            _ => door::pause(LOOK_EVERY),
        }
    }
    results::clear(LATE_ERROR);
    SUCCESS
}

impl GpuDump {
    pub fn was_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// `is_local`: a look into the folder waits for no network.
    #[cold]
    #[inline(never)]
    pub fn before_a_context(&self, process: &Process, folder: Option<&RunFolder>, is_local: bool) {
        if self.decided.load(Ordering::Relaxed) || self.decided.swap(true, Ordering::Relaxed) {
            return;
        }
        let settings = &process.settings;
        let run_kills = || environment::get(RUN_KILLS).is_some_and(|value| !value.is_empty());
        let ends = match settings.on_hang {
            OnHang::Fail | OnHang::Revoke => true,
            OnHang::Abort | OnHang::Exit(_) => settings.gpu_dump.is_wanted(),
            OnHang::Report | OnHang::Command(_) => settings.gpu_dump.is_wanted() && run_kills(),
        };
        if settings.hang_after_nanos == 0 {
            // Hangs are not looked for.
        } else if ends {
            _ = self.ready.set(make_ready(folder, is_local, settings.gpu_dump).inspect(watch));
        } else if settings.gpu_dump.is_wanted() {
            _ = self.ready.set(Err("LAZYGUARD_ON_HANG leaves the program as it is".to_owned()));
        }
    }

    pub fn in_words(&self) -> String {
        match self.ready.get() {
            None => String::new(),
            Some(Ok(_)) => GPU_DUMP_ARMED.to_owned(),
            Some(Err(why)) => why.clone(),
        }
    }

    /// Another process of the job fails its calls: so does this one, by its setting.
    pub fn job_fails(&self) {
        self.job_fails.store(true, Ordering::Relaxed);
    }

    pub fn takes_part_in_a_failure(&self, process: &Process) -> bool {
        self.job_fails.swap(false, Ordering::Relaxed)
            && process.settings.on_hang.ends_waits()
            && !self.taken.load(Ordering::Relaxed)
    }

    /// The outcome that a request would have; `None` where no dump is wanted, or one was taken.
    pub fn is_due(&self, process: &Process) -> Option<GpuDumpSeen> {
        let fails = process.settings.on_hang.ends_waits();
        if !(fails || process.settings.gpu_dump.is_wanted()) || self.taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        let why = match self.ready.get() {
            None => Some("no context was made that the guard saw"),
            Some(Err(why)) => Some(why.as_str()),
            Some(Ok(ready)) if fails && ready.aborts => Some(ABORTS),
            Some(Ok(_)) => None,
        };
        let (at, taken, missing) = (process.now(), why.is_none(), why.map(str::to_owned));
        Some(GpuDumpSeen { at, taken, fails, bytes: None, missing, unanswered: false, ignored: false })
    }

    pub fn take(&self, process: &Process, folder: Option<&RunFolder>, seen: &mut GpuDumpSeen) {
        let Some(Ok(ready)) = self.ready.get().filter(|_| seen.taken) else { return };
        let limit = Duration::from_nanos(process.settings.gpu_dump_wait_nanos);
        match ready.ask(!seen.fails).map(|before| ready.wait(folder, before, limit)) {
            Err(why) => (seen.missing, seen.taken) = (Some(why), false),
            Ok(Err((why, unanswered))) => (seen.missing, seen.unanswered) = (Some(why), unanswered),
            Ok(Ok(bytes)) => seen.bytes = Some(bytes),
        }
    }

    pub fn end(&self) {
        if let Some(Ok(ready)) = self.ready.get() {
            remove_if(ready.own_pipe, &ready.pipe);
        }
    }
}

impl Ready {
    /// Returns when an earlier file was written, if there is one.
    fn ask(&self, ends: bool) -> Result<Option<SystemTime>, String> {
        let missing = |why: &dyn Display| format!("{}: {why}", self.pipe.display());
        if self.own_file && self.file.exists() {
            return Err(missing(&"the driver has used it already, at an exception of the device"));
        }
        let pipe = open_pipe(&self.pipe).map_err(|e| missing(&e))?;
        if !pipe.metadata().is_ok_and(|about| about.file_type().is_fifo()) {
            return Err(missing(&"no pipe of the driver's"));
        }
        if self.own_file {
            // Else the driver makes the file.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file);
        }
        let before = modified(&self.file);
        ENDS.store(ends, Ordering::Relaxed);
        // The error comes with the dump.
        results::clear(LATE_ERROR);
        HAS_BEGUN.store(false, Ordering::Relaxed);
        (&pipe).write_all(b"x").map_err(|e| missing(&e))?;
        Ok(before)
    }

    /// Asks a driver again that says when it begins, and has not begun in half the time. One that has begun gets twice the time. Returns the file's size; else
    /// why it is missing, and whether the driver has begun nothing.
    fn wait(&self, to: Option<&RunFolder>, before: Option<SystemTime>, limit: Duration) -> Result<u64, (String, bool)> {
        let since = Instant::now();
        let (mut size, mut stands_since, mut asks) = (0, since, TELLS.load(Ordering::Relaxed));
        loop {
            std::thread::sleep(LOOK_EVERY);
            let now = fs::metadata(&self.file).map_or(0, |about| about.len());
            if now != size {
                (size, stands_since) = (now, Instant::now());
            }
            let is_over = !self.pipe.exists() || stands_since.elapsed() >= STANDS_STILL;
            // The program's own file may be of another dump.
            if is_over && self.is_whole(size) && (self.own_file || modified(&self.file) != before) {
                break;
            }
            let has_begun = HAS_BEGUN.load(Ordering::Relaxed);
            if asks && !has_begun && since.elapsed() >= limit / 2 {
                asks = false;
                let _ = open_pipe(&self.pipe).and_then(|pipe| (&pipe).write_all(b"x"));
            }
            let limit = if has_begun { 2 * limit } else { limit };
            if since.elapsed() >= limit {
                // The driver removes the pipe also where it can write no file.
                let unanswered = self.pipe.exists() && (size == 0 || !self.own_file && modified(&self.file) == before);
                let what = match (unanswered, unanswered && is_unread(&self.pipe)) {
                    (true, true) => "not read the request".to_owned(),
                    (true, false) if has_begun => "begun and written nothing".to_owned(),
                    (true, false) => "taken the request and written nothing".to_owned(),
                    (false, _) => format!("written {size} bytes"),
                };
                remove_if(self.own_file && size == 0, &self.file);
                // A process that is killed removes nothing.
                remove_if(self.own_pipe && unanswered, &self.pipe);
                return Err((format!("the driver has {what} in {limit:?} (LAZYGUARD_GPU_DUMP_WAIT)"), unanswered));
            }
        }
        self.bring_into(to, size).map(|()| size).map_err(|why| (why, false))
    }

    fn is_whole(&self, size: u64) -> bool {
        let mut head = [0; HEAD];
        files::open(&self.file).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && is_whole(&head, size)
    }

    /// A file of the program's own stays there, with a second name in the run folder.
    fn bring_into(&self, folder: Option<&RunFolder>, size: u64) -> Result<(), String> {
        remove_if(self.own_file && size > MOST_BYTES, &self.file);
        if size > MOST_BYTES {
            return Err(format!("it has {} MiB, more than is kept", size >> 20));
        }
        let Some(folder) = folder.filter(|_| !self.own_file) else { return Ok(()) };
        let to = folder.path().join(GPU_CORE);
        let brought = fs::hard_link(&self.file, &to).or_else(|_| symlink(&self.file, &to));
        brought.map_err(|error| format!("{}: {error}", to.display()))
    }
}

fn remove_if(condition: bool, file: &Path) {
    if condition {
        let _ = fs::remove_file(file);
    }
}

fn is_unread(pipe: &Path) -> bool {
    let Ok(pipe) = open_pipe(pipe) else { return false };
    let mut bytes: c_int = 0;
    // SAFETY: the request writes one integer.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) == 0 && bytes > 0 }
}

/// Opens the pipe for writing. Without a reader this fails.
fn open_pipe(pipe: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC).open(pipe)
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|about| about.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::run_folder::GPU_PIPE;
    use super::*;

    #[test]
    fn a_request_that_is_not_read_is_told_from_one_that_is_lost() {
        let folder = std::env::temp_dir().join(format!("lazyguard-dump-request-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (pipe, file) = (folder.join(GPU_PIPE), folder.join(GPU_CORE));
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        // The pipe is the program's at first.
        let mut ready = Ready {
            pipe: pipe.clone(),
            file: file.clone(),
            own_pipe: false,
            own_file: true,
            aborts: false,
            is_watched: false,
        };
        let ask = |ready: &Ready| {
            let before = ready.ask(false).unwrap();
            assert!(file.exists());
            before
        };
        let come =
            |ready: &Ready, before| ready.wait(None, before, Duration::ZERO).expect_err("nothing has been written");
        let line = |what: &str| format!("the driver has {what} in 0ns (LAZYGUARD_GPU_DUMP_WAIT)");
        let before = ask(&ready);
        assert_eq!(come(&ready, before), (line("not read the request"), true));
        assert!(!file.exists() && pipe.exists());
        let before = ask(&ready);
        fs::write(&file, "begun").unwrap();
        assert_eq!(come(&ready, before), (line("written 5 bytes"), false));
        fs::remove_file(&file).unwrap();
        ready.own_pipe = true;
        let before = ask(&ready);
        reader.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(come(&ready, before), (line("taken the request and written nothing"), true));
        assert!(!file.exists() && !pipe.exists());
        // As by a driver that can write no file.
        assert_eq!(come(&ready, None), (line("written 0 bytes"), false));
        // A driver that says when it begins is asked once more.
        TELLS.store(true, Ordering::Relaxed);
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        ready.own_pipe = false;
        let before = ask(&ready);
        assert_eq!(come(&ready, before), (line("not read the request"), true));
        reader.read_exact(&mut [0; 2]).unwrap();
        let before = ask(&ready);
        reader.read_exact(&mut [0; 1]).unwrap();
        HAS_BEGUN.store(true, Ordering::Relaxed);
        assert_eq!(come(&ready, before), (line("begun and written nothing"), true));
        fs::remove_dir_all(&folder).unwrap();
    }
}
