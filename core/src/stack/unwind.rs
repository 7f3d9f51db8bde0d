//! One step up a stack, by the tables that a file carries for exceptions (`.eh_frame`, of the DWARF kind), which `gimli` reads.
//!
//! The library reads the tables as they lie in memory ([`caller`]), the command those of a file ([`FileTables`]). Chains of frame pointers are not
//! followed: they skip functions without one, and do not show it.
//!
//! Must not: guess: where the tables or a register are missing, the stack ends. Allocate. Trust a number in the sorted index, which `gimli`
//! does not check.

use super::elf::Image;
use super::in_memory::{InMemory, Window};
use super::machine::Machine;
use super::Memory;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, Error, Evaluation, EvaluationResult,
    EvaluationStorage, Format, FrameDescriptionEntry, LittleEndian, Location, ParsedEhFrameHdr, Piece, Reader,
    Register, RegisterRule, Section as _, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection as _,
    UnwindTableRow, Value,
};

const REGISTERS: usize = 32;

const MOST_OPERATIONS: u32 = 1 << 10;
/// Most registers and words that one expression asks for.
const MOST_QUESTIONS: usize = 64;

/// The head of an index as linkers write it: a four-byte count, and a table of four-byte differences.
const VERSION: u8 = 1;
const COUNT: u8 = 0x03;
const SORTED: u8 = 0x3b;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    machine: Machine,
    /// The return address' place holds where the frame continues.
    known: [Option<u64>; REGISTERS],
    /// Whether a call returns there; else a signal came in before it.
    returns: bool,
}

impl Registers {
    pub fn new(machine: Machine, address: u64, stack: u64, frame: u64) -> Self {
        let frame = [(machine.frame().0, frame)];
        Self { returns: true, ..Self::of_thread(machine, machine.unsigned(address), stack, frame) }
    }

    /// The registers of a thread anywhere in a function, with further ones by their numbers in DWARF.
    pub fn of_thread(machine: Machine, address: u64, stack: u64, others: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut registers = Self { machine, known: [None; REGISTERS], returns: false };
        others.into_iter().for_each(|(number, value)| registers.set(Register(number), value));
        registers.set(machine.returns(), address);
        registers.set(machine.stack(), stack);
        registers
    }

    pub fn address(&self) -> u64 {
        self.get(self.machine.returns()).unwrap_or(0)
    }

    pub(super) fn has_address(&self) -> bool {
        self.address() != 0
    }

    /// The call lies before the address that it returns to.
    pub fn call(&self) -> u64 {
        self.address().wrapping_sub(self.returns.into())
    }

    pub fn stack(&self) -> u64 {
        self.get(self.machine.stack()).unwrap_or(0)
    }

    pub fn frame(&self) -> Option<u64> {
        self.get(self.machine.frame())
    }

    fn get(&self, register: Register) -> Option<u64> {
        self.known.get(usize::from(register.0)).copied().flatten()
    }

    fn set(&mut self, register: Register, value: u64) {
        if let Some(place) = self.known.get_mut(usize::from(register.0)) {
            *place = Some(value);
        }
    }
}

/// `None` where it is unknown. The caller of a frame that has none has no address.
pub(super) fn caller(memory: &dyn Memory, image: &Image, now: &Registers) -> Option<Registers> {
    Tables::in_memory(&Window::new(&memory), image, now.machine)?.step(0, now, &|address| (&memory).word(address))
}

/// The caller, by the tables whose index lies at `index`.
pub fn caller_by(memory: &impl Memory, index: u64, now: &Registers) -> Option<Registers> {
    let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(index), dynamic: None };
    caller(memory, &image, now).filter(Registers::has_address)
}

/// How far above its frame pointer the frame of a function ends; `function` is its first instruction.
pub fn above_frame_pointer(memory: &dyn Memory, image: &Image, machine: Machine, function: u64) -> Option<u64> {
    let window = Window::new(&memory);
    let tables = Tables::in_memory(&window, image, machine)?;
    let entry = tables.entry(function)?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let mut rows = entry.rows(&tables.frames, &tables.bases, &mut context).ok()?;
    while let Some(row) = rows.next_row().ok()? {
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } if *register == machine.frame() => {
                return u64::try_from(*offset).ok()
            }
            _ => {}
        }
    }
    None
}

pub struct FileTables {
    first: u64,
    frames: (u64, Vec<u8>),
    index: (u64, Vec<u8>),
}

impl FileTables {
    /// `.eh_frame` and `.eh_frame_hdr`, with their addresses.
    pub fn new(first: u64, frames: Option<(u64, Vec<u8>)>, index: Option<(u64, Vec<u8>)>) -> Self {
        Self { first, frames: frames.unwrap_or_default(), index: index.unwrap_or_default() }
    }

