//! Names for return addresses: `program+0x1234 (symbol, file.c:12)`, and in an inlined function
//! `program+0x1234 (inlined, file.h:3; in symbol, file.c:12)`. The recording and `/proc/PID/maps` say which file was mapped there.
//!
//! Must not: fail: a missing, changed or unreadable file costs its names and nothing else. Nor answer from a file other than the mapped one: the build id of
//! a dump decides; without one, a file of this machine must not have been changed since, and a file of another machine has no names.

use super::dump::Module as CodeModule;
use super::files::CodeFile;
use super::names::{functions, loader};
use crate::machine::files;
use lazyguard_core::report::{demangle, FrameSeen, HangReport};
use lazyguard_core::stack::{has_fixed_addresses, modules, Module, HEAD_BYTES};
use lazyguard_core::trace::read::{FileSeen, StringTable};
use lazyguard_core::trace::Record;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Addresses whose names are kept; a program has fewer places from which it calls the driver.
const MOST_KEPT: usize = 1 << 16;

const MOST_WRITTEN: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    begin: u64,
    end: u64,
    bias: u64,
    path: String,
    /// The file must not have been modified later than this, in nanoseconds since 1970; 0 for the mapped file itself.
    written_before: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub file: PathBuf,
    pub line: u32,
}

#[derive(Default)]
pub(crate) struct Symbolizer {
    ranges: Vec<Range>,
    /// The files whose build ids are known.
    modules: Vec<CodeModule>,
    /// Whether the mappings are those of a process of another machine.
    is_elsewhere: bool,
    names: HashMap<u64, Option<Box<str>>>,
    /// Callers behind a runtime, by path, outermost caller and kernel.
    callers: HashMap<(u16, u64, u32), u64>,
}

impl Symbolizer {
    /// The mappings in a recording's texts, the newest first; `armed_unix_nanos` is when its times begin.
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

    /// Adds the files of a dump, and whether all of this is of another machine.
    pub fn and_files(self, modules: Vec<CodeModule>, is_elsewhere: bool) -> Self {
        Self { modules, is_elsewhere, ..self }
    }

    /// Adds the mappings of a live process, which come before those that it has recorded: its files are those of its own root.
    pub fn and_process(self, process: u32) -> Self {
        let maps = files::read_lossy(files::about_memory(process, "maps")).unwrap_or_default();
        let ranges = mapped(&maps, |path| as_mapped(process, path)).chain(self.ranges).collect();
        Self { ranges, ..self }
    }

    /// The name of a return address; `None` where not even the file is known.
    pub fn name(&mut self, address: u64) -> Option<&str> {
        if address == 0 {
            return None;
        }
        if self.names.len() >= MOST_KEPT && !self.names.contains_key(&address) {
            self.names.clear();
        }
        if !self.names.contains_key(&address) {
            self.names.insert(address, written(&self.frames(address)).map(Into::into));
        }
        self.names[&address].as_deref()
    }

    /// The functions at the call that returns to an address in a mapping, if its file is still the one that was mapped.
    fn functions_in(&self, range: &Range, address: u64) -> Vec<FrameSeen> {
        let call = address.wrapping_sub(1);
        // A live process's file may be named by its root.
        let is_it =
            |module: &&CodeModule| (module.base..module.end).contains(&call) && range.path.ends_with(&module.path);
        if let Some(module) = self.modules.iter().find(is_it) {
            let file = CodeFile::of(module);
            return file.names(call.wrapping_sub(file.bias(module.base)));
        }
        let before = (range.written_before != 0).then(|| UNIX_EPOCH + Duration::from_nanos(range.written_before));
        let file = loader(Path::new(&range.path), before).filter(|_| !self.is_elsewhere || before.is_none());
        let call = address.wrapping_sub(range.bias).checked_sub(1);
        file.zip(call).map(|(file, call)| functions(&file, call)).unwrap_or_default()
    }

