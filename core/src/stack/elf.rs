//! A file of code as it lies in memory: which build of it that is, where its names are, and its tables for unwinding.
//!
//! The ELF header and the program headers lead to all; section headers are not mapped. The readers of `object` borrow from bytes that are all
//! there, and here any byte can be missing: only its headers and entries are used.
//!
//! Must not: believe a number that is read there without a bound.

use super::Memory;
use object::elf::{
    Dyn64, FileHeader64, ProgramHeader64, SectionHeader64, Sym64, SymbolType, DT_GNU_HASH, DT_NULL, DT_STRTAB,
    DT_SYMTAB, ELFCLASS64, ELFDATA2LSB, ELFMAG, ELF_NOTE_GNU, ET_EXEC, NT_GNU_BUILD_ID, PT_DYNAMIC, PT_GNU_EH_FRAME,
    PT_LOAD, PT_NOTE, SHN_UNDEF, SHT_SYMTAB, STT_FUNC, STT_OBJECT,
};
use object::pod::{self, Pod};
use object::read::elf::NoteIterator;
use object::LittleEndian;

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;
type Section = SectionHeader64<LittleEndian>;
type Symbol = Sym64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;

const MOST_HEADERS: u16 = 64;
const MOST_NOTE_BYTES: u64 = 1 << 16;
const MOST_BUILD_ID: usize = 64;
const MOST_DYNAMIC: usize = 256;
/// Most names of one hash that are looked at.
const MOST_CHAIN: u32 = 1 << 12;
const MOST_SECTIONS: u16 = 256;
/// A large library has as many, and a mangled name is as long.
const MOST_EXPORTS: u32 = 1 << 20;
const MOST_NAME: usize = 1 << 10;
const MOST_SYMBOL_BYTES: u64 = 32 << 20;

/// Entries of a table read at a time.
const CHUNK: usize = 1 << 10;

/// As many entries from an address on as are there.
fn entries<T: Pod + Copy>(memory: &impl Memory, at: u64, most: usize) -> Vec<T> {
    let bytes = memory.bytes(at, most * size_of::<T>());
    pod::slice_from_bytes(&bytes, bytes.len() / size_of::<T>()).map_or_else(|()| Vec::new(), |(all, _)| all.to_vec())
}

fn entry<T: Pod + Copy>(memory: &impl Memory, at: u64) -> Option<T> {
    entries(memory, at, 1).pop()
}

fn header(memory: &impl Memory, at: u64) -> Option<Header> {
    let is_known = |header: &Header| {
        let of = header.e_ident;
        (of.magic, of.class, of.data) == (ELFMAG, ELFCLASS64, ELFDATA2LSB)
    };
    entry(memory, at).filter(is_known)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Memory address minus the file's address.
    pub bias: u64,
    pub build_id: Vec<u8>,
    pub(super) unwind_index: Option<u64>,
    pub(super) dynamic: Option<u64>,
}

impl Image {
    /// Reads the file whose first byte lies at `base`.
    pub fn read(memory: &impl Memory, base: u64) -> Option<Self> {
        let head = header(memory, base)?;
        let at = base.wrapping_add(head.e_phoff.get(ENDIAN));
        let (size, count) = (head.e_phentsize.get(ENDIAN), head.e_phnum.get(ENDIAN).min(MOST_HEADERS));
        if usize::from(size) < size_of::<Segment>() {
            return None;
        }
        let place = |n: u16| at.wrapping_add(u64::from(n) * u64::from(size));
        let segments: Vec<Segment> = (0..count).map_while(|n| entry(memory, place(n))).collect();
        let of_kind = |kind| segments.iter().filter(move |segment| segment.p_type.get(ENDIAN) == kind);
        let first = of_kind(PT_LOAD).next()?;
        let bias = base.wrapping_sub(first.p_vaddr.get(ENDIAN).wrapping_sub(first.p_offset.get(ENDIAN)));
        let address = |segment: &Segment| bias.wrapping_add(segment.p_vaddr.get(ENDIAN));
        let notes =
            |note: &Segment| memory.bytes(address(note), note.p_memsz.get(ENDIAN).min(MOST_NOTE_BYTES) as usize);
        let build_id = of_kind(PT_NOTE).find_map(|note| build_id(&notes(note))).unwrap_or_default();
        let [unwind_index, dynamic] = [PT_GNU_EH_FRAME, PT_DYNAMIC].map(|kind| of_kind(kind).next().map(address));
        Some(Self { bias, build_id, unwind_index, dynamic })
    }

