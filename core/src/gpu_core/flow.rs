//! Reads from a function's code alone which instruction may come before and after which, and where in shared memory an operand lies.
//!
//! Shared memory is addressed by constants, the block's number in its cluster in the upper eight bits, and the number of a stage times the bytes of
//! a barrier. So an operand is a constant, or a constant and something that moves.
//!
//! Must not: go on for ever, or call anything certain behind an instruction whose target is not in the code.

use super::sass::{self, Word};
use super::sync::{SharedAddress, Sync, KNOWN_MAJOR, RZ, URZ};
use crate::map::HashMap;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// The most instructions of a function. The largest of FlashAttention have twenty thousand.
const MOST_INSTRUCTIONS: usize = 1 << 16;
/// The most steps for one operand, and the most registers one behind the other.
const MOST_STEPS: usize = 1 << 13;
const DEEPEST: usize = 24;
/// The bits of an address of shared memory that are not the block's number in its cluster.
pub(super) const IN_BLOCK: u32 = 0x00ff_ffff;
/// `SR_CgaCtaId`: that number.
const NUMBER_IN_CLUSTER: u32 = 0x88;

/// The place of an operand in its block's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The constant part.
    pub base: u32,
    /// Whether a changing number is added.
    pub moves: bool,
}

/// The most arrivals of a function. Those of FlashAttention have a hundred.
const MOST_ARRIVALS: usize = 1 << 11;

/// An arrival or a copy in a function's code.
pub(super) struct Arrival {
    pub at: usize,
    pub place: Place,
    pub copies: bool,
    pub remote: bool,
}

const UNKNOWN: Place = Place { base: 0, moves: true };

/// A register of a thread, or of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Register {
    Own(u8),
    Uniform(u8),
}

impl Register {
    /// The register behind it, which has the upper half of 64 bits.
    pub fn next(self) -> Self {
        match self {
            Self::Own(register) => Self::Own(register.saturating_add(1)),
            Self::Uniform(register) => Self::Uniform(register.saturating_add(1)),
        }
    }
}

pub(super) struct Flow {
    pub words: Vec<Word>,
    /// The instructions that branch to one.
    branches: HashMap<usize, Vec<usize>>,
    arrivals: OnceCell<Vec<Arrival>>,
}

/// A question after an operand: how much of it is left, and what is being looked for already.
struct Search {
    left: usize,
    open: Vec<(Register, usize)>,
}

impl Flow {
    pub fn new(words: impl Iterator<Item = Word>) -> Self {
        let words: Vec<_> = words.take(MOST_INSTRUCTIONS).collect();
        let mut flow = Self { words, branches: HashMap::default(), arrivals: OnceCell::new() };
        for at in 0..flow.words.len() {
            if let Some(target) = flow.target(at) {
                flow.branches.entry(target).or_default().push(at);
            }
        }
        flow
    }

    fn target(&self, at: usize) -> Option<usize> {
        sass::target(self.words[at], at, KNOWN_MAJOR).filter(|target| *target < self.words.len())
    }

    /// Whether the next instruction is never the one behind it.
    fn ends(&self, at: usize) -> bool {
        let word = self.words[at];
        // `PT` and not `BRA.DIV` or a uniform predicate.
        let always = word.bits(12, 4) == 7 && word.bits(87, 5) == 7;
        always && matches!(word.operation(), 0x147 | 0x14d)
    }

    /// Whether a warp whose next instruction is at `from` may still come to one of these. Behind a branch whose target is not in the code it may.
    pub fn reaches(&self, from: usize, wanted: &BTreeSet<usize>) -> bool {
        let (mut seen, mut open) = (vec![false; self.words.len()], vec![from]);
        while let Some(at) = open.pop() {
            if at >= seen.len() || std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let leaves = matches!(self.words[at].operation(), 0x143 | 0x144 | 0x149 | 0x14a | 0x14c | 0x150);
            if wanted.contains(&at) || leaves {
                return true;
            }
            open.extend(self.target(at));
            if !self.ends(at) {
                open.push(at + 1);
            }
        }
        false
    }

