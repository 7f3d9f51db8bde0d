//! The instructions by which the warps of a kernel wait for each other, with their operands. The numbers are those of `ptxas` of CUDA 13.0 for
//! sm_90, as `nvdisasm` of CUDA 13.5 reads them, and what they do was seen in cores of an H100.
//!
//! Must not: be asked about other architectures, whose instructions look alike and may mean something else.

use super::sass::Word;

/// The register that reads as zero, of a thread and of a warp.
pub(super) const RZ: u8 = 255;
pub(super) const URZ: u8 = 63;

/// The compute capability whose waits are known.
pub(super) const KNOWN_MAJOR: u32 = 9;

/// An address in shared memory: `[R10+UR4+0x8000]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedAddress {
    pub register: u8,
    pub uniform: u8,
    pub offset: u32,
}

/// A number in an instruction: itself, or bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Constant(u32),
    Bits { register: u8, shift: u32, mask: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Whether it reads shared memory; else it reads any memory, and the address has 64 bits.
    pub shared: bool,
    pub register: u8,
    pub uniform: u8,
    pub offset: i64,
    pub into: u8,
    pub bytes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// `SYNCS.PHASECHK`: asks whether the phase has ended whose parity is bit 31 of the register.
    Check {
        at: SharedAddress,
        phase: u8,
    },
    /// `SYNCS.ARRIVE` that counts as an arrival, and `ARRIVES.LDGSTSBAR`. `remote`: the barrier may be another block's.
    Arrive {
        at: SharedAddress,
        remote: bool,
    },
    /// A bulk copy. The second of two uniform registers names the barrier that counts its bytes.
    Copy(SharedAddress),
    /// `BAR.SYNC`, `BAR.RED`: the barrier's number, and the threads that it waits for; 0: those of the block.
    Block {
        number: Operand,
        threads: Operand,
    },
    Load(Load),
    Other,
}

impl Word {
    fn byte(self, at: u32) -> u8 {
        self.bits(at, 8) as u8
    }

    pub fn first(self) -> u8 {
        self.byte(24)
    }

    pub fn second(self) -> u8 {
        self.byte(32)
    }

    pub fn third(self) -> u8 {
        self.byte(64)
    }

    pub fn into(self) -> u8 {
        self.byte(16)
    }

    pub fn immediate(self) -> u32 {
        self.bits(32, 32)
    }

    /// The scoreboard that its result sets, of six.
    fn sets(self) -> Option<u32> {
        Some(self.bits(110, 3)).filter(|scoreboard| *scoreboard < 6)
    }

    /// Whether it waits for the result of another instruction.
    pub fn waits_for(self, other: Self) -> bool {
        other.sets().is_some_and(|scoreboard| self.bits(116, 6) >> scoreboard & 1 != 0)
    }

    fn shared(self) -> SharedAddress {
        SharedAddress { register: self.first(), uniform: self.bits(64, 6) as u8, offset: self.bits(40, 24) }
    }

    pub fn sync(self) -> Sync {
        match self.bits(0, 12) {
            0x5a7 => Sync::Check { at: self.shared(), phase: self.second() },
            // A1TR (which expects bytes as well), A1T0, ART0. Others change the bytes alone.
            0x9a7 if matches!(self.bits(84, 4), 0 | 1 | 5) => {
                Sync::Arrive { at: self.shared(), remote: self.bits(74, 1) != 0 }
            }
            0x9b0 => Sync::Arrive { at: self.shared(), remote: false },
            // UBLKCP, UTMALDG.
            0x3ba | 0x3b4 | 0x5b4 => {
                let uniform = (self.bits(32, 6) as u8).saturating_add(1);
                Sync::Copy(SharedAddress { register: RZ, uniform, offset: 0 })
            }
            0x31d | 0x51d | 0x91d | 0xb1d if matches!(self.bits(77, 3), 0 | 2) => self.block_barrier(),
            _ => self.load(),
        }
    }

    fn block_barrier(self) -> Sync {
        let in_code = (Operand::Constant(self.bits(54, 4)), Operand::Constant(self.bits(42, 12)));
        let bits = |shift, mask| Operand::Bits { register: self.second(), shift, mask };
        let (number, threads) = match self.bits(9, 3) {
            1 => (bits(0, 0xf), bits(16, 0xfff)),
            2 => (bits(0, 0xf), in_code.1),
            4 => (in_code.0, bits(0, 0xfff)),
            _ => in_code,
        };
        Sync::Block { number, threads }
    }

