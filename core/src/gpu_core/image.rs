//! The device code in a core: relocated cubins, with the functions, their bytes and their line tables.
//!
//! A relocated cubin has its sections at the addresses of the device, and so have its functions and its line table.
//!
//! Must not: look at more of an image than what a question needs; images can have hundreds of megabytes.

use super::lines::{self, Lines};
use super::names::text;
use super::sass::{Word, BYTES};
use object::elf::{FileHeader64, STT_FUNC};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::LittleEndian;
use std::collections::BTreeMap;

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

const MOST_FUNCTIONS: usize = 1 << 20;
/// The most functions that begin between an address and the function in which it lies.
const MOST_BEFORE: usize = 1 << 14;

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
    code: &'a [[u8; BYTES as usize]],
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
                let (address, bytes) = (start.checked_add(offset)?, symbol.st_size(ENDIAN));
                let own = usize::try_from(bytes).ok().and_then(|bytes| code.get(..bytes)).unwrap_or(code);
                Some(Function { symbol: symbol_name, address, bytes, code: own.as_chunks().0 })
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
        let mut candidates = self.functions.get(..before)?.iter().rev().take(MOST_BEFORE);
        candidates.find(|function| address - function.address < function.bytes)
    }

    pub fn lines(&self, addresses: &[u64]) -> BTreeMap<u64, Lines> {
        lines::find(self.table, self.names, addresses)
    }
}

impl Function<'_> {
    pub fn words(&self) -> impl Iterator<Item = Word> + '_ {
        (0..).map_while(|number| self.word(number))
    }

    /// The number of the instruction at an address.
    pub fn number_at(&self, address: u64) -> Option<usize> {
        usize::try_from(address.checked_sub(self.address)? / BYTES).ok()
    }

    pub fn address_of(&self, number: usize) -> u64 {
        self.address.saturating_add((number as u64).saturating_mul(BYTES))
    }

    pub fn word(&self, number: usize) -> Option<Word> {
        self.code.get(number).map(|bytes| Word(u128::from_le_bytes(*bytes)))
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
