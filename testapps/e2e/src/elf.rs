//! Reads what the tests need of a built library as a file: 64-bit little-endian ELF, through the program headers, as the dynamic linker
//! does.

use std::path::Path;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DT_VERNEED: u64 = 0x6fff_fffe;
const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
const DF_1_NODELETE: u64 = 8;

/// An ELF file.
#[derive(Debug)]
pub struct Elf {
    bytes: Vec<u8>,
    /// Address, offset in the file and size of each loaded segment.
    segments: Vec<(u64, u64, u64)>,
    dynamic: Vec<(u64, u64)>,
}

impl Elf {
    /// Reads a file.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(bytes.starts_with(b"\x7fELF\x02\x01"), "{}: not a 64-bit little-endian ELF file", path.display());
        let mut elf = Self { bytes, segments: Vec::new(), dynamic: Vec::new() };
        let (headers, size, count) = (elf.u64_at(32), u64::from(elf.u16_at(54)), u64::from(elf.u16_at(56)));
        let mut dynamic = None;
        for at in (0..count).map(|n| headers + n * size) {
            let (offset, address, length) = (elf.u64_at(at + 8), elf.u64_at(at + 16), elf.u64_at(at + 32));
            match elf.u32_at(at) {
                PT_LOAD => elf.segments.push((address, offset, length)),
                PT_DYNAMIC => dynamic = Some((offset, length)),
                _ => {}
            }
        }
        let (start, length) = dynamic.unwrap_or_else(|| panic!("{}: not dynamically linked", path.display()));
        let entries = (start..start + length).step_by(16).map(|at| (elf.u64_at(at), elf.u64_at(at + 8)));
        elf.dynamic = entries.take_while(|(tag, _)| *tag != 0).collect();
        elf
    }

    fn array<const N: usize>(&self, at: u64) -> [u8; N] {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let part = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
        *part.unwrap_or_else(|| panic!("the file ends before {at:#x}"))
    }

    fn u16_at(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32_at(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64_at(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn entry(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().find(|(t, _)| *t == tag).map(|(_, value)| *value)
    }

    fn offset(&self, address: u64) -> u64 {
        let inside = |&&(start, _, size): &&(u64, u64, u64)| (start..start + size).contains(&address);
        let (start, offset, _) =
            self.segments.iter().find(inside).unwrap_or_else(|| panic!("{address:#x} is in no segment"));
        address - start + offset
    }

    fn string(&self, at: u64) -> String {
        let strings = self.offset(self.entry(DT_STRTAB).unwrap_or_else(|| panic!("there is no string table")));
        let start = usize::try_from(strings + at).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(start..).unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
    }

    /// The libraries it needs.
    pub fn needed(&self) -> Vec<String> {
        self.dynamic.iter().filter(|(tag, _)| *tag == DT_NEEDED).map(|(_, at)| self.string(*at)).collect()
    }

    /// The symbol versions it insists on.
    pub fn needed_versions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(mut at) = self.entry(DT_VERNEED).map(|address| self.offset(address)) else {
            return found;
        };
        for _ in 0..self.entry(DT_VERNEEDNUM).unwrap_or(0) {
            let mut inner = at + u64::from(self.u32_at(at + 8));
            for _ in 0..self.u16_at(at + 2) {
                found.push(self.string(u64::from(self.u32_at(inner + 8))));
                inner += u64::from(self.u32_at(inner + 12));
            }
            at += u64::from(self.u32_at(at + 12));
        }
        found
    }

    /// Whether `dlclose` leaves it where it is.
    pub fn is_never_unloaded(&self) -> bool {
        self.entry(DT_FLAGS_1).unwrap_or(0) & DF_1_NODELETE != 0
    }
}
