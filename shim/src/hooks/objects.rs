//! The objects that a call is about: contexts and streams by their handles, and what of them is captured.
//!
//! Must not: ask the driver about a stream that is known.

use super::call::{About, Call};
use crate::lookup::driver::{self, Handle};
use crate::runtime::results::{self, REVOKED};
use lazyguard_core::replay::proves;
use lazyguard_core::state::{Stream, StreamKey, StreamKind};
use lazyguard_core::trace::layout::flag;
use std::ptr::null_mut;

impl Call {
    /// The number of the context that is current to the calling thread, or 0.
    pub fn current_context(&self) -> u32 {
        self.context_number(driver::current_context())
    }

    /// The number of a context. Loaded code concerns a context that is seen for the first time from now on: it was made unseen.
    pub fn context_number(&self, context: Handle) -> u32 {
        let handle = context as u64;
        if handle == 0 {
            return 0;
        }
        // In the cache of streams: no stream's handle is odd, but for those of the default streams.
        if let Some(number) = self.slot.cached_stream(handle | 1, self.epoch) {
            return number;
        }
        let number = self.guard.tracker.known_context(handle).unwrap_or_else(|| {
            let number = self.guard.tracker.context(handle, self.entered);
            self.guard.loader.context_came(number);
            number
        });
        self.slot.cache_stream(handle | 1, self.epoch, number);
        number
    }

    /// The number of a stream. A context identifies a default stream, and the thread as well where it is the thread's own.
    #[inline(always)]
    pub fn stream_number(&self, stream: Handle) -> u32 {
        let handle = stream as u64;
        if handle > PER_THREAD {
            if let Some(number) = self.slot.cached_stream(handle, self.epoch) {
                return number;
            }
        }
        // A copy, so that the caller's `Call` stays in registers on the fast path.
        let call = *self;
        if handle > PER_THREAD {
            call.created_stream(handle)
        } else {
            call.default_stream(handle)
        }
    }

    #[cold]
    fn created_stream(&self, handle: u64) -> u32 {
        let key = StreamKey { handle, context: 0, thread: 0 };
        let tracker = &self.guard.tracker;
        let number = tracker.known_stream(key).unwrap_or_else(|| {
            let context = driver::told(null_mut(), |context| driver::stream_context(handle as Handle, context));
            let context = self.context_number(context.unwrap_or_else(driver::current_context));
            tracker.stream(key, context, StreamKind::Unknown, self.entered)
        });
        self.slot.cache_stream(handle, self.epoch, number);
        number
    }

    fn default_stream(&self, handle: u64) -> u32 {
        let own = handle == PER_THREAD || handle == 0 && self.entry_point.info().per_thread;
        let context = self.current_context();
        let (epoch, tracker) = (self.epoch, &self.guard.tracker);
        // No handle of the driver's is this small, so these keys meet no other in the cache.
        let cache_key = u64::from(context) << 2 | u64::from(own);
        if let Some(number) = self.slot.cached_stream(cache_key, epoch) {
            return number;
        }
        let (handle, thread, kind) = match own {
            true => (PER_THREAD, self.slot.thread(), StreamKind::PerThread),
            false => (LEGACY, 0, StreamKind::Legacy),
        };
        let number = tracker.stream(StreamKey { handle, context, thread }, context, kind, self.entered);
        self.slot.cache_stream(cache_key, epoch, number);
        number
    }

    #[inline(always)]
    pub fn on_stream(&mut self, stream: Handle) {
        self.about_stream(self.stream_number(stream));
    }

    #[inline(always)]
    pub fn about_stream(&mut self, number: u32) {
        let entry = self.guard.tracker.stream_entry(number);
        self.about.stream = number;
        self.about.stream_entry = entry;
        self.about.context = entry.map_or(0, Stream::context);
    }

    /// Whether the call submits to a stream that the thread knows, and nothing in its context is captured: no look-up is needed. The call is then about it.
    #[inline(always)]
    pub fn is_on_known_stream(&mut self, stream: Handle) -> bool {
        let handle = Some(stream as u64).filter(|handle| *handle > PER_THREAD);
        let Some(number) = handle.and_then(|handle| self.slot.cached_stream(handle, self.epoch)) else { return false };
        self.about_stream(number);
        let context = self.guard.tracker.context_entry(self.about.context);
        self.about.stream_entry.is_some_and(|stream| !stream.capturing()) && context.is_some_and(|c| !c.capturing())
    }

    /// The call submits an operation to a stream. A captured operation is not submitted.
    #[inline(always)]
    pub fn submits_to(&mut self, stream: Handle) {
        self.on_stream(stream);
        if let Some(stream) = self.about.stream_entry {
            let joins = || self.guard.tracker.context_entry(stream.context()).is_some_and(|c| c.capturing());
            let captured = stream.capturing() || joins() && is_captured(stream);
            let is_refused = !captured && results::is_set(REVOKED) && self.is_refused();
            self.about.submits = !captured && !is_refused;
            self.about.flags |= if captured { flag::CAPTURED } else { 0 };
        }
    }

    /// The call's success proves that the work has ended which it waited for.
    pub fn proven(&self) {
        let About { stream, context, .. } = self.about;
        if let Some(scope) = proves(self.entry_point, stream, context) {
            self.guard.tracker.ended(scope, self.entered);
        }
    }

    /// Whether the driver says that a submission to the stream is not captured: a capture may have begun unseen.
    pub fn is_carried_out_once(&self) -> bool {
        let submits_to = self.about.stream_entry.filter(|_| self.about.submits);
        submits_to.is_some_and(|stream| stream.handle() == LEGACY || !is_captured(stream))
    }
}

#[cold]
fn is_captured(stream: &Stream) -> bool {
    // Asking the legacy default stream, which is never captured, is an error while anything is. A thread's own default stream
    // may have joined a capture as any other.
    let status = || driver::told(0, |status| driver::stream_is_capturing(stream.handle() as Handle, status));
    stream.handle() >= PER_THREAD && status().is_some_and(|status| status != 0)
}

/// `CU_STREAM_LEGACY`.
const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`.
pub const PER_THREAD: u64 = 2;
