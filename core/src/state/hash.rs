//! How handles are hashed.
//!
//! Handles are addresses that the driver gives out. No adversary chooses them, so one multiplication is enough. The standard
//! library's hash takes several times as long as the rest of a look-up.

use std::hash::{BuildHasherDefault, Hasher};

pub(super) type ByHandle = BuildHasherDefault<HandleHasher>;

#[derive(Default)]
pub(super) struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn write_u64(&mut self, word: u64) {
        // Both halves of the product: maps take their buckets from the low bits, and the low bits of handles are all alike.
        let product = u128::from(self.0 ^ word ^ 0x243F_6A88_85A3_08D3) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbouring_handles_fall_into_different_buckets() {
        let hash = |handle: u64| ByHandle::default().hash_one(handle);
        for stride in [8, 64, 0x100, 0x1000, 0x20_0000] {
            let buckets: HashSet<_> = (0..1024).map(|n| hash(0x7f00_0000_0000 + n * stride) & 1023).collect();
            let top: HashSet<_> = (0..1024).map(|n| hash(0x7f00_0000_0000 + n * stride) >> 57).collect();
            // Thrown at random, 1024 balls meet about 647 of 1024 boxes.
            assert!(buckets.len() > 550 && top.len() > 120, "{stride:#x}: {} {}", buckets.len(), top.len());
        }
    }
}
