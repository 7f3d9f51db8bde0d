//! The code files that a dump names: their unwind tables and their symbols.
//!
//! Must not: answer from a file other than the mapped one. The build id decides; a file without one must not have been written to since
//! the dump.

use super::dump::Module;
use crate::files;
use crate::symbolize::loader;
use addr2line::{Loader, Location};
use lazyguard_core::report::{demangle, FrameSeen};
use lazyguard_core::stack::{undeleted, FileTables};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{ReadCache, SymbolIndex, SymbolKind};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// The most inlined functions reported for one address.
const MOST_INLINED: usize = 32;

/// What tells a file from others: its path and its build id, or, without one, when the dump was made.
type Key = (String, Vec<u8>, Option<u32>);

thread_local! {
    /// The files that this thread has looked into: hundreds of processes have the same.
    static FILES: RefCell<HashMap<Key, Rc<CodeFile>>> = RefCell::default();
}

/// A code file's tables and names, or why they cannot be read.
pub(super) struct CodeFile {
    /// The file's own address of its first byte.
    first: u64,
    pub tables: Result<FileTables, &'static str>,
    names: Option<Rc<Loader>>,
    functions: Functions,
}

/// Where functions begin and end, by a file's table of symbols; in the order of the addresses.
#[derive(Default)]
struct Functions {
    /// Kept as long as the command runs: its names are read when they are asked for, as there may be a million.
    elf: Option<&'static Elf>,
    places: Vec<(u64, u64, bool, SymbolIndex)>,
}

type Elf = ElfFile64<'static, Endianness, &'static ReadCache<File>>;

impl CodeFile {
    /// The file of a module.
    pub fn of(module: &Module) -> Rc<Self> {
        let dumped = module.build_id.is_empty().then_some(module.dumped);
        let key = (module.path.clone(), module.build_id.clone(), dumped);
        FILES.with_borrow_mut(|files| files.entry(key).or_insert_with(|| Rc::new(Self::open(module))).clone())
    }

    fn open(module: &Module) -> Self {
        let path = undeleted(&module.path);
        Self::read(Path::new(path), module).unwrap_or_else(|why| Self {
            first: 0,
            tables: Err(why),
            names: None,
            functions: Functions::default(),
        })
    }

    fn read(path: &Path, module: &Module) -> Result<Self, &'static str> {
        let file = files::open(path).map_err(|_| "the file is gone, or cannot be read")?;
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        let cache: &ReadCache<File> = Box::leak(Box::new(ReadCache::new(file)));
        let elf: &Elf = Box::leak(Box::new(ElfFile64::parse(cache).map_err(|_| "it is another file now")?));
        let build_id = elf.build_id().ok().flatten().unwrap_or_default();
        let is_older = |at: std::time::SystemTime| at <= UNIX_EPOCH + Duration::from_secs(module.dumped.into());
        if build_id != module.build_id || build_id.is_empty() && !modified.is_ok_and(is_older) {
            return Err("the file is not the one that was mapped");
        }
        let (endian, header) = (elf.endian(), elf.elf_header());
        let headers = FileHeader64::program_headers(header, endian, cache).unwrap_or_default();
        let load = headers.iter().find(|header| header.p_type(endian) == PT_LOAD);
        let first = load.map_or(0, |load| load.p_vaddr(endian).wrapping_sub(load.p_offset(endian)));
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_owned()))
        };
        let debug = debug_file(build_id);
        let of_debug = debug.as_deref().filter(|_| elf.symbols().next().is_none()).and_then(Functions::of_path);
        let functions = of_debug.unwrap_or_else(|| Functions::of(elf));
        Ok(Self {
            first,
            tables: Ok(FileTables::new(first, section(".eh_frame"), section(".eh_frame_hdr"))),
            names: loader(debug.as_deref().unwrap_or(path), None),
            functions,
        })
    }

    /// The load bias: memory address minus the file's address.
    pub fn bias(&self, base: u64) -> u64 {
        base.wrapping_sub(self.first)
    }

    /// The function at an address, after the functions inlined there, innermost first.
    pub fn names(&self, address: u64) -> Vec<FrameSeen> {
        let mut found = Vec::new();
        let Some(names) = &self.names else { return self.function(address).into_iter().collect() };
        if let Ok(mut frames) = names.find_frames(address) {
            while let (Ok(Some(frame)), true) = (frames.next(), found.len() < MOST_INLINED) {
                let Some(name) = frame.function.as_ref().and_then(|function| function.raw_name().ok()) else { break };
                let (file, line) = place(frame.location);
                found.push(FrameSeen { function: Some(readable(&name)), file, line, ..FrameSeen::default() });
            }
        }
        if let Some(last) = found.last_mut() {
            // A local class or a lambda has its whole name only in the symbol table. A cold part of a function (`.cold`) has no
            // name of its own there.
            let whole = self.symbol(address).filter(|name| name.starts_with("_Z") && !name.contains('.'));
            last.function = whole.map(readable).or(last.function.take());
        }
        if found.is_empty() {
            let (file, line) = place(names.find_location(address).ok().flatten());
            let function = self.function(address).and_then(|frame| frame.function);
            if function.is_some() || file.is_some() {
                found.push(FrameSeen { function, file, line, ..FrameSeen::default() });
            }
        }
        found
    }

    fn function(&self, address: u64) -> Option<FrameSeen> {
        self.symbol(address).map(|name| FrameSeen { function: Some(readable(name)), ..FrameSeen::default() })
    }

    /// By the symbol table. If the symbol ends before the address, the function there has no symbol.
    fn symbol(&self, address: u64) -> Option<&str> {
        let behind = self.functions.places.partition_point(|(begin, ..)| *begin <= address);
        let (_, end, is_dynamic, index) = *self.functions.places.get(behind.checked_sub(1)?)?;
        let elf = self.functions.elf.filter(|_| address < end)?;
        let table = if is_dynamic { elf.dynamic_symbol_table() } else { elf.symbol_table() };
        table?.symbol_by_index(index).ok()?.name().ok()
    }
}