    /// `base` is where the file's first byte lies, `word` reads the stack.
    pub fn step(&self, base: u64, now: &Registers, word: &dyn Fn(u64) -> Option<u64>) -> Option<Registers> {
        let (frames_at, frames) = &self.frames;
        let index = EhFrameHdr::new(&self.index.1, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(*frames_at).set_eh_frame_hdr(self.index.0);
        let index = parsed(&index, &bases);
        let mut frames = EhFrame::new(frames, LittleEndian);
        frames.set_vendor(now.machine.vendor());
        let tables = Tables { frames, index, bases, machine: now.machine };
        tables.step(base.wrapping_sub(self.first), now, word).filter(Registers::has_address)
    }
}

/// `None` where it is not as linkers write it.
fn parsed<R: Reader>(index: &EhFrameHdr<R>, bases: &BaseAddresses) -> Option<ParsedEhFrameHdr<R>> {
    let [VERSION, _, COUNT, SORTED] = index.reader().clone().read_u8_array::<[u8; 4]>().ok()? else { return None };
    index.parse(bases, 8).ok().filter(|index| index.table().is_some())
}

struct Tables<R: Reader> {
    frames: EhFrame<R>,
    /// Without it, entries are looked at one by one.
    index: Option<ParsedEhFrameHdr<R>>,
    bases: BaseAddresses,
    machine: Machine,
}

impl<'a, M: Memory> Tables<InMemory<'a, M>> {
    /// The section is all of the memory, so that an offset in it is an address.
    fn in_memory(window: &'a Window<'a, M>, image: &Image, machine: Machine) -> Option<Self> {
        let index_at = image.unwind_index?;
        let index = EhFrameHdr::from(InMemory::from(window, index_at));
        let mut frames = EhFrame::from(InMemory::from(window, 0));
        frames.set_vendor(machine.vendor());
        let bases = BaseAddresses::default().set_eh_frame(0).set_eh_frame_hdr(index_at);
        Some(Self { frames, index: Some(parsed(&index, &bases)?), bases, machine })
    }
}

impl<R: Reader<Offset = usize>> Tables<R> {
    fn entry(&self, at: u64) -> Option<FrameDescriptionEntry<R>> {
        let (frames, bases) = (&self.frames, &self.bases);
        let entry = match self.index.as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(table) => {
                let found = table.lookup(at, bases).ok()?.direct().ok()?.checked_sub(bases.eh_frame.section?)?;
                frames.fde_from_offset(bases, EhFrameOffset(usize::try_from(found).ok()?), EhFrame::cie_from_offset)
            }
            None => frames.fde_for_address(bases, at, EhFrame::cie_from_offset),
        };
        // The index names the nearest entry.
        entry.ok().filter(|entry| entry.contains(at) && entry.cie().return_address_register() == self.machine.returns())
    }

    /// See [`caller`]. `bias`: memory address minus the tables' address.
    fn step(&self, bias: u64, now: &Registers, word: &dyn Fn(u64) -> Option<u64>) -> Option<Registers> {
        let at = now.call().wrapping_sub(bias);
        let (frames, bases) = (&self.frames, &self.bases);
        let entry = self.entry(at)?;
        let mut context = UnwindContext::<usize, OnStack>::new_in();
        let row = entry.unwind_info_for_address(frames, bases, &mut context, at).ok()?;
        let expression =
            |expression: UnwindExpression<usize>, begin| evaluate(frames, &expression, now, bias, begin, word);
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => now.get(*register)?.wrapping_add_signed(*offset),
            CfaRule::Expression(e) => expression(*e, None)?,
        };
        let machine = self.machine;
        let mut next = Registers { machine, known: [None; REGISTERS], returns: !entry.is_signal_trampoline() };
        for (number, place) in next.known.iter_mut().enumerate() {
            let register = Register(number as u16);
            *place = match row.register(register) {
                None if register == machine.stack() => Some(cfa),
                // A register that functions give back keeps its value; the others are unknown.
                None if machine.keeps(register) => now.get(register),
                None | Some(RegisterRule::Undefined) => None,
                Some(RegisterRule::SameValue) => now.get(register),
                Some(RegisterRule::Offset(offset)) => word(cfa.wrapping_add_signed(offset)),
                Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
                Some(RegisterRule::Register(other)) => now.get(other),
                Some(RegisterRule::Expression(e)) => expression(e, Some(cfa)).and_then(word),
                Some(RegisterRule::ValExpression(e)) => expression(e, Some(cfa)),
                Some(_) => None,
            };
        }
        let returns = machine.returns();
        if let Some(address) = next.get(returns) {
            next.set(returns, machine.unsigned(address));
        }
        // A frame lies further out than the one it called, but for one that was interrupted on a stack of its own.
        let outwards = !next.returns || cfa > now.stack();
        let is_first = matches!(row.register(returns), Some(RegisterRule::Undefined)) || next.get(returns) == Some(0);
        (is_first || outwards && next.has_address()).then_some(next)
    }
}

