//! Standard output and standard error. All output of the command passes through here.
//!
//! Each line for a person passes [`one_line`]: a foreign name can neither start a line nor command a terminal or a CI system. So [`Output`]
//! is no [`io::Write`], and [`write_line!`] takes the place of `writeln!`. `clippy.toml` forbids the standard library's functions elsewhere.

use super::failure::{Failure, Outcome};
use lazyguard_core::report::{one_line, Block, MARK};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::retry_on_intr;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Output<'a> {
    out: BufWriter<Box<dyn Write + 'a>>,
    line: String,
}

/// Writes one line: `write_line!(out, "format", arguments)`.
macro_rules! write_line {
    ($out:expr, $($arguments:tt)+) => { $out.line(format_args!($($arguments)+)) };
}
pub(crate) use write_line;

impl<'a> Output<'a> {
    /// Standard output. Its text is complete after [`Output::flush`].
    #[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
    pub fn standard() -> Output<'static> {
        Output::to(io::stdout().lock())
    }

    #[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
    pub fn standard_error() -> Output<'static> {
        Output::to(io::stderr())
    }

    pub fn to(out: impl Write + 'a) -> Self {
        Self { out: BufWriter::with_capacity(1 << 18, Box::new(out)), line: String::new() }
    }

    pub fn line(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.line.clear();
        // A `String` takes everything.
        let _ = fmt::write(&mut self.line, text);
        self.out.write_all(one_line(&self.line).as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// For text with escapes of its own (JSON, XML, CI annotations), and text compiled into this command.
    pub fn raw(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    pub fn lines(&mut self, lines: impl IntoIterator<Item: fmt::Display>) -> io::Result<()> {
        lines.into_iter().try_for_each(|line| self.line(format_args!("{line}")))
    }

    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        writeln!(self.out, "{:#}", serde_json::json!(value))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints to standard output, as far as that comes.
pub(crate) fn printed(print: impl FnOnce(&mut Output<'_>) -> Outcome) -> Outcome {
    let mut out = Output::standard();
    let outcome = print(&mut out);
    out.flush()?;
    outcome
}

/// The same of what has one exit code.
pub(crate) fn print(print: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>) -> Outcome {
    printed(|out| print(out).map(|()| ExitCode::SUCCESS))
}

/// Writes a line on standard error in this command's name. A failed write cannot be reported anywhere.
pub(crate) fn say(text: impl fmt::Display) {
    write_soon(Block::marked([text.to_string()]).as_str());
}

/// Writes finished lines on standard error: each is either [`said`], or an annotation in the escapes of its CI system.
pub(crate) fn say_lines<'a>(lines: impl IntoIterator<Item = &'a String>) {
    lines.into_iter().for_each(|line| write_soon(&format!("{line}\n")));
}

/// Standard error may be a full pipe without a reader. After a second this command drops the line, because it has to end. The run's folder has the
/// facts.
const ROOM_WITHIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// A write up to this size does not block where `poll` has found room (pipe(7)). The program shares the descriptor, which stays as it is.
pub(crate) const AT_ONCE: usize = 4096;

#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
fn write_soon(text: &str) {
    static IS_FULL: AtomicBool = AtomicBool::new(false);
    let mut out = io::stderr();
    for part in text.as_bytes().chunks(AT_ONCE) {
        // After one wait in vain, a line goes where there is room by then.
        let time = if IS_FULL.load(Ordering::Relaxed) { Timespec::default() } else { ROOM_WITHIN };
        let found = retry_on_intr(|| poll(&mut [PollFd::new(&out, PollFlags::OUT)], Some(&time)));
        IS_FULL.store(found == Ok(0), Ordering::Relaxed);
        if found == Ok(0) || out.write_all(part).is_err() {
            return;
        }
    }
}

/// A line as [`say`] writes it, for later.
pub(crate) fn said(text: &str) -> String {
    one_line(&format!("{MARK}{text}")).into_owned()
}

/// A progress line on a terminal's standard error. Elsewhere it is a line a minute: a CI system may end a job that says nothing.
pub(crate) struct Progress {
    is_shown: bool,
    is_terminal: bool,
    said: Instant,
}

const PAUSE: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
impl Progress {
    pub fn new() -> Self {
        Self { is_shown: false, is_terminal: io::stderr().is_terminal(), said: Instant::now() }
    }

    pub fn tell(&mut self, text: impl fmt::Display) {
        if self.is_terminal {
            self.is_shown = true;
            // A lost progress line is harmless.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        } else if self.is_due(Instant::now()) {
            say(text);
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.said) >= PAUSE;
        self.said = if is_due { now } else { self.said };
        is_due
    }

    /// Clears the progress, before a line that stays.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_progress_is_a_line_a_minute() {
        let begin = Instant::now();
        let mut progress = Progress { is_shown: false, is_terminal: false, said: begin };
        let due = [1, 59, 61, 62, 120, 122].map(|seconds| progress.is_due(begin + Duration::from_secs(seconds)));
        assert_eq!(due, [false, false, true, false, false, true]);
    }

    #[test]
    fn a_line_is_one_line_whatever_is_in_it() {
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        write_line!(out, "of {}", "a\n::error::x\u{1b}[2J").unwrap();
        write_line!(out, "{} (process 1)", "::error::x").unwrap();
        out.raw().write_all(b"{}\n").unwrap();
        out.flush().unwrap();
        drop(out);
        assert_eq!(String::from_utf8(bytes).unwrap(), "of a\\n::error::x\\x1b[2J\n\\x3a:error::x (process 1)\n{}\n");
        assert_eq!(said("a\nb"), "lazyguard: a\\nb");
    }
}
