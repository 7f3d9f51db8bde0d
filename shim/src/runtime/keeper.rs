//! What a recording needs from time to time: a sign of life, pages that are present, the names of threads, and the files
//! whose code is in memory. Done in the log's thread.
//!
//! Must not: take part in anything a program's thread waits for.

use super::{thread, Guard};
use std::collections::HashSet;
use std::ffi::{c_void, CStr};
use std::os::raw::c_int;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// How often names and files are looked at; the sign of life is given each time.
const SELDOM: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub struct Keeper {
    present: AtomicUsize,
    looked: Option<Instant>,
    files: Files,
}

impl Keeper {
    /// Does what is due.
    pub fn look_after(&mut self, guard: &Guard) {
        guard.world.recorder().seen_alive(guard.now());
        guard.backing.make_present(&self.present);
        if self.looked.is_none_or(|at| at.elapsed() >= SELDOM) {
            self.looked = Some(Instant::now());
            for (_, slot) in guard.world.threads().filter(|(_, slot)| slot.in_use()) {
                // One that has just ended has no name to be read, and keeps the one it had.
                Some(thread::name(slot.thread()))
                    .filter(|name| !name.is_empty())
                    .iter()
                    .for_each(|name| slot.set_name(name));
            }
            self.files.note_new(guard);
        }
    }
}

/// The files that have been noted.
#[derive(Default)]
struct Files {
    /// How many objects had been loaded ever, when last looked at.
    loaded: u64,
    noted: HashSet<(u64, u64)>,
}

struct File {
    begin: u64,
    end: u64,
    bias: u64,
    path: String,
}

#[derive(Default)]
struct Found {
    loaded: u64,
    unless: u64,
    files: Vec<File>,
}

impl Files {
    fn note_new(&mut self, guard: &Guard) {
        let mut found = Found { unless: self.loaded, ..Found::default() };
        // SAFETY: the callback gets `found` back, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(each_object), std::ptr::from_mut(&mut found).cast()) };
        self.loaded = found.loaded;
        for file in found.files {
            if self.noted.insert((file.begin, file.bias)) {
                let path = if file.path.is_empty() {
                    std::fs::read_link("/proc/self/exe").map(|p| p.display().to_string()).unwrap_or_default()
                } else {
                    file.path
                };
                guard.world.recorder().add_file(guard.now(), file.begin, file.end, file.bias, &path);
            }
        }
    }
}

/// Notes where an object's code lies. Stops at the first one if nothing has been loaded since the last time.
unsafe extern "C" fn each_object(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader's description of the object, and the `Found` that was passed in.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    found.loaded = info.dlpi_adds;
    if found.loaded == found.unless {
        return 1;
    }
    // SAFETY: the object's program headers, as many as it says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let code = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
    let begin = code.clone().map(|h| info.dlpi_addr + h.p_vaddr).min();
    let end = code.map(|h| info.dlpi_addr + h.p_vaddr + h.p_memsz).max();
    if let (Some(begin), Some(end)) = (begin, end) {
        // SAFETY: null or a terminated string, which lives as long as the object.
        let path = unsafe { info.dlpi_name.as_ref().map_or(c"", |name| CStr::from_ptr(name)) };
        let path = path.to_string_lossy().into_owned();
        found.files.push(File { begin, end, bias: info.dlpi_addr, path });
    }
    0
}
