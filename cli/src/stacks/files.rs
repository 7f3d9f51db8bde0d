//! The files of code that a dump names: their tables for unwinding, and their names.
//!
//! Must not: answer from a file that is not the one that was mapped. The build id decides; where a file has none, it must not
//! have been written to since the dump was made.

use super::dump::Module;
use super::unwind::Tables;
use addr2line::{Loader, Location};
use lazyguard_core::report::{demangle, FrameSeen};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Functions that were put one into the other, told for one address.
const MOST_INLINED: usize = 32;

/// The files that were looked into.
#[derive(Default)]
pub(super) struct Files(HashMap<Module, CodeFile>);

impl Files {
    pub fn of(&mut self, module: &Module) -> &CodeFile {
        if !self.0.contains_key(module) {
            self.0.insert(module.clone(), CodeFile::open(module));
        }
        &self.0[module]
    }
}

/// What a file tells, or why it tells nothing.
pub(super) struct CodeFile {
    /// The file's own address of its first byte.
    first: u64,
    pub tables: Result<Tables, &'static str>,
    names: Option<Loader>,
    /// Where a function begins and ends, and its name; in the order of the addresses.
    functions: Vec<(u64, u64, String)>,
}

impl CodeFile {
    fn open(module: &Module) -> Self {
        let path = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        Self::read(Path::new(path), module).unwrap_or_else(|why| Self {
            first: 0,
            tables: Err(why),
            names: None,
            functions: Vec::new(),
        })
    }

    fn read(path: &Path, module: &Module) -> Result<Self, &'static str> {
        let file = File::open(path).map_err(|_| "the file is gone, or cannot be read")?;
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).map_err(|_| "it is another file now")?;
        let build_id = elf.build_id().ok().flatten().unwrap_or_default();
        let is_older = |at: std::time::SystemTime| at <= UNIX_EPOCH + Duration::from_secs(module.dumped.into());
        if build_id != module.build_id || build_id.is_empty() && !modified.is_ok_and(is_older) {
            return Err("the file is not the one that was mapped");
        }
        let (endian, header) = (elf.endian(), elf.elf_header());
        let headers = FileHeader64::program_headers(header, endian, &cache).unwrap_or_default();
        let load = headers.iter().find(|header| header.p_type(endian) == PT_LOAD);
        let first = load.map_or(0, |load| load.p_vaddr(endian).wrapping_sub(load.p_offset(endian)));
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_owned()))
        };
        let debug = debug_file(build_id);
        let mut functions = functions(&elf);
        if let Some(path) = debug.as_deref().filter(|_| elf.symbols().next().is_none()) {
            functions = functions_of(path).unwrap_or(functions);
        }
        Ok(Self {
            first,
            tables: Ok(Tables::new(first, section(".eh_frame"), section(".eh_frame_hdr"))),
            names: Loader::new(debug.as_deref().unwrap_or(path)).ok(),
            functions,
        })
    }

    /// What has to be added to an address of the file to get the one in memory.
    pub fn bias(&self, base: u64) -> u64 {
        base.wrapping_sub(self.first)
    }

    /// The function that holds an address, and before it those that were put into it in place of their calls, innermost first.
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
            // A local class or a lambda has its whole name only in the table of symbols; a part of a function that was put
            // elsewhere has none of its own there.
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

    /// By the table of symbols. One that ends before the address has another function behind it that is not in the table.
    fn symbol(&self, address: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (_, end, name) = self.functions.get(behind.checked_sub(1)?)?;
        (address < *end).then_some(name)
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

/// Where a distribution keeps the debug information that it has taken out of a file.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest)));
    fs::metadata(&path).is_ok().then_some(path)
}

fn functions_of(path: &Path) -> Option<Vec<(u64, u64, String)>> {
    let cache = ReadCache::new(File::open(path).ok()?);
    Some(functions(&ElfFile64::<Endianness, _>::parse(&cache).ok()?))
}

fn functions<'a>(elf: &'a ElfFile64<'a, Endianness, &'a ReadCache<File>>) -> Vec<(u64, u64, String)> {
    let all =
        elf.symbols().chain(elf.dynamic_symbols()).filter(|s| s.kind() == object::SymbolKind::Text && s.size() > 0);
    let mut found: Vec<_> = all
        .filter_map(|symbol| {
            let end = symbol.address().checked_add(symbol.size())?;
            Some((symbol.address(), end, symbol.name().ok()?.to_owned()))
        })
        .collect();
    found.sort();
    found
}
