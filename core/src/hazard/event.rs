//! One occurrence of a hazard, and its record, from which the live process and the reader of its recording report the same.

use super::StreamClass;
use crate::api::{Code, EntryPoint, Operation};
use crate::diagnose::Confidence;
use crate::state::InFlight;
use crate::trace::{HazardNumbers, Kind, Payload, RawPayload, Record};
use crate::Nanos;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    pub const PREVENTED: Self = Self(1);
    pub const PAGEABLE: Self = Self(1 << 1);
    /// The process had launched kernels before, and nothing was in flight.
    pub const TIMED: Self = Self(1 << 2);
    /// No submitted operation satisfies the wait in flight.
    pub const UNSATISFIED: Self = Self(1 << 3);

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn says(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HazardEvent {
    pub code: Code,
    pub flags: Flags,
    pub entry_point: EntryPoint,
    pub thread: u32,
    pub at: Nanos,
    /// At the call's return where the hazard is its duration.
    pub noted: Nanos,
    pub context: u16,
    /// Its number, or 0.
    pub stream: u32,
    pub class: StreamClass,
    /// Its number, or 0.
    pub function: u32,
    /// The other of the two operations.
    pub other: InFlight,
    pub caller: u64,
    /// The number of the path from the program to the call, or 0.
    pub path: u16,
    /// From 1; 0 before it is counted.
    pub count: u32,
}

impl HazardEvent {
    /// `None` if it is of no hazard that this build knows.
    pub fn of(record: &Record, thread: u32) -> Option<Self> {
        let Payload::Hazard(numbers) = record.payload() else { return None };
        let code = Code::by_number(numbers.code)?;
        let before = if numbers.distance == 0 { 0 } else { record.entered.saturating_sub(numbers.distance - 1) };
        let mut noted = Self {
            code,
            flags: Flags(numbers.marks),
            entry_point: record.entry_point,
            thread,
            at: record.entered,
            noted: record.returned,
            context: record.context,
            stream: record.stream,
            class: StreamClass::from_number(numbers.class)?,
            function: record.function,
            other: InFlight {
                stream: numbers.other_stream,
                operation: Operation {
                    at: before,
                    entry_point: numbers.other_entry_point,
                    function: numbers.function_or_thread,
                },
            },
            caller: record.caller,
            path: record.path,
            count: record.result as u32,
        };
        if is_about_the_earlier(code) {
            (noted.at, noted.other.operation.at) = (before, record.entered);
            (noted.thread, noted.other.operation.function) = (numbers.function_or_thread, 0);
        }
        Some(noted)
    }

    pub fn record(&self) -> Record {
        let InFlight { stream: other_stream, operation: other } = self.other;
        let (entered, before, function_or_thread) = match is_about_the_earlier(self.code) {
            true => (other.at, self.at, self.thread),
            false => (self.at, other.at, other.function),
        };
        // A distance, not a time: it fits for days, however long the process has run.
        let distance = if before == 0 { 0 } else { entered.saturating_sub(before).saturating_add(1) };
        let raw = RawPayload::hazard(HazardNumbers {
            code: self.code.number(),
            other_entry_point: other.entry_point,
            marks: self.flags.0,
            class: self.class.number(),
            distance,
            other_stream,
            function_or_thread,
        });
        Record {
            kind: Kind::Hazard,
            result: self.count as i32,
            entered,
            returned: self.noted,
            stream: self.stream,
            function: self.function,
            context: self.context,
            caller: self.caller,
            path: self.path,
            raw,
            ..Record::of(self.entry_point)
        }
    }

    /// As far as the process knows when it notes the hazard: some codes are about work that stands, or fills the device; of any other the records
    /// behind the hazard decide.
    pub fn confidence(&self) -> Confidence {
        match self.code {
            Code::LG103 | Code::LG104 | Code::LG109 | Code::LG110 => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }

    /// How long the call blocked the host, where that is the hazard.
    pub fn held(&self) -> Option<Nanos> {
        blocks_the_host(self.code).then(|| self.noted.saturating_sub(self.at))
    }
}

/// Whether a hazard is about the earlier of two calls and noted at the later one. Its record has the time of the later call, and the thread of
/// the earlier one in the field for a function.
const fn is_about_the_earlier(code: Code) -> bool {
    matches!(code, Code::LG103)
}

/// Whether the hazard is the call's duration.
pub const fn blocks_the_host(code: Code) -> bool {
    matches!(code, Code::LG105 | Code::LG106 | Code::LG108)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted() -> HazardEvent {
        HazardEvent {
            code: Code::LG105,
            flags: Flags::PAGEABLE.and(Flags::UNSATISFIED),
            entry_point: EntryPoint::by_symbol(b"cuMemcpyAsync").unwrap(),
            thread: 77,
            at: 9_000_000,
            noted: 12_000_000,
            context: 1,
            stream: 3,
            class: StreamClass::PerThread,
            function: 5,
            other: InFlight { stream: 2, operation: Operation { at: 4_000_000, entry_point: 54, function: 8 } },
            caller: 0x1234,
            path: 9,
            count: 4,
        }
    }

    #[test]
    fn an_occurrence_is_the_same_after_a_way_through_its_record() {
        let noted = noted();
        let through = |noted: HazardEvent| {
            let words = noted.record().to_words();
            HazardEvent::of(&Record::from_words(&words).unwrap(), noted.thread).unwrap()
        };
        assert_eq!(through(noted), noted);
        assert_eq!(noted.held(), Some(3_000_000));
        for class in (1..=6).filter_map(StreamClass::from_number) {
            let noted = HazardEvent { class, count: u32::MAX, ..noted };
            assert_eq!(through(noted), noted);
        }
        // The same time is distinct from an unknown one.
        for at in [0, 1, 9_000_000] {
            let noted = HazardEvent {
                other: InFlight { operation: Operation { at, ..noted.other.operation }, ..noted.other },
                ..noted
            };
            assert_eq!(through(noted), noted);
        }
        // Later than the call, by the clock of another thread: not before it.
        let later = HazardEvent {
            other: InFlight { operation: Operation { at: 9_000_001, ..noted.other.operation }, ..noted.other },
            ..noted
        };
        assert_eq!(through(later).other.operation.at, 9_000_000);
        // A wait, and the write after it.
        let other = InFlight { stream: 2, operation: Operation { at: 9_500_000, entry_point: 96, function: 0 } };
        let wait = HazardEvent { code: Code::LG103, function: 0, other, ..noted };
        assert_eq!(through(wait), wait);
        assert_eq!(wait.record().entered, 9_500_000);
    }

    #[test]
    fn a_record_that_is_no_hazard_of_this_build_is_none() {
        let record = noted().record();
        for raw in [RawPayload::default(), RawPayload::hazard(HazardNumbers { code: 101, ..HazardNumbers::default() })]
        {
            assert_eq!(HazardEvent::of(&Record { raw, ..record }, 1), None);
        }
        assert_eq!(HazardEvent::of(&Record { kind: Kind::Call, ..record }, 1), None);
    }
}
