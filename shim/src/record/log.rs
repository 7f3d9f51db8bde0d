//! The log: one JSON object a line, in the run folder. The log's own thread ([`super::upkeep`]) follows the recording, says what the level wants through
//! `tracing` to a subscriber of its own, and appends the lines to the file. One thread at a time drains, with [`Log::draining`]: at the very end the
//! exiting one.
//!
//! Must not: become the process's global subscriber, hold the file open (see [`super::run_folder`]), or write on a thread of the program's but at exit.

use super::run_folder::{RunFolder, LOG};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::files;
use crate::runtime::process::Process;
use lazyguard_core::api::Keep;
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::report::demangle;
use lazyguard_core::settings::LogLevel;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::{Followed, Follower, Kind, Lane, Payload, Preload, Record};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::dispatcher::{self, Dispatch};

/// Records that are written at once, some 32 KiB. An exit waits for a write.
const AT_ONCE: usize = 128;

pub struct Log {
    level: LogLevel,
    lines: Lines,
    dispatch: Dispatch,
    draining: Mutex<Follower>,
    pub overwritten: AtomicU64,
    /// Lines that could not be written.
    pub lost: AtomicU64,
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
        let (dispatch, [overwritten, lost]) = (dispatch_to(lines.clone()), Default::default());
        Self { level, lines, dispatch, draining: Mutex::default(), overwritten, lost }
    }

    fn wants(&self, record: &Record) -> bool {
        let least = match (record.kind, record.entry_point.class()) {
            (Kind::Hazard, _) => LogLevel::Hazard,
            (Kind::ColdFunction | Kind::ColdModule | Kind::Preload | Kind::HostBegins | Kind::HostEnds, _) => {
                LogLevel::Load
            }
            (Kind::Queries | Kind::Seen | Kind::Activity | Kind::Communication, _) => return false,
            (Kind::Call, class) if Keep::of(class) != Keep::Always => return false,
            (Kind::Call, class) => match class.event() {
                "launch" | "graph_launch" => LogLevel::Launch,
                "load" | "unload" | "context" | "synchronize" | "memory_operation" => LogLevel::Load,
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
        if let Ok(mut follower) = self.draining.lock() {
            self.drain(process, folder, &mut follower);
        }
    }

    /// Writes the last lines in the exiting thread, if the log's thread releases the records soon; no later line is written.
    pub fn finish(&self, process: &Process, folder: Option<&RunFolder>) {
        // A log of every launch may have many last ones.
        let pauses = if self.level == LogLevel::Launch { 500 } else { EXIT_PAUSES };
        if let Some(mut follower) = door::lock_soon(&self.draining, pauses) {
            self.drain(process, folder, &mut follower);
        }
    }

    fn lanes(&self) -> &'static [Lane] {
        match self.level {
            LogLevel::Off => &[],
            LogLevel::Hazard => &[Lane::RareEvents],
            LogLevel::Load => &[Lane::RareEvents, Lane::Waits],
            LogLevel::Launch => &Lane::ALL,
        }
    }

    fn drain(&self, process: &Process, folder: Option<&RunFolder>, follower: &mut Follower) {
        let recorder = process.tracker.recorder();
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
            self.write(folder);
        }
    }

    fn write(&self, folder: Option<&RunFolder>) {
        let lines = std::mem::take(&mut *lock(&self.lines.0));
        let is_written = |folder: &RunFolder| folder.path().is_dir() && append(folder, &lines).is_ok();
        if !lines.is_empty() && !folder.is_some_and(is_written) {
            self.lost.fetch_add(lines.iter().filter(|&&b| b == b'\n').count() as u64, Ordering::Relaxed);
        }
    }
}

fn append(folder: &RunFolder, lines: &[u8]) -> io::Result<()> {
    use tracing_appender::rolling::{RollingFileAppender, Rotation};
    if !files::is_file_or_missing(&folder.path().join(LOG)) {
        return Err(files::no_file());
    }
    let mut file = RollingFileAppender::builder()
        .rotation(Rotation::NEVER)
        .filename_prefix(LOG)
        .build(folder.path())
        .map_err(io::Error::other)?;
    file.write_all(lines)
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
            let prevented = noted.flags.says(Flags::PREVENTED);
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
                prevented
            );
        }
        Kind::Preload => {
            let Payload::Preload(Preload { loaded, refused, left_out, .. }) = record.payload() else { return };
            tracing::info!(event = "preload", at_ns, took_ns, thread, call, loaded, refused, left_out);
        }
    }
}
