//! The instructions of NVIDIA's devices that say what a thread waits for.
//!
//! Instructions have 16 bytes on every device since compute capability 7.0. The lowest nine bits are the operation, the next three the form
//! of its operands. The numbers are from what `ptxas` of CUDA 13.0 makes of PTX for sm_75 to sm_121, as `nvdisasm` of CUDA 13.5 reads it; the
//! tests have an excerpt.
//!
//! Must not: guess. An instruction that is not listed is [`Instruction::Other`].

pub(super) const BYTES: u64 = 16;
/// How far a warp goes on behind a barrier; see [`is_held`].
const MOST_BEHIND_A_BARRIER: usize = 256;
const MOST_OF_A_LOOP: usize = 1 << 14;

/// An instruction as it lies in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub u128);

impl Word {
    pub fn bits(self, at: u32, count: u32) -> u32 {
        ((self.0 >> at) & ((1 << count) - 1)) as u32
    }

    /// The operation, without the form of its operands.
    pub fn operation(self) -> u32 {
        self.bits(0, 9)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// `BAR.SYNC`, `BAR.RED`: waits for the block, or for a part of it.
    Barrier {
        /// `.DEFER_BLOCKING`: the warp goes on until an instruction that is [held](is_held).
        defers: bool,
    },
    /// `UCGABAR_WAIT`: waits for the cluster.
    ClusterBarrier,
    /// `BSYNC`, `WARPSYNC`: waits for other threads of the warp.
    WarpBarrier,
    /// `USETMAXREG.TRY_ALLOC`, which a loop repeats until the block's pool has the registers.
    Registers,
    /// `NANOSLEEP`.
    Sleep,
    /// `BRA`, to so many bytes from the instruction behind it.
    Branch(i64),
    Other,
}

/// Decodes an instruction of a device of compute capability `major`. Devices before 7.0 have other encodings: [`Instruction::Other`].
pub(super) fn decode(word: Word, major: u32) -> Instruction {
    match word.operation() {
        _ if major < 7 => Instruction::Other,
        // Bits 77 to 79 say which: 1 is BAR.ARV, which does not wait.
        0x11d if matches!(word.bits(77, 3), 0 | 2) => Instruction::Barrier { defers: word.bits(80, 1) != 0 },
        0x1c7 if word.bits(0, 12) == 0xdc7 => Instruction::ClusterBarrier,
        0x141 | 0x148 => Instruction::WarpBarrier,
        // Bits 72 and 73 say which: 1 gives registers back, which waits for nothing.
        0x1c8 if major == 9 && word.bits(0, 12) == 0x9c8 && word.bits(72, 2) == 2 => Instruction::Registers,
        0x15d => Instruction::Sleep,
        0x147 => {
            // 48 bits from bit 34 on, in units of four bytes; since 9.0 with eight more bits below them, which lie at bit 16.
            let upper = ((word.0 >> 34) as u64 as i64) << 16 >> 16;
            let words = if major < 9 { upper } else { upper << 8 | i64::from(word.bits(16, 8)) };
            words.checked_mul(4).map_or(Instruction::Other, Instruction::Branch)
        }
        _ => Instruction::Other,
    }
}

/// Whether a warp at a barrier that defers its waiting stops before this instruction.
///
/// On an H200, a warp whose block had not come executed additions, multiplications and moves of registers behind the barrier, 21 of them in a
/// row. The warp stopped before a load, a store, a read of a special or a barrier's register, a call, and another barrier. The first kind has a fixed
/// latency, the second does not: it names a scoreboard (bits 110 to 115), or changes the flow. Uniform moves stopped the warp, too, and are not
/// reported here: this function must call no instruction held that is not.
pub(super) fn is_held(word: Word) -> bool {
    let names_a_scoreboard = word.bits(110, 6) != 0o77;
    let changes_the_flow = matches!(word.operation(), 0x141..=0x15f);
    names_a_scoreboard || changes_the_flow || matches!(word.operation(), 0x11d | 0x1c7)
}

/// The farthest that the loop's other instructions are from a `USETMAXREG.TRY_ALLOC`.
const MOST_BESIDE_REGISTERS: usize = 4;

/// Whether an instruction is of the loop by which `setmaxnreg.inc` waits for registers.
pub(super) fn waits_for_registers(word: impl Fn(usize) -> Option<Word>, at: usize, major: u32) -> bool {
    let near = at.saturating_sub(MOST_BESIDE_REGISTERS)..=at.saturating_add(MOST_BESIDE_REGISTERS);
    let mut tries = near.filter(|&by| word(by).is_some_and(|word| decode(word, major) == Instruction::Registers));
    tries.any(|tries| {
        let behind = tries..=tries.saturating_add(MOST_BESIDE_REGISTERS);
        let mut branches = behind.filter_map(|by| Some((target(word(by)?, by, major)?, by)));
        branches
            .any(|(start, end)| start <= tries && tries - start <= MOST_BESIDE_REGISTERS && (start..=end).contains(&at))
    })
}

/// The number of the instruction to which this one, number `at` of its code, branches.
pub(super) fn target(word: Word, at: usize, major: u32) -> Option<usize> {
    let Instruction::Branch(distance) = decode(word, major) else { return None };
    let next = i64::try_from(at).ok()?.checked_add(1)?;
    usize::try_from(next.checked_add(distance / BYTES as i64)?).ok()
}

/// The barrier at which a warp with the next instruction `at` may wait: this instruction, or an earlier one. A warp would have stood at no instruction
/// in between.
pub(super) fn barrier_before(word: impl Fn(usize) -> Option<Word>, at: usize, major: u32) -> Option<usize> {
    for before in (at.saturating_sub(MOST_BEHIND_A_BARRIER)..at).rev() {
        let word = word(before)?;
        match decode(word, major) {
            Instruction::Barrier { .. } => return Some(before),
            _ if is_held(word) => break,
            _ => {}
        }
    }
    // A barrier that does not defer holds its warp itself.
    (decode(word(at)?, major) == Instruction::Barrier { defers: false }).then_some(at)
}

/// The start of the innermost loop around an instruction: the nearest instruction at or before it to which one at or behind it branches.
pub(super) fn loop_start(word: impl Fn(usize) -> Option<Word>, at: usize, major: u32) -> Option<usize> {
    let behind = (at..).take(MOST_OF_A_LOOP).map_while(|by| Some((by, word(by)?)));
    let starts = behind.filter_map(|(by, word)| {
        // Behind a function's end there is a branch to itself.
        target(word, by, major).filter(|start| *start <= at && (by == at || by != *start))
    });
    starts.max()
}
