//! The log's thread: it writes the log, gives the sign of life, answers requests and writes hazards. It has descriptors of its own, so that nothing meets the
//! program's; for a user who keeps no files from its first write on: a program may have forbidden that call.
//!
//! Must not: wait for a thread of the program's.

use super::guard::Guard;
use super::marker::Raised;
use crate::lookup::slots;
use crate::runtime::own_thread::Alone;
use crate::runtime::process::retired;
use crate::runtime::{own_memory, thread};
use lazyguard_core::folder::{list, Entry};
use lazyguard_core::report::HangReport;
use lazyguard_core::Nanos;
use std::cell::OnceCell;

/// For objects that come without a look-up. Looking for them takes a lock that a forked child would find taken.
const BIND_EVERY: Nanos = 500_000_000;

/// Pieces of the recording that each round makes present: a few milliseconds' work.
const PIECES: usize = 256;

const SHARES_DESCRIPTORS: &str =
    "close_range and unshare are refused here: the guard's log shares the program's descriptor numbers";

/// `report` and `python` answer a request; `alone` is called with the main thread's status if the guard's threads are the last ones; `speak` says what the process does where a rank of
/// the job asks, with a way to leave the program's descriptors.
pub fn run(
    guard: &'static Guard,
    report: fn(&'static Guard) -> Option<HangReport>,
    python: fn() -> Option<String>,
    alone: fn(i32),
    mut speak: impl FnMut(bool, &dyn Fn()),
) {
    let has_own = OnceCell::new();
    let left = || {
        let has_left = leave_descriptors();
        if !has_left {
            guard.loader.note(SHARES_DESCRIPTORS.to_owned());
        }
        has_left
    };
    let leave = || *has_own.get_or_init(left);
    let threads = guard.settings.keeps_files().then(|| Alone::new(leave()));
    let folder = guard.folder.as_ref();
    beat(guard);
    // From here on requests are answered.
    folder.into_iter().for_each(|_| guard.tracker.recorder().answered(1));
    guard.mappings.note_if_due(guard);
    let mut bind_at = guard.now() + BIND_EVERY;
    let is_a_rank = || !guard.rank.is_empty() || guard.tracker.communicators().any_with_peers();
    while !retired() {
        guard.marker.iter().for_each(|marker| marker.begin_if(is_a_rank));
        std::thread::sleep(guard.log.pause());
        beat(guard);
        guard.mappings.note_if_due(guard);
        if guard.now() >= bind_at {
            slots::bind_beside();
            bind_at = guard.now() + BIND_EVERY;
        }
        if guard.settings.keeps_files() {
            own_memory::look_for_a_filter();
        }
        let raised = guard.marker.as_ref().map_or(Raised::default(), |marker| marker.look(guard.now()));
        if raised.answer {
            // One in memory is lost if the whole job is killed.
            guard.unless_ended(|folder| drop(guard.backing.save(folder)));
        }
        let reports = || {
            _ = leave();
            report(guard)
        };
        if guard.requests.serve(guard, folder, raised.answer, reports, python) || raised.fails {
            guard.gpu_dump.job_fails();
        }
        speak(raised.asks, &|| _ = leave());
        if guard.hazards.has_news() {
            _ = leave();
        }
        guard.hazards.write_news(guard, folder);
        if let Some(profile) = &guard.profile {
            profile.look(guard, &guard.loader.under_way, guard.reports.hangs() > 0);
            profile.write_news();
        }
        guard.log.follow(guard, folder);
        if let Some(status) = threads.as_ref().and_then(Alone::is_so) {
            alone(status);
        }
    }
}

fn beat(guard: &Guard) {
    let recorder = guard.tracker.recorder();
    recorder.seen_alive(guard.now());
    if let Some(line) = guard.backing.make_present(recorder, PIECES) {
        guard.loader.note(line);
    }
}

/// Gives the thread an empty table of descriptors. A kernel before 5.9 copies the program's first, which is then closed. `false` if that fails.
fn leave_descriptors() -> bool {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: takes integers only; the flag makes the table this thread's own before anything in it is closed.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) == 0 {
            return true;
        }
        if libc::unshare(libc::CLONE_FILES) != 0 {
            return false;
        }
    }
    for file in copied() {
        // SAFETY: takes an integer only. The table is this thread's own, by the call above.
        unsafe { libc::close(file) };
    }
    true
}

/// This thread's descriptors; pipes and sockets first: their readers wait for the end, and the close of a network file may take long.
fn copied() -> Vec<libc::c_int> {
    const LOWEST: libc::c_int = 1 << 16;
    let own = format!("/proc/self/task/{}/fd", thread::own_number());
    let Ok(entries) = list(own.as_ref()) else { return (0..LOWEST).collect() };
    let has_path = |entry: &Entry| std::fs::read_link(entry.path()).is_ok_and(|path| path.is_absolute());
    let number = |entry: &Entry| entry.name().to_str()?.parse().ok();
    let listed = entries.into_iter().filter_map(|entry| Some((has_path(&entry), number(&entry)?)));
    let (files, others): (Vec<_>, Vec<_>) = listed.partition(|(has_path, _)| *has_path);
    others.into_iter().chain(files).map(|(_, file)| file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn pipes_are_closed_before_files() {
        let file = std::fs::File::open("/dev/null").expect("a file");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let copied = copied();
        let place = |file: i32| copied.iter().position(|&listed| listed == file).expect("it is listed");
        let pipe = place(reader.as_raw_fd()).max(place(writer.as_raw_fd()));
        assert!(pipe < place(file.as_raw_fd()), "{copied:?}");
    }
}
