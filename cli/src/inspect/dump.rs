//! Asks a guarded process for a report now. The process writes the report itself: no thread of it is stopped, signalled or traced.
//!
//! Protocol: a request is a number: the time in nanoseconds since 1970, or one above the number there if that is greater. It goes into a word of
//! the recording's header (`docs/TRACE_FORMAT.md`) or, without a recording in a file, into the modification time of an empty file. The answer
//! is `dump.json` in the run folder, with a number that is not smaller. The number's lowest bits are the purpose ([`number_of`]).
//!
//! Must not: write anything else, or wait longer than the limit it was given.

use crate::folder::{file_of, header_word, maps_of, recording_of, Status, RECORDING};
use crate::machine::{files, unix_now, Beside};
use crate::stacks::Symbolizer;
use crate::words::{print, Failure, Format, Outcome};
use lazyguard_core::report::{marks_ready, DumpReport};
use lazyguard_core::run_folder::file::{DUMP, DUMP_TEXT, REQUEST};
use lazyguard_core::trace::layout::{self, header};
use lazyguard_core::trace::ProcessState;
use rustix::process::getuid;
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The interval at which the command looks for the answer. The process looks for requests ten times a second.
const POLL: Duration = Duration::from_millis(10);
/// A process that has just been armed takes requests within this time.
const UNTIL_ANNOUNCED: Duration = Duration::from_secs(2);

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
            asked.extend(taken.and_then(|asked| Some((asked.way.raise(0, purpose).ok()?, asked))));
        }
        while !asked.is_empty() && Instant::now() < until {
            std::thread::sleep(POLL);
            asked.retain(|(number, asked)| asked.expect_alive().is_ok() && !asked.has_answered(*number));
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
fn number_of(purpose: Purpose, least: u64) -> u64 {
    least.saturating_add((purpose as u64).wrapping_sub(least) & 3)
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
        let mut number = self.way.raise(0, purpose).map_err(cannot)?;
        loop {
            // The process writes the answer before the number of the answer.
            let answered = self.way.word(header::ANSWERED).is_some_and(|answered| answered >= number);
            match self.read(number)? {
                // The process has read the number of another request, written over this one, which did not say that it is ready.
                Some((read, _)) if purpose == Purpose::Ready && !marks_ready(read) => {
                    number = self.way.raise(number, purpose).map_err(cannot)?;
                }
                Some((_, answer)) => return Ok(answer),
                None if answered => {
                    return Err(self.failure(&format!("could not write its answer to {}", self.folder.display())))
                }
                None => {}
            }
            if self.way.word(header::STATE) == Some(ProcessState::SteppedAside.number()) {
                return Err(self.failure("does not answer: the guard has stepped aside in it"));
            }
            self.expect_alive()?;
            if begin.elapsed() >= limit {
                return Err(self.failure(&format!("has not answered within {limit:?}")));
            }
            // Another request at the same time may have written a smaller number over this one.
            if self.way.number().map_err(cannot)? < number {
                self.way.raise(number, purpose).map_err(cannot)?;
            }
            std::thread::sleep(POLL);
        }
    }

    /// An answer to this request or a later one, behind the number of that.
    fn read(&self, number: u64) -> Result<Option<(u64, String)>, Failure> {
        let text = match files::read_text_in(&self.folder, DUMP) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::at(self.folder.join(DUMP), error)),
        };
        let answers = serde_json::from_str::<Value>(&text).ok().and_then(|answer| answer["request"].as_u64());
        Ok(answers.filter(|&answers| answers >= number).map(|answers| (answers, text)))
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
                Ok(u64::try_from(nanos).unwrap_or(0))
            }
        }
    }

    fn takes_requests(&self) -> bool {
        self.word(header::ANSWERED) != Some(0) && self.word(header::STATE) != Some(ProcessState::SteppedAside.number())
    }

    fn raise(&self, least: u64, purpose: Purpose) -> io::Result<u64> {
        /// The time step of a file system that counts in seconds, or in two.
        const COARSE: u64 = 2_000_000_000;
        let there = self.number()?;
        let now = u64::try_from(unix_now().as_nanos()).unwrap_or(0);
        let number = number_of(purpose, now.max(least).max(there.saturating_add(1)));
        match self {
            Self::Recording { writes, .. } => {
                writes.write_all_at(&number.to_le_bytes(), (header::ASKED * layout::WORD) as u64)?;
                Ok(number)
            }
            Self::File(file) => {
                file.set_modified(UNIX_EPOCH + Duration::from_nanos(number))?;
                if self.number()? <= there {
                    file.set_modified(UNIX_EPOCH + Duration::from_nanos(number.saturating_add(COARSE)))?;
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
    use lazyguard_core::report::{fails, is_last};

    #[test]
    fn the_number_of_a_request_has_its_purpose_and_is_the_least() {
        for least in 40..44 {
            for (purpose, expect) in [
                (Purpose::Report, [false, false, false]),
                (Purpose::End, [true, false, false]),
                (Purpose::Ready, [false, false, true]),
                (Purpose::Fail, [true, true, false]),
            ] {
                let number = number_of(purpose, least);
                assert!((least..least + 4).contains(&number), "{purpose:?} {least}");
                assert_eq!([is_last(number), fails(number), marks_ready(number)], expect, "{purpose:?} {least}");
            }
        }
    }

    /// Two commands ask at once, and the process looks when the later one's number is there.
    #[test]
    fn a_process_is_ready_only_when_it_has_read_that() {
        let folder = std::env::temp_dir().join(format!("lazyguard-two-ask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = File::create(folder.join(REQUEST)).unwrap();
        let process = std::process::id();
        let started = Status::of(process).started().unwrap();
        let asked =
            |file: &File| Asked { process, started, folder: folder.clone(), way: Way::File(file.try_clone().unwrap()) };
        let (one, guard) = (asked(&file), asked(&file));
        let begin = guard.way.number().unwrap();
        let answers = std::thread::spawn(move || {
            let mut before = begin;
            for overwrites in [true, false] {
                while guard.way.number().unwrap() == before {
                    std::thread::sleep(POLL);
                }
                before = guard.way.number().unwrap();
                if overwrites {
                    before = guard.way.raise(0, Purpose::Report).unwrap();
                }
                let new = guard.folder.join("new");
                fs::write(&new, format!("{{\"request\": {before}}}")).unwrap();
                fs::rename(&new, guard.folder.join(DUMP)).unwrap();
            }
            before
        });
        let answer: Value =
            serde_json::from_str(&one.answer(Purpose::Ready, Duration::from_secs(20)).unwrap()).unwrap();
        let request = answer["request"].as_u64().unwrap();
        assert!(marks_ready(request), "{request}");
        assert_eq!(answers.join().unwrap(), request);
        fs::remove_dir_all(&folder).unwrap();
    }
}
