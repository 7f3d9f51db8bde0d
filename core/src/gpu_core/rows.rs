//! An entry of a table; its fields are read by their offsets.
//!
//! Must not: fail for a field that an older driver does not write.

/// An entry of a table. A field that an older driver does not write is `None`, or 0.
#[derive(Clone, Copy)]
pub(super) struct Row<'a>(pub &'a [u8]);

impl Row<'_> {
    pub fn newer_u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
    pub fn newer_u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }
    pub fn u32(self, at: usize) -> u32 {
        self.newer_u32(at).unwrap_or(0)
    }
    pub fn u64(self, at: usize) -> u64 {
        self.newer_u64(at).unwrap_or(0)
    }
    pub fn three(self, at: usize) -> [u32; 3] {
        [self.u32(at), self.u32(at + 4), self.u32(at + 8)]
    }
}