    /// An exported function, by the dynamic linker's table of hashes.
    pub fn function(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.symbol(memory, name, STT_FUNC)
    }

    pub fn variable(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.symbol(memory, name, STT_OBJECT)
    }

    /// The name of the exported function that has this address in it, as the linker knows it.
    pub fn function_at(&self, memory: &impl Memory, address: u64) -> Option<String> {
        let exports = self.exports(memory)?;
        let count = exports.count(memory)?.min(MOST_EXPORTS);
        let place = address.checked_sub(self.bias)?;
        let has_it = |symbol: &Symbol| {
            let (begin, bytes) = (symbol.st_value.get(ENDIAN), symbol.st_size.get(ENDIAN));
            let is_defined = symbol.st_type() == STT_FUNC && symbol.st_shndx.get(ENDIAN) != SHN_UNDEF;
            is_defined && place.checked_sub(begin).is_some_and(|into| into < bytes)
        };
        (0..count).step_by(CHUNK).find_map(|first| {
            let at = exports.symbols.wrapping_add(u64::from(first) * size_of::<Symbol>() as u64);
            let symbols: Vec<Symbol> = entries(memory, at, CHUNK.min((count - first) as usize));
            let name = symbols.iter().find(|symbol| has_it(symbol))?.st_name.get(ENDIAN);
            let bytes = memory.bytes(exports.strings.wrapping_add(name.into()), MOST_NAME);
            let end = bytes.iter().position(|byte| *byte == 0)?;
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
        })
    }

    fn symbol(&self, memory: &impl Memory, name: &str, kind: SymbolType) -> Option<u64> {
        let Exports { strings, symbols, buckets, first, bucket_at, chain_at } = self.exports(memory)?;
        let number = |at: u64| memory.array(at).map(u32::from_le_bytes);
        let wanted = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let bucket = u64::from(wanted.checked_rem(buckets)?);
        let begin = number(bucket_at.wrapping_add(bucket * 4))?;
        for symbol in begin.max(first)..begin.saturating_add(MOST_CHAIN) {
            let hash = number(chain_at.wrapping_add(u64::from(symbol.checked_sub(first)?) * 4))?;
            if hash | 1 == wanted | 1 {
                let entry: Symbol =
                    entry(memory, symbols.wrapping_add(u64::from(symbol) * size_of::<Symbol>() as u64))?;
                if is_named(memory, &entry, strings, name, kind) {
                    return Some(self.bias.wrapping_add(entry.st_value.get(ENDIAN)));
                }
            }
            if hash & 1 == 1 {
                break;
            }
        }
        None
    }

    fn exports(&self, memory: &impl Memory) -> Option<Exports> {
        let dynamic: Vec<Dyn64<LittleEndian>> = entries(memory, self.dynamic?, MOST_DYNAMIC);
        let end = dynamic.iter().position(|entry| entry.d_tag.get(ENDIAN) == DT_NULL).unwrap_or(dynamic.len());
        let place = |tag| {
            let value = dynamic[..end].iter().rfind(|entry| entry.d_tag.get(ENDIAN) == tag)?.d_val.get(ENDIAN);
            // The GNU C library has relocated the table in place; another may have left addresses of the file there.
            Some(if value < self.bias { value.wrapping_add(self.bias) } else { value })
        };
        let (strings, symbols, hashes) = (place(DT_STRTAB)?, place(DT_SYMTAB)?, place(DT_GNU_HASH)?);
        let number = |at: u64| memory.array(at).map(u32::from_le_bytes);
        let [buckets, first, bloom] = [0, 4, 8].map(|at| number(hashes.wrapping_add(at)));
        let (buckets, first) = (buckets?, first?);
        let bucket_at = hashes.wrapping_add(16 + u64::from(bloom?) * 8);
        let chain_at = bucket_at.wrapping_add(u64::from(buckets) * 4);
        Some(Exports { strings, symbols, buckets, first, bucket_at, chain_at })
    }
}

