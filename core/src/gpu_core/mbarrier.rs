//! The word of an mbarrier in shared memory, as an H100 has it.
//!
//! | bits | hold |
//! |---|---|
//! | 63 | the parity of the phase that goes on |
//! | 62 to 43 | minus the pending arrivals |
//! | 41 to 21 | minus the pending bytes |
//! | 20 to 1 | minus the arrivals of a phase |
//!
//! An ordinary load in a kernel reads zeros instead; a core has the word.
//!
//! Must not: be asked about other architectures.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Mbarrier {
    /// The parity of the phase that goes on.
    pub phase: u32,
    pub arrivals_pending: u32,
    pub arrivals_expected: u32,
    /// A negative count says how many bytes have come before a thread announced them.
    pub bytes_pending: i32,
}

impl Mbarrier {
    /// `None` for a word that no mbarrier can have.
    pub fn of(word: u64) -> Option<Self> {
        let minus = |at: u32, bits: u32| ((word >> at).wrapping_neg() & ((1 << bits) - 1)) as u32;
        let bytes = minus(21, 21);
        let found = Self {
            phase: (word >> 63) as u32,
            arrivals_pending: minus(43, 20),
            arrivals_expected: minus(1, 20),
            bytes_pending: (bytes << 11).cast_signed() >> 11,
        };
        let possible =
            found.arrivals_expected > 0 && found.arrivals_pending <= found.arrivals_expected && word & 1 == 0;
        (possible && word != 0).then_some(found)
    }

    /// Whether a warp that waits for the phase of this parity has to go on waiting.
    pub fn holds(&self, parity: u32) -> bool {
        self.phase == parity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a core of a kernel that made them: by arrivals, several at once, announced and brought bytes, and threads that leave for good.
    #[test]
    fn words_of_known_states_are_taken_apart() {
        for (word, phase, arrivals_pending, arrivals_expected, bytes_pending) in [
            (0x7fff_f800_001f_fffe, 0, 1, 1, 0),
            (0xffff_f800_001f_fffe, 1, 1, 1, 0),
            (0x7fff_f800_001f_fffc, 0, 1, 2, 0),
            (0xffff_f800_001f_fffc, 1, 1, 2, 0),
            (0x7fff_e800_001f_fff6, 0, 3, 5, 0),
            (0x7fe0_d800_001f_f830, 0, 997, 1000, 0),
            (0x0000_0800_0000_0002, 0, 1_048_575, 1_048_575, 0),
            (0x0000_1000_0000_0002, 0, 1_048_574, 1_048_575, 0),
            (0x7fff_fbf8_001f_fffc, 0, 1, 2, 16384),
            (0x7fff_fbfa_001f_fffc, 0, 1, 2, 12288),
            (0x0000_03f8_001f_fffc, 0, 0, 2, 16384),
            (0xffff_f000_001f_fffc, 1, 2, 2, 0),
            (0x7fff_f002_001f_fffc, 0, 2, 2, -4096),
            (0x0000_0200_003f_fffe, 0, 0, 1, 1_048_575),
            (0x0000_03ff_ffff_fffe, 0, 0, 1, 1),
            (0x7fff_e800_001f_fffa, 0, 3, 3, 0),
            (0xffff_e800_001f_fffa, 1, 3, 3, 0),
            (0x7fff_0000_001f_ff80, 0, 32, 64, 0),
            (0x7fff_fbff_f9df_ff00, 0, 1, 128, 50),
            (0x7fff_f3ff_ffff_fffa, 0, 2, 3, 1),
            (0x7fff_fb00_001f_fe00, 0, 1, 256, 524_288),
        ] {
            let expect = Mbarrier { phase, arrivals_pending, arrivals_expected, bytes_pending };
            assert_eq!(Mbarrier::of(word), Some(expect), "{word:#x}");
        }
    }

    #[test]
    fn other_words_are_none() {
        for word in [0, 1, 0x3f80_0000_3f80_0000, u64::MAX, 0x0000_0001_0000_0001] {
            assert_eq!(Mbarrier::of(word), None, "{word:#x}");
        }
    }
}
