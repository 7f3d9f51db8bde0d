//! A point: threads of a kernel at one instruction, and what the code there says of them.

use super::image::{Function, Image};
use super::lines::Lines;
use super::sass::{self, Instruction};
use super::{Doing, GpuFrame};
use crate::demangle::demangle;
use std::collections::BTreeMap;

/// Identifies a point: threads of a kernel at one instruction, of which the report says the same.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub kernel: usize,
    pub address: u64,
    pub blocked: bool,
    pub fault: Option<(u32, Option<u64>)>,
    pub callers: Vec<u64>,
}

pub(super) struct Point {
    pub key: Key,
    pub offset: u64,
    pub first_block: [u32; 3],
    pub first_thread: [u32; 3],
}

#[derive(Clone, Copy, Default)]
pub(super) struct Standing {
    pub doing: Doing,
    /// The barrier at which it waits, if its block's other threads are elsewhere.
    pub barrier: Option<u64>,
    pub loop_start: Option<u64>,
}

/// An address in the call that returns to this one.
pub(super) fn call(address: &u64) -> u64 {
    address.saturating_sub(1)
}

/// A function's name as in the source, without the namespace that the compiler makes up for a file's local names.
pub(super) fn named(symbol: &str) -> String {
    let name = demangle(symbol);
    match name.split_once("::") {
        Some((first, rest)) if first.starts_with("_INTERNAL_") => rest.to_owned(),
        _ => name,
    }
}

pub(super) struct Code<'i, 'a> {
    pub images: &'i [(u64, Image<'a>)],
    pub lines: BTreeMap<u64, Lines>,
}

impl<'i, 'a> Code<'i, 'a> {
    pub fn find_lines(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut of_image: Vec<Vec<u64>> = vec![Vec::new(); self.images.len()];
        for address in addresses {
            if let Some(at) = self.images.iter().position(|(_, image)| image.function(address).is_some()) {
                of_image[at].push(address);
            }
        }
        for ((_, image), mut addresses) in self.images.iter().zip(of_image) {
            addresses.sort_unstable();
            addresses.dedup();
            self.lines.append(&mut image.lines(&addresses));
        }
    }

    /// The function at an address, of a module if it has it.
    pub fn function(&self, address: u64, module: u64) -> Option<&'i Function<'a>> {
        let own = self.images.iter().filter(|(of, _)| *of == module);
        own.chain(self.images).find_map(|(_, image)| image.function(address))
    }

    pub fn any_function(&self, address: u64) -> Option<&'i Function<'a>> {
        self.images.iter().find_map(|(_, image)| image.function(address))
    }

    pub fn standing(&self, key: &Key, major: u32) -> Standing {
        if key.blocked {
            return Standing { doing: Doing::WaitsForLanes, ..Standing::default() };
        }
        let function = self.any_function(key.address);
        let Some((function, at)) = function.and_then(|function| Some((function, function.number_at(key.address)?)))
        else {
            return Standing::default();
        };
        let word = |at| function.word(at);
        if sass::waits_for_registers(word, at, major) {
            return Standing { doing: Doing::WaitsForRegisters, ..Standing::default() };
        }
        let loop_start = sass::loop_start(word, at, major).map(|at| function.address_of(at));
        let doing = match word(at).map_or(Instruction::Other, |word| sass::decode(word, major)) {
            Instruction::WarpBarrier => return Standing { doing: Doing::WaitsForLanes, loop_start, barrier: None },
            Instruction::ClusterBarrier => Doing::WaitsAtClusterBarrier,
            _ if loop_start.is_some() => Doing::Loops,
            Instruction::Sleep => Doing::Sleeps,
            _ => Doing::Stands,
        };
        let barrier = sass::barrier_before(word, at, major).map(|at| function.address_of(at));
        Standing { doing, barrier, loop_start }
    }

    /// The functions at an address with its callers, the innermost first.
    pub fn frames(&self, address: u64, callers: &[u64], kernel: &str) -> Vec<GpuFrame> {
        let mut frames = Vec::new();
        for address in std::iter::once(address).chain(callers.iter().map(call)) {
            let function =
                self.any_function(address).map_or_else(|| kernel.to_owned(), |function| named(&function.name()));
            let Some(lines) = self.lines.get(&address) else {
                frames.push(GpuFrame { function, ..GpuFrame::default() });
                continue;
            };
            for line in lines {
                frames.push(GpuFrame {
                    function: line.inlined.as_deref().map_or_else(|| function.clone(), named),
                    file: Some(line.file.clone()).filter(|file| !file.is_empty()),
                    line: Some(line.line).filter(|line| *line != 0),
                    inlined: line.inlined.is_some(),
                });
            }
        }
        frames
    }
}
