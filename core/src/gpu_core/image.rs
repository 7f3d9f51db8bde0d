//! The device code in a core: relocated cubins, with the functions, their bytes and their line tables.
//!
//! A relocated cubin has its sections at the addresses of the device, and so have its functions and its line table.
//!
//! Must not: look at more of an image than what a question needs; images can have hundreds of megabytes.

use super::lines::{self, Lines};
use super::names::text;
use super::sass::{self, Instruction};
use super::sync::Word;
use object::elf::{FileHeader64, STT_FUNC};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::LittleEndian;
use std::collections::BTreeMap;

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

const MOST_FUNCTIONS: usize = 1 << 20;
/// How many instructions are looked at for a barrier at which a warp waits.
const MOST_BEHIND_A_BARRIER: usize = 256;
const MOST_OF_A_LOOP: usize = 1 << 14;

pub(super) struct Image<'a> {
    functions: Vec<Function<'a>>,
    table: &'a [u8],
    names: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Function<'a> {
    pub symbol: &'a [u8],
    pub address: u64,
    bytes: u64,
    /// The section's code from the function on.
    code: &'a [u8],
}

impl<'a> Image<'a> {
    /// Reads the functions and tables of an image. An image that is no cubin has none.
    pub fn new(data: &'a [u8]) -> Self {
        let mut image = Self { functions: Vec::new(), table: &[], names: &[] };
        let Ok(header) = Header::parse(data) else { return image };
        let Ok(sections) = header.sections(ENDIAN, data) else { return image };
        let named = |name: &[u8]| {
            let (_, section) = sections.section_by_name(ENDIAN, name)?;
            section.data(ENDIAN, data).ok()
        };
        image.table = named(b".debug_line").unwrap_or_default();
        image.names = named(b".debug_str").unwrap_or_default();
        if let Ok(symbols) = sections.symbols(ENDIAN, data, object::elf::SHT_SYMTAB) {
            let functions = symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC).filter_map(|symbol| {
                let section = sections.section(object::SectionIndex(usize::from(symbol.st_shndx(ENDIAN).0))).ok()?;
                let (start, length) = (section.sh_addr(ENDIAN), section.sh_size(ENDIAN));
                // A function that was not loaded has no address.
                if start == 0 {
                    return None;
                }
                // The address, or the offset in the section.
                let value = symbol.st_value(ENDIAN);
                let offset = value.checked_sub(start).filter(|offset| *offset < length).unwrap_or(value);
                let code = section.data(ENDIAN, data).ok()?.get(usize::try_from(offset).ok()?..)?;
                let symbol_name = symbols.symbol_name(ENDIAN, symbol).ok()?;
                let address = start.checked_add(offset)?;
                Some(Function { symbol: symbol_name, address, bytes: symbol.st_size(ENDIAN), code })
            });
            image.functions = functions.take(MOST_FUNCTIONS).collect();
        }
        image.functions.sort_by_key(|function| function.address);
        image
    }

    /// The function in which an address lies: the last to begin among those that reach over it. A function that is not inlined lies behind its caller,
    /// a kernel, and within the bytes of the kernel's symbol.
    pub fn function(&self, address: u64) -> Option<&Function<'a>> {
        let before = self.functions.partition_point(|function| function.address <= address);
        let mut candidates = self.functions.get(..before)?.iter().rev().take(MOST_OF_A_LOOP);
        candidates.find(|function| address - function.address < function.bytes)
    }

    pub fn lines(&self, addresses: &[u64]) -> BTreeMap<u64, Lines> {
        lines::find(self.table, self.names, addresses)
    }
}

impl Function<'_> {
    fn bytes_at(&self, address: u64) -> Option<[u8; 16]> {
        self.code.get(usize::try_from(address.checked_sub(self.address)?).ok()?..)?.get(..16)?.try_into().ok()
    }

    pub fn words(&self) -> impl Iterator<Item = Word> + '_ {
        let code = usize::try_from(self.bytes).ok().and_then(|bytes| self.code.get(..bytes)).unwrap_or(self.code);
        code.chunks_exact(sass::BYTES as usize)
            .filter_map(|bytes| Some(Word(u128::from_le_bytes(bytes.try_into().ok()?))))
    }

    pub fn instruction(&self, address: u64, major: u32) -> Instruction {
        self.bytes_at(address).map_or(Instruction::Other, |bytes| sass::decode(bytes, major))
    }

    /// The address of the barrier at which a warp with this next instruction may wait: this instruction, or an earlier one. A warp would have stood at no
    /// instruction in between.
    pub fn barrier_before(&self, address: u64, major: u32) -> Option<u64> {
        let mut before = address;
        for _ in 0..MOST_BEHIND_A_BARRIER {
            before = before.checked_sub(sass::BYTES)?;
            let bytes = self.bytes_at(before)?;
            match sass::decode(bytes, major) {
                Instruction::Barrier { .. } => return Some(before),
                _ if sass::is_held(bytes) => break,
                _ => {}
            }
        }
        // A barrier that does not defer holds its warp itself.
        (self.instruction(address, major) == Instruction::Barrier { defers: false }).then_some(address)
    }

    pub fn loop_start(&self, address: u64, major: u32) -> Option<u64> {
        let code = usize::try_from(self.bytes).ok().and_then(|bytes| self.code.get(..bytes)).unwrap_or(self.code);
        self.address.checked_add(sass::loop_start(code, address.checked_sub(self.address)?, major, MOST_OF_A_LOOP)?)
    }

    /// Its name without those of the functions that it was made for: `$_Z3topv$_Z5innerv` is `_Z5innerv`.
    pub fn name(&self) -> String {
        let own = match self.symbol.strip_prefix(b"$") {
            Some(rest) => rest.rsplit(|&byte| byte == b'$').next().filter(|own| !own.is_empty()).unwrap_or(self.symbol),
            None => self.symbol,
        };
        text(own)
    }
}
