//! Facts about a program or a library, read from its file.
//!
//! Must not: read more of a file than it needs; CUDA libraries can have gigabytes.

use crate::machine::files;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{elf, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub(crate) type Glibc = (u32, u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub name: String,
    pub defined: bool,
    pub weak: bool,
    pub data: bool,
}

impl Symbol {
    pub fn is_followed(&self) -> bool {
        lazyguard_core::api::EntryPoint::by_symbol(self.name.as_bytes()).is_some()
    }

    /// Whether the driver has such names: `cu` and an upper-case letter.
    pub fn is_the_drivers(&self) -> bool {
        self.name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            && !self.name.starts_with("cuLg")
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    pub path: PathBuf,
    pub machine: u16,
    /// A library, and no program that is loaded wherever there is room.
    pub is_library: bool,
    pub interpreter: Option<PathBuf>,
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub symbols: Vec<Symbol>,
    /// The newest version of the C library that is named: as needed, or, in the C library, as offered.
    pub glibc: Option<Glibc>,
    pub fat_binaries: u64,
    pub has_device_code: bool,
}

#[derive(Debug)]
pub(crate) enum Unreadable {
    File(io::Error),
    NotElf(Vec<u8>),
    Narrow,
    Broken(String),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(error) => write!(f, "cannot be read: {error}"),
            Self::NotElf(_) => f.write_str("is neither a program of this system nor a script"),
            Self::Narrow => f.write_str("is a program of 32 bits"),
            Self::Broken(why) => write!(f, "is not a program this can look into: {why}"),
        }
    }
}

/// A section's content; `None` where there is none of this name, or the file is no ELF file.
pub(crate) fn section(path: &Path, name: &str) -> Option<Vec<u8>> {
    let cache = ReadCache::new(files::open(path).ok()?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    file.section_by_name(name)?.data().ok().map(<[u8]>::to_vec)
}

pub(crate) fn says(path: &Path, text: &str) -> bool {
    section(path, ".rodata").is_some_and(|data| holds(&data, text.as_bytes()))
}

pub(crate) const fn own_machine() -> u16 {
    if cfg!(target_arch = "aarch64") {
        elf::EM_AARCH64.0
    } else {
        elf::EM_X86_64.0
    }
}

pub(crate) fn machine_name(machine: u16) -> String {
    let known = [(62, "x86-64"), (183, "aarch64"), (21, "ppc64"), (243, "riscv")];
    let name = known.iter().find(|(number, _)| *number == machine);
    name.map_or_else(|| format!("machine {machine}"), |(_, name)| (*name).to_owned())
}

impl Elf {
    /// Reads a file: neither its table for debuggers nor its data, which may take a second.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let mut head = Vec::new();
        let file = files::open(path).map_err(Unreadable::File)?;
        (&file).take(256).read_to_end(&mut head).map_err(Unreadable::File)?;
        match head.get(..5) {
            Some(b"\x7fELF\x02") => {}
            Some(b"\x7fELF\x01") => return Err(Unreadable::Narrow),
            _ => return Err(Unreadable::NotElf(head)),
        }
        Self::parse(path, &ReadCache::new(file)).map_err(|error| Unreadable::Broken(error.to_string()))
    }

    fn parse(path: &Path, cache: &ReadCache<File>) -> object::Result<Self> {
        let file = ElfFile64::<Endianness, _>::parse(cache)?;
        let (endian, header) = (file.endian(), file.elf_header());
        let mut found = Self { path: path.to_owned(), machine: header.e_machine(endian).0, ..Self::default() };
        for segment in header.program_headers(endian, cache)? {
            let name = segment.interpreter(endian, cache)?.map(|name| String::from_utf8_lossy(name).into_owned());
            found.interpreter = name.map(PathBuf::from).or(found.interpreter);
        }
        let mut position_independent_program = false;
        if let Some((entries, strings)) = file.elf_section_table().dynamic(endian, cache)? {
            let strings = file.elf_section_table().strings(endian, cache, strings)?;
            for entry in entries {
                let value = entry.d_val(endian);
                let text = || Some(String::from_utf8_lossy(strings.get(u32::try_from(value).ok()?).ok()?).into_owned());
                match entry.d_tag(endian) {
                    elf::DT_NEEDED => found.needed.extend(text()),
                    elf::DT_SONAME => found.soname = text(),
                    elf::DT_FLAGS_1 => position_independent_program = value & elf::DF_1_PIE.0 != 0,
                    _ => {}
                }
            }
        }
        found.is_library = header.e_type(endian) == elf::ET_DYN
            && !position_independent_program
            && (found.interpreter.is_none() || found.soname.is_some());
        let symbols = file.dynamic_symbols().filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| is_asked_about(name))?.to_owned();
            let (defined, weak) = (!symbol.is_undefined(), symbol.is_weak());
            Some(Symbol { name, defined, weak, data: symbol.kind() == object::SymbolKind::Data })
        });
        found.symbols = symbols.collect();
        // Versions are named in the table of names, among the symbols'.
        if let Some(names) = file.section_by_name(".dynstr").and_then(|section| section.data().ok()) {
            let names = names.split(|&b| b == 0).filter_map(|name| std::str::from_utf8(name).ok());
            found.glibc = names.filter_map(glibc_version).max();
        }
        // 24 bytes each: a magic number, a version, and two pointers.
        found.fat_binaries = file.section_by_name(".nvFatBinSegment").map_or(0, |section| section.size() / 24);
        found.has_device_code = found.fat_binaries > 0 || file.section_by_name(".nv_fatbin").is_some();
        Ok(found)
    }

    /// Whether the file says that it uses CUDA: it has device code, or needs the driver or the runtime.
    pub fn is_built_for_cuda(&self) -> bool {
        let is_cudas = |name: &String| name.starts_with("libcuda.so") || name.starts_with("libcudart.so");
        self.has_device_code || self.needed.iter().any(is_cudas)
    }

    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }

    pub fn exports(&self, name: &str) -> bool {
        self.symbol(name).is_some_and(|symbol| symbol.defined && !symbol.data)
    }

    pub fn imports(&self, name: &str) -> bool {
        self.symbol(name).is_some_and(|symbol| !symbol.defined)
    }

    /// The loader, where it is not glibc's: the interpreter, or the file itself if it is one.
    pub fn other_loader(&self) -> Option<&Path> {
        match &self.interpreter {
            Some(loader) => Self::read(loader).is_ok_and(|loader| loader.glibc.is_none()).then_some(loader),
            None => (self.glibc.is_none() && self.exports("dlopen")).then_some(&self.path),
        }
    }

    /// Whether the name by which others need it begins so.
    pub fn is_named(&self, start: &str) -> bool {
        self.soname.as_deref().is_some_and(|name| name.starts_with(start))
    }

    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