    /// The functions that hold the call that returns to an address, the innermost inlined one first. Empty if not even the file is known.
    pub fn frames(&self, address: u64) -> Vec<FrameSeen> {
        let Some(range) = self.ranges.iter().find(|range| (range.begin..range.end).contains(&address)) else {
            return Vec::new();
        };
        let (offset, found) = (address.wrapping_sub(range.bias), self.functions_in(range, address));
        let place = FrameSeen { address, module: module(&range.path).to_string(), offset, ..FrameSeen::default() };
        at_place(found, &place)
    }

    /// The frame of a return address that counts as the program's: a call in an inlined function of the runtime, or of nvcc's.
    fn frame(&self, address: u64, kernels: &[String]) -> Option<FrameSeen> {
        let frames = self.frames(address);
        frames.iter().find(|frame| frame.is_own(kernels)).or(frames.first()).cloned()
    }

    /// The return address of a record's call in the program's own code, behind a CUDA runtime; without one, as the record has it.
    pub fn caller(&mut self, record: &Record, texts: &StringTable) -> u64 {
        let Record { path, caller, function, .. } = *record;
        if path == 0 {
            return caller;
        }
        if let Some(known) = self.callers.get(&(path, caller, function)) {
            return *known;
        }
        let kernel = texts.function(function, record.meant_at()).and_then(|function| function.name);
        let own = self.caller_by(texts.path(path), caller, kernel.map(demangle));
        self.callers.insert((path, caller, function), own);
        own
    }

    /// The same by the path's addresses; `kernel`: as it is demangled.
    pub fn caller_by(&self, path: &[u64], caller: u64, kernel: Option<String>) -> u64 {
        if path.is_empty() {
            return caller;
        }
        let kernels: Vec<_> = kernel.into_iter().collect();
        let addresses = path.iter().copied().chain([caller]);
        let frames: Vec<_> = addresses.filter_map(|address| self.frame(address, &kernels)).collect();
        let own = FrameSeen::program_s(&frames.iter().collect::<Vec<_>>(), &kernels, |_| false);
        own.map_or(caller, |own| own.address)
    }

    /// Names the addresses of a report: calls, launches, host functions, and frames without names.
    pub fn name_in(&self, hang: &mut HangReport) {
        let ((calls, functions), kernels) = (hang.addresses(), hang.kernels());
        // A function is named by its first instruction, and a call by what lies before the address it returns to.
        let both = calls.into_iter().map(|call| (call, 0)).chain(functions.into_iter().map(|function| (function, 1)));
        for (address, before) in both {
            let Some(own) = self.frame(address.wrapping_add(before), &kernels) else { continue };
            let place = FrameSeen { address, offset: own.offset.wrapping_sub(before), inlined: false, ..own };
            match hang.places.iter_mut().find(|known| known.address == address) {
                Some(known) if place.function.is_some() || known.module.is_empty() => *known = place,
                Some(_) => {}
                None => hang.places.push(place),
            }
        }
        for stack in &mut hang.stacks {
            let is_named = |frame: &FrameSeen| frame.function.is_some();
            if !stack.frames.iter().any(is_named) {
                let named = stack.frames.iter().flat_map(|frame| match self.frames(frame.address) {
                    found if found.iter().any(is_named) => found,
                    _ => vec![frame.clone()],
                });
                stack.frames = named.collect();
            }
        }
    }

    /// The program's line of source of the call that returns to an address, where its file has it.
    pub fn line(&self, address: u64, kernel: Option<&str>) -> Option<SourceLine> {
        let FrameSeen { file, line, .. } =
            self.frame(address, &kernel.map(demangle).into_iter().collect::<Vec<_>>())?;
        Some(SourceLine { file: file?.into(), line: line.filter(|line| *line > 0)? })
    }
}

/// The functions of one address as frames of a stack: the last has the others inlined. Without any, the place alone.
pub(crate) fn at_place(mut functions: Vec<FrameSeen>, place: &FrameSeen) -> Vec<FrameSeen> {
    if functions.is_empty() {
        functions.push(FrameSeen::default());
    }
    let last = functions.len() - 1;
    let frames = functions.into_iter().enumerate();
    let placed = |(number, FrameSeen { function, file, line, .. })| FrameSeen {
        function,
        file,
        line,
        inlined: number < last,
        ..place.clone()
    };
    frames.map(placed).collect()
}