    /// The instructions of the innermost loop around one, if they lie behind each other.
    pub fn innermost_loop(&self, at: usize, most: usize) -> Option<std::ops::RangeInclusive<usize>> {
        let behind = at..self.words.len().min(at.saturating_add(most));
        let mut loops = behind.filter_map(|last| Some((self.target(last).filter(|first| *first <= at)?, last)));
        // A function ends with a branch to itself.
        let (first, last) = loops.find(|(first, last)| first < last || *last == at && self.words.len() > last + 1)?;
        (last - first < most).then_some(first..=last)
    }

    /// Its arrivals at barriers, and its copies to them. They are looked for once: each is a search of its own.
    pub fn arrivals(&self) -> &[Arrival] {
        let operand = |(at, word): (usize, &Word)| match word.sync() {
            Sync::Arrive { at: operand, remote } => Some((at, operand, false, remote)),
            Sync::Copy(operand) => Some((at, operand, true, false)),
            _ => None,
        };
        self.arrivals.get_or_init(|| {
            let all = self.words.iter().enumerate().filter_map(operand).take(MOST_ARRIVALS);
            let arrival =
                |(at, operand, copies, remote)| Arrival { at, place: self.place(operand, at), copies, remote };
            all.map(arrival).collect()
        })
    }

    pub fn place(&self, operand: SharedAddress, at: usize) -> Place {
        let mut search = Search { left: MOST_STEPS, open: Vec::new() };
        let register = self.value(Register::Own(operand.register), at, &mut search);
        let uniform = self.value(Register::Uniform(operand.uniform), at, &mut search);
        let place = add(add(register, uniform), exactly(operand.offset));
        Place { base: place.base & IN_BLOCK, ..place }
    }

    fn value(&self, register: Register, at: usize, search: &mut Search) -> Place {
        if matches!(register, Register::Own(RZ) | Register::Uniform(URZ)) {
            return exactly(0);
        }
        // It is being looked for already: a loop adds something to it.
        if search.open.len() >= DEEPEST || search.open.contains(&(register, at)) {
            return UNKNOWN;
        }
        search.open.push((register, at));
        let mut found: Option<Place> = None;
        for by in self.writers(register, at, search) {
            let of = by.map_or(UNKNOWN, |by| self.result(by, search));
            found = Some(match found {
                None => of,
                Some(before) if before == of => of,
                // The start of a loop says where a ring begins.
                Some(before) => Place { base: before.base.max(of.base), moves: true },
            });
        }
        search.open.pop();
        found.unwrap_or(UNKNOWN)
    }

    /// The instructions that may have written a register before one; `None` among them: none has, or too many may have.
    pub fn written_by(&self, register: Register, at: usize) -> Vec<Option<usize>> {
        self.writers(register, at, &mut Search { left: MOST_STEPS, open: Vec::new() })
    }

    fn writers(&self, register: Register, at: usize, search: &mut Search) -> Vec<Option<usize>> {
        let (mut seen, mut open, mut found) = (BTreeSet::new(), vec![at], Vec::new());
        while let Some(at) = open.pop() {
            let falls = at.checked_sub(1).filter(|before| !self.ends(*before));
            let branches = self.branches.get(&at).map_or(&[][..], Vec::as_slice);
            if at == 0 || search.left == 0 {
                found.push(None);
                break;
            }
            for before in falls.into_iter().chain(branches.iter().copied()) {
                if !seen.insert(before) {
                    continue;
                }
                search.left = search.left.saturating_sub(1);
                match self.words[before].writes(register) {
                    true => found.push(Some(before)),
                    false => open.push(before),
                }
            }
        }
        found
    }

