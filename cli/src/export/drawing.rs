//! The state that all drawing code shares: the trace being written, the recording's names, and numbers for arrows.

use super::perfetto::{Trace, Value};
use crate::names::Names;
use lazyguard_core::trace::read::Recording;
use std::io::Write;

/// Facts shown with one event.
const MOST_FACTS: usize = 12;

/// See the module.
pub(super) struct Drawing<'a, S, W> {
    pub recording: &'a Recording<S>,
    pub trace: Trace<W>,
    pub names: Names<'a>,
    /// The track of the process, under which others lie.
    pub process: u64,
    arrows: u64,
    pub slices: u64,
}

impl<'a, S, W: Write> Drawing<'a, S, W> {
    pub fn new(recording: &'a Recording<S>, names: Names<'a>, trace: Trace<W>, process: u64) -> Self {
        Self { recording, trace, names, process, arrows: 0, slices: 0 }
    }

    /// The number of a new arrow.
    pub fn arrow(&mut self) -> u64 {
        self.arrows += 1;
        self.arrows
    }
}

/// Facts of an event, in place.
pub(super) struct Facts<'a> {
    all: [(&'a str, Value<'a>); MOST_FACTS],
    used: usize,
}

impl<'a> Facts<'a> {
    pub fn new() -> Self {
        Self { all: [("", Value::Bool(false)); MOST_FACTS], used: 0 }
    }

    /// Adds a fact if it applies.
    pub fn add(&mut self, name: &'static str, value: Value<'a>, applies: bool) {
        if let Some(place) = self.all.get_mut(self.used).filter(|_| applies) {
            *place = (name, value);
            self.used += 1;
        }
    }

    pub fn all(&self) -> &[(&'a str, Value<'a>)] {
        &self.all[..self.used]
    }
}
