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

/// The state of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Mbarrier {
    /// The parity of the phase that goes on.
    pub phase: u32,
    pub arrivals_pending: u32,
    pub arrivals_expected: u32,
    /// Negative where bytes have come that nobody has announced yet.
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
        let possible = found.arrivals_expected > 0 && found.arrivals_pending <= found.arrivals_expected && word & 1 == 0;
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

    #[test]
    fn words_of_known_states_are_taken_apart() {
        for (word, arrivals_pending, arrivals_expected, bytes_pending) in [
            (0x7fff_f800_001f_fffe, 1, 1, 0),
            (0x7fff_f000_001f_fffc, 2, 2, 0),
            (0x7fff_f800_001f_fffc, 1, 2, 0),
            (0x7fff_fbf8_001f_fffc, 1, 2, 16384),
            (0x7fff_e800_001f_fff6, 3, 5, 0),
            (0x7fe0_d800_001f_f830, 997, 1000, 0),
        ] {
            let expect = Mbarrier { phase: 0, arrivals_pending, arrivals_expected, bytes_pending };
            assert_eq!(Mbarrier::of(word), Some(expect), "{word:#x}");
            assert_eq!(Mbarrier::of(word | 1 << 63).map(|of| of.phase), Some(1));
        }
    }

    #[test]
    fn other_words_are_none() {
        for word in [0, 1, 0x3f80_0000_3f80_0000, u64::MAX, 0x0000_0001_0000_0001] {
            assert_eq!(Mbarrier::of(word), None, "{word:#x}");
        }
    }
}