    fn result(&self, at: usize, search: &mut Search) -> Place {
        let word = self.words[at];
        let mut own = |register| self.value(Register::Own(register), at, search);
        let negates = word.bits(72, 1) != 0 || word.bits(75, 1) != 0;
        let (second, third) = (word.bits(32, 6) as u8, word.bits(64, 6) as u8);
        match word.bits(0, 12) {
            // MOV, UMOV.
            0x802 | 0x882 => exactly(word.immediate()),
            0x202 => own(word.second()),
            0xc02 | 0xc82 => self.value(Register::Uniform(second), at, search),
            // S2R, S2UR. The block's number counts as 0: its memory's place in the cluster's is not asked for.
            0x919 | 0x9c3 if word.bits(72, 8) == NUMBER_IN_CLUSTER => exactly(0),
            // R2UR; PRMT and UPRMT as of `mapa`: the upper byte is another block's number.
            0x2ca => own(word.first()),
            0x816 if word.immediate() == 0x654 => own(word.third()),
            0x896 if word.immediate() == 0x654 => self.value(Register::Uniform(third), at, search),
            // VIADD, IADD3, UIADD3.
            0x836 => add(own(word.first()), exactly(word.immediate())),
            0x810 if !negates => add(add(own(word.first()), own(word.third())), exactly(word.immediate())),
            0x210 if !negates && word.bits(63, 1) == 0 => {
                add(add(own(word.first()), own(word.second())), own(word.third()))
            }
            0x890 if !negates => {
                let [first, third] =
                    [word.bits(24, 6) as u8, third].map(|r| self.value(Register::Uniform(r), at, search));
                add(add(first, third), exactly(word.immediate()))
            }
            // IMAD and its short forms, with a number that is multiplied or added; LEA, ULEA.
            0x824 if !negates => add(times(own(word.first()), word.immediate()), own(word.third())),
            0x424 if word.first() == RZ => exactly(word.immediate()),
            0x224 if word.first() == RZ && !negates => own(word.third()),
            0xe24 if word.first() == RZ => self.value(Register::Uniform(second), at, search),
            0x211 if !negates_lea(word) => add(shifted(own(word.first()), word), own(word.second())),
            0xc11 if !negates_lea(word) => {
                let first = shifted(own(word.first()), word);
                add(first, self.value(Register::Uniform(second), at, search))
            }
            0x291 if !negates_lea(word) => {
                let [first, second] =
                    [word.bits(24, 6) as u8, second].map(|r| self.value(Register::Uniform(r), at, search));
                add(shifted(first, word), second)
            }
            _ => UNKNOWN,
        }
    }
}

fn negates_lea(word: Word) -> bool {
    word.bits(72, 1) != 0
}

/// The shift of `LEA`; what moves moves on.
fn shifted(place: Place, word: Word) -> Place {
    times(place, 1_u32.checked_shl(word.bits(75, 5)).unwrap_or(0))
}

const fn exactly(base: u32) -> Place {
    Place { base, moves: false }
}

fn add(one: Place, other: Place) -> Place {
    Place { base: one.base.wrapping_add(other.base), moves: one.moves || other.moves }
}

fn times(place: Place, factor: u32) -> Place {
    Place { base: place.base.wrapping_mul(factor), ..place }
}

impl Word {
    /// Whether it is of the data path that a warp's threads share.
    pub fn is_uniform(self) -> bool {
        matches!(self.operation(), 0x080..=0x0bf | 0x0ca | 0x1c3 | 0x02f | 0x1b2) || self.bits(0, 12) == 0x7ac
    }

