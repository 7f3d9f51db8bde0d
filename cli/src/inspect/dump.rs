//! Asks a guarded process for a report now. The process writes the report itself: no thread of it is stopped, signalled or traced.
//!
//! Protocol: a request is a number: the time in nanoseconds since 1970, or one above the number there if that is greater. It goes into a word of
//! the recording's header (`docs/TRACE_FORMAT.md`) or, without a recording in a file, into the modification time of an empty file. The answer
//! is `dump.json` in the run folder, with a number that is not smaller. The number's lowest bits are the purpose ([`number_of`]). A request that
//! replaces one without an answer takes its purpose along; a lock on the file keeps other commands from asking meanwhile.
//!
//! Must not: write anything else, or wait longer than the limit it was given.

use crate::folder::{file_of, header_word, maps_of, recording_of, Status, RECORDING};
use crate::machine::files::{self, Locked};
use crate::machine::{unix_now, Beside};
use crate::stacks::Symbolizer;
use crate::words::{print, Failure, Format, Outcome};
use lazyguard_core::report::{is_last, marks_ready, DumpReport};
use lazyguard_core::run_folder::file::{DUMP, DUMP_TEXT, REQUEST};
use lazyguard_core::trace::layout::{self, header};
use lazyguard_core::trace::ProcessState;
use rustix::io::Errno;
use rustix::process::getuid;
use serde_json::Value;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The interval at which the command looks for the answer. The process looks for requests ten times a second.
const POLL: Duration = Duration::from_millis(10);
/// A process that has just been armed takes requests within this time.
const UNTIL_ANNOUNCED: Duration = Duration::from_secs(2);
/// From the modification of a file for requests to its last access, where a command has set both.
const ACCESSED_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn can_be_asked(process: u32) -> bool {
    Asked::of(process).is_ok()
}

pub(crate) fn ask(process: u32, format: Format, limit: Duration) -> Outcome {
    let asked = Asked::of(process)?;
    let answer = asked.answer(Purpose::Report, limit)?;
    let text = match serde_json::from_str::<DumpReport>(&answer) {
        _ if matches!(format, Format::Json) => return print(|out| Ok(writeln!(out.raw(), "{}", answer.trim_end())?)),
        Ok(mut dump) => {
            // The process has only addresses; its files have the names.
            Symbolizer::new(&[], 0).and_process(asked.process).name_in(&mut dump.hang);
            dump.text().as_str().to_owned()
        }
        // The answer of another version, whose lines the library has escaped.
        Err(_) => {
            let path = asked.folder.join(DUMP_TEXT);
            files::read_text_in(&asked.folder, DUMP_TEXT).map_err(|error| Failure::at(&path, error))?
        }
    };
    print(|out| Ok(out.lines(text.trim_end().lines())?))
}

pub(crate) fn mark_ready(process: u32, limit: Duration) -> Result<(), Failure> {
    Asked::of(process)?.answer(Purpose::Ready, limit).map(drop)
}

/// Asks all these processes at once, and waits for their answers. A thread does, which the kernel may hold: it is left behind then.
pub(crate) fn ask_all(processes: Vec<u32>, purpose: Purpose, limit: Duration) {
    let until = Instant::now() + limit;
    let asks = move |_: &_| {
        // Another user may put another file in the place of one that is asked through.
        let is_own = |process: &u32| {
            fs::metadata(format!("/proc/{process}")).is_ok_and(|about| about.uid() == getuid().as_raw())
        };
        let mut asked = Vec::new();
        for process in processes.into_iter().filter(is_own).take_while(|_| Instant::now() < until) {
            let taken = Asked::of(process).ok().filter(|asked| asked.way.takes_requests());
            asked.extend(taken.and_then(|asked| Some((asked.raise(purpose).ok()?, asked))));
        }
        while !asked.is_empty() && Instant::now() < until {
            std::thread::sleep(POLL);
            asked.retain_mut(|(number, asked)| {
                *number = number.or_else(|| asked.raise(purpose).ok()?);
                asked.expect_alive().is_ok() && number.is_none_or(|number| !asked.has_answered(number))
            });
        }
    };
    drop(Beside::start("lazyguard-asks", limit, asks));
}

struct Asked {
    process: u32,
    started: u64,
    folder: PathBuf,
    way: Way,
}

/// The lowest two bits of a request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Report,
    /// It is ended after its answer.
    End,
    /// The process is ready: it reports later loads as hazards.
    Ready,
    /// It ends the work of its contexts (`LAZYGUARD_ON_HANG=fail`).
    Fail,
}

