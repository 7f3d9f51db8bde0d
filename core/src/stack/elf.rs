//! A file of code as it lies in memory: which build of it that is, where its names are, and its tables for unwinding.
//!
//! The ELF header and the program headers lead to all; section headers are not mapped. `object` borrows from bytes that are all there, and here
//! any byte can be missing.
//!
//! Must not: believe a number that is read there without a bound.

use super::Memory;

const MOST_HEADERS: u16 = 64;
const MOST_NOTE_BYTES: u64 = 1 << 16;
const MOST_BUILD_ID: usize = 64;
const MOST_DYNAMIC: usize = 256;
/// Most names of one hash that are looked at.
const MOST_CHAIN: u32 = 1 << 12;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

const NT_GNU_BUILD_ID: u32 = 3;

const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

const SHT_SYMTAB: u32 = 2;
const MOST_SECTIONS: u16 = 256;
const MOST_SYMBOL_BYTES: u64 = 32 << 20;

/// Bytes of a table read at a time: whole entries.
const CHUNK: usize = 24 << 10;

const SYMBOL_BYTES: u64 = 24;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;

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
        let head: [u8; 64] = memory.array(base)?;
        if head[..6] != *b"\x7fELF\x02\x01" {
            return None;
        }
        let at = u64_at(&head, 32);
        let (size, count) = (u16_at(&head, 54), u16_at(&head, 56).min(MOST_HEADERS));
        if size < 56 {
            return None;
        }
        let header = |n: u64| {
            let header = memory.array::<56>(base.wrapping_add(at).wrapping_add(n * u64::from(size)))?;
            let [offset, address, bytes] = [8, 16, 40].map(|at| u64_at(&header, at));
            Some(Header { kind: u32_at(&header, 0), offset, address, bytes })
        };
        let headers: Vec<_> = (0..u64::from(count)).map_while(header).collect();
        let first = headers.iter().find(|header| header.kind == PT_LOAD)?;
        let bias = base.wrapping_sub(first.address.wrapping_sub(first.offset));
        let place = |kind| headers.iter().find(|h| h.kind == kind).map(|h| bias.wrapping_add(h.address));
        let notes = headers.iter().filter(|header| header.kind == PT_NOTE);
        let build_id = notes
            .map(|note| memory.bytes(bias.wrapping_add(note.address), note.bytes.min(MOST_NOTE_BYTES) as usize))
            .find_map(|notes| build_id(&notes))
            .unwrap_or_default();
        Some(Self { bias, build_id, unwind_index: place(PT_GNU_EH_FRAME), dynamic: place(PT_DYNAMIC) })
    }

    /// An exported function, by the dynamic linker's table of hashes.
    pub fn function(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.symbol(memory, name, FUNCTION)
    }

    pub fn variable(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.symbol(memory, name, OBJECT)
    }

    fn symbol(&self, memory: &impl Memory, name: &str, kind: u8) -> Option<u64> {
        let dynamic = self.dynamic?;
        let (mut strings, mut symbols, mut hashes) = (None, None, None);
        for entry in memory.bytes(dynamic, MOST_DYNAMIC * 16).as_chunks::<16>().0 {
            let value = u64_at(entry, 8);
            // The GNU C library has relocated the table in place; another may have left addresses of the file there.
            let address = if value < self.bias { value.wrapping_add(self.bias) } else { value };
            match u64_at(entry, 0) {
                DT_NULL => break,
                DT_STRTAB => strings = Some(address),
                DT_SYMTAB => symbols = Some(address),
                DT_GNU_HASH => hashes = Some(address),
                _ => {}
            }
        }
        let (strings, symbols, hashes) = (strings?, symbols?, hashes?);
        let head: [u8; 16] = memory.array(hashes)?;
        let (buckets, first, bloom) = (u32_at(&head, 0), u32_at(&head, 4), u32_at(&head, 8));
        let wanted = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let bucket_at = hashes.wrapping_add(16 + u64::from(bloom) * 8);
        let bucket = u64::from(wanted.checked_rem(buckets)?);
        let number = |at: u64| memory.array(at).map(u32::from_le_bytes);
        let begin = number(bucket_at.wrapping_add(bucket * 4))?;
        let chain_at = bucket_at.wrapping_add(u64::from(buckets) * 4);
        for symbol in begin.max(first)..begin.saturating_add(MOST_CHAIN) {
            let hash = number(chain_at.wrapping_add(u64::from(symbol.checked_sub(first)?) * 4))?;
            if hash | 1 == wanted | 1 {
                let entry: [u8; 24] = memory.array(symbols.wrapping_add(u64::from(symbol) * SYMBOL_BYTES))?;
                let said = memory.bytes(strings.wrapping_add(u64::from(u32_at(&entry, 0))), name.len() + 1);
                let is_it = said.strip_suffix(b"\0") == Some(name.as_bytes());
                if is_it && entry[4] & 0xf == kind && u16_at(&entry, 6) != 0 {
                    return Some(self.bias.wrapping_add(u64_at(&entry, 8)));
                }
            }
            if hash & 1 == 1 {
                break;
            }
        }
        None
    }
}