fn evaluate<R: Reader<Offset = usize>>(
    frames: &EhFrame<R>,
    expression: &UnwindExpression<usize>,
    now: &Registers,
    bias: u64,
    begin: Option<u64>,
    word: &dyn Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = Evaluation::<R, OnStack>::new_in(expression.get(frames).ok()?.0, encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(begin) = begin {
        evaluation.set_initial_value(begin);
    }
    let mut result: Result<_, Error> = evaluation.evaluate();
    for _ in 0..MOST_QUESTIONS {
        result = match result.ok()? {
            EvaluationResult::Complete => {
                let [Piece { location: Location::Address { address }, .. }] = evaluation.as_result() else {
                    return None;
                };
                return Some(*address);
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                // Linkage tables compute with the last bits of an address in the code, which are the same in the file.
                evaluation.resume_with_register(Value::Generic(now.get(register)?))
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(word(address)?))
            }
            EvaluationResult::RequiresRelocatedAddress(address) => {
                evaluation.resume_with_relocated_address(address.wrapping_add(bias))
            }
            _ => return None,
        };
    }
    None
}

/// Room for a row's rules, stored rows, and an expression's values; an entry that needs more is refused.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 8];
}

impl<R: Reader> EvaluationStorage<R> for OnStack {
    type Stack = [Value; 64];
    type ExpressionStack = [(R, R); 1];
    type Result = [Piece<R>; 1];
}

#[cfg(test)]
mod tests {
    use super::super::tests::{At, Own};
    use super::super::{modules, own_maps, walk, Stack};
    use super::*;
    use gimli::X86_64;
    use std::cell::Cell;

    fn step(memory: &impl Memory, image: &Image, now: &Registers) -> Option<Registers> {
        caller(memory, image, now).filter(Registers::has_address)
    }

    fn now() -> Registers {
        Registers::new(Machine::X86_64, 0x40_1011, 0x7000, 0x7100)
    }

    const CODE: u64 = 0x40_1000;
    const FRAMES: u64 = 0x40_2000;
    const INDEX: u64 = 0x40_3000;

    /// Tables with one function, whose common part says `common`, with its index.
    fn tables(common: &[u8]) -> (Vec<u8>, Vec<u8>) {
        tables_of(Machine::X86_64, common)
    }

    fn tables_of(machine: Machine, common: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let entry = |mut bytes: Vec<u8>| {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
        };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        // Version 1, "zR", factors 1 and -8, the return address' column, four-byte differences.
        let head = [&[0, 0, 0, 0, 1], &b"zR\0"[..], &[1, 0x78, machine.returns().0 as u8, 1, 0x1b], common].concat();
        let mut frames = entry(head);
        let own = frames.len() as u64;
        let begin = CODE.wrapping_sub(FRAMES + own + 8) as u32;
        frames.extend(entry([words(&[own as u32 + 4, begin, 0x100]), vec![0]].concat()));
        frames.extend([0; 4]);
        let from_index = |address: u64| address.wrapping_sub(INDEX) as u32;
        let row = [1, from_index(CODE), from_index(FRAMES + own)];
        let index = [vec![VERSION, 0x1b, COUNT, SORTED], words(&[FRAMES.wrapping_sub(INDEX + 4) as u32]), words(&row)];
        (frames, index.concat())
    }

