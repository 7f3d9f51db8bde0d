//! One step up a stack, by the tables that a file carries for exceptions (`.eh_frame`, of the DWARF kind).
//!
//! Of the registers only the three that lead from frame to frame are followed: program counter, stack pointer and frame
//! pointer. A rule that needs another one ends the walk. Frame pointers are not followed by themselves: a chain of them leaves
//! the functions out that were built without, and nothing shows it.
//!
//! Must not: guess.

use super::elf::Image;
use super::Memory;

/// The numbers that the tables use, for x86-64.
const FRAME: u64 = 6;
const STACK: u64 = 7;
const RETURN: u64 = 16;

const MOST_TABLE_BYTES: usize = 1 << 16;
const MOST_OPERATIONS: usize = 256;
const MOST_KEPT: usize = 16;
/// The bytes at an address, of any kind.
const NO_POINTER: u8 = 0xff;
/// A table of four-byte differences from its own place, which is what linkers write.
const SORTED: u8 = 0x3b;

/// The registers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Where it goes on: a return address.
    pub address: u64,
    /// The stack pointer then.
    pub stack: u64,
    /// The frame pointer then.
    pub frame: u64,
    /// Whether a call returns to the address; else it was a signal that came in before it.
    pub returns: bool,
}

impl Registers {
    /// Where the frame is: a call is what lies before the address it returns to.
    pub fn place(&self) -> u64 {
        self.address.wrapping_sub(self.returns.into())
    }
}

/// The frame that called this one; `None` where the tables do not say, or say that there is none.
pub fn step(memory: &impl Memory, image: &Image, now: Registers) -> Option<Registers> {
    let at = now.place();
    let entry = Entry::find(memory, image, at)?;
    let row = entry.row(at)?;
    let cfa = match row.cfa {
        Cfa::Register(STACK, offset) => now.stack.wrapping_add_signed(offset),
        Cfa::Register(FRAME, offset) => now.frame.wrapping_add_signed(offset),
        Cfa::Register(..) | Cfa::None => return None,
        Cfa::Expression(expression) => evaluate(memory, expression, now, None)?,
    };
    let found = |rule: Rule, same: Option<u64>| match rule {
        Rule::Same => same,
        Rule::Undefined => None,
        Rule::At(offset) => memory.word(cfa.wrapping_add_signed(offset)),
        Rule::Is(offset) => Some(cfa.wrapping_add_signed(offset)),
        Rule::AtExpression(expression) => memory.word(evaluate(memory, expression, now, Some(cfa))?),
        Rule::IsExpression(expression) => evaluate(memory, expression, now, Some(cfa)),
    };
    // A frame pointer that is lost is no reason to stop where the next frame does not need it; zero leads nowhere.
    let frame = found(row.frame, Some(now.frame)).unwrap_or(0);
    let address = found(row.back, None)?;
    let next = Registers { address, stack: cfa, frame, returns: !entry.of_signal };
    (cfa > now.stack && address != 0).then_some(next)
}

/// What the tables hold of a function.
struct Entry {
    common: Vec<u8>,
    /// What the common part says about each function's own.
    code_factor: u64,
    data_factor: i64,
    pointers: u8,
    common_program: usize,
    /// Whether it is what a signal's handler returns to.
    of_signal: bool,
    own: Vec<u8>,
    own_at: u64,
    own_program: usize,
    begin: u64,
}

