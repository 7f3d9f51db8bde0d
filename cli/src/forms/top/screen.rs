//! The terminal: another screen, and keys without a line's end. Ctrl-C and Ctrl-Z stay signals; the terminal is put back at each of them, and
//! before a panic's message.
//!
//! Must not: write a line that was not escaped before; or wait without looking at signals.

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const POLL: Duration = Duration::from_millis(100);

static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Time,
    /// The terminal has another size, or is ours again.
    Redraw,
    Quit,
}

pub(crate) struct Screen {
    terminal: Arc<OwnedFd>,
    ends: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = Arc::new(rustix::fs::open("/dev/tty", flags, Mode::empty())?);
        let flag = || Arc::new(AtomicBool::new(false));
        let screen = Self { terminal, ends: flag(), stops: flag(), resized: flag() };
        let Self { ends, stops, resized, .. } = &screen;
        let signals = [(SIGINT, ends), (SIGTERM, ends), (SIGHUP, ends), (SIGTSTP, stops)];
        for (signal, flag) in signals.into_iter().chain([(SIGCONT, resized), (SIGWINCH, resized)]) {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        let (before, terminal) = (std::panic::take_hook(), Arc::clone(&screen.terminal));
        std::panic::set_hook(Box::new(move |panic| {
            put_back(&terminal);
            before(panic);
        }));
        screen.take()?;
        Ok(screen)
    }

    fn take(&self) -> io::Result<()> {
        let before = tcgetattr(&self.terminal)?;
        let mut now = before.clone();
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        now.special_codes[SpecialCodeIndex::VMIN] = 0;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(&self.terminal, OptionalActions::Flush, &now)?;
        write(&self.terminal, ENTER.as_bytes())
    }

    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    pub fn show(&self, lines: &[String], height: usize) -> io::Result<()> {
        let mut text = Vec::from("\x1b[H");
        let room = height.saturating_sub(1);
        for line in lines.iter().take(room) {
            write!(text, "{line}\x1b[K\r\n")?;
        }
        let more = lines.len().saturating_sub(room);
        let more = if more > 0 { format!("{more} more lines; ") } else { String::new() };
        write!(text, "\x1b[J\x1b[{height};1H{more}q quits")?;
        write(&self.terminal, &text)
    }

    pub fn wait(&self, time: Duration) -> io::Result<Event> {
        let begin = Instant::now();
        loop {
            if self.ends.load(Ordering::Relaxed) {
                return Ok(Event::Quit);
            }
            if self.stops.swap(false, Ordering::Relaxed) {
                put_back(&self.terminal);
                emulate_default_handler(SIGTSTP)?;
                self.take()?;
                return Ok(Event::Redraw);
            }
            if self.resized.swap(false, Ordering::Relaxed) {
                return Ok(Event::Redraw);
            }
            let left = time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(Event::Time);
            }
            // Ctrl-C and Ctrl-D as keys: a terminal need not make a signal of the one, and without lines the other ends nothing.
            if let Some(b'q' | b'Q' | 3 | 4) = self.key(left.min(POLL))? {
                return Ok(Event::Quit);
            }
        }
    }

    fn key(&self, within: Duration) -> io::Result<Option<u8>> {
        let time = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut ready, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut key = [0];
        match rustix::io::read(&self.terminal, &mut key) {
            Ok(1) => Ok(Some(key[0])),
            // Ready, and nothing there: the terminal has gone.
            Ok(_) => Ok(Some(4)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put_back(&self.terminal);
    }
}

/// Puts the terminal back, unless that has been done. A terminal that cannot be put back is gone.
fn put_back(terminal: &OwnedFd) {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = write(terminal, LEAVE.as_bytes());
        let _ = tcsetattr(terminal, OptionalActions::Drain, &before);
    }
}

fn write(terminal: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[retry_on_intr(|| rustix::io::write(terminal, bytes))?..];
    }
    Ok(())
}