fn place(at: Option<Location<'_>>) -> (Option<String>, Option<u32>) {
    at.map_or((None, None), |at| (at.file.map(str::to_owned), at.line))
}

/// A name as the source has it, of C++ and of Rust.
fn readable(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => demangle(name),
    }
}

/// The path of a file's separate debug information, as distributions lay it out.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest)));
    fs::metadata(&path).is_ok().then_some(path)
}

impl Functions {
    fn of_path(path: &Path) -> Option<Self> {
        let cache: &ReadCache<File> = Box::leak(Box::new(ReadCache::new(files::open(path).ok()?)));
        Some(Self::of(Box::leak(Box::new(ElfFile64::parse(cache).ok()?))))
    }

    fn of(elf: &'static Elf) -> Self {
        let all = [(false, elf.symbols()), (true, elf.dynamic_symbols())];
        let all = all.into_iter().flat_map(|(is_dynamic, symbols)| symbols.map(move |symbol| (is_dynamic, symbol)));
        let functions = all.filter(|(_, symbol)| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        let mut places: Vec<_> = functions
            .filter_map(|(is_dynamic, symbol)| {
                let end = symbol.address().checked_add(symbol.size())?;
                Some((symbol.address(), end, is_dynamic, symbol.index()))
            })
            .collect();
        places.sort_by_key(|(begin, end, is_dynamic, index)| (*begin, *end, *is_dynamic, index.0));
        Self { elf: Some(elf), places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// This test program, as a dump would name it.
    fn own() -> Module {
        let path = std::env::current_exe().unwrap();
        let cache = ReadCache::new(File::open(&path).unwrap());
        let elf = ElfFile64::<Endianness, _>::parse(&cache).unwrap();
        let build_id = elf.build_id().unwrap().unwrap_or_default().to_owned();
        Module { base: 0x10_0000, end: 0x1000_0000, path: path.display().to_string(), build_id, dumped: u32::MAX }
    }

    #[test]
    fn a_file_is_read_once_however_many_processes_have_it() {
        let (module, other) = (own(), Module { base: 0x20_0000, dumped: 7, ..own() });
        assert!(Rc::ptr_eq(&CodeFile::of(&module), &CodeFile::of(&other)));
        let names = |before| loader(Path::new(&module.path), before).unwrap();
        assert!(Rc::ptr_eq(&names(None), &names(Some(std::time::SystemTime::now()))));
        assert!(loader(Path::new(&module.path), Some(UNIX_EPOCH)).is_none(), "it was written to since");
        // Without a build id, the time of the dump decides whether it is the file.
        let (early, late) = (Module { build_id: vec![], ..other }, Module { build_id: vec![], ..module });
        assert!(!Rc::ptr_eq(&CodeFile::of(&early), &CodeFile::of(&late)));
    }

    #[test]
    fn a_file_names_functions_only_if_it_is_the_one_that_was_mapped() {
        let module = own();
        let file = CodeFile::of(&module);
        let (begin, end, ..) = *file
            .functions
            .places
            .iter()
            .find(|(begin, ..)| file.symbol(*begin).is_some_and(|name| name.contains("files5tests3own")))
            .unwrap();
        let frames = file.names(begin + 1);
        let last = frames.last().unwrap();
        assert_eq!(last.function.as_deref(), Some("lazyguard::stacks::files::tests::own"));
        assert!(last.file.as_deref().is_some_and(|file| file.ends_with("stacks/files.rs")), "{last:?}");
        assert!(file.symbol(end - 1).is_some() && file.tables.is_ok());

        let other = Module { build_id: vec![7; 20], ..module.clone() };
        let other = CodeFile::of(&other);
        assert!(other.tables.is_err() && other.names(begin + 1).is_empty());
        let gone = Module { path: "/no/such/program".to_owned(), ..module };
        assert!(CodeFile::of(&gone).tables.is_err());
    }
}