fn module(path: &str) -> std::borrow::Cow<'_, str> {
    Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy())
}

fn written(frames: &[FrameSeen]) -> Option<String> {
    let FrameSeen { module, offset, .. } = frames.first()?;
    let known = frames.iter().take(MOST_WRITTEN).filter_map(|frame| {
        let line = frame.file.as_ref().zip(frame.line).map(|(file, line)| format!("{file}:{line}"));
        frame.function.clone().into_iter().chain(line).reduce(|function, line| function + ", " + &line)
    });
    let known = known.collect::<Vec<_>>().join("; in ");
    Some(match known.is_empty() {
        true => format!("{module}+{offset:#x}"),
        false => format!("{module}+{offset:#x} ({known})"),
    })
}

/// The path of a file that a process has mapped: its own name, unless that is another file in the process's mount namespace.
fn as_mapped(process: u32, path: String) -> String {
    let in_its_root = format!("/proc/{process}/root{path}");
    let same = |path: &str| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    match same(&path) == same(&in_its_root) {
        true => path,
        false => in_its_root,
    }
}

/// A program that is not position-independent lies at the addresses that it names itself.
fn mapped(maps: &str, file: impl Fn(String) -> String) -> impl Iterator<Item = Range> {
    modules(maps).into_iter().flat_map(move |Module { base, path, code, .. }| {
        let path = file(path);
        let bias = if is_fixed(Path::new(&path)) { 0 } else { base };
        code.into_iter().map(move |(begin, end)| Range { begin, end, bias, path: path.clone(), written_before: 0 })
    })
}

fn is_fixed(path: &Path) -> bool {
    let mut head = [0; HEAD_BYTES];
    files::open(path).is_ok_and(|file| file.read_exact_at(&mut head, 0).is_ok()) && has_fixed_addresses(&head)
}

#[cfg(test)]
mod tests {
    use super::super::names::readable;
    use super::*;
    use lazyguard_core::diagnose::{HostFunctionSeen, Snapshot};
    use lazyguard_core::report::{PreloadSummary, StackSeen};
    use lazyguard_core::stack::own_maps;