impl Entry {
    /// By the sorted index, and only if it says so itself.
    fn find(memory: &impl Memory, image: &Image, at: u64) -> Option<Self> {
        let index = image.unwind_index?;
        let head: [u8; 4] = memory.array(index)?;
        let [1, frame_encoding, count_encoding, SORTED] = head else { return None };
        let words = memory.bytes(index, 32);
        let mut words = Reader { bytes: &words, at: 4, place: index };
        words.pointer(frame_encoding)?;
        let count = words.pointer(count_encoding)?;
        let table = index.wrapping_add(words.at as u64);
        let row = |number: u64| -> Option<(u64, u64)> {
            let entry: [u8; 8] = memory.array(table.wrapping_add(number.checked_mul(8)?))?;
            let word = u64::from_le_bytes(entry);
            let from = |half: u64| index.wrapping_add_signed(i64::from(half as u32 as i32));
            Some((from(word), from(word >> 32)))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if row(middle)?.0 <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let entry = Self::read(memory, row(low.checked_sub(1)?)?.1)?;
        let mut own = Reader { bytes: &entry.own, at: 4, place: entry.own_at };
        let begin = own.pointer(entry.pointers)?;
        // The length is a number of the same form, and relative to nothing.
        let length = own.pointer(entry.pointers & 0x0f)?;
        let own_bytes = own.uleb()?;
        let own_program = own.at.checked_add(usize::try_from(own_bytes).ok()?)?;
        (begin..begin.checked_add(length)?).contains(&at).then_some(Self { begin, own_program, ..entry })
    }

    /// The entry at an address with its common part; the function's own place is not read yet.
    fn read(memory: &impl Memory, at: u64) -> Option<Self> {
        let (own, own_at) = entry(memory, at)?;
        let back = u64::from(u32::from_le_bytes(*own.first_chunk()?));
        let (common, common_at) = entry(memory, own_at.checked_sub(back)?)?;
        let mut reader = Reader { bytes: &common, at: 0, place: common_at };
        if reader.number(4)? != 0 {
            return None;
        }
        let version = reader.number(1)?;
        let mut letters = Vec::new();
        loop {
            match reader.number(1)? as u8 {
                0 => break,
                letter => letters.push(letter),
            }
        }
        let code_factor = reader.uleb()?;
        let data_factor = reader.sleb()?;
        let back_register = if version == 1 { reader.number(1)? } else { reader.uleb()? };
        let [b'z', rest @ ..] = letters.as_slice() else { return None };
        let length = reader.uleb()?;
        let common_program = reader.at.checked_add(usize::try_from(length).ok()?)?;
        let (mut pointers, mut of_signal) = (0, false);
        for letter in rest {
            match letter {
                b'R' => pointers = reader.number(1)? as u8,
                b'P' => {
                    let encoding = reader.number(1)? as u8;
                    reader.pointer(encoding & 0x7f)?;
                }
                b'L' => drop(reader.number(1)?),
                b'S' => of_signal = true,
                _ => return None,
            }
        }
        if back_register != RETURN || !matches!(version, 1 | 3) {
            return None;
        }
        let (own_program, begin) = (0, 0);
        Some(Self {
            common,
            code_factor,
            data_factor,
            pointers,
            common_program,
            of_signal,
            own,
            own_at,
            own_program,
            begin,
        })
    }

    /// The rules that hold at an address.
    fn row(&self, at: u64) -> Option<Row<'_>> {
        let mut row = Row { cfa: Cfa::None, frame: Rule::Same, back: Rule::Undefined };
        let mut place = self.begin;
        let common = Reader { bytes: &self.common, at: self.common_program, place: 0 };
        self.run(common, None, at, &mut place, &mut row)?;
        place = self.begin;
        let first = row;
        let own = Reader { bytes: &self.own, at: self.own_program, place: self.own_at };
        self.run(own, Some(first), at, &mut place, &mut row)?;
        Some(row)
    }

