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

#[cfg(test)]
mod tests {
    use super::*;

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
