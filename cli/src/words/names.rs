//! Puts the numbers of a record into words; each name is demangled once.
//!
//! Must not: keep more than the recording's texts hold.

use lazyguard_core::report::demangle;
use lazyguard_core::trace::read::StringTable;
use lazyguard_core::trace::{Lane, Record};
use lazyguard_core::Nanos;
use std::collections::HashMap;

pub(crate) struct Names<'a> {
    texts: &'a StringTable,
    /// Demangled names, by the address of the name among the texts: shorter to hash than the name.
    demangled: HashMap<usize, Box<str>>,
    nameless: HashMap<u64, Box<str>>,
}

impl<'a> Names<'a> {
    pub fn new(texts: &'a StringTable) -> Self {
        Self { texts, demangled: HashMap::new(), nameless: HashMap::new() }
    }

    /// The name of a function as a person would write it; its handle, if it has none.
    pub fn function(&mut self, number: u32, at: Nanos) -> Option<&str> {
        if number == 0 {
            return None;
        }
        let function = self.texts.function(number, at)?;
        Some(match function.name {
            Some(name) => self.demangled.entry(name.as_ptr().addr()).or_insert_with(|| demangle(name).into()),
            None => self
                .nameless
                .entry(function.handle)
                .or_insert_with(|| format!("function {:#x}", function.handle).into()),
        })
    }

    pub fn function_of(&mut self, record: &Record) -> Option<&str> {
        self.function(record.function, record.meant_at())
    }
}

pub(crate) fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Work => "work",
        Lane::Waits => "waits",
        Lane::RareEvents => "rare_events",
    }
}