    /// Carries a program out up to an address.
    fn run<'a>(
        &self,
        mut program: Reader<'a>,
        first: Option<Row<'a>>,
        at: u64,
        place: &mut u64,
        row: &mut Row<'a>,
    ) -> Option<()> {
        let mut kept = Vec::new();
        let scaled = |number: u64| i64::try_from(number).ok()?.checked_mul(self.data_factor);
        let scaled_signed = |number: i64| number.checked_mul(self.data_factor);
        while program.at < program.bytes.len() {
            let code = program.number(1)? as u8;
            let (operation, operand) = (code & 0xc0, u64::from(code & 0x3f));
            let advance = match (operation, code) {
                (0x40, _) => Some(operand),
                (0, 0x02) => Some(program.number(1)?),
                (0, 0x03) => Some(program.number(2)?),
                (0, 0x04) => Some(program.number(4)?),
                _ => None,
            };
            if let Some(steps) = advance {
                *place = place.checked_add(steps.checked_mul(self.code_factor)?)?;
                if *place > at {
                    return Some(());
                }
                continue;
            }
            match (operation, code) {
                (0x80, _) => {
                    let offset = scaled(program.uleb()?)?;
                    row.set(operand, Rule::At(offset));
                }
                (0xc0, _) => row.restore(operand, &first?),
                (_, 0x00) => {}
                (_, 0x05) => {
                    let register = program.uleb()?;
                    let offset = scaled(program.uleb()?)?;
                    row.set(register, Rule::At(offset));
                }
                (_, 0x06) => row.restore(program.uleb()?, &first?),
                (_, 0x07) => row.set(program.uleb()?, Rule::Undefined),
                (_, 0x08) => row.set(program.uleb()?, Rule::Same),
                (_, 0x09) => {
                    // Kept in another register, which nobody knows.
                    let register = program.uleb()?;
                    program.uleb()?;
                    row.set(register, Rule::Undefined);
                }
                (_, 0x0a) if kept.len() < MOST_KEPT => kept.push(*row),
                (_, 0x0b) => *row = kept.pop()?,
                (_, 0x0c) => row.cfa = Cfa::Register(program.uleb()?, i64::try_from(program.uleb()?).ok()?),
                (_, 0x0d) => {
                    let Cfa::Register(_, offset) = row.cfa else { return None };
                    row.cfa = Cfa::Register(program.uleb()?, offset);
                }
                (_, 0x0e) => {
                    let Cfa::Register(register, _) = row.cfa else { return None };
                    row.cfa = Cfa::Register(register, i64::try_from(program.uleb()?).ok()?);
                }
                (_, 0x0f) => row.cfa = Cfa::Expression(program.block()?),
                (_, 0x10) => {
                    let register = program.uleb()?;
                    row.set(register, Rule::AtExpression(program.block()?));
                }
                (_, 0x11) => {
                    let register = program.uleb()?;
                    row.set(register, Rule::At(scaled_signed(program.sleb()?)?));
                }
                (_, 0x12) => row.cfa = Cfa::Register(program.uleb()?, scaled_signed(program.sleb()?)?),
                (_, 0x13) => {
                    let Cfa::Register(register, _) = row.cfa else { return None };
                    row.cfa = Cfa::Register(register, scaled_signed(program.sleb()?)?);
                }
                (_, 0x14) => {
                    let register = program.uleb()?;
                    row.set(register, Rule::Is(scaled(program.uleb()?)?));
                }
                (_, 0x15) => {
                    let register = program.uleb()?;
                    row.set(register, Rule::Is(scaled_signed(program.sleb()?)?));
                }
                (_, 0x16) => {
                    let register = program.uleb()?;
                    row.set(register, Rule::IsExpression(program.block()?));
                }
                // How much a call has pushed, which changes no rule.
                (_, 0x2e) => drop(program.uleb()?),
                _ => return None,
            }
        }
        Some(())
    }
}

/// An entry's bytes behind its length, and where they lie.
fn entry(memory: &impl Memory, at: u64) -> Option<(Vec<u8>, u64)> {
    let length = u32::from_le_bytes(memory.array(at)?) as usize;
    // Longer ones say so by a number that is no length.
    if !(4..=MOST_TABLE_BYTES).contains(&length) {
        return None;
    }
    let begin = at.wrapping_add(4);
    let bytes = memory.bytes(begin, length);
    (bytes.len() == length).then_some((bytes, begin))
}

/// Where the frame begins.
#[derive(Clone, Copy)]
enum Cfa<'a> {
    None,
    Register(u64, i64),
    Expression(&'a [u8]),
}

