//! The frames of a blocked thread's stack, from its driver call outwards.
//!
//! Must not: continue at a doubt. Each frame has to lie further out than the last, on the same stack, with a return address in code.

use super::elf::Image;
use super::machine::Machine;
use super::maps::Module;
use super::unwind::{caller, Caller, Registers};
use super::Memory;

pub const MOST_FRAMES: usize = 64;

/// The outer part of a thread's stack, from its innermost frame that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    pub address: u64,
    pub begin: u64,
    /// The end of the memory that the stack lies in.
    pub end: u64,
    pub frame: u64,
}

/// The return addresses of the frames, the innermost first. `image` gives the tables of a module, by its number.
pub fn walk<'a>(
    memory: &impl Memory,
    modules: &[Module],
    image: &dyn Fn(usize) -> Option<&'a Image>,
    stack: &Stack,
) -> Vec<u64> {
    let begin = Registers::new(Machine::OWN, stack.address, stack.begin, stack.frame);
    let walked = walk_from(memory, modules, image, begin, stack.end, MOST_FRAMES);
    walked.frames.iter().map(Registers::address).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    pub frames: Vec<Registers>,
    /// Whether the last one is the thread's first: the tables say that it has no caller.
    pub is_whole: bool,
}

/// The frames from these registers outwards, of a stack that ends at `end`, and at most so many.
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
        let next = match image(module).map(|image| caller(memory, image, &now)) {
            Some(Caller::Is(next)) => next,
            Some(Caller::None) => {
                walked.is_whole = true;
                break;
            }
            Some(Caller::Unknown) | None => break,
        };
        let goes_on_in_code = modules.iter().any(|module| module.has_code_at(next.call()));
        if next.stack() <= now.stack() || next.stack() > end || !goes_on_in_code {
            break;
        }
        walked.frames.push(next.clone());
        now = next;
    }
    walked
}
