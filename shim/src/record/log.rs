//! The log: one JSON object a line, in two files of the run folder that take turns. The log's own thread ([`super::upkeep`]) follows the recording,
//! says what the level wants through `tracing` to a subscriber of its own, and appends the lines. One thread at a time drains, with [`Log::draining`]: at the very end the exiting one.
//!
//! Must not: become the process's global subscriber, hold a file open (see [`super::run_folder`]), write on a thread of the program's but at exit, or write where the file system is short of room.

use super::run_folder::{RunFolder, LOG, OLDER_LOG};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::files;
use crate::runtime::process::Process;
use lazyguard_core::api::Keep;
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::report::demangle;
use lazyguard_core::settings::LogLevel;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::{Followed, Follower, Kind, Lane, Payload, Preload, Record};
use lazyguard_core::Nanos;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::dispatcher::{self, Dispatch};

/// Records that are written at once, some 32 KiB. An exit waits for a write.
const AT_ONCE: usize = 128;

/// The most bytes of each of the two files; a log of launches is asked for.
const MOST_BYTES: u64 = 256 << 10;
const MOST_BYTES_OF_LAUNCHES: u64 = 32 << 20;

/// The duration from which a call of any class is in the log of loads: it blocked.
const BLOCKED: Nanos = 1_000_000_000;

pub struct Log {
    level: LogLevel,
    lines: Lines,
    dispatch: Dispatch,
    draining: Mutex<Draining>,
    pub overwritten: AtomicU64,
    /// Lines that could not be written.
    pub lost: AtomicU64,
    /// Lines of an older file that a newer one has replaced.
    pub replaced: AtomicU64,
    /// Whether lines were left out because the file system is short of room.
    is_short: AtomicBool,
}

#[derive(Default)]
struct Draining {
    follower: Follower,
    /// The lines in the newer file, and in the older one.
    lines: [u64; 2],
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn dispatch_to(lines: Lines) -> Dispatch {
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_current_span(false)
        .with_span_list(false)
        .without_time()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || lines.clone())
        .finish();
    Dispatch::new(subscriber)
}

/// Creates the libraries' thread-local data.
pub fn warm_up() {
    dispatcher::with_default(&dispatch_to(Lines::default()), || tracing::trace!("nothing"));
}

impl Log {
    pub fn new(level: LogLevel) -> Self {
        let lines = Lines::default();
        let (dispatch, [overwritten, lost, replaced]) = (dispatch_to(lines.clone()), Default::default());
        let (draining, is_short) = (Mutex::default(), AtomicBool::new(false));
        Self { level, lines, dispatch, draining, overwritten, lost, replaced, is_short }
    }

    fn wants(&self, record: &Record) -> bool {
        let class = record.entry_point.class();
        let least = match record.kind {
            Kind::Hazard => LogLevel::Hazard,
            Kind::ColdFunction | Kind::ColdModule | Kind::Preload => LogLevel::Load,
            Kind::HostBegins | Kind::HostEnds => LogLevel::Launch,
            Kind::Queries | Kind::Seen | Kind::Activity | Kind::Communication => return false,
            Kind::Call if record.took() >= BLOCKED => LogLevel::Load,
            Kind::Call if Keep::of(class) != Keep::Always => return false,
            Kind::Call => match class.event() {
                "load" | "unload" | "context" => LogLevel::Load,
                "launch" | "graph_launch" | "synchronize" | "memory_operation" => LogLevel::Launch,
                _ => return false,
            },
        };
        self.level >= least
    }

