//! The frames of a blocked thread's stack, outwards from its driver call. Each has to lie further out than the last, with a return address in
//! code; at a doubt the walk ends.

use super::elf::Image;
use super::machine::Machine;
use super::maps::Module;
use super::unwind::{caller, Registers};
use super::Memory;

pub const MOST_FRAMES: usize = 64;

/// A stack from the innermost frame that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    pub address: u64,
    pub begin: u64,
    pub end: u64,
    pub frame: u64,
}

/// Return addresses, the innermost first.
pub fn walk<'a>(
    memory: &impl Memory,
    modules: &[Module],
    image: &dyn Fn(usize) -> Option<&'a Image>,
    stack: &Stack,
) -> Vec<u64> {
    let begin = Registers::new(Machine::OWN, stack.address, stack.begin, stack.frame);
    walk_from(memory, modules, image, begin, stack.end, MOST_FRAMES).frames.iter().map(Registers::address).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    pub frames: Vec<Registers>,
    /// Whether the last one has no caller.
    pub is_whole: bool,
}

/// Walks at most `most` frames of a stack that ends at `end`.
pub fn walk_from<'a>(
    memory: &impl Memory,
    modules: &[Module],
    image: &dyn Fn(usize) -> Option<&'a Image>,
    begin: Registers,
    end: u64,
    most: usize,
) -> Walked {
    let mut now = begin;
    let mut walked = Walked { frames: vec![now.clone()], is_whole: false };
    while walked.frames.len() < most {
        let Some(module) = modules.iter().position(|module| module.has_code_at(now.call())) else { break };
        let Some(next) = image(module).and_then(|image| caller(memory, image, &now)) else { break };
        walked.is_whole = !next.has_address();
        let goes_on_in_code = modules.iter().any(|module| module.has_code_at(next.call()));
        if walked.is_whole || next.stack() <= now.stack() || next.stack() > end || !goes_on_in_code {
            break;
        }
        walked.frames.push(next.clone());
        now = next;
    }
    walked
}
