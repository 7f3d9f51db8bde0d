//! Stacks of threads that are blocked in a driver call: where they lie, what is on them, and how they are written down.
//!
//! All of it works on a [`Memory`] that may refuse any byte: the process's own, read by the kernel, or the bytes of a file. A value found there is
//! compared with what is mapped before it is used.
//!
//! Must not: fail except by finding less, or loop without a bound.

mod dump;
mod elf;
mod in_memory;
mod machine;
mod maps;
mod python;
mod unwind;
mod walk;

pub use dump::{stream, DumpContext, DumpFile, DumpModule, DumpThread, BUILD_ID, STACKS};
pub use elf::{has_fixed_addresses, section_bytes, unexported_function, Image, HEAD_BYTES};
pub use machine::Machine;
pub use maps::{first_of_own_maps, mappings, modules, own_maps, undeleted, Mapping, Module};
pub use python::{Python, PythonFrame};
pub use unwind::{above_frame_pointer, caller_by, FileTables, Registers};
pub use walk::{walk, walk_from, Stack, Walked, MOST_FRAMES};

pub trait Memory {
    /// Reads from an address on; returns how many bytes there were.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]>
    where
        Self: Sized,
    {
        let mut bytes = [0; N];
        (self.read(address, &mut bytes) == N).then_some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64>
    where
        Self: Sized,
    {
        self.array(address).map(u64::from_le_bytes)
    }

    fn bytes(&self, address: u64, length: usize) -> Vec<u8>
    where
        Self: Sized,
    {
        let mut bytes = Vec::new();
        // Without memory for the bytes none are read.
        if bytes.try_reserve_exact(length).is_err() {
            return bytes;
        }
        bytes.resize(length, 0);
        let read = self.read(address, &mut bytes);
        bytes.truncate(read);
        bytes
    }
}

/// Spares one compiled copy for each kind of memory.
impl Memory for &dyn Memory {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        (**self).read(address, into)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Memory;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    pub struct Own(File);

    impl Own {
        pub fn new() -> Self {
            Self(File::open("/proc/self/mem").unwrap())
        }
    }

    impl Memory for Own {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            self.0.read_at(into, address).unwrap_or(0)
        }
    }

    /// Bytes that lie at an address.
    pub struct At<'a>(pub u64, pub &'a [u8]);

    impl Memory for At<'_> {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            let Some(from) = address.checked_sub(self.0).and_then(|at| self.1.get(usize::try_from(at).ok()?..)) else {
                return 0;
            };
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            length
        }
    }
}
