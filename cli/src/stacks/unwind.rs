//! One step up a stack, by a file's tables for exceptions.
//!
//! Must not: guess. Where the tables do not say, or a register that they need is not known, the stack ends.

use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Error, EvaluationResult, LittleEndian, Location, Piece,
    Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _, Value, X86_64,
};
use addr2line::gimli::{Encoding, Format};

/// The registers that have numbers in the tables.
const REGISTERS: usize = 17;
const STACK: usize = 7;
const FRAME: usize = 6;
const RETURN: usize = 16;

const MOST_QUESTIONS: usize = 64;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The registers of a frame, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    known: [Option<u64>; REGISTERS],
    /// Whether the address is one that a call returns to; else it was interrupted there.
    returns: bool,
}

impl Registers {
    pub fn new(address: u64, stack: u64, frame: u64) -> Self {
        let mut known = [None; REGISTERS];
        (known[RETURN], known[STACK], known[FRAME]) = (Some(address), Some(stack), Some(frame));
        Self { known, returns: true }
    }

    /// Where it goes on.
    pub fn address(&self) -> u64 {
        self.known[RETURN].unwrap_or(0)
    }

    /// Where it is: a call is what lies before the address it returns to.
    pub fn call(&self) -> u64 {
        self.address().wrapping_sub(self.returns.into())
    }

    fn get(&self, register: Register) -> Option<u64> {
        self.known.get(usize::from(register.0)).copied().flatten()
    }
}

/// A file's tables.
pub(super) struct Tables {
    /// The file's own address of its first byte.
    first: u64,
    frames: Vec<u8>,
    index: Vec<u8>,
    bases: BaseAddresses,
}

impl Tables {
    pub fn new(first: u64, frames: Option<(u64, Vec<u8>)>, index: Option<(u64, Vec<u8>)>) -> Self {
        let (frames, index) = (frames.unwrap_or_default(), index.unwrap_or_default());
        let bases = BaseAddresses::default().set_eh_frame(frames.0).set_eh_frame_hdr(index.0);
        Self { first, frames: frames.1, index: index.1, bases }
    }

    /// The caller's registers. `base` is where the file's first byte lies, `word` reads the stack.
    pub fn step(&self, base: u64, now: &Registers, word: &dyn Fn(u64) -> Option<u64>) -> Option<Registers> {
        let bias = base.wrapping_sub(self.first);
        let at = now.call().wrapping_sub(bias);
        let frames = EhFrame::new(&self.frames, LittleEndian);
        let entry = match EhFrameHdr::new(&self.index, LittleEndian).parse(&self.bases, 8) {
            Ok(index) if index.table().is_some() => {
                index.table()?.fde_for_address(&frames, &self.bases, at, EhFrame::cie_from_offset)
            }
            _ => frames.fde_for_address(&self.bases, at, EhFrame::cie_from_offset),
        };
        let entry = entry.ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&frames, &self.bases, &mut context, at).ok()?;
        let expression =
            |expression: UnwindExpression<usize>, begin| evaluate(&frames, &expression, now, bias, begin, word);
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => now.get(*register)?.wrapping_add_signed(*offset),
            CfaRule::Expression(e) => expression(*e, None)?,
        };
        let mut next = Registers { known: [None; REGISTERS], returns: !entry.is_signal_trampoline() };
        for (number, place) in next.known.iter_mut().enumerate() {
            let register = Register(number as u16);
            // What callers may rely on stays; of the others nothing is known.
            let kept =
                matches!(register, X86_64::RBX | X86_64::RBP | X86_64::R12 | X86_64::R13 | X86_64::R14 | X86_64::R15);
            *place = match row.register(register) {
                None if number == STACK => Some(cfa),
                None if kept => now.get(register),
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
        // A frame lies further out than the one it called, but for one that was interrupted on a stack of its own.
        let outwards = !next.returns || cfa > now.known[STACK].unwrap_or(0);
        (outwards && next.known[RETURN].is_some_and(|address| address != 0)).then_some(next)
    }
}

fn evaluate(
    frames: &EhFrame<Slice<'_>>,
    expression: &UnwindExpression<usize>,
    now: &Registers,
    bias: u64,
    begin: Option<u64>,
    word: &dyn Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = expression.get(frames).ok()?.evaluation(encoding);
    evaluation.set_max_iterations(1 << 12);
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
                // The tables are told in addresses of memory here, but for the place in the code, which nothing depends on
                // beyond its last bits: files are mapped by pages.
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