fn is_asked_about(name: &str) -> bool {
    const OTHERS: [&str; 6] =
        ["dlsym", "dlvsym", "dlmopen", "dlopen", "__cudaRegisterFatBinary", "__asan_default_options"];
    name.starts_with("cu") || OTHERS.contains(&name)
}

fn holds(data: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(data, text).is_some()
}

fn glibc_version(name: &str) -> Option<Glibc> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_c_library_are_read_and_others_are_not() {
        for (name, expect) in [
            ("GLIBC_2.17", Some((2, 17))),
            ("GLIBC_2.2.5", Some((2, 2))),
            ("GLIBC_PRIVATE", None),
            ("GLIBCXX_3.4", None),
            ("GLIBC_", None),
        ] {
            assert_eq!(glibc_version(name), expect, "{name}");
        }
    }

    #[test]
    fn the_drivers_names_are_told_from_those_that_only_begin_alike() {
        let named = |name: &str| Symbol { name: name.to_owned(), defined: false, weak: false, data: false };
        assert!(named("cuLaunchKernel").is_the_drivers());
        assert!(!named("cudaMalloc").is_the_drivers() && !named("cudnnCreate").is_the_drivers());
        assert!(!named("cublasCreate_v2").is_the_drivers() && !named("cu").is_the_drivers());
    }

    #[test]
    fn this_very_program_is_read() {
        let own = Elf::read(Path::new("/proc/self/exe")).unwrap();
        assert!(own.machine == own_machine() && !own.is_built_for_cuda(), "{own:?}");
        assert!(!own.is_library && own.interpreter.is_some(), "{own:?}");
        assert!(own.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", own.needed);
        assert!(own.glibc >= Some((2, 2)), "{:?}", own.glibc);
    }
}
