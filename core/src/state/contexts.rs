//! Contexts of the state, from their first use to their end.

use super::context::Context;
use super::stream::Stream;
use super::tracker::Tracker;
use crate::replay::Scope;
use crate::sync::lock;
use crate::Nanos;
use std::sync::atomic::Ordering;

impl Tracker {
    /// The number of a context, new or known; 0 for the null handle.
    pub fn context(&self, handle: u64, now: Nanos) -> u32 {
        if handle == 0 {
            return 0;
        }
        if let Some(number) = self.context_numbers.get(&handle) {
            return *number;
        }
        *self.context_numbers.entry(handle).or_insert_with(|| {
            let number = self.taken(self.contexts.take(), self.recorder.shape().contexts);
            if let Some(context) = self.contexts.get(number) {
                context.begin(handle, now);
                let primaries = lock(&self.primaries);
                let device = primaries.iter().find(|(_, known)| **known == handle);
                device.into_iter().for_each(|(device, _)| context.set_device(*device, true));
            }
            // A default stream's handle means more than one stream from now on.
            self.next_epoch();
            number
        })
    }

    /// A context is this device's: its primary one, or one of its own.
    pub fn is_context_of(&self, device: i32, number: u32, primary: bool) {
        let Some(context) = self.contexts.get(number) else { return };
        context.set_device(device, primary);
        let mut primaries = lock(&self.primaries);
        primaries.retain(|_, known| *known != context.handle());
        if primary {
            primaries.insert(device, context.handle());
        }
    }

    pub fn set_slow_path(&self, every_launch: bool) {
        if self.slow_path.swap(every_launch, Ordering::AcqRel) != every_launch && every_launch {
            // The threads' caches hold for the former epoch.
            self.next_epoch();
        }
    }

    #[inline(always)]
    pub fn slow_path(&self) -> bool {
        self.slow_path.load(Ordering::Acquire)
    }

    /// Whether launches may take the fast path: no capture is under way, no part of the guard wants to see them all, and a default
    /// stream can belong to one context only.
    pub fn fast_launches(&self, default_stream: bool) -> bool {
        let is_ambiguous = default_stream && self.contexts().nth(1).is_some();
        !self.slow_path() && !is_ambiguous && !self.contexts().any(|(_, c)| c.capturing())
    }

    pub fn known_context(&self, handle: u64) -> Option<u32> {
        self.context_numbers.get(&handle).map(|n| *n)
    }

    pub fn context_entry(&self, number: u32) -> Option<&Context> {
        self.contexts.get(number)
    }

    pub fn contexts(&self) -> impl Iterator<Item = (u32, &Context)> {
        self.contexts.iter().filter(|(_, c)| c.alive())
    }

    /// The driver is about to end a context: its handles may soon be others'. Its streams stay, as destroyed ones, until [`Self::context_ended`].
    pub fn context_ends(&self, handle: u64) -> Option<u32> {
        let (_, number) = self.context_numbers.remove(&handle)?;
        self.contexts.get(number)?.end();
        self.stream_numbers.retain(|_, stream| {
            let of_it = self.streams.get(*stream).filter(|s| s.context() == number);
            of_it.into_iter().for_each(Stream::set_destroyed);
            of_it.is_none()
        });
        self.next_epoch();
        Some(number)
    }

    pub fn context_ended(&self, number: u32) {
        self.reap(number, true);
        self.streams().filter(|(_, s)| s.context() == number).for_each(|(stream, _)| self.end_stream(stream));
        self.present.retain(|key, _| key.1 != number);
        self.functions.iter().for_each(|(_, f)| f.forget_context(number));
        self.next_epoch();
        self.contexts.give_back(number);
    }

    pub fn context_gone(&self, handle: u64) {
        self.context_ends(handle).into_iter().for_each(|number| self.context_ended(number));
    }

    pub(super) fn idle_until(&self, context: u32) -> Nanos {
        self.contexts.get(context).map_or(0, Context::idle_until)
    }

    /// Everything submitted to the context before `entered` is complete.
    pub fn context_complete(&self, context: u32, entered: Nanos) {
        if let Some(entry) = self.contexts.get(context) {
            entry.complete_until(entered);
            self.reap(context, false);
        }
    }

    pub fn ended(&self, scope: Scope, until: Nanos) {
        match scope {
            Scope::Stream(stream) => self.streams.get(stream).into_iter().for_each(|s| s.complete_until(until)),
            Scope::Context(context) => self.context_complete(context, until),
        }
    }
}