/// The least number with this purpose that is not smaller.
fn number_of(purpose: u64, least: u64) -> u64 {
    least.saturating_add(purpose.wrapping_sub(least) & 3)
}

enum Way {
    Recording { reads: File, writes: File },
    File(File),
}

impl Asked {
    fn of(process: u32) -> Result<Self, Failure> {
        let failure = |text: &str| Failure::Input(format!("process {process}: {text}"));
        let started = Status::of(process).started().ok_or_else(|| failure("there is no process with this id"))?;
        let maps = maps_of(process)?;
        // A file for requests is there only where the recording is not, but what the parent had mapped may be.
        let file = file_of(process, &maps, REQUEST).map(|file| (file, false));
        let recording = || Ok(recording_of(process, &maps)?.map(|recording| (recording, true)));
        let found: Option<_> = file.map_or_else(recording, |file| Ok::<_, Failure>(Some(file)))?;
        let (path, recorded) = found.ok_or_else(|| {
            failure(
                "does not take requests: it is not guarded, has not initialised CUDA, keeps no run folder, or has a LazyGuard that is \
                 older than this command",
            )
        })?;
        let folder = path.parent().filter(|_| !recorded || path.ends_with(RECORDING));
        let folder = folder.ok_or_else(|| failure("its run folder cannot be reached from here"))?.to_owned();
        let cannot = |error: io::Error| failure(&format!("{}: {error}", path.display()));
        let reads = files::open(&path).map_err(cannot)?;
        let way = match recorded {
            true => Way::Recording { writes: writable(&reads).map_err(cannot)?, reads },
            false => Way::File(reads),
        };
        Ok(Self { process, started, folder, way })
    }

    fn failure(&self, text: &str) -> Failure {
        Failure::Input(format!("process {}: {text}", self.process))
    }