    /// `LD`, `LDG` and `LDS`, and atomic operations that give what was there.
    fn load(self) -> Sync {
        let (operation, size) = (self.operation(), self.bits(73, 3));
        let (shared, bytes) = match operation {
            0x180 | 0x181 => (false, [1, 1, 2, 2, 4, 8, 16, 16][size as usize]),
            0x184 => (true, [1, 1, 2, 2, 4, 8, 16, 16][size as usize]),
            0x18a | 0x18b | 0x1a8 | 0x1a9 => (false, if size & 2 != 0 { 8 } else { 4 }),
            0x18c | 0x18d => (true, 4),
            _ => return Sync::Other,
        };
        // An address in shared memory may add a uniform register, in the bits that hold the descriptor of other memory.
        let uniform = if operation == 0x184 && self.bits(91, 1) != 0 { self.bits(32, 6) as u8 } else { URZ };
        let offset = i64::from((self.bits(40, 24) << 8).cast_signed() >> 8);
        let load = Load { shared, register: self.first(), uniform, offset, into: self.into(), bytes };
        if load.into == RZ {
            Sync::Other
        } else {
            Sync::Load(load)
        }
    }

    /// Whether it shows that a loop does more than to wait: it computes with floating-point numbers, stores to memory that others see, arrives, copies,
    /// or calls.
    pub fn is_work(self) -> bool {
        let stores = matches!(self.operation(), 0x185 | 0x186 | 0x187 | 0x18e);
        let computes =
            matches!(self.operation(), 0x020..=0x023 | 0x028..=0x030 | 0x037..=0x03f | 0x108 | 0x1f0..=0x1ff);
        let calls = matches!(self.operation(), 0x143 | 0x144 | 0x149 | 0x14a | 0x150);
        stores
            || computes
            || calls
            || matches!(self.sync(), Sync::Arrive { .. } | Sync::Copy(_))
            || self.operation() == 0x1a7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(low: u64, high: u64) -> Word {
        Word(u128::from(high) << 64 | u128::from(low))
    }

    #[test]
    fn operands_are_those_of_nvdisasm() {
        let at = |register, uniform, offset| SharedAddress { register, uniform, offset };
        let arrive = |at, remote| Sync::Arrive { at, remote };
        let constant = Operand::Constant;
        let bits = |register, shift, mask| Operand::Bits { register, shift, mask };
        let load = |shared, register, uniform, offset, into, bytes| {
            Sync::Load(Load { shared, register, uniform, offset, into, bytes })
        };
        for (low, high, name, expect) in [
            (
                0x0080_0007_0a00_75a7,
                0x001e_2400_0800_017f,
                "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R10+URZ+0x8000], R7",
                Sync::Check { at: at(10, URZ, 0x8000), phase: 7 },
            ),
            (
                0x0000_2009_ff00_75a7,
                0x000e_2400_0800_0045,
                "SYNCS.PHASECHK.TRANS64 P0, [UR5+0x20], R9",
                Sync::Check { at: at(RZ, 5, 0x20), phase: 9 },
            ),
            (
                0x0080_20ff_0aff_99a7,
                0x0001_e200_0810_003f,
                "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R10+URZ+0x8020], RZ",
                arrive(at(10, URZ, 0x8020), false),
            ),
            (
                0x0080_0007_0bff_79a7,
                0x0001_e200_0800_003f,
                "SYNCS.ARRIVE.TRANS64 RZ, [R11+URZ+0x8000], R7",
                arrive(at(11, URZ, 0x8000), false),
            ),
            (
                0x0000_00ff_06ff_79a7,
                0x0007_e200_0810_0004,
                "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R6+UR4], RZ",
                arrive(at(6, 4, 0), false),
            ),
            (
                0x0000_180b_ffff_79a7,
                0x000f_e200_0830_0405,
                "SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR5+0x18], R11",
                Sync::Other,
            ),
            (
                0x0000_00ff_ffff_79a7,
                0x000f_e200_0810_0408,
                "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [UR8], RZ",
                arrive(at(RZ, 8, 0), true),
            ),
            (
                0x0000_0000_ff00_79b0,
                0x000f_e200_0800_0a85,
                "ARRIVES.LDGSTSBAR.64.TRANSCNT [UR5]",
                arrive(at(RZ, 5, 0), false),
            ),
            (0x0000_0004_0a00_73ba, 0x0043_d800_0800_0209, "UBLKCP.S.G [UR4], [UR10], UR9", Sync::Copy(at(RZ, 5, 0))),
            (0x0000_0004_0a00_75b4, 0x0003_f400_0800_8000, "UTMALDG.2D [UR4], [UR10]", Sync::Copy(at(RZ, 5, 0))),
            (
                0x00c1_0000_0000_7b1d,
                0x000f_f000_0001_0000,
                "BAR.SYNC.DEFER_BLOCKING 0x3, 0x40",
                Sync::Block { number: constant(3), threads: constant(64) },
            ),
            (
                0x0040_0006_0000_791d,
                0x002f_ec00_0001_0000,
                "BAR.SYNC.DEFER_BLOCKING 0x1, R6",
                Sync::Block { number: constant(1), threads: bits(6, 0, 0xfff) },
            ),
            (
                0x0000_0007_0000_731d,
                0x0005_e400_0001_0000,
                "BAR.SYNC.DEFER_BLOCKING R7, R7",
                Sync::Block { number: bits(7, 0, 0xf), threads: bits(7, 16, 0xfff) },
            ),
            (
                0x0001_0000_0000_751d,
                0x0001_f000_0001_0000,
                "BAR.SYNC.DEFER_BLOCKING R0, 0x40",
                Sync::Block { number: bits(0, 0, 0xf), threads: constant(64) },
            ),
            (0x0101_0000_0000_7b1d, 0x000f_ec00_0000_2000, "BAR.ARV 0x4, 0x40", Sync::Other),
            (0x0000_0000_0000_7dc7, 0x000f_e200_0800_0000, "UCGABAR_WAIT", Sync::Other),
            (
                0x0000_040a_0200_7981,
                0x002e_a400_0c1f_5900,
                "LDG.E.STRONG.SYS R0, desc[UR10][R2.64+0x4]",
                load(false, 2, URZ, 4, 0, 4),
            ),
            (
                0x0000_100a_0204_7981,
                0x000e_a200_0c1f_5b00,
                "LDG.E.64.STRONG.SYS R4, desc[UR10][R2.64+0x10]",
                load(false, 2, URZ, 16, 4, 8),
            ),
            (0x0000_0006_ff00_7984, 0x000e_2200_0800_0800, "LDS R0, [UR6]", load(true, RZ, 6, 0, 0, 4)),
            (0x0000_1000_0200_7984, 0x000e_2200_0000_0800, "LDS R0, [R2+0x10]", load(true, 2, URZ, 16, 0, 4)),
            (
                0x0000_0008_0404_73a9,
                0x000e_a200_001e_e109,
                "ATOMG.E.CAS.STRONG.GPU PT, R4, [R4], R8, R9",
                load(false, 4, URZ, 0, 4, 4),
            ),
            (
                0x0000_00ff_0a0c_09a8,
                0x001e_a800_081e_e5c4,
                "@P0 ATOMG.E.ADD.64.STRONG.GPU PT, R12, desc[UR4][R10.64], RZ",
                load(false, 10, URZ, 0, 12, 8),
            ),
            (0x3f80_0000_ff07_7435, 0x000f_ca00_0000_01ff, "HFMA2.MMA R7, -RZ, RZ, 1.875, 0", Sync::Other),
        ] {
            assert_eq!(word(low, high).sync(), expect, "{name}");
        }
    }

    #[test]
    fn an_instruction_waits_for_the_scoreboard_of_the_one_that_it_needs() {
        let check = word(0x0000_0000_0900_75a7, 0x000e_2400_0800_017f);
        assert!(
            word(0x0000_0000_003c_8947, 0x001f_ea00_0380_0000).waits_for(check),
            "@!P0 BRA, which needs its result"
        );
        assert!(!word(0x0000_0000_0000_7946, 0x000f_ea00_0380_0000).waits_for(check), "YIELD");
    }
}
