//! Names for return addresses: `program+0x1234 (symbol, file.c:12)`, and for a call in an inlined function
//! `program+0x1234 (inlined, file.h:3; in symbol, file.c:12)`.
//!
//! Which file lay at an address is told by the recording, and, as long as the process lives, by `/proc/PID/maps`. What is at
//! that place in the file is told by the file itself, unless it was written to since: then it would tell of something else.
//!
//! Must not: fail. A file that is missing, changed or unreadable costs the names and nothing else.

use crate::files;
use addr2line::{Loader, Location};
use lazyguard_core::report::demangle;
use lazyguard_core::stack::{modules, Module};
use lazyguard_core::trace::read::FileSeen;
use std::collections::HashMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Addresses whose names are kept; a program has fewer places from which it calls the driver.
const MOST_KEPT: usize = 1 << 16;

/// Functions named for one address: a call may lie in several, one put into the other.
const MOST_FRAMES: usize = 4;

/// A file of code, and where it lay.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    begin: u64,
    end: u64,
    /// What has to be added to an address of the file to get the one in memory.
    bias: u64,
    path: String,
    /// Until when the file must not have been written to, in nanoseconds since 1970; 0 where it is the one that is mapped.
    written_before: u64,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    /// The file, as the program's debug information names it.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Symbolizer {
    ranges: Vec<Range>,
    files: HashMap<String, Option<Loader>>,
    names: HashMap<u64, Option<Box<str>>>,
}

impl Symbolizer {
    /// What lay where, by a recording's texts, the newest first; `armed_unix_nanos` is when its times begin.
    pub fn new(files: &[FileSeen], armed_unix_nanos: u64) -> Self {
        let ranges = files.iter().rev().map(|file| Range {
            begin: file.begin,
            end: file.end,
            bias: file.bias,
            path: file.path.clone(),
            written_before: armed_unix_nanos.saturating_add(file.at).max(1),
        });
        Self { ranges: ranges.collect(), ..Self::default() }
    }

    /// Also what lies where in a process that is alive, for what was loaded after the recording's texts were made.
    pub fn and_process(mut self, process: u32) -> Self {
        let maps = files::read(format!("/proc/{process}/maps")).unwrap_or_default();
        self.ranges.extend(mapped(&String::from_utf8_lossy(&maps)));
        self
    }

    /// The name of a return address; `None` where not even the file is known.
    pub fn name(&mut self, address: u64) -> Option<&str> {
        if address == 0 {
            return None;
        }
        if self.names.len() >= MOST_KEPT && !self.names.contains_key(&address) {
            self.names.clear();
        }
        let Self { ranges, files, names } = self;
        names
            .entry(address)
            .or_insert_with(|| {
                let range = ranges.iter().find(|range| (range.begin..range.end).contains(&address))?;
                let file = files.entry(range.path.clone()).or_insert_with(|| load(range));
                Some(written(range, file.as_ref(), address).into())
            })
            .as_deref()
    }

