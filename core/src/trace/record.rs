//! One record: eight words, the same in memory and in the file. `docs/TRACE_FORMAT.md` has the bits.

use super::layout::{flag, record};
use super::raw::{RawPayload, LARGEST};
use crate::api::{Class, EntryPoint, Keep, Work};
use crate::Nanos;

pub const WORDS: usize = record::WORDS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Call = 0,
    /// A call that loaded a function on first use.
    ColdFunction = 1,
    /// A call that brought a module or library into the context.
    ColdModule = 2,
    Hazard = 3,
    Preload = 4,
    Queries = 5,
    // 6 and 7 stay free: recordings for tests hold them as kinds to come.
    HostBegins = 8,
    HostEnds = 9,
    /// The content of memory, or an answer of the driver, at a standstill.
    Seen = 10,
    /// The activity of a thread that is in no driver call, at a standstill. The record's call means nothing.
    Activity = 11,
    /// A call of NCCL, written at its entry, because driver calls inside leave theirs; a second one follows only where the call fails.
    Communication = 13,
}

impl Kind {
    const ALL: [Self; 11] = {
        use Kind::{Activity, Call, ColdFunction, ColdModule, Communication, Hazard};
        use Kind::{HostBegins, HostEnds, Preload, Queries, Seen};
        [Call, ColdFunction, ColdModule, Hazard, Preload, Queries, HostBegins, HostEnds, Seen, Activity, Communication]
    };

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The kind of a call that loads nothing on first use, and its number of queries.
    #[inline]
    pub const fn of_call(class: Class) -> (Self, u64) {
        match Keep::of(class) {
            Keep::Folded => (Self::Queries, 1),
            _ => (Self::Call, 0),
        }
    }

    #[inline]
    pub const fn is_cold(self) -> bool {
        matches!(self, Self::ColdFunction | Self::ColdModule)
    }

    pub const fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::ColdFunction | Self::ColdModule | Self::Queries)
    }
}

/// The word with a record's stream and function.
#[inline(always)]
pub const fn subject_of(stream: u32, function: u32) -> u64 {
    stream as u64 | (function as u64) << 32
}

/// The first bit of the path, in the word of a record's origin.
const PATH_AT: u32 = 48;

/// The word of a record's origin: an address, of which a program's have 48 bits, and a path.
#[inline(always)]
pub const fn from_word(address: u64, path: u16) -> u64 {
    address & LARGEST | (path as u64) << PATH_AT
}

#[inline(always)]
pub const fn address_and_path(from: u64) -> (u64, u16) {
    (from & LARGEST, (from >> PATH_AT) as u16)
}

/// A number is 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub entry_point: EntryPoint,
    pub kind: Kind,
    /// [`flag`] bits.
    pub flags: u8,
    pub result: i32,
    pub entered: Nanos,
    /// When it returned; 0 while it is in progress.
    pub returned: Nanos,
    pub stream: u32,
    pub function: u32,
    pub context: u16,
    /// The return address, or 0; with a path, that of the frame outside the path's.
    pub caller: u64,
    /// The number of the path whose frames the texts have, or 0.
    pub path: u16,
    /// The content by kind and call: see [`Record::payload`].
    pub raw: RawPayload,
}

impl Record {
    #[inline(always)]
    pub const fn of(entry_point: EntryPoint) -> Self {
        Self {
            entry_point,
            kind: Kind::Call,
            flags: 0,
            result: 0,
            entered: 0,
            returned: 0,
            stream: 0,
            function: 0,
            context: 0,
            caller: 0,
            path: 0,
            raw: RawPayload { three: 0, extent: 0, detail: 0 },
        }
    }

    #[inline(always)]
    pub fn to_words(&self) -> [u64; WORDS] {
        [
            u64::from(self.entry_point.id())
                | (self.kind as u64) << 16
                | u64::from(self.flags) << 24
                | u64::from(self.result as u32) << 32,
            self.entered,
            self.returned,
            subject_of(self.stream, self.function),
            u64::from(self.context) | self.raw.three << 16,
            self.raw.extent,
            from_word(self.caller, self.path),
            self.raw.detail,
        ]
    }

    /// Clears [`flag::FOLDED_LATER`]; `None` where the entry point or the kind is unknown.
    pub fn from_words(words: &[u64; WORDS]) -> Option<Self> {
        let [head, entered, returned, subject, place, extent, from, detail] = *words;
        let (caller, path) = address_and_path(from);
        Some(Self {
            entry_point: EntryPoint::by_id(head as u16)?,
            kind: Kind::from_number((head >> 16) as u8)?,
            flags: (head >> 24) as u8 & !flag::FOLDED_LATER,
            result: (head >> 32) as u32 as i32,
            entered,
            returned,
            stream: subject as u32,
            function: (subject >> 32) as u32,
            context: place as u16,
            caller,
            path,
            raw: RawPayload { three: place >> 16, extent, detail },
        })
    }

    /// Whether the call has returned an error: it has no effect then.
    pub fn is_refused(&self) -> bool {
        self.returned != 0 && self.result != 0
    }

    pub fn submitted(&self) -> bool {
        self.flags & flag::SUBMITTED != 0
    }

    /// Whether the blocks of a launch have to be resident all at once.
    pub fn at_once(&self) -> bool {
        self.entry_point.class() == Class::Launch && self.flags & flag::AT_ONCE != 0
    }

    /// Whether a kernel of the new executable graph needs more local memory than the context has set aside.
    pub fn sets_aside(&self) -> bool {
        self.flags & flag::SETS_ASIDE != 0
    }

    /// Queries return at once; observations and hazards are no work, and calls of NCCL have records of the driver calls in them.
    pub const fn work(&self) -> Option<Work> {
        Some(match self.kind {
            Kind::Preload => Work::Preload,
            Kind::ColdFunction => Work::LoadFunction,
            Kind::ColdModule => Work::LoadModule,
            Kind::Call => self.entry_point.class().work(),
            _ => return None,
        })
    }

    /// When to look its numbers up: a call in progress has the newest meaning.
    pub fn meant_at(&self) -> Nanos {
        match self.returned {
            0 => Nanos::MAX,
            returned => returned,
        }
    }

    /// 0 while it is in progress.
    pub fn took(&self) -> Nanos {
        self.returned.saturating_sub(self.entered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::payload::{Launch, Payload};
    use super::*;

    #[test]
    fn a_record_is_the_same_after_a_way_through_words() {
        let (raw, cut) = RawPayload::launch([u32::MAX, 65535, 7], [1024, 1, 70_000], 5);
        assert!(cut);
        let record = Record {
            entry_point: EntryPoint::by_symbol(b"cuLaunchKernel").unwrap(),
            kind: Kind::ColdFunction,
            flags: flag::SUBMITTED | flag::CUT,
            result: -7,
            entered: 1,
            returned: u64::MAX,
            stream: u32::MAX,
            function: 3,
            context: 4,
            caller: 0x1234_5678_9abc,
            path: 0x8765,
            raw,
        };
        let expect = Launch { grid: [u32::MAX, 65535, 7], block: [1024, 1, 65535], shared_bytes: None, owner: Some(5) };
        assert_eq!(record.payload(), Payload::Launch(expect));
        assert_eq!(Record::from_words(&record.to_words()), Some(record));
        let mut words = record.to_words();
        words[0] |= 0xff << 16;
        assert_eq!(Record::from_words(&words), None);
    }
}
