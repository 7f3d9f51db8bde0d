//! The file of the recording: made as a whole at arming, mapped, and never held open. Every byte is allocated before: a store into a mapped page without
//! room kills the process. In memory (`tmpfs`) that takes long: arming allocates the tables and the first segments, the log's thread the rest, and the
//! recorder takes no segment before. If a page may have to be waited for (a network, user space, a new place for every page), or there is no room, the
//! recording is kept in memory, and written to the folder at a hang and at the end.
//!
//! Must not: wait for a disk in the program's threads once the process is armed.

use super::run_folder::{RunFolder, TRACE};
use crate::runtime::sanitizer::leave_unchecked;
use crate::runtime::{files, process};
use lazyguard_core::trace::layout::{self, Shape};
use lazyguard_core::trace::Recorder;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub struct Backing {
    pub words: &'static [AtomicU64],
    pub shape: Shape,
    pub in_file: bool,
    /// Only [`Backing::FIRST`] segments of each lane have their room.
    grows: bool,
    /// In bytes.
    present: AtomicUsize,
    wanted: bool,
    /// Why they are not, if wanted.
    pub why: Option<String>,
}

/// Tried when there is too little room.
const SMALLER: [usize; 2] = [4 << 20, Shape::SMALLEST];

/// The bytes of a recording for the guard's own diagnosis: tables, and some thousand records.
const UNWANTED: usize = 4 << 20;
const MOST_IN_MEMORY: usize = 16 << 20;

impl Backing {
    /// More segments of a lane than a program fills while the log's thread starts.
    const FIRST: usize = 64;

    /// Makes the recording, in the folder if that can be (0 bytes: the least); `None` if there is not even memory.
    pub fn make(folder: Option<&RunFolder>, bytes: usize) -> Option<Self> {
        let mut why = None;
        if let (Some(folder), true) = (folder, bytes > 0) {
            for size in sizes(bytes) {
                let shape = Shape::of_bytes(size);
                match mapped_file(folder, &shape) {
                    Ok((words, grows)) => {
                        let why = why.map(|error| format!("the recording has only {} MiB: {error}", size >> 20));
                        let present = AtomicUsize::new(0);
                        return Some(Self { words, shape, in_file: true, grows, present, wanted: true, why });
                    }
                    Err(error) => why = why.or(Some(error)),
                }
            }
        }
        let why = why.map(|error| format!("the recording is kept in memory until a hang or the end: {error}"));
        let in_memory = if bytes == 0 { UNWANTED } else { bytes.min(MOST_IN_MEMORY) };
        sizes(in_memory).find_map(|size| {
            let shape = Shape::of_bytes(size);
            let words = map(shape.words() * layout::WORD, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).ok()?;
            let (wanted, why, present) = (bytes > 0, why.clone(), AtomicUsize::new(0));
            Some(Self { words, shape, in_file: false, grows: false, present, wanted, why })
        })
    }

    pub fn limit(&self, recorder: &Recorder<'_>) {
        if self.grows {
            recorder.limit(Self::FIRST);
        }
    }

    pub fn save(&self, folder: &RunFolder) -> io::Result<()> {
        if self.in_file || !self.wanted {
            return Ok(());
        }
        // Piece by piece: memory may be short.
        let words = self.words.get(..self.shape.words()).unwrap_or_default();
        folder.replace_by(TRACE, &mut |file| {
            let mut piece = [0u8; 4096];
            words.chunks(piece.len() / layout::WORD).try_for_each(|chunk| {
                for (to, word) in piece.chunks_exact_mut(layout::WORD).zip(chunk) {
                    to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
                }
                file.write_all(&piece[..chunk.len() * layout::WORD])
            })
        })
    }

    fn is_present(&self) -> bool {
        self.present.load(Ordering::Relaxed) >= self.shape.words() * layout::WORD
    }

    /// Makes the next pages present, which else are faults of the program's threads; a line if the file has no room.
    pub fn make_present(&self, recorder: &Recorder<'_>, pieces: usize) -> Option<String> {
        (0..pieces).take_while(|_| !self.is_present()).find_map(|_| self.make_piece_present(recorder))
    }

    /// A piece does not block other mappings.
    fn make_piece_present(&self, recorder: &Recorder<'_>) -> Option<String> {
        const AT_ONCE: usize = 256 << 10;
        let from = self.present.load(Ordering::Relaxed);
        let all = self.shape.words() * layout::WORD;
        let length = AT_ONCE.min(all - from);
        let is_present = populate(self.words, from, length);
        self.present.store(if is_present { from + length } else { all }, Ordering::Relaxed);
        if is_present || !self.grows {
            recorder.open_up_to((from + length) / layout::WORD);
            return None;
        }
        // The closed segments stay closed: a store there could end the process. The first ones of every lane have their room.
        let (file, why) = (from >> 20, last_error());
        Some(format!("the recording has room for {file} MiB in its file, and keeps what is newest ({why})"))
    }
}

/// Present, with room; `false`, and the system's error, where that cannot be.
fn populate(words: &[AtomicU64], from: usize, length: usize) -> bool {
    /// Since Linux 5.14; else the pages come as they are needed.
    const POPULATE_WRITE: i32 = 23;
    // SAFETY: the callers' range lies inside the mapping, which is never taken away; its content does not change.
    unsafe { libc::madvise(words.as_ptr().byte_add(from).cast_mut().cast(), length, POPULATE_WRITE) == 0 }
}

fn sizes(bytes: usize) -> impl Iterator<Item = usize> {
    [bytes].into_iter().chain(SMALLER.into_iter().filter(move |&size| size < bytes))
}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

