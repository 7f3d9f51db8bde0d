//! Registers and shared memory in a core, of which single words are read.
//!
//! Must not: read a section as a whole. Those of a filled device have 90 MB.

use super::sync::{RZ, URZ};
use super::tables::{Reader, Table, ENDIAN, REGISTERS, SHARED, UNIFORM};
use super::warps::{Entry, Memory};
use object::ReadRef;

impl<'data, R: ReadRef<'data>> Reader<'data, R> {
    fn bytes<const COUNT: usize>(&self, table: Table, of: Entry, offset: u64) -> Option<[u8; COUNT]> {
        let section = self.sections.get(self.belonging(table, of.table, of.row as usize)? as usize)?;
        if offset.checked_add(COUNT as u64)? > section.sh_size.get(ENDIAN) {
            return None;
        }
        self.data.read_bytes_at(section.sh_offset.get(ENDIAN).checked_add(offset)?, COUNT as u64).ok()?.try_into().ok()
    }
}

impl<'data, R: ReadRef<'data>> Memory for Reader<'data, R> {
    fn register(&mut self, lane: Entry, register: u8) -> Option<u32> {
        match register {
            RZ => Some(0),
            _ => self.bytes(REGISTERS, lane, 4 * u64::from(register)).map(u32::from_le_bytes),
        }
    }

    fn uniform(&mut self, warp: Entry, register: u8) -> Option<u32> {
        match register {
            URZ => Some(0),
            _ => self.bytes(UNIFORM, warp, 4 * u64::from(register)).map(u32::from_le_bytes),
        }
    }

    fn shared(&mut self, block: Entry, offset: u32) -> Option<u64> {
        self.bytes(SHARED, block, offset.into()).map(u64::from_le_bytes)
    }
}