    /// The pause between two looks; shorter with every launch in the log.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(if self.level == LogLevel::Launch { 10 } else { 100 })
    }

    pub fn follow(&self, process: &Process, folder: Option<&RunFolder>) {
        if let Ok(mut draining) = self.draining.lock() {
            self.drain(process, folder, &mut draining);
        }
    }

    /// Writes the last lines in the exiting thread, if the log's thread releases the records soon; no later line is written.
    pub fn finish(&self, process: &Process, folder: Option<&RunFolder>) {
        // A log of every launch may have many last ones.
        let pauses = if self.level == LogLevel::Launch { 500 } else { EXIT_PAUSES };
        if let Some(mut draining) = door::lock_soon(&self.draining, pauses) {
            self.drain(process, folder, &mut draining);
        }
    }

    /// Says in a line that the log has stopped.
    pub fn complaint(&self) -> Option<String> {
        const SHORT: &str = "the log has left out lines: less than an eighth of its file system was free, or less than the guard has there";
        self.is_short.load(Ordering::Relaxed).then(|| SHORT.to_owned())
    }

    fn lanes(&self) -> &'static [Lane] {
        match self.level {
            LogLevel::Off => &[],
            LogLevel::Hazard => &[Lane::RareEvents],
            LogLevel::Load => &[Lane::RareEvents, Lane::Waits],
            LogLevel::Launch => &Lane::ALL,
        }
    }

    fn most_bytes(&self) -> u64 {
        if self.level == LogLevel::Launch {
            MOST_BYTES_OF_LAUNCHES
        } else {
            MOST_BYTES
        }
    }

    fn drain(&self, process: &Process, folder: Option<&RunFolder>, draining: &mut Draining) {
        let recorder = process.tracker.recorder();
        let Draining { follower, lines } = draining;
        let mut records = Vec::new();
        for &lane in self.lanes() {
            follower.follow(recorder, lane, &mut |followed| {
                if self.wants(&followed.record) {
                    records.push(followed);
                }
            });
        }
        self.overwritten.store(self.lanes().iter().map(|&lane| follower.lost(recorder, lane)).sum(), Ordering::Relaxed);
        records.sort_by_key(|followed| followed.record.entered);
        for some in records.chunks(AT_ONCE) {
            dispatcher::with_default(&self.dispatch, || some.iter().for_each(|followed| say(process, followed)));
            let text = std::mem::take(&mut *lock(&self.lines.0));
            let all = text.iter().filter(|&&b| b == b'\n').count() as u64;
            // The guard has the recording and the log.
            let has = (recorder.words().len() * 8) as u64 + 2 * self.most_bytes();
            let written = folder.map_or(0, |folder| self.write(folder.path(), &text, has, lines));
            self.lost.fetch_add(all - written, Ordering::Relaxed);
        }
    }

    /// Returns how many lines were written.
    fn write(&self, folder: &Path, mut text: &[u8], has: u64, lines: &mut [u64; 2]) -> u64 {
        let mut written = 0;
        while !text.is_empty() {
            let Ok(file) = open(folder) else { break };
            let size = file.metadata().map_or(0, |about| about.len());
            if files::file_system(&file).is_ok_and(|there| there.is_short(has)) {
                self.is_short.store(true, Ordering::Relaxed);
                break;
            }
            let fits = whole_lines(text, self.most_bytes().saturating_sub(size));
            let (now, rest) = text.split_at(fits);
            if now.is_empty() && size == 0 {
                // A line that is longer than a file.
                text = &rest[rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |end| end + 1)..];
            } else if now.is_empty() {
                if fs::rename(folder.join(LOG), folder.join(OLDER_LOG)).is_err() {
                    break;
                }
                let [newer, older] = lines;
                self.replaced.fetch_add(std::mem::replace(older, std::mem::take(newer)), Ordering::Relaxed);
            } else if append(folder, now).is_ok() {
                let count = now.iter().filter(|&&b| b == b'\n').count() as u64;
                lines[0] += count;
                written += count;
                text = rest;
            } else {
                // No line is left torn.
                let _ = file.set_len(size);
                break;
            }
        }
        written
    }
}

fn open(folder: &Path) -> io::Result<File> {
    files::open_with(&folder.join(LOG), OpenOptions::new().append(true).create(true), libc::O_NOFOLLOW)
}

/// The appender rotates by time alone, so that the caller keeps the size.
fn append(folder: &Path, lines: &[u8]) -> io::Result<()> {
    use tracing_appender::rolling::{RollingFileAppender, Rotation};
    let builder = RollingFileAppender::builder().rotation(Rotation::NEVER).filename_prefix(LOG);
    builder.build(folder).map_err(io::Error::other)?.write_all(lines)
}

/// The bytes of the whole lines at the start, of at most so many bytes.
fn whole_lines(text: &[u8], most: u64) -> usize {
    let most = usize::try_from(most).map_or(text.len(), |most| most.min(text.len()));
    text[..most].iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1)
}