    #[test]
    fn names_are_those_of_the_source() {
        for (name, expect) in [
            ("_ZN4work6Worker3runEi", "work::Worker::run"),
            ("_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE", "core::ops::function::FnOnce::call_once"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("wait_for_stream", "wait_for_stream"),
        ] {
            assert_eq!(readable(name), expect);
        }
    }

    /// This test program, as a recording would name it.
    fn own_file(at: u64) -> (FileSeen, u64) {
        let maps = own_maps();
        let path = std::env::current_exe().unwrap().display().to_string();
        let range = mapped(&maps, |path| path).find(|range| range.path == path).unwrap();
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
        let line = callers.line(address, None).unwrap();
        assert!(
            line.file.ends_with("cli/src/stacks/symbolize.rs") && name.contains(&format!(":{})", line.line)),
            "{line:?} {name}"
        );
        let mut live = Symbolizer::new(&[], 0).and_process(std::process::id());
        assert_eq!(live.name(address), Some(name.as_str()));
    }

    #[test]
    fn a_report_gets_the_names_of_its_addresses() {
        let (file, _) = own_file(0);
        let callers = Symbolizer::new(std::slice::from_ref(&file), LATE);
        let address = address_of_this_function();
        let frames = callers.frames(address + 1);
        let last = frames.last().unwrap();
        assert!(last.function.as_deref().is_some_and(|name| name.contains("own_file")) && !last.inlined, "{frames:#?}");
        assert_eq!((last.address, last.offset), (address + 1, address + 1 - file.bias));

        let host =
            HostFunctionSeen { stream: 1, at: 1, entered: 1, address, thread: 7, doing: None, or_another: false };
        let snapshot = Snapshot { host_functions: vec![host], ..Snapshot::default() };
        let mut hang = HangReport::new(1, "app", None, snapshot, PreloadSummary::default());
        let bare = FrameSeen { address: address + 1, module: "app".to_owned(), ..FrameSeen::default() };
        hang.stacks = vec![StackSeen { thread: 7, frames: vec![bare], notes: Vec::new() }];
        callers.name_in(&mut hang);
        let place = &hang.places[0];
        assert_eq!((place.address, place.offset), (address, address - file.bias));
        for frame in [place, &hang.stacks[0].frames[0]] {
            assert!(frame.function.as_deref().is_some_and(|name| name.contains("own_file")), "{frame:#?}");
            assert!(frame.file.as_deref().is_some_and(|file| file.ends_with("symbolize.rs")), "{frame:#?}");
        }
    }

    #[test]
    fn a_file_that_was_written_to_since_or_is_gone_costs_the_names_only() {
        let (file, begin) = own_file(0);
        let mut changed = Symbolizer::new(std::slice::from_ref(&file), 1);
        let changed = changed.name(address_of_this_function()).unwrap().to_owned();
        assert!(changed.contains("+0x") && !changed.contains('('), "{changed}");
        assert_eq!(Symbolizer::new(std::slice::from_ref(&file), 1).line(address_of_this_function() + 1, None), None);
        let gone = FileSeen { path: "/no/such/program".to_owned(), ..file };
        let mut callers = Symbolizer::new(&[gone], LATE);
        let offset = begin + 16 - own_file(0).0.bias;
        assert_eq!(callers.name(begin + 16), Some(format!("program+{offset:#x}").as_str()));
        assert_eq!(callers.name(7), None);
    }

    /// A file of the same path and an old time is not the mapped one on another machine, nor where a dump has another build id.
    #[test]
    fn a_file_names_nothing_that_is_not_known_to_be_the_mapped_one() {
        let (file, begin) = own_file(0);
        let named = |modules: Vec<CodeModule>, is_elsewhere: bool| {
            let callers = Symbolizer::new(std::slice::from_ref(&file), LATE).and_files(modules, is_elsewhere);
            callers.frames(address_of_this_function() + 1).iter().any(|frame| frame.function.is_some())
        };
        assert_eq!([named(Vec::new(), false), named(Vec::new(), true)], [true, false]);
        let first = modules(&own_maps()).into_iter().find(|module| module.path == file.path).unwrap();
        let module = |build_id: Vec<u8>, path: &str| CodeModule {
            base: first.base,
            end: begin + (1 << 30),
            path: path.to_owned(),
            build_id,
            dumped: u32::MAX,
        };
        let own = crate::stacks::files::build_id_of(Path::new(&file.path)).unwrap();
        // The build id decides on every machine.
        for is_elsewhere in [false, true] {
            assert!(named(vec![module(own.clone(), &file.path)], is_elsewhere));
            assert!(!named(vec![module(vec![7; 20], &file.path)], is_elsewhere));
            assert_eq!(named(vec![module(own.clone(), "/lib/other.so")], is_elsewhere), !is_elsewhere);
        }
    }

    #[test]
    fn a_live_process_has_the_files_of_its_own_root() {
        let own = std::process::id();
        let path = std::env::current_exe().unwrap().display().to_string();
        assert_eq!(as_mapped(own, path.clone()), path);
        assert_eq!(as_mapped(own, "/no/such/file".to_owned()), "/no/such/file");
        // There is no such process, so the file is none of its.
        let other = as_mapped(4_194_305, path.clone());
        assert_eq!(other, format!("/proc/4194305/root{path}"));
        let (file, _) = own_file(0);
        let live = Symbolizer::new(std::slice::from_ref(&file), 1).and_files(Vec::new(), true).and_process(own);
        let frames = live.frames(address_of_this_function() + 1);
        assert!(frames.iter().any(|frame| frame.function.is_some()), "{frames:#?}");
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