/// The bytes that [`has_fixed_addresses`] looks at.
pub const HEAD_BYTES: usize = 18;

/// Whether the file is a program with fixed addresses (`ET_EXEC`).
pub fn has_fixed_addresses(head: &[u8; HEAD_BYTES]) -> bool {
    const EXECUTABLE: u16 = 2;
    u16::from_le_bytes([head[HEAD_BYTES - 2], head[HEAD_BYTES - 1]]) == EXECUTABLE
}

/// The file's address of a function that it does not export, by the table that `strip` removes: `file` is its bytes, from address 0.
pub fn unexported_function(file: &impl Memory, name: &str) -> Option<u64> {
    let (sections, _) = sections(file)?;
    let symbols = sections.iter().find(|section| u32_at(*section, 4) == SHT_SYMTAB)?;
    let (strings, _) = part_of(sections.get(u32_at(symbols, 40) as usize)?);
    let (at, bytes) = part_of(symbols);
    let name = [name.as_bytes(), b"\0"].concat();
    let is_it = |symbol: &&[u8; 24]| {
        let is_function = symbol[4] & 0xf == FUNCTION && u16_at(*symbol, 6) != 0;
        is_function && file.bytes(strings.wrapping_add(u32_at(*symbol, 0).into()), name.len()) == name
    };
    let end = at.checked_add(bytes.min(MOST_SYMBOL_BYTES))?;
    let mut chunks = (at..end).step_by(CHUNK);
    chunks.find_map(|begin| {
        let symbols = file.bytes(begin, CHUNK.min((end - begin) as usize));
        symbols.as_chunks().0.iter().find(is_it).map(|symbol| u64_at(symbol, 8))
    })
}

/// How long a section is, by the table in its file.
pub fn section_bytes(file: &impl Memory, name: &str) -> Option<u64> {
    let (sections, names) = sections(file)?;
    let (names, _) = part_of(sections.get(names)?);
    let name = [name.as_bytes(), b"\0"].concat();
    let is_it = |section: &&[u8; 64]| file.bytes(names.wrapping_add(u32_at(*section, 0).into()), name.len()) == name;
    sections.iter().find(is_it).map(|section| part_of(section).1)
}

/// The headers of a file's sections, and which section has their names.
fn sections(file: &impl Memory) -> Option<(Vec<[u8; 64]>, usize)> {
    let head: [u8; 64] = file.array(0)?;
    if head[..6] != *b"\x7fELF\x02\x01" || u16_at(&head, 58) != 64 {
        return None;
    }
    let table = file.bytes(u64_at(&head, 40), usize::from(u16_at(&head, 60).min(MOST_SECTIONS)) * 64);
    Some((table.as_chunks().0.to_vec(), u16_at(&head, 62).into()))
}

/// A section's offset in its file, and its length.
fn part_of(section: &[u8; 64]) -> (u64, u64) {
    (u64_at(section, 24), u64_at(section, 32))
}

struct Header {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let head: &[u8; 12] = rest.first_chunk()?;
        let (name, length) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let name_end = 12_usize.checked_add(name)?;
        let text_at = name_end.checked_next_multiple_of(4)?;
        let text_end = text_at.checked_add(length)?;
        let text = rest.get(text_at..text_end)?;
        if u32_at(head, 8) == NT_GNU_BUILD_ID && rest.get(12..name_end)? == b"GNU\0" {
            return (1..=MOST_BUILD_ID).contains(&length).then(|| text.to_owned());
        }
        rest = rest.get(text_end.checked_next_multiple_of(4)?..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
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
            }
        }
        assert_eq!(Image::read(&At(0, b"\x7fELF\x02\x01"), 0), None);
    }
}
