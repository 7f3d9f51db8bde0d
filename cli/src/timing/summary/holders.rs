//! What may have blocked other threads: calls that hold the context's lock, and the guard's own loading.

use lazyguard_core::api::Class;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;

/// The most holders kept. More occur only while one call is in progress all the time.
const MOST: usize = 4096;

/// A call that others may have had to wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub entered: Nanos,
    pub returned: Nanos,
    pub thread_number: u32,
    pub record: Record,
}

impl Holder {
    /// The holder that a record describes, if it does. A call that has not returned has no end.
    pub fn of(entry: &Entry) -> Option<Self> {
        let record = entry.record;
        let holds = record.kind == Kind::Preload
            || matches!(record.kind, Kind::ColdFunction | Kind::ColdModule)
            || record.kind == Kind::Call && holds_lock(record.entry_point.class());
        let returned = if record.returned == 0 { Nanos::MAX } else { record.returned };
        holds.then_some(Self { entered: record.entered, returned, thread_number: entry.thread_number, record })
    }

    /// How long it was in progress between two times.
    pub fn overlap(&self, from: Nanos, to: Nanos) -> Nanos {
        self.returned.min(to).saturating_sub(self.entered.max(from))
    }
}

/// Whether a call of this class blocks submissions of other threads to the context. Measured.
const fn holds_lock(class: Class) -> bool {
    matches!(
        class,
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
    )
}

/// Those that may still matter.
#[derive(Default)]
pub(super) struct Holders {
    all: Vec<Holder>,
    /// At this count, holders that no longer matter are dropped.
    look_at: usize,
}

impl Holders {
    /// Adds one. A holder that returned before `needed` no longer counts.
    pub fn add(&mut self, holder: Holder, needed: Nanos) {
        if self.all.len() >= self.look_at.max(64) {
            self.all.retain(|holder| holder.returned > needed);
            if self.all.len() >= MOST {
                // The longest matter most.
                self.all.sort_by_key(|holder| std::cmp::Reverse(holder.returned - holder.entered.min(holder.returned)));
                self.all.truncate(MOST / 2);
            }
            self.look_at = (self.all.len() * 2).min(MOST);
        }
        self.all.push(holder);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.all.iter()
    }
}
