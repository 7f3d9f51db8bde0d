//! The frames of a blocked thread's stack, from its driver call outwards.
//!
//! Must not: continue at a doubt. Each frame has to lie further out than the last, on the same stack, with a return address in code.

use super::elf::Image;
use super::maps::Module;
use super::unwind::{step, Registers};
use super::Memory;

/// The most frames of one stack.
pub const MOST_FRAMES: usize = 64;

/// The outer part of a thread's stack, from its innermost frame that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The address at which that frame continues.
    pub address: u64,
    /// The stack pointer then.
    pub begin: u64,
    /// The end of the memory that the stack lies in.
    pub end: u64,
    /// The frame pointer then.
    pub frame: u64,
}

/// The return addresses of the frames, the innermost first. `image` gives the tables of a module, by its number.
pub fn walk<'a>(
    memory: &impl Memory,
    modules: &[Module],
    image: &dyn Fn(usize) -> Option<&'a Image>,
    stack: &Stack,
) -> Vec<u64> {
    let mut now = Registers::new(stack.address, stack.begin, stack.frame);
    let mut found = vec![now.address()];
    while found.len() < MOST_FRAMES {
        let Some(module) = modules.iter().position(|module| module.has_code_at(now.call())) else {
            break;
        };
        let Some(next) = image(module).and_then(|image| step(memory, image, &now)) else { break };
        let goes_on_in_code = modules.iter().any(|module| module.has_code_at(next.call()));
        if next.stack() <= now.stack() || next.stack() > stack.end || !goes_on_in_code {
            break;
        }
        found.push(next.address());
        now = next;
    }
    found
}