    /// Whether it may write a register. Results of more than 32 bits take several; what is not known to write none, or one, may write two.
    pub fn writes(self, register: Register) -> bool {
        let (operation, uniform) = (self.operation(), self.is_uniform());
        let (first, asked) = match register {
            Register::Own(asked) if !uniform => (self.into(), asked),
            Register::Uniform(asked) if uniform => (self.bits(16, 6) as u8, asked),
            _ => return false,
        };
        let none = match register {
            Register::Own(_) => first == RZ || writes_none(operation),
            Register::Uniform(_) => first == URZ || operation == 0x08c,
        };
        let count = match operation {
            0x002 | 0x010 | 0x011 | 0x012 | 0x019 | 0x024 | 0x036 | 0x119 | 0x082 | 0x090 | 0x091 | 0x0ca | 0x1c3 => 1,
            // Loads of up to 16 bytes; what warps multiply together, up to the whole of an accumulator.
            0x180..=0x184 => [1, 1, 1, 1, 1, 2, 4, 4][self.bits(73, 3) as usize],
            0x18a..=0x18d | 0x1a8 | 0x1a9 => 1 + u16::from(self.bits(74, 1) != 0),
            0x1f0..=0x1ff => 128,
            _ => 2,
        };
        !none && (u16::from(first)..u16::from(first) + count).contains(&u16::from(asked))
    }
}

/// The operations that write predicates or memory, or nothing.
fn writes_none(operation: u32) -> bool {
    matches!(
        operation,
        0x00b | 0x00c | 0x01c | 0x02a | 0x034 | 0x118 | 0x11a..=0x11d | 0x141..=0x15f | 0x185..=0x188 | 0x18e..=0x192 | 0x1ab
            | 0x1b0 | 0x1b1 | 0x1ba | 0x1b4 | 0x1bd | 0x1c7
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `slow_copies.cu` of `testapps/inside`, with the numbers of its instructions: a consumer's arrival at the ring of two barriers at 0x4410.
    const CONSUMER: [(u64, u64); 10] = [
        (0x0000_0008_0406_7812, 0x000f_e400_078e_c0ff), // LOP3.LUT R6, R4, 0x8, RZ, 0xc0, !PT
        (0x0000_0000_0005_79c3, 0x000e_2200_0000_8800), // S2UR UR5, SR_CgaCtaId
        (0x0000_0400_0004_7882, 0x000f_c800_0000_0000), // UMOV UR4, 0x400
        (0x0000_4010_0404_7890, 0x000f_e200_0fff_e03f), // UIADD3 UR4, UR4, 0x4010, URZ
        (0x0000_0004_0504_7291, 0x000f_c800_0f8e_c03f), // ULEA UR4, UR5, UR4, 0x18
        (0x0000_00ff_06ff_79a7, 0x0007_e200_0810_0004), // SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R6+UR4], RZ
        (0x0000_0002_0700_720c, 0x001f_e200_03f0_5270), // ISETP.NE.AND P0, PT, R7, R2, PT
        (0xffff_fffc_00e0_0947, 0x008f_ea00_0383_ffff), // @P0 BRA to the first
        (0x0000_0000_0000_794d, 0x000f_ea00_0380_0000), // EXIT
        (0xffff_fffc_00fc_7947, 0x000f_c000_0383_ffff), // BRA to itself
    ];

    fn flow(code: &[(u64, u64)]) -> Flow {
        Flow::new(code.iter().map(|(low, high)| Word(u128::from(*high) << 64 | u128::from(*low))))
    }

    fn arrives(flow: &Flow, at: usize) -> Place {
        match flow.words[at].sync() {
            Sync::Arrive { at: operand, .. } => flow.place(operand, at),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_operand_is_a_constant_or_one_with_something_that_moves() {
        let code = flow(&CONSUMER);
        assert_eq!(arrives(&code, 5), Place { base: 0x4410, moves: true });
        let mut still = CONSUMER;
        still[0] = (0x0000_0018_ff06_7424, 0x000f_c600_078e_00ff); // IMAD.MOV.U32 R6, RZ, RZ, 0x18
        assert_eq!(arrives(&flow(&still), 5), Place { base: 0x4428, moves: false });
    }

    #[test]
    fn a_warp_behind_a_loop_does_not_come_back_to_it() {
        let code = flow(&CONSUMER);
        let wanted = BTreeSet::from([5]);
        assert!(code.reaches(6, &wanted), "by the branch");
        assert!(!code.reaches(8, &wanted), "it exits");
        assert_eq!(code.innermost_loop(3, 64), Some(0..=7));
        assert_eq!(code.innermost_loop(8, 64), None);
    }
}