/// A file's exported names: texts, symbols, and the table of their hashes.
struct Exports {
    strings: u64,
    symbols: u64,
    buckets: u32,
    first: u32,
    bucket_at: u64,
    chain_at: u64,
}

impl Exports {
    /// How many symbols there are: the last chain of hashes ends with the last one.
    fn count(&self, memory: &impl Memory) -> Option<u32> {
        let bytes = memory.bytes(self.bucket_at, self.buckets.min(MOST_EXPORTS) as usize * 4);
        let numbers = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let begin = numbers.max()?.checked_sub(self.first)?;
        let hash = |at: u32| memory.array(self.chain_at.wrapping_add(u64::from(at) * 4)).map(u32::from_le_bytes);
        let last = (begin..begin.saturating_add(MOST_CHAIN)).find(|at| hash(*at).is_none_or(|hash| hash & 1 == 1))?;
        last.checked_add(self.first)?.checked_add(1)
    }
}

/// Whether it is the definition of this name.
fn is_named(memory: &impl Memory, symbol: &Symbol, strings: u64, name: &str, kind: SymbolType) -> bool {
    symbol.st_type() == kind
        && symbol.st_shndx.get(ENDIAN) != SHN_UNDEF
        && is_text(memory, strings.wrapping_add(symbol.st_name.get(ENDIAN).into()), name)
}

fn is_text(memory: &impl Memory, at: u64, text: &str) -> bool {
    memory.bytes(at, text.len() + 1).strip_suffix(b"\0") == Some(text.as_bytes())
}

/// The bytes that [`has_fixed_addresses`] looks at.
pub const HEAD_BYTES: usize = 18;

/// Whether the file is a program with fixed addresses (`ET_EXEC`).
pub fn has_fixed_addresses(head: &[u8; HEAD_BYTES]) -> bool {
    u16::from_le_bytes([head[HEAD_BYTES - 2], head[HEAD_BYTES - 1]]) == ET_EXEC.0
}

/// The file's address of a function that it does not export, by the table that `strip` removes: `file` is its bytes, from address 0.
pub fn unexported_function(file: &impl Memory, name: &str) -> Option<u64> {
    let (sections, _) = sections(file)?;
    let symbols = sections.iter().find(|section| section.sh_type.get(ENDIAN) == SHT_SYMTAB)?;
    let strings = sections.get(symbols.sh_link.get(ENDIAN) as usize)?.sh_offset.get(ENDIAN);
    let (at, bytes) = (symbols.sh_offset.get(ENDIAN), symbols.sh_size.get(ENDIAN).min(MOST_SYMBOL_BYTES));
    let count = bytes as usize / size_of::<Symbol>();
    (0..count).step_by(CHUNK).find_map(|first| {
        let begin = at.wrapping_add((first * size_of::<Symbol>()) as u64);
        let symbols: Vec<Symbol> = entries(file, begin, CHUNK.min(count - first));
        let found = symbols.iter().find(|symbol| is_named(file, symbol, strings, name, STT_FUNC));
        found.map(|symbol| symbol.st_value.get(ENDIAN))
    })
}

/// How long a section is, by the table in its file.
pub fn section_bytes(file: &impl Memory, name: &str) -> Option<u64> {
    let (sections, names) = sections(file)?;
    let names = sections.get(names)?.sh_offset.get(ENDIAN);
    let is_it = |section: &&Section| is_text(file, names.wrapping_add(section.sh_name.get(ENDIAN).into()), name);
    sections.iter().find(is_it).map(|section| section.sh_size.get(ENDIAN))
}

/// The headers of a file's sections, and which section has their names.
fn sections(file: &impl Memory) -> Option<(Vec<Section>, usize)> {
    let head = header(file, 0).filter(|head| usize::from(head.e_shentsize.get(ENDIAN)) == size_of::<Section>())?;
    let count = head.e_shnum.get(ENDIAN).min(MOST_SECTIONS);
    Some((entries(file, head.e_shoff.get(ENDIAN), count.into()), head.e_shstrndx.get(ENDIAN).0.into()))
}

fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut notes = NoteIterator::<Header>::new(ENDIAN, 4, notes).ok()?;
    let is_it = |note: &object::read::elf::Note<'_, Header>| {
        note.name() == ELF_NOTE_GNU && note.n_type(ENDIAN) == NT_GNU_BUILD_ID
    };
    let note = std::iter::from_fn(|| notes.next().ok()?).find(is_it)?;
    (1..=MOST_BUILD_ID).contains(&note.desc().len()).then(|| note.desc().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{At, Own};
    use super::super::{modules, own_maps, Module};
    use super::*;

    fn c_library() -> Module {
        let maps = own_maps();
        modules(&maps).into_iter().find(|module| module.name().starts_with("libc.so")).unwrap()
    }

    #[test]
    fn functions_of_a_library_are_found_in_memory_alone() {
        let (memory, module) = (Own::new(), c_library());
        let image = Image::read(&memory, module.base).unwrap();
        assert_eq!(image.bias, module.base);
        assert!(image.unwind_index.is_some());
        assert!((8..=32).contains(&image.build_id.len()), "{:?}", image.build_id);
        let found = image.function(&memory, "getppid").unwrap();
        assert!(module.has_code_at(found), "{found:#x} in {module:?}");
        assert_ne!(image.function(&memory, "getpid"), Some(found));
        for at in [found, found + 1] {
            assert_eq!(image.function_at(&memory, at).as_deref(), Some("getppid"));
        }
        assert_eq!(image.function_at(&memory, module.base), None, "the file's head is no function");
        assert_eq!(image.function(&memory, "no_such_function"), None);
        assert_eq!(image.function(&memory, "environ"), None, "it is no function");
        assert!(image.variable(&memory, "environ").is_some_and(|at| memory.word(at).is_some()));
        assert_eq!(image.variable(&memory, "getppid"), None, "it is no variable");
    }

    #[test]
    fn functions_that_are_not_exported_are_found_in_the_file() {
        struct InFile(std::fs::File);
        impl Memory for InFile {
            fn read(&self, address: u64, into: &mut [u8]) -> usize {
                std::os::unix::fs::FileExt::read_at(&self.0, into, address).unwrap_or(0)
            }
        }
        let path = std::env::current_exe().unwrap();
        let file = InFile(std::fs::File::open(&path).unwrap());
        let memory = Own::new();
        let maps = own_maps();
        let module = modules(&maps).into_iter().find(|module| module.path == path.display().to_string()).unwrap();
        let image = Image::read(&memory, module.base).unwrap();
        assert_eq!(image.function(&memory, "_start"), None);
        let found = unexported_function(&file, "_start").unwrap();
        assert!(module.has_code_at(image.bias + found));
        assert_eq!(unexported_function(&file, "_star"), None);
        assert!(
            section_bytes(&file, ".text").is_some_and(|bytes| bytes > 1 << 10),
            "{:?}",
            section_bytes(&file, ".text")
        );
        assert_eq!(section_bytes(&file, ".tex"), None);
        assert_eq!(Image::read(&file, 0).unwrap().build_id, image.build_id);
    }

    #[test]
    fn any_bytes_are_read_to_an_end() {
        let (memory, module) = (Own::new(), c_library());
        let bytes = memory.bytes(module.base, 1 << 16);
        let whole = Image::read(&At(module.base, &bytes), module.base).unwrap();
        assert!(!whole.build_id.is_empty());
        for seed in 1..4000_u64 {
            let mut changed = bytes.clone();
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for _ in 0..1 + seed % 9 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random as usize % 1024;
                changed[at] = (random >> 32) as u8;
            }
            changed.truncate(64 + (random >> 8) as usize % bytes.len());
            let memory = At(module.base, &changed);
            if let Some(image) = Image::read(&memory, module.base) {
                image.function(&memory, "getpid");
                image.function_at(&memory, module.base + seed);
            }
        }
        assert_eq!(Image::read(&At(0, b"\x7fELF\x02\x01"), 0), None);
    }
}
