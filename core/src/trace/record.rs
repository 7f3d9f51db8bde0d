//! One record: eight words, the same in memory and in transit.

use crate::api::Form;
use crate::Nanos;

/// Words in a record.
pub const WORDS: usize = 8;

/// What a record tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A driver call made by the program.
    Call = 0,
    /// The same, and it loaded a function on first use.
    ColdFunction = 1,
    /// The same, and it brought a module or library into the context.
    ColdModule = 2,
    /// A hazard: `detail[0]` is the number of the code.
    Hazard = 3,
    /// The guard loaded ahead of use: `detail` is kernels loaded, kernels refused, the library's or module's handle.
    Preload = 4,
}

/// A driver call as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the call was entered.
    pub entered: Nanos,
    /// When it returned.
    pub returned: Nanos,
    /// Which call.
    pub form: Form,
    /// What the record tells of.
    pub kind: Kind,
    /// What the driver answered.
    pub result: i32,
    /// The calling thread.
    pub thread: u32,
    /// The context's number in the state, or 0.
    pub context_id: u32,
    /// The stream's number in the state, or 0.
    pub stream_id: u32,
    /// The function's number in the state, or 0.
    pub function_id: u32,
    /// What depends on the call.
    pub detail: [u64; 3],
}

impl Record {
    /// The record as words.
    pub fn to_words(&self) -> [u64; WORDS] {
        let head = u64::from(self.form.info().id) | (self.kind as u64) << 16 | u64::from(self.result as u32) << 32;
        let ids = u64::from(self.stream_id) | u64::from(self.function_id) << 32;
        let place = u64::from(self.thread) | u64::from(self.context_id) << 32;
        let [a, b, c] = self.detail;
        [head, self.entered, self.returned, place, ids, a, b, c]
    }

    /// The record that these words make, or `None` if they make none.
    pub fn from_words(words: &[u64; WORDS]) -> Option<Self> {
        let [head, entered, returned, place, ids, a, b, c] = *words;
        let kind = match (head >> 16) as u16 {
            0 => Kind::Call,
            1 => Kind::ColdFunction,
            2 => Kind::ColdModule,
            3 => Kind::Hazard,
            4 => Kind::Preload,
            _ => return None,
        };
        Some(Self {
            entered,
            returned,
            form: Form::by_id(head as u16)?,
            kind,
            result: (head >> 32) as u32 as i32,
            thread: place as u32,
            context_id: (place >> 32) as u32,
            stream_id: ids as u32,
            function_id: (ids >> 32) as u32,
            detail: [a, b, c],
        })
    }
}