    /// The caller's registers by these tables, which the file's and the memory's reader have to agree on.
    fn stepped(common: &[u8], now: &Registers, stack: (u64, &[u64])) -> Option<Registers> {
        let (frames, index) = tables_of(now.machine, common);
        let stack: (u64, Vec<u8>) = (stack.0, stack.1.iter().flat_map(|word| word.to_le_bytes()).collect());
        let on_stack = |address| At(stack.0, &stack.1).word(address);
        let of = |index| FileTables::new(0, Some((FRAMES, frames.clone())), index).step(0, now, &on_stack);
        let by_file = of(Some((INDEX, index.clone())));
        assert_eq!(of(None), by_file, "without an index");
        let memory = Parts([At(FRAMES, &frames), At(INDEX, &index), At(stack.0, &stack.1)]);
        let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(INDEX), dynamic: None };
        assert_eq!(step(&memory, &image, now), by_file, "in memory");
        by_file
    }

    struct Parts<'a>([At<'a>; 3]);

    impl Memory for Parts<'_> {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            self.0.iter().map(|part| part.read(address, into)).find(|read| *read > 0).unwrap_or(0)
        }
    }

    /// The frame begins at rsp + 16, and the return address lies below it.
    const PLAIN: &[u8] = &[0x0c, 7, 16, 0x90, 1];

    #[test]
    fn a_plain_frame_is_left() {
        let next = stepped(PLAIN, &now(), (0x7000, &[1, 0x1234])).unwrap();
        assert_eq!((next.address(), next.stack(), next.get(X86_64::RBP)), (0x1234, 0x7010, Some(0x7100)));
        assert_eq!(next.get(X86_64::RAX), None);
        assert_eq!(stepped(PLAIN, &now(), (0x7000, &[1])), None, "the word is not there");
        assert_eq!(stepped(PLAIN, &now(), (0x7000, &[1, 0])), None, "the outermost frame");
        let elsewhere = Registers::new(Machine::X86_64, CODE + 0x101 + 1, 0x7000, 0);
        assert_eq!(stepped(PLAIN, &elsewhere, (0x7000, &[1, 2])), None, "code without an entry");
        // By the frame pointer, which lies below the return address.
        let framed = stepped(&[0x0c, 6, 16, 0x90, 1, 0x86, 2], &now(), (0x7100, &[0x7200, 0x1234])).unwrap();
        assert_eq!((framed.address(), framed.stack(), framed.get(X86_64::RBP)), (0x1234, 0x7110, Some(0x7200)));
        assert_eq!(stepped(&[0x0c, 3, 16, 0x90, 1], &now(), (0x7000, &[1, 2])), None, "a register that nobody knows");
        assert_eq!(stepped(&[0x0c, 7, 0, 0x90, 1], &now(), (0x6ff8, &[1, 2])), None, "no further out");
        assert_eq!(stepped(&[0x0c, 7, 16, 0x07, 16], &now(), (0x7000, &[1, 2])), None, "it says that it is the last");
        assert_eq!(stepped(&[0x3f], &now(), (0x7000, &[1, 2])), None, "no such operation");
    }

    #[test]
    fn a_stack_says_where_it_begins() {
        let (frames, index) = tables(&[0x0c, 7, 16, 0x07, 16]);
        let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(INDEX), dynamic: None };
        let stack: Vec<u8> = [1_u64, 0x1234].iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = Parts([At(FRAMES, &frames), At(INDEX, &index), At(0x7000, &stack)]);
        assert!(caller(&memory, &image, &now()).is_some_and(|caller| !caller.has_address()));
        let elsewhere = Registers::new(Machine::X86_64, CODE + 0x101 + 1, 0x7000, 0);
        assert_eq!(caller(&memory, &image, &elsewhere), None);
        let stands = Registers::of_thread(Machine::X86_64, CODE, 0x7000, [(6, 5), (99, 6)]);
        assert_eq!((stands.call(), stands.get(X86_64::RBP), stands.get(X86_64::RBX)), (CODE, Some(5), None));
    }

    /// Signed, the frame 32 bytes above the frame pointer, which is kept at its begin beside the return address.
    const RECORD: &[u8] = &[0x2d, 0x0c, 29, 32, 0x9d, 4, 0x9e, 3];

    #[test]
    fn a_frame_of_aarch64_is_left_by_its_frame_record() {
        let blocked = Registers::new(Machine::Aarch64, 0x40_1011, 0x7000, 0x7000);
        let next = stepped(RECORD, &blocked, (0x7000, &[0x7100, 0x00bf_0000_0000_1234])).unwrap();
        let frame = next.get(Machine::Aarch64.frame());
        assert_eq!((next.address(), next.stack(), frame), (0x1234, 0x7020, Some(0x7100)), "without the signature");
        let kept = Registers::of_thread(Machine::Aarch64, 0x40_1010, 0x7000, [(19, 5), (18, 6), (29, 0x7000)]);
        let next = stepped(RECORD, &kept, (0x7000, &[0x7100, 0x1234])).unwrap();
        assert_eq!((next.get(gimli::AArch64::X19), next.get(gimli::AArch64::X18)), (Some(5), None));
        assert_eq!(stepped(&[0x0c, 31, 16], &blocked, (0x7000, &[1, 2])), None, "a return address that was not kept");
    }

    #[test]
    fn how_far_a_frame_ends_above_its_pointer_is_in_the_tables() {
        for (common, expect) in [(RECORD, Some(32)), (&[0x0c, 31, 16], None), (&[0x3f], None)] {
            let (frames, index) = tables_of(Machine::Aarch64, common);
            let memory = Parts([At(FRAMES, &frames), At(INDEX, &index), At(0, &[])]);
            let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(INDEX), dynamic: None };
            let above = |function| above_frame_pointer(&memory, &image, Machine::Aarch64, function);
            assert_eq!((above(CODE), above(CODE + 0x1000)), (expect, None));
        }
    }

    #[test]
    fn the_expression_of_a_linkage_table_is_evaluated() {
        // GNU ld writes this: the stack pointer plus 8, and 8 more from the eleventh byte of a linkage entry on.
        let expression = [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let program = [&[0x0f, expression.len() as u8][..], &expression, &[0x90, 1]].concat();
        let at = |address| {
            let next =
                stepped(&program, &Registers::new(Machine::X86_64, address, 0x7000, 0), (0x7000, &[0x11, 0x22]))?;
            Some((next.stack(), next.address()))
        };
        assert_eq!((at(0x40_1010), at(0x40_101b)), (Some((0x7008, 0x11)), Some((0x7010, 0x22))));
        // The stack pointer that a function has saved before it aligned its own.
        let saved = [0x0f, 3, 0x76, 0x78, 0x06, 0x90, 1];
        let next = stepped(&saved, &now(), (0x70f8, &[0x7108, 0x33])).unwrap();
        assert_eq!((next.stack(), next.address()), (0x7108, 0x33));
        assert_eq!(stepped(&saved, &now(), (0x7000, &[1])), None);
        for refused in [&[0x0f, 1, 0x22][..], &[0x0f, 2, 0x73, 0x00], &[0x0f, 3, 0x2f, 0xfd, 0xff], &[0x0f, 9, 0x30]] {
            assert_eq!(stepped(refused, &now(), (0x7000, &[1, 2])), None, "{refused:x?}");
        }
    }

    #[test]
    fn an_index_of_another_kind_is_left_alone() {
        let (frames, index) = tables(PLAIN);
        let word = |address| At(0x7008, &0x1234_u64.to_le_bytes()).word(address);
        for (at, value) in [(0, 2), (2, 0x04), (2, 0xff), (3, 0x1b), (3, 0xff)] {
            let mut index = index.clone();
            index[at] = value;
            let memory = Parts([At(FRAMES, &frames), At(INDEX, &index), At(0, &[])]);
            let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(INDEX), dynamic: None };
            assert_eq!(step(&memory, &image, &now()), None);
            let file = FileTables::new(0, Some((FRAMES, frames.clone())), Some((INDEX, index)));
            assert_eq!(file.step(0, &now(), &word).map(|next| next.address()), Some(0x1234), "entry by entry");
        }
    }

    #[test]
    fn wrong_bytes_in_an_entry_end_the_step_and_nothing_else() {
        let (frames, index) = tables(PLAIN);
        let (mut random, mut steps) = (1_u64, 0);
        let stack = [1; 64];
        for round in 0..20_000_u64 {
            let (mut frames, mut index) = (frames.clone(), index.clone());
            let mut spoil = |bytes: &mut [u8]| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let odd = [0, 1, 0x7f, 0x80, 0xff, (random >> 40) as u8];
                bytes[(random >> 8) as usize % bytes.len()] = odd[random as usize % odd.len()];
            };
            (0..1 + round % 4).for_each(|_| spoil(&mut frames));
            (0..round % 3).for_each(|_| spoil(&mut index[4..]));
            let memory = Parts([At(FRAMES, &frames), At(INDEX, &index), At(0x7000, &stack)]);
            let image = Image { bias: 0, build_id: Vec::new(), unwind_index: Some(INDEX), dynamic: None };
            steps += u32::from(step(&memory, &image, &now()).is_some());
            let file = FileTables::new(0, Some((FRAMES, frames)), (round % 2 == 0).then_some((INDEX, index)));
            steps += u32::from(file.step(0, &now(), &|address| At(0x7000, &stack).word(address)).is_some());
        }
        assert!(steps > 1000, "{steps} steps: hardly anything was read");
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
            let now = Registers::new(Machine::OWN, address, at, at + 64);
            if let Some(image) = image(round as usize % modules.len()) {
                steps += u32::from(step(&memory, image, &now).is_some());
            }
            let stack = Stack { address, begin: at, end: stack.end, frame: at + 64 };
            frames += walk(&memory, &modules, &image, &stack).len();
        }
        assert!(steps > 500 && frames >= 6000 - 1, "{steps} steps, {frames} frames: hardly anything was read");
    }
}
