//! The code files that a dump names: their unwind tables and their symbols.
//!
//! Must not: answer from a file other than the mapped one. The build id decides; a file without one must not have been written to since
//! the dump.

use super::dump::Module;
use super::names::{functions, loader};
use crate::machine::files;
use addr2line::Loader;
use lazyguard_core::report::FrameSeen;
use lazyguard_core::stack::{undeleted, FileTables};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// Tells a file from others: its path and its build id, or, without one, when the dump was made.
type Key = (String, Vec<u8>, Option<u32>);

thread_local! {
    /// The files that this thread has looked into: hundreds of processes have the same.
    static FILES: RefCell<HashMap<Key, Rc<CodeFile>>> = RefCell::default();
}

pub(super) struct CodeFile {
    first: u64,
    pub tables: Result<FileTables, &'static str>,
    names: Option<Rc<Loader>>,
}

impl CodeFile {
    pub fn of(module: &Module) -> Rc<Self> {
        let key = (module.path.clone(), module.build_id.clone(), module.build_id.is_empty().then_some(module.dumped));
        let unread = |why| Self { first: 0, tables: Err(why), names: None };
        let open = || Self::read(Path::new(undeleted(&module.path)), module).unwrap_or_else(unread);
        FILES.with_borrow_mut(|files| files.entry(key).or_insert_with(|| Rc::new(open())).clone())
    }

    fn read(path: &Path, module: &Module) -> Result<Self, &'static str> {
        let file = files::open(path).map_err(|_| "the file is gone, or cannot be read")?;
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
        let tables = Ok(FileTables::new(first, section(".eh_frame"), section(".eh_frame_hdr")));
        let names = debug_file(build_id).and_then(|debug| loader(&debug, None)).or_else(|| loader(path, None));
        Ok(Self { first, tables, names })
    }

    pub fn bias(&self, base: u64) -> u64 {
        base.wrapping_sub(self.first)
    }

    pub fn names(&self, address: u64) -> Vec<FrameSeen> {
        self.names.as_ref().map_or(Vec::new(), |names| functions(names, address))
    }
}

fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest))))
}

#[cfg(test)]
pub(super) fn build_id_of(path: &Path) -> Option<Vec<u8>> {
    let cache = ReadCache::new(files::open(path).ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    elf.build_id().ok()?.map(<[u8]>::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test program, as a dump would name it.
    fn own() -> Module {
        let path = std::env::current_exe().unwrap();
        let build_id = build_id_of(&path).unwrap();
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
        let maps = lazyguard_core::stack::own_maps();
        let loaded = lazyguard_core::stack::modules(&maps).into_iter().find(|loaded| loaded.path == module.path);
        let begin = (own as fn() -> Module as usize as u64).wrapping_sub(file.bias(loaded.unwrap().base));
        let frames = file.names(begin + 1);
        let last = frames.last().unwrap();
        assert_eq!(last.function.as_deref(), Some("lazyguard::stacks::files::tests::own"));
        assert!(last.file.as_deref().is_some_and(|file| file.ends_with("stacks/files.rs")), "{last:?}");
        assert!(file.tables.is_ok());

        let other = Module { build_id: vec![7; 20], ..module.clone() };
        let other = CodeFile::of(&other);
        assert!(other.tables.is_err() && other.names(begin + 1).is_empty());
        let gone = Module { path: "/no/such/program".to_owned(), ..module };
        assert!(CodeFile::of(&gone).tables.is_err());
    }
}
