//! The instructions of NVIDIA's devices that say what a thread waits for.
//!
//! Instructions have 16 bytes on every device since compute capability 7.0. The lowest nine bits are the operation, the next three the form
//! of its operands. The numbers are from what `ptxas` of CUDA 13.0 makes of PTX for sm_75 to sm_121, as `nvdisasm` of CUDA 13.5 reads it; the
//! tests have an excerpt.
//!
//! Must not: guess. An instruction that is not listed is [`Instruction::Other`].

pub(super) const BYTES: u64 = 16;

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
    /// `NANOSLEEP`.
    Sleep,
    /// `BRA`, to so many bytes from the instruction behind it.
    Branch(i64),
    Other,
}

/// Decodes an instruction of a device of compute capability `major`. Devices before 7.0 have other encodings: [`Instruction::Other`].
pub(super) fn decode(bytes: [u8; 16], major: u32) -> Instruction {
    if major < 7 {
        return Instruction::Other;
    }
    let all = u128::from_le_bytes(bytes);
    let (operation, low, high) = (all & 0x1ff, all as u64, (all >> 64) as u64);
    match operation {
        // Bits 77 to 79 say which: 1 is BAR.ARV, which does not wait.
        0x11d if matches!((high >> 13) & 7, 0 | 2) => Instruction::Barrier { defers: high & 1 << 16 != 0 },
        0x1c7 if low & 0xfff == 0xdc7 => Instruction::ClusterBarrier,
        0x141 | 0x148 => Instruction::WarpBarrier,
        0x15d => Instruction::Sleep,
        0x147 => {
            // 48 bits from bit 34 on, in units of four bytes; since 9.0 with eight more bits below them, which lie at bit 16.
            let upper = ((all >> 34) as u64 as i64) << 16 >> 16;
            let words = if major < 9 { upper } else { upper << 8 | ((low >> 16) & 0xff) as i64 };
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
pub(super) fn is_held(bytes: [u8; 16]) -> bool {
    let all = u128::from_le_bytes(bytes);
    let names_a_scoreboard = (all >> 110) & 0o77 != 0o77;
    let changes_the_flow = matches!(all & 0x1ff, 0x141..=0x15f);
    names_a_scoreboard || changes_the_flow || matches!(all & 0x1ff, 0x11d | 0x1c7)
}

/// The start of the innermost loop around the instruction at `offset` of a function's code: the nearest instruction at or before it to which one
/// at or behind it branches. Looks at the next `most` instructions.
pub(super) fn loop_start(code: &[u8], offset: u64, major: u32, most: usize) -> Option<u64> {
    let from = usize::try_from(offset - offset % BYTES).ok()?;
    let starts = code.get(from..)?.chunks_exact(BYTES as usize).take(most).enumerate().filter_map(|(at, bytes)| {
        let Instruction::Branch(distance) = decode(bytes.try_into().ok()?, major) else { return None };
        let next = from as i64 + (at as i64 + 1) * BYTES as i64;
        let target = next.checked_add(distance)?;
        // Behind a function's end there is a branch to itself.
        ((0..=from as i64).contains(&target) && (at == 0 || target != next - BYTES as i64)).then_some(target as u64)
    });
    starts.max()
}
