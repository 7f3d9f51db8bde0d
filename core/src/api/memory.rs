//! Waits for a value in memory, and writes of one: what the driver compares.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A wait's comparison of memory with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// At least the value, cyclically.
    #[serde(rename = ">=")]
    AtLeast,
    /// Is the value.
    #[serde(rename = "==")]
    Equal,
    /// A bit in common with the value.
    #[serde(rename = "&")]
    And,
    /// Not each bit set, together with the value.
    #[serde(rename = "nor")]
    Nor,
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueWait {
    pub at: Nanos,
    pub address: u64,
    pub value: u64,
    /// The driver's flags: the low bits are the condition.
    pub flags: u32,
    pub wide: bool,
}

impl ValueWait {
    /// Whether memory holding `stored` ends the wait, by the condition in the flags.
    pub fn satisfied_by(&self, stored: u64) -> bool {
        // Shifted, so that 32 bits compare cyclically as 64 do.
        let aligned = |value: u64| if self.wide { value } else { value << 32 };
        let (stored, value) = (aligned(stored), aligned(self.value));
        match self.condition() {
            Condition::AtLeast => (stored.wrapping_sub(value) as i64) >= 0,
            Condition::Equal => stored == value,
            Condition::And => stored & value != 0,
            Condition::Nor => !(stored | value) >> if self.wide { 0 } else { 32 } != 0,
        }
    }

    pub const fn condition(&self) -> Condition {
        match self.flags & 3 {
            0 => Condition::AtLeast,
            1 => Condition::Equal,
            2 => Condition::And,
            _ => Condition::Nor,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueWrite {
    pub at: Nanos,
    pub address: u64,
    pub value: u64,
    pub stream: u32,
    pub wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// None: it writes elsewhere.
    Nothing,
    All(u64),
    Half,
}

impl ValueWrite {
    pub fn ends(&self, wait: &ValueWait) -> bool {
        matches!(self.stores_for(wait), Stores::All(value) if wait.satisfied_by(value))
    }

    pub fn stores_for(&self, wait: &ValueWait) -> Stores {
        match (self.wide, wait.address.checked_sub(self.address)) {
            (false, Some(0)) if !wait.wide => Stores::All(self.value & 0xffff_ffff),
            (true, Some(0)) if wait.wide => Stores::All(self.value),
            (true, Some(0)) => Stores::All(self.value & 0xffff_ffff),
            (true, Some(4)) if !wait.wide => Stores::All(self.value >> 32),
            (false, Some(0)) => Stores::Half,
            _ if !self.wide && wait.wide && self.address == wait.address.wrapping_add(4) => Stores::Half,
            _ => Stores::Nothing,
        }
    }
}

/// A number of what is the same in several processes: the same for the same bytes in every process, and with every build of this library
/// (FNV-1a). Never 0.
pub fn identity_of(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let of_byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, of_byte).max(1)
}

/// Memory, or an event, that other processes have too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// In this process; of an event its handle, and then it has no bytes.
    pub address: u64,
    pub bytes: u64,
    /// The same number in all processes of the machine that have it; 0: this process has it no more.
    pub identity: u64,
    /// How far behind the beginning of what has that identity it begins.
    pub offset: u64,
}

impl SharedMemory {
    /// The offset of an address of this process in the memory that has the identity.
    pub fn place_of(&self, address: u64) -> Option<(u64, u64)> {
        let within = address.checked_sub(self.address).filter(|within| *within < self.bytes.max(1))?;
        Some((self.identity, self.offset.checked_add(within)?))
    }

    pub fn has(&self, (identity, offset): (u64, u64)) -> bool {
        identity == self.identity && offset.checked_sub(self.offset).is_some_and(|within| within < self.bytes.max(1))
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |one: &Self| one.address.saturating_add(one.bytes.max(1));
        self.address < end(other) && other.address < end(self)
    }

    /// Brings a newer fact into those that hold: memory ends what was at its addresses before.
    pub fn follows(self, known: &mut Vec<Self>) {
        known.retain(|one| (one.bytes == 0) != (self.bytes == 0) || !one.overlaps(&self));
        if self.identity != 0 {
            known.push(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_fact_about_an_address_holds() {
        let mut known = Vec::new();
        let memory = |address, bytes, identity| SharedMemory { address, bytes, identity, offset: 0x1000 };
        let event = memory(0x2010, 0, 9);
        [memory(0x1000, 0x1000, 7), memory(0x2000, 0x1000, 8), event].iter().for_each(|one| one.follows(&mut known));
        assert_eq!(known[1].place_of(0x2010), Some((8, 0x1010)));
        assert!(known[1].has((8, 0x1010)) && !known[1].has((8, 0x2000)) && !known[1].has((7, 0x1010)));
        assert_eq!((known[1].place_of(0x1fff), known[1].place_of(0x3000)), (None, None));
        memory(0x1800, 0x1000, 0).follows(&mut known);
        assert_eq!(known, [event], "and an event has no address");
    }

    #[test]
    fn wait_conditions_follow_the_driver() {
        let wait = |flags, value, wide| ValueWait { at: 0, address: 0, value, flags, wide };
        let max = u64::from(u32::MAX);
        for (flags, value, wide, stored, expect) in [
            (0, 5, false, 5, true),
            (0, 5, false, 4, false),
            (0, 5, true, 6, true),
            (0, max - 1, false, 1, true), // the comparison is cyclic, in the width of the wait
            (0, max - 1, true, 1, false),
            (1, 5, false, 6, false),
            (1, 5, true, 5, true),
            (1, 5, false, 5 | 7 << 40, true),
            (2, 6, false, 1, false),
            (2, 6, false, 2, true),
            (3, 6, false, 1, true),
            (3, max, false, 0, false),
            (3, max, true, 0, true),
        ] {
            assert_eq!(wait(flags, value, wide).satisfied_by(stored), expect, "{flags} {value} {wide} {stored}");
        }
    }
}