fn map(bytes: usize, flags: i32, file: i32) -> io::Result<&'static [AtomicU64]> {
    // SAFETY: a new mapping, wherever the kernel has room.
    let start = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
    if start == libc::MAP_FAILED {
        return Err(last_error());
    }
    leave_unchecked(start.cast(), bytes);
    if file >= 0 {
        // SAFETY: of the new mapping. Else the kernel reads the surroundings of the first pages: megabytes, on the program's thread.
        unsafe { libc::madvise(start, bytes, libc::MADV_RANDOM) };
    }
    // SAFETY: the mapping is that long, aligned, zero, and never taken away; all accesses are atomic.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), bytes / layout::WORD) })
}

/// A new, mapped file with all of its room allocated; or with the room of [`Backing::FIRST`], and `true`.
fn mapped_file(folder: &RunFolder, shape: &Shape) -> Result<(&'static [AtomicU64], bool), String> {
    let bytes = shape.words() * layout::WORD;
    let path = folder.path().join(TRACE);
    // Readable only: a file that another process cuts short would end this one.
    let mut new = OpenOptions::new();
    new.read(true).write(true).create_new(true).mode(0o400).custom_flags(libc::O_NOFOLLOW);
    let file = new.open(&path).map_err(|error| error.to_string())?;
    let mapped = suitable(&file, folder.asked_for, bytes).and_then(|in_memory| {
        let words = |()| map(bytes, libc::MAP_SHARED, file.as_raw_fd()).map_err(|error| error.to_string());
        if in_memory {
            let words = allocate_first(&file, shape).and_then(words)?;
            if populate(words, 0, layout::HEADER_BYTES) {
                return Ok((words, true));
            }
            return allocate(&file, 0, bytes).map(|()| (words, false));
        }
        allocate(&file, 0, bytes).and_then(words).map(|words| (words, false))
    });
    mapped.inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Whether a recording of this size may be mapped there, and lies in memory.
fn suitable(file: &File, asked_for: bool, bytes: usize) -> Result<bool, String> {
    let file_system = files::file_system(file).map_err(|error| format!("fstatfs is refused: {error}"))?;
    file_system.suits(asked_for, bytes as u64).map(|()| file_system.is_in_memory())
}

/// Allocates room in the file for the tables, and the first segments of each lane.
fn allocate_first(file: &File, shape: &Shape) -> Result<(), String> {
    let [tables, segment] = [shape.segments_at(), shape.segment_words()].map(|words| words * layout::WORD);
    // The last byte gives the file its whole size.
    allocate(file, shape.words() * layout::WORD - 1, 1)?;
    allocate(file, 0, tables)?;
    let mut begin = 0;
    shape.segments.iter().try_for_each(|&count| {
        let at = tables + begin * segment;
        begin += count;
        allocate(file, at, count.min(Backing::FIRST) * segment)
    })
}

fn allocate(file: &File, from: usize, bytes: usize) -> Result<(), String> {
    // Beyond the limit there is a signal that ends the process.
    if process::limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < (from + bytes) as u64) {
        return Err("it would exceed the limit for the size of files".to_owned());
    }
    // SAFETY: the descriptor is open for writing.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, from as libc::off_t, bytes as libc::off_t) } == 0 {
        return Ok(());
    }
    let error = last_error();
    if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM)) {
        return Err(error.to_string());
    }
    // A file system, or a filter, that refuses: written bytes have their place.
    let zeros = vec![0u8; 1 << 20];
    (from..from + bytes).step_by(zeros.len()).try_for_each(|at| {
        file.write_all_at(&zeros[..zeros.len().min(from + bytes - at)], at as u64).map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::trace::layout::segment;
    use lazyguard_core::trace::{Lane, ProcessFacts};
    use std::ops::Range;

    #[test]
    fn where_the_file_has_no_more_room_what_is_recorded_already_stays() {
        let shape = Shape::of_bytes(4 << 20);
        let bytes = shape.words() * layout::WORD;
        let words = map(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1).expect("memory");
        let recorder = Recorder::new(words, shape, &ProcessFacts::default()).expect("a recorder");
        let backing =
            Backing { words, shape, in_file: true, grows: true, present: AtomicUsize::new(0), wanted: true, why: None };
        backing.limit(&recorder);
        let first = |which| (shape.segments_at() + recorder.segments_of(which).0 * segment::WORDS) + segment::RECORDS;
        for which in Lane::ALL {
            words[first(which)].store(which as u64 + 1, Ordering::Relaxed);
        }
        // Pages that cannot be written to stand in for pages without room: both are refused.
        let [closed, ..] = recorder.closed();
        let from = (closed.start * layout::WORD).next_multiple_of(1 << 20);
        // SAFETY: whole pages inside the mapping, which nothing is stored to.
        let protected = unsafe {
            let at = words.as_ptr().byte_add(from).cast_mut().cast();
            libc::mprotect(at, 64 << 10, libc::PROT_READ)
        };
        assert_eq!(protected, 0);
        let line = backing.make_present(&recorder, 256);
        assert!(line.is_some_and(|line| line.contains(&format!("room for {} MiB", from >> 20))));
        assert!(backing.is_present() && backing.make_present(&recorder, 256).is_none(), "said once");
        // Segments that may be taken have their room; the rest is never stored to.
        let [_, rest @ ..] = recorder.closed();
        assert!(recorder.closed()[0].contains(&(from / layout::WORD)) && !rest.iter().any(Range::is_empty));
        words[..from / layout::WORD].iter().for_each(|word| _ = word.fetch_or(0, Ordering::Relaxed));
        assert_eq!(Lane::ALL.map(|which| words[first(which)].load(Ordering::Relaxed)), [1, 2, 3]);
    }
}
