//! The warps of resident blocks, with the entries of the core's tables under which their registers and their memory lie.
//!
//! Must not: hold a register. They are read where a wait is found.

/// The most warps. Eight filled devices have 70,000.
const MOST_WARPS: usize = 1 << 17;

/// More than any device's block can have.
const MOST_OF_A_BLOCK: usize = 64;

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

pub(super) struct WarpSeen {
    /// Its number in the block.
    pub number: u32,
    pub entry: Entry,
    /// Each point at which it has threads, with one of them.
    pub at: Vec<(usize, Entry)>,
}

#[derive(Default)]
pub(super) struct Warps {
    pub blocks: Vec<BlockSeen>,
    count: usize,
    /// Warps were left out, so the missing ones of a barrier are unknown.
    pub incomplete: bool,
}

impl Warps {
    pub fn add(&mut self, warp: WarpSeen) {
        let Some(block) = self.blocks.last_mut() else { return };
        self.incomplete |= self.count >= MOST_WARPS || block.warps.len() >= MOST_OF_A_BLOCK;
        if !self.incomplete {
            self.count += 1;
            block.warps.push(warp);
        }
    }
}