/// Where the caller's register is.
#[derive(Clone, Copy)]
enum Rule<'a> {
    Same,
    Undefined,
    At(i64),
    Is(i64),
    AtExpression(&'a [u8]),
    IsExpression(&'a [u8]),
}

#[derive(Clone, Copy)]
struct Row<'a> {
    cfa: Cfa<'a>,
    frame: Rule<'a>,
    back: Rule<'a>,
}

impl<'a> Row<'a> {
    fn set(&mut self, register: u64, rule: Rule<'a>) {
        match register {
            FRAME => self.frame = rule,
            RETURN => self.back = rule,
            _ => {}
        }
    }

    fn restore(&mut self, register: u64, first: &Self) {
        match register {
            FRAME => self.frame = first.frame,
            RETURN => self.back = first.back,
            _ => {}
        }
    }
}

/// The value of an expression, of the few operations that compilers and linkers use for frames.
fn evaluate(memory: &impl Memory, expression: &[u8], now: Registers, begin: Option<u64>) -> Option<u64> {
    let mut reader = Reader { bytes: expression, at: 0, place: 0 };
    let mut stack: Vec<u64> = begin.into_iter().collect();
    for _ in 0..MOST_OPERATIONS {
        if reader.at >= expression.len() {
            return stack.pop();
        }
        let code = reader.number(1)? as u8;
        let value = match code {
            0x06 => memory.word(stack.pop()?)?,
            0x08 => reader.number(1)?,
            0x09 => reader.number(1)? as u8 as i8 as u64,
            0x0a => reader.number(2)?,
            0x0b => reader.number(2)? as u16 as i16 as u64,
            0x0c => reader.number(4)?,
            0x0d => reader.number(4)? as u32 as i32 as u64,
            0x10 => reader.uleb()?,
            0x11 => reader.sleb()? as u64,
            0x12 => *stack.last()?,
            0x1a | 0x1c | 0x22 | 0x24 | 0x2a => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                match code {
                    0x1a => left & right,
                    0x1c => left.wrapping_sub(right),
                    0x22 => left.wrapping_add(right),
                    0x24 => left.checked_shl(u32::try_from(right).ok()?).unwrap_or(0),
                    _ => u64::from(left as i64 >= right as i64),
                }
            }
            0x23 => stack.pop()?.wrapping_add(reader.uleb()?),
            0x30..=0x4f => u64::from(code - 0x30),
            0x70..=0x8f => {
                let register = match u64::from(code - 0x70) {
                    FRAME => now.frame,
                    STACK => now.stack,
                    RETURN => now.address,
                    _ => return None,
                };
                register.wrapping_add_signed(reader.sleb()?)
            }
            _ => return None,
        };
        stack.push(value);
    }
    None
}

/// Numbers out of bytes, in the forms that the tables have.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the bytes lie.
    place: u64,
}