    fn answer(&self, purpose: Purpose, limit: Duration) -> Result<String, Failure> {
        let begin = Instant::now();
        let cannot = |error: io::Error| self.failure(&format!("cannot be asked: {error}"));
        self.expect_alive()?;
        self.expect_requests_to_be_taken(begin, limit)?;
        let mut raised = None;
        loop {
            let there = self.way.number().map_err(cannot)?;
            // A command that takes no lock may have written a smaller number over this one.
            if raised.is_none_or(|number| there < number) {
                raised = raised.or(self.raise(purpose).map_err(cannot)?);
            }
            if let Some(number) = raised {
                // The process writes the answer before the number of the answer.
                let answered = self.way.word(header::ANSWERED).is_some_and(|answered| answered >= number);
                if let Some(answer) = self.read(number)? {
                    return Ok(answer);
                }
                if answered {
                    return Err(self.failure(&format!("could not write its answer to {}", self.folder.display())));
                }
            }
            if self.way.word(header::STATE) == Some(ProcessState::SteppedAside.number()) {
                return Err(self.failure("does not answer: the guard has stepped aside in it"));
            }
            self.expect_alive()?;
            if begin.elapsed() >= limit {
                let what = if raised.is_some() { "answered" } else { "answered another command" };
                return Err(self.failure(&format!("has not {what} within {limit:?}")));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Writes a request, and returns its number. `None` where the command has to try again: another one asks, or one number cannot have this purpose
    /// and that of a request which the process may not have read.
    fn raise(&self, purpose: Purpose) -> io::Result<Option<u64>> {
        let (Way::Recording { reads: file, .. } | Way::File(file)) = &self.way;
        let held = Locked::new(file.try_clone()?);
        let there = self.way.number()?;
        let unread = if self.has_answered(there) { 0 } else { there & 3 };
        let both = unread | purpose as u64;
        let says_another = is_last(both) && (purpose == Purpose::Ready || marks_ready(unread));
        let waits = says_another || matches!(held, Err((_, Errno::WOULDBLOCK)));
        (!waits).then(|| self.way.write(there, both)).transpose()
    }

    /// An answer to this request or a later one.
    fn read(&self, number: u64) -> Result<Option<String>, Failure> {
        let text = match files::read_text_in(&self.folder, DUMP) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::at(self.folder.join(DUMP), error)),
        };
        let answers = serde_json::from_str::<Value>(&text).ok().and_then(|answer| answer["request"].as_u64());
        Ok(answers.filter(|&answers| answers >= number).map(|_| text))
    }

    fn has_answered(&self, number: u64) -> bool {
        let answered = self.way.word(header::ANSWERED).map(|answered| answered >= number);
        answered.unwrap_or_else(|| !matches!(self.read(number), Ok(None)))
    }

    fn expect_alive(&self) -> Result<(), Failure> {
        match Status::of(self.process) {
            Status::Runs(since) if since == self.started => Ok(()),
            Status::Stopped(since) if since == self.started => Err(self.failure(
                "is stopped, by a signal or a debugger, and cannot answer; its recording can be read: lazyguard report",
            )),
            _ => {
                let folder = self.folder.display();
                Err(self.failure(&format!("has ended meanwhile; what it left can be read: lazyguard report {folder}")))
            }
        }
    }

    fn expect_requests_to_be_taken(&self, begin: Instant, limit: Duration) -> Result<(), Failure> {
        while self.way.word(header::ANSWERED) == Some(0) {
            if begin.elapsed() >= UNTIL_ANNOUNCED.min(limit) {
                // The guard's threads begin with the first call that may wait.
                let why = match self.way.word(header::LAST_SEEN) {
                    Some(0) => "has called nothing yet that submits, loads or waits, and has no thread that answers",
                    _ => "does not take requests: its LazyGuard is older than this command",
                };
                return Err(self.failure(&format!("{why}; lazyguard report reads its recording")));
            }
            self.expect_alive()?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Way {
    /// A word of the recording's header, or 0 where it cannot be read; `None` without a recording.
    fn word(&self, number: usize) -> Option<u64> {
        match self {
            Self::Recording { reads, .. } => Some(header_word(reads, number).unwrap_or(0)),
            Self::File(_) => None,
        }
    }

    fn number(&self) -> io::Result<u64> {
        match self {
            Self::Recording { reads, .. } => header_word(reads, header::ASKED),
            Self::File(file) => {
                let about = file.metadata()?;
                let nanos = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
                let number = u64::try_from(nanos).unwrap_or(0);
                // The time at which the file was made has no purpose.
                let is_asked =
                    about.accessed()?.duration_since(about.modified()?).is_ok_and(|after| after == ACCESSED_AFTER);
                Ok(if is_asked { number } else { number & !3 })
            }
        }
    }

    fn takes_requests(&self) -> bool {
        self.word(header::ANSWERED) != Some(0) && self.word(header::STATE) != Some(ProcessState::SteppedAside.number())
    }

    /// Writes a number that is greater than the one there, and returns it.
    fn write(&self, there: u64, purpose: u64) -> io::Result<u64> {
        /// The time step of a file system that counts in seconds, or in two.
        const COARSE: u64 = 2_000_000_000;
        let now = u64::try_from(unix_now().as_nanos()).unwrap_or(0);
        let number = number_of(purpose, now.max(there.saturating_add(1)));
        match self {
            Self::Recording { writes, .. } => {
                writes.write_all_at(&number.to_le_bytes(), (header::ASKED * layout::WORD) as u64)?;
                Ok(number)
            }
            Self::File(file) => {
                let set = |number: u64| {
                    let at = UNIX_EPOCH + Duration::from_nanos(number);
                    file.set_times(FileTimes::new().set_modified(at).set_accessed(at + ACCESSED_AFTER))
                };
                set(number)?;
                if self.number()? <= there {
                    set(number.saturating_add(COARSE))?;
                }
                self.number()
            }
        }
    }
}

/// The same file, open for writing: its owner makes a recording writable for a moment.
fn writable(file: &File) -> io::Result<File> {
    let itself = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut opened = files::open_to_write(&itself);
    // Another `lazyguard dump` may remove the write permission between these calls.
    for _ in 0..100 {
        if !matches!(&opened, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
            break;
        }
        let mode = file.metadata()?.permissions().mode();
        file.set_permissions(fs::Permissions::from_mode(mode | 0o200))?;
        opened = files::open_to_write(&itself);
        file.set_permissions(fs::Permissions::from_mode(mode & !0o222))?;
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::report::fails;
    use Purpose::{End, Fail, Ready, Report};

    #[test]
    fn the_number_of_a_request_has_its_purpose_and_is_the_least() {
        for least in 40..44 {
            for (purpose, expect) in [
                (Report, [false, false, false]),
                (End, [true, false, false]),
                (Ready, [false, false, true]),
                (Fail, [true, true, false]),
            ] {
                let number = number_of(purpose as u64, least);
                assert!((least..least + 4).contains(&number), "{purpose:?} {least}");
                assert_eq!([is_last(number), fails(number), marks_ready(number)], expect, "{purpose:?} {least}");
            }
        }
    }

    /// This process, asked through a recording or a file that no guard reads.
    struct Unread {
        folder: PathBuf,
        recorded: bool,
    }

    impl Unread {
        fn new(name: &str, recorded: bool) -> Self {
            let folder = format!("lazyguard-{name}-{recorded}-{}", std::process::id());
            let new = Self { folder: std::env::temp_dir().join(folder), recorded };
            fs::create_dir_all(&new.folder).unwrap();
            let file = File::create(new.folder.join(REQUEST)).unwrap();
            // Without a request: every bit of a purpose is there, and says nothing.
            file.set_modified(UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_003)).unwrap();
            if recorded {
                file.set_len(4096).unwrap();
                file.write_all_at(&1u64.to_le_bytes(), (header::ANSWERED * layout::WORD) as u64).unwrap();
            }
            new
        }

        /// As a command of its own sees it.
        fn asked(&self) -> Asked {
            let file = || File::options().read(true).write(true).open(self.folder.join(REQUEST)).unwrap();
            let way = if self.recorded { Way::Recording { reads: file(), writes: file() } } else { Way::File(file()) };
            let process = std::process::id();
            Asked { process, started: Status::of(process).started().unwrap(), folder: self.folder.clone(), way }
        }

        /// Does as the guard; returns the number that it has read.
        fn answers(&self) -> u64 {
            let Asked { way, .. } = self.asked();
            let (number, new) = (way.number().unwrap(), self.folder.join("new"));
            fs::write(&new, format!("{{\"request\": {number}}}")).unwrap();
            fs::rename(&new, self.folder.join(DUMP)).unwrap();
            if let Way::Recording { writes, .. } = way {
                writes.write_all_at(&number.to_le_bytes(), (header::ANSWERED * layout::WORD) as u64).unwrap();
            }
            number
        }
    }

    impl Drop for Unread {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    #[test]
    fn a_request_that_has_not_been_read_loses_no_purpose_to_another() {
        for recorded in [true, false] {
            for (first, second, both) in [
                (Report, Report, Some(Report)),
                (End, Report, Some(End)),
                (Report, End, Some(End)),
                (Fail, Report, Some(Fail)),
                (Fail, End, Some(Fail)),
                (End, Fail, Some(Fail)),
                (Ready, Report, Some(Ready)),
                (Report, Ready, Some(Ready)),
                (Ready, Ready, Some(Ready)),
                (Ready, End, None),
                (End, Ready, None),
                (Ready, Fail, None),
                (Fail, Ready, None),
            ] {
                let guard = Unread::new("two-ask", recorded);
                let (one, other) = (guard.asked(), guard.asked());
                let asked = one.raise(first).unwrap().expect("nobody else asks");
                assert_eq!(asked & 3, first as u64, "{first:?}: the file was made with other bits");
                let later = other.raise(second).unwrap();
                assert_eq!(later.map(|number| number & 3), both.map(|both| both as u64), "{first:?} {second:?}");
                assert_eq!(guard.answers(), later.unwrap_or(asked), "{first:?} {second:?}");
                // The process has read the first request.
                let later = other.raise(second).unwrap().expect("nothing is unread");
                assert_eq!((later > asked, later & 3), (true, second as u64), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn a_command_waits_while_another_one_asks() {
        let guard = Unread::new("one-asks", false);
        let held = Locked::new(File::open(guard.folder.join(REQUEST)).unwrap()).expect("nobody else has it");
        assert_eq!(guard.asked().raise(End).unwrap(), None);
        drop(held);
        assert!(guard.asked().raise(End).unwrap().is_some_and(is_last));
    }

    #[test]
    fn a_process_is_ready_when_it_has_read_that_behind_what_was_asked_before() {
        let guard = Unread::new("ready", false);
        let end = guard.asked().raise(End).unwrap();
        let failure = guard.asked().answer(Ready, Duration::from_millis(50)).unwrap_err();
        assert!(format!("{failure:?}").contains("has not answered another command within 50ms"), "{failure:?}");
        let asks = std::thread::spawn({
            let asked = guard.asked();
            move || asked.answer(Ready, Duration::from_secs(20)).unwrap()
        });
        assert_eq!(Some(guard.answers()), end);
        while !marks_ready(guard.asked().way.number().unwrap()) {
            std::thread::sleep(POLL);
        }
        let ready = guard.answers();
        let answer: Value = serde_json::from_str(&asks.join().unwrap()).unwrap();
        assert_eq!(answer["request"].as_u64(), Some(ready));
    }
}
