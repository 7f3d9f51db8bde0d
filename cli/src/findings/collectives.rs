//! The collectives of one process: its launches of kernels that wait for peers, in the order of their submission.

use crate::source::Opened;
use crate::Failure;
use lazyguard_core::api::Class;
use lazyguard_core::diagnose::waits_for_peers;
use lazyguard_core::report::demangle;
use lazyguard_core::trace::Lane;
use lazyguard_core::Nanos;
use std::collections::HashMap;

/// The collectives of one process.
pub(super) struct Collectives {
    pub kernels: Vec<String>,
    /// When each was submitted, and which of the kernels it is, in that order.
    pub launches: Vec<(Nanos, u16)>,
    /// Whether every record of them is there.
    pub complete: bool,
}

impl Collectives {
    /// Those in a recording; `None` where it has none.
    pub fn of(opened: &Opened) -> Result<Option<Self>, Failure> {
        let strings = opened.recording.strings();
        // Most programs have none, and their records need not be read again.
        if !strings.functions().any(|(.., function)| function.name.is_some_and(waits_for_peers)) {
            return Ok(None);
        }
        // Launches are in two lanes: those that load are rare events.
        let of_launches = |lane: Lane| matches!(lane, Lane::Work | Lane::RareEvents);
        let complete =
            opened.recording.lanes().iter().all(|summary| summary.overwritten == 0 || !of_launches(summary.lane));
        let mut found = Self { kernels: Vec::new(), launches: Vec::new(), complete };
        let mut numbers: HashMap<String, u16> = HashMap::new();
        opened.each_record(|entry| {
            let record = &entry.record;
            let succeeded = record.result == 0 && record.returned != 0;
            if record.entry_point.class() != Class::Launch || !record.submitted() || !succeeded {
                return Ok(());
            }
            let function = strings.function(record.function, record.meant_at());
            let Some(name) = function.and_then(|function| function.name).filter(|name| waits_for_peers(name)) else {
                return Ok(());
            };
            let number = match numbers.get(name) {
                Some(number) => *number,
                None => {
                    let number = u16::try_from(found.kernels.len()).unwrap_or(u16::MAX);
                    found.kernels.push(demangle(name));
                    numbers.insert(name.to_owned(), number);
                    number
                }
            };
            found.launches.push((record.entered, number));
            Ok(())
        })?;
        found.launches.sort_unstable();
        Ok(Some(found))
    }

    /// The kernel of one of them.
    pub fn name(&self, index: usize) -> Option<&str> {
        let (_, kernel) = self.launches.get(index)?;
        self.kernels.get(usize::from(*kernel)).map(String::as_str)
    }

    /// The one that was submitted then.
    pub fn index_at(&self, at: Nanos) -> Option<usize> {
        self.launches.binary_search_by_key(&at, |(at, _)| *at).ok()
    }
}