impl<'a> Reader<'a> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let end = self.at.checked_add(bytes)?;
        let mut word = [0; 8];
        word.get_mut(..bytes)?.copy_from_slice(self.bytes.get(self.at..end)?);
        self.at = end;
        Some(u64::from_le_bytes(word))
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.number(1)?;
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn sleb(&mut self) -> Option<i64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.number(1)?;
            value |= ((byte & 0x7f) << shift) as i64;
            if byte & 0x80 == 0 {
                let unused = 64_u32.saturating_sub(shift + 7);
                return Some(value << unused >> unused);
            }
        }
        None
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.uleb()?).ok()?;
        let end = self.at.checked_add(length)?;
        let block = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(block)
    }

    /// A pointer in the form that a byte names: how long, and relative to what.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        if encoding == NO_POINTER {
            return None;
        }
        let place = self.place.wrapping_add(self.at as u64);
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.number(8)?,
            0x01 => self.uleb()?,
            0x02 => self.number(2)?,
            0x03 => self.number(4)?,
            0x09 => self.sleb()? as u64,
            0x0a => self.number(2)? as u16 as i16 as u64,
            0x0b => self.number(4)? as u32 as i32 as u64,
            _ => return None,
        };
        match encoding & 0xf0 {
            0x00 => Some(value),
            0x10 => Some(place.wrapping_add(value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{At, Own};
    use super::super::{modules, own_maps, walk, Stack};
    use super::*;
    use std::cell::Cell;

    const NOW: Registers = Registers { address: 0x40_1010, stack: 0x7000, frame: 0x7100, returns: true };

    #[test]
    fn the_expression_of_a_linkage_table_is_evaluated() {
        // What GNU ld writes: the stack pointer plus 8, and 8 more from the eleventh byte of an entry on.
        let expression = [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let nothing = At(0, &[]);
        assert_eq!(evaluate(&nothing, &expression, NOW, None), Some(0x7008));
        let late = Registers { address: 0x40_101b, ..NOW };
        assert_eq!(evaluate(&nothing, &expression, late, None), Some(0x7010));
        // The saved stack pointer of a function that has aligned its own.
        let saved = 0x1234_u64.to_le_bytes();
        assert_eq!(evaluate(&At(0x70f8, &saved), &[0x76, 0x78, 0x06], NOW, None), Some(0x1234));
        assert_eq!(evaluate(&nothing, &[0x76, 0x78, 0x06], NOW, None), None);
        assert_eq!(evaluate(&nothing, &[0x73, 0x00], NOW, None), None, "a register that nobody knows");
        assert_eq!(evaluate(&nothing, &[0x22], NOW, None), None);
    }

    #[test]
    fn numbers_have_their_signs() {
        let read = |bytes: &[u8]| Reader { bytes, at: 0, place: 0 }.sleb();
        assert_eq!((read(&[0x78]), read(&[0x02]), read(&[0x80, 0x7f])), (Some(-8), Some(2), Some(-128)));
        assert_eq!(read(&[0x80]), None);
        assert_eq!(read(&[0xff; 10]), None);
        assert_eq!(Reader { bytes: &[0xe5, 0x8e, 0x26], at: 0, place: 0 }.uleb(), Some(624_485));
        let mut relative = Reader { bytes: &[0xfc, 0xff, 0xff, 0xff], at: 0, place: 0x1000 };
        assert_eq!(relative.pointer(0x1b), Some(0xffc));
    }

    /// This test's memory, with wrong bytes in it here and there.
    struct Damaged {
        own: Own,
        random: Cell<u64>,
        one_in: u64,
    }

    impl Memory for Damaged {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            let read = self.own.read(address, into);
            for byte in into.iter_mut() {
                let mut random = self.random.get();
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                self.random.set(random);
                if random.is_multiple_of(self.one_in) {
                    *byte = (random >> 32) as u8;
                }
            }
            if self.random.get().is_multiple_of(50) {
                read / 2
            } else {
                read
            }
        }
    }

    #[test]
    fn tables_that_make_no_sense_end_the_walk_and_nothing_else() {
        let maps = own_maps();
        let modules = modules(&maps);
        let own = Own::new();
        let images: Vec<_> = modules.iter().map(|module| Image::read(&own, module.base)).collect();
        let image = |number: usize| images[number].as_ref();
        let stack = super::super::mappings(&maps).find(|mapping| mapping.path == "[stack]").unwrap();
        let (mut memory, mut frames, mut steps) = (Damaged { own, random: Cell::new(7), one_in: 1 }, 0, 0);
        for round in 1..6000_u64 {
            memory.one_in = [10, 30, 100, 1000, u64::MAX][round as usize % 5];
            let module = &modules[round as usize % modules.len()];
            let (begin, end) = module.code[0];
            let address = begin + 1 + round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (end - begin);
            let at = (stack.end - 4096 + round % 509 * 8) & !7;
            let now = Registers { address, stack: at, frame: at + 64, returns: true };
            if let Some(image) = image(round as usize % modules.len()) {
                steps += u32::from(step(&memory, image, now).is_some());
            }
            let stack = Stack { address, begin: at, end: stack.end, frame: at + 64 };
            frames += walk(&memory, &modules, &image, &stack).len();
        }
        assert!(steps > 500 && frames >= 6000 - 1, "{steps} steps, {frames} frames: hardly anything was read");
    }
}