    /// The same, or the bare address.
    pub fn name_or_address(&mut self, address: u64) -> String {
        self.name(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    /// The line of source of the call that returns to an address: that of the innermost function, where its file tells it.
    pub fn line(&mut self, address: u64) -> Option<SourceLine> {
        let range = self.ranges.iter().find(|range| (range.begin..range.end).contains(&address))?;
        let file = self.files.entry(range.path.clone()).or_insert_with(|| load(range)).as_ref()?;
        let at = file.find_location(address.wrapping_sub(range.bias).checked_sub(1)?).ok()??;
        Some(SourceLine { file: at.file?.into(), line: at.line.filter(|line| *line > 0)? })
    }
}

fn written(range: &Range, file: Option<&Loader>, address: u64) -> String {
    let within = address.wrapping_sub(range.bias);
    let module = Path::new(&range.path).file_name().map_or(range.path.as_str().into(), |name| name.to_string_lossy());
    let place = format!("{module}+{within:#x}");
    // The call is what lies before the address it returns to.
    let Some((file, call)) = file.zip(within.checked_sub(1)) else { return place };
    let mut at = frames(file, call);
    if at.is_empty() {
        let line = file.find_location(call).ok().flatten().and_then(line);
        at.extend(
            file.find_symbol(call).map(demangle).into_iter().chain(line).reduce(|symbol, line| symbol + ", " + &line),
        );
    }
    match at.is_empty() {
        true => place,
        false => format!("{place} ({})", at.join("; in ")),
    }
}

/// The function that holds an address, and before it those that were put into it in place of their calls, innermost first.
fn frames(file: &Loader, address: u64) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(mut frames) = file.find_frames(address) else { return found };
    while let (Ok(Some(frame)), true) = (frames.next(), found.len() < MOST_FRAMES) {
        let Some(name) = frame.function.as_ref().and_then(|function| function.raw_name().ok()) else { break };
        let name = demangle(&name);
        found.push(frame.location.and_then(line).map_or_else(|| name.clone(), |line| format!("{name}, {line}")));
    }
    found
}

fn line(at: Location<'_>) -> Option<String> {
    Some(format!("{}:{}", at.file?, at.line?))
}

/// The file's names, if it is still the file that was mapped.
fn load(range: &Range) -> Option<Loader> {
    // The reader opens the path by itself, and would wait at a FIFO.
    let modified = files::open(&range.path).and_then(|file| file.metadata()?.modified()).ok()?;
    if range.written_before != 0 && modified > UNIX_EPOCH + Duration::from_nanos(range.written_before) {
        return None;
    }
    Loader::new(&range.path).ok()
}

/// The files of code in a process's memory. A program that is not position-independent lies at the addresses that it names
/// itself.
fn mapped(maps: &str) -> impl Iterator<Item = Range> {
    modules(maps).into_iter().flat_map(|Module { base, path, code, .. }| {
        let bias = if has_own_addresses(Path::new(&path)) { 0 } else { base };
        code.into_iter().map(move |(begin, end)| Range { begin, end, bias, path: path.clone(), written_before: 0 })
    })
}

/// Whether a file is a program with fixed addresses: type `ET_EXEC` in its ELF header.
fn has_own_addresses(path: &Path) -> bool {
    const TYPE_AT: u64 = 16;
    const EXECUTABLE: u16 = 2;
    let mut kind = [0; 2];
    files::open(path).is_ok_and(|file| file.read_exact_at(&mut kind, TYPE_AT).is_ok())
        && u16::from_le_bytes(kind) == EXECUTABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::stack::own_maps;

    /// This test program, as a recording would tell of it.
    fn own_file(at: u64) -> (FileSeen, u64) {
        let maps = own_maps();
        let path = std::env::current_exe().unwrap().display().to_string();
        let range = mapped(&maps).find(|range| range.path == path).unwrap();
        (FileSeen { at, begin: range.begin, end: range.end, bias: range.bias, path }, range.begin)
    }

    fn address_of_this_function() -> u64 {
        own_file as fn(u64) -> (FileSeen, u64) as usize as u64
    }

    const LATE: u64 = 8_000_000_000_000_000_000;

    #[test]
    fn a_return_address_is_named_by_file_symbol_and_line() {
        let (file, _) = own_file(0);
        let mut callers = Symbolizer::new(std::slice::from_ref(&file), LATE);
        let address = address_of_this_function() + 1;
        let name = callers.name(address).unwrap().to_owned();
        let module = Path::new(&file.path).file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{module}+{:#x} (", address - file.bias)), "{name}");
        assert!(name.contains("own_file") && name.contains("symbolize.rs:"), "{name}");
        let line = callers.line(address).unwrap();
        assert!(
            line.file.ends_with("cli/src/symbolize.rs") && name.contains(&format!(":{})", line.line)),
            "{line:?} {name}"
        );
        let mut live = Symbolizer::new(&[], 0).and_process(std::process::id());
        assert_eq!(live.name(address), Some(name.as_str()));
    }

    #[test]
    fn a_file_that_was_written_to_since_or_is_gone_costs_the_names_only() {
        let (file, begin) = own_file(0);
        let changed = Symbolizer::new(std::slice::from_ref(&file), 1).name_or_address(address_of_this_function());
        assert!(changed.contains("+0x") && !changed.contains('('), "{changed}");
        assert_eq!(Symbolizer::new(std::slice::from_ref(&file), 1).line(address_of_this_function() + 1), None);
        let gone = FileSeen { path: "/no/such/program".to_owned(), ..file };
        let mut callers = Symbolizer::new(&[gone], LATE);
        assert_eq!(callers.name_or_address(begin + 16), format!("program+{:#x}", begin + 16 - own_file(0).0.bias));
        assert_eq!(callers.name_or_address(7), "0x7");
    }

    #[test]
    fn the_newest_file_at_an_address_is_the_one_that_counts() {
        let file = |path: &str, at| FileSeen { at, begin: 0x1000, end: 0x2000, bias: 0x1000, path: path.to_owned() };
        let mut callers = Symbolizer::new(&[file("/lib/old.so", 1), file("/lib/new.so", 2)], 0);
        assert_eq!(callers.name(0x1010), Some("new.so+0x10"));
        assert_eq!(callers.name(0x2000), None);
    }

    #[test]
    fn names_are_kept_up_to_a_bound() {
        let file = FileSeen { at: 0, begin: 0, end: u64::MAX, bias: 0, path: "/lib/a.so".to_owned() };
        let mut callers = Symbolizer::new(&[file], 0);
        for address in 0..MOST_KEPT as u64 + 10 {
            callers.name(address);
        }
        assert!(callers.names.len() <= MOST_KEPT);
        assert_eq!(callers.name(5), Some("a.so+0x5"));
    }
}
