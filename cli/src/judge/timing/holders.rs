//! Calls that may have blocked other threads: those that hold the context's lock, and those in which the guard loads.

use lazyguard_core::api::Class;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;

/// The most holders kept. More occur only while one call is in progress all the time.
const MOST: usize = 4096;

/// How long a call was in progress between two times. A call that has not returned has no end.
pub(super) fn overlap(call: &Entry, from: Nanos, to: Nanos) -> Nanos {
    call.record.meant_at().min(to).saturating_sub(call.record.entered.max(from))
}

/// Whether a call blocks submissions of other threads to the context. Measured.
const fn holds_lock(record: &Record) -> bool {
    match record.kind {
        Kind::Preload | Kind::ColdFunction | Kind::ColdModule => true,
        Kind::Call => matches!(
            record.entry_point.class(),
            Class::ModuleLoad
                | Class::ModuleUnload
                | Class::LibraryUnload
                | Class::LibraryModule
                | Class::FunctionResolve
                | Class::KernelFunction
                | Class::FunctionLoad
                | Class::Allocate
                | Class::Free
                | Class::ContextWait
                | Class::ContextDestroy
                | Class::GraphInstantiate
        ),
        _ => false,
    }
}

#[derive(Default)]
pub(super) struct Holders {
    all: Vec<Entry>,
    look_at: usize,
}

impl Holders {
    /// Keeps a call that holds the lock. A holder that returned before `needed` no longer counts.
    pub fn see(&mut self, entry: &Entry, needed: Nanos) {
        if !holds_lock(&entry.record) {
            return;
        }
        if self.all.len() >= self.look_at.max(64) {
            self.all.retain(|holder| holder.record.meant_at() > needed);
            if self.all.len() >= MOST {
                self.all.sort_by_key(|holder| std::cmp::Reverse(overlap(holder, 0, Nanos::MAX)));
                self.all.truncate(MOST / 2);
            }
            self.look_at = (self.all.len() * 2).min(MOST);
        }
        self.all.push(*entry);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter()
    }
}
