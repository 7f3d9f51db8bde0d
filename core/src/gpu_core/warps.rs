//! The warps of resident blocks, with the entries of the core's tables under which their registers and their memory lie.
//!
//! Must not: hold a register. They are read where a wait is found.

use std::collections::BTreeSet;

/// An entry of a table, to which sections belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub table: u32,
    pub row: u32,
}

impl Entry {
    pub fn of(table: u32, row: usize) -> Self {
        Self { table, row: u32::try_from(row).unwrap_or(u32::MAX) }
    }
}

/// The registers and the memory in a core. `None` is what it does not have.
pub(super) trait Memory {
    fn register(&mut self, lane: Entry, register: u8) -> Option<u32>;
    fn uniform(&mut self, warp: Entry, register: u8) -> Option<u32>;
    fn shared(&mut self, block: Entry, offset: u32) -> Option<u64>;
}

pub(super) struct BlockSeen {
    pub kernel: usize,
    pub index: [u32; 3],
    pub entry: Entry,
    pub warps: Vec<WarpSeen>,
}

impl BlockSeen {
    /// The points at which it has threads.
    pub fn points(&self) -> BTreeSet<usize> {
        self.warps.iter().flat_map(|warp| &warp.at).map(|at| at.point).collect()
    }
}

pub(super) struct WarpSeen {
    /// Its number in the block.
    pub number: u32,
    pub entry: Entry,
    pub at: Vec<AtPoint>,
}

/// The threads of a warp at one point.
pub(super) struct AtPoint {
    pub point: usize,
    /// One of them.
    pub lane: Entry,
    pub threads: u32,
    /// How many of them the warp executes.
    pub active: u32,
}