/// `docs/CONFIGURATION.md` lists the fields.
fn say(process: &Process, followed: &Followed) {
    let (tracker, record) = (&process.tracker, &followed.record);
    let call = record.entry_point.symbol();
    let function = tracker.function_name(record.function).map(demangle).unwrap_or_default();
    let function = function.as_str();
    let stream = record.stream;
    let handle = tracker.stream_entry(stream).map_or(0, |s| s.handle());
    let (at_ns, took_ns) = (record.entered, record.took());
    let (thread, result) = (followed.owner.thread, record.result);
    match record.kind {
        Kind::HostBegins | Kind::HostEnds => {
            let event = if record.kind == Kind::HostBegins { "host_function_begins" } else { "host_function_ends" };
            let Payload::HostCall { function, .. } = record.payload() else { return };
            tracing::info!(event, at_ns, thread, call, function, stream, handle);
        }
        Kind::Call | Kind::Queries | Kind::Seen | Kind::Activity | Kind::Communication => {
            let event = record.entry_point.class().event();
            tracing::info!(event, at_ns, took_ns, thread, call, result, function, stream, handle);
        }
        Kind::ColdFunction | Kind::ColdModule => {
            let what = if record.kind == Kind::ColdModule { "module" } else { "function" };
            tracing::info!(event = "load", what, at_ns, took_ns, thread, call, result, function, stream, handle);
        }
        Kind::Hazard => {
            let Some(noted) = HazardEvent::of(record, thread) else { return };
            let (code, title) = (noted.code.name(), noted.code.title());
            let in_flight = tracker.function_name(noted.other.operation.function).map(demangle).unwrap_or_default();
            let (prevented, confidence) = (noted.flags.says(Flags::PREVENTED), noted.confidence().name());
            let (event, in_flight_on, count) = ("hazard", noted.other.stream, noted.count);
            tracing::warn!(
                event,
                code,
                title,
                at_ns,
                thread,
                call,
                function,
                stream,
                in_flight_on,
                in_flight,
                count,
                confidence,
                prevented
            );
        }
        Kind::Preload => {
            let Payload::Preload(Preload { loaded, refused, left_out, .. }) = record.payload() else { return };
            tracing::info!(event = "preload", at_ns, took_ns, thread, call, loaded, refused, left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_in(name: &str, level: LogLevel) -> (std::path::PathBuf, Log) {
        let folder = std::env::temp_dir().join(format!("lazyguard-log-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        (folder, Log::new(level))
    }

    #[test]
    fn two_files_take_turns_and_what_is_gone_is_counted() {
        let (folder, log) = log_in("turns", LogLevel::Load);
        let size = |name| fs::metadata(folder.join(name)).map_or(0, |about| about.len());
        let (mut lines, mut written) = ([0; 2], 0);
        for n in 0..1000 {
            let text = format!("{n:0>99}\n").repeat(10);
            written += log.write(&folder, text.as_bytes(), 0, &mut lines);
            assert!(size(LOG) <= MOST_BYTES && size(OLDER_LOG) <= MOST_BYTES);
        }
        assert_eq!((written, lines[0] * 100, lines[1] * 100), (10_000, size(LOG), size(OLDER_LOG)));
        assert_eq!(lines[0] + lines[1] + log.replaced.load(Ordering::Relaxed), written);
        assert!(size(OLDER_LOG) > MOST_BYTES - 100);
        let newest = fs::read_to_string(folder.join(LOG)).unwrap();
        assert!(newest.ends_with("999\n"));
        // A line that is longer than a file is left out, and the next is there.
        let text = "x".repeat(MOST_BYTES as usize) + "\nshort\n";
        assert_eq!(log.write(&folder, text.as_bytes(), 0, &mut lines), 1);
        assert_eq!(fs::read_to_string(folder.join(LOG)).unwrap(), "short\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nothing_is_written_through_a_link_or_where_room_is_short() {
        let (folder, log) = log_in("short", LogLevel::Load);
        assert_eq!(log.write(&folder, b"line\n", u64::MAX, &mut [0; 2]), 0);
        assert_eq!((fs::metadata(folder.join(LOG)).unwrap().len(), log.complaint().is_some()), (0, true));
        fs::rename(folder.join(LOG), folder.join("other")).unwrap();
        std::os::unix::fs::symlink(folder.join("other"), folder.join(LOG)).unwrap();
        assert_eq!(log.write(&folder, b"line\n", 0, &mut [0; 2]), 0);
        assert_eq!(fs::read(folder.join("other")).unwrap(), b"");
        fs::remove_dir_all(&folder).unwrap();
    }
}
