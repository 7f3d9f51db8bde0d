//! Streams from their first use to their end, also behind their destruction.

use super::context::Context;
use super::stream::{Stream, StreamKey};
use super::tracker::Tracker;
use crate::api::StreamKind;
use crate::sync::lock;
use crate::Nanos;

/// Destroyed streams that are followed one by one until their work has ended.
pub(super) const MOST_DESTROYED: usize = 32;

impl Tracker {
    pub fn stream(&self, key: StreamKey, context: u32, kind: StreamKind, now: Nanos) -> u32 {
        if let Some(number) = self.stream_numbers.get(&key) {
            return *number;
        }
        *self.stream_numbers.entry(key).or_insert_with(|| {
            let number = self.taken(self.streams.take(), self.recorder.shape().streams);
            if let Some(stream) = self.streams.get(number) {
                self.launchers.begin_stream(number);
                stream.begin(key.handle, context, key.thread, kind, now);
                self.recorder.add_stream(now, number, context, key.handle, kind.number());
            }
            number
        })
    }

    pub fn known_stream(&self, key: StreamKey) -> Option<u32> {
        self.stream_numbers.get(&key).map(|n| *n)
    }

    /// A stream's entry. It may lack launches that have not been folded ([`Tracker::fold`]).
    pub fn stream_entry(&self, number: u32) -> Option<&Stream> {
        self.streams.get(number)
    }

    /// Whether there is any other stream in a context than this one that is known to have had work submitted to it, or (`or_created`) that is no
    /// default stream.
    pub fn other_stream_exists(&self, context: u32, stream: u32, or_created: bool) -> bool {
        let _ = self.fold();
        let is_created = |s: &Stream| !matches!(s.kind(), StreamKind::Legacy | StreamKind::PerThread);
        let counts = |s: &Stream| s.submitted_count() > 0 || or_created && is_created(s);
        self.streams().any(|(number, s)| number != stream && s.context() == context && counts(s))
    }

    pub fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.streams.iter().filter(|(_, s)| s.alive())
    }

    /// When the newest submission to any stream was made, and up to when work of one is known to have ended. Streams that are gone count until their entries
    /// are used again.
    pub fn newest_submission(&self) -> (Nanos, Nanos) {
        let all = self.streams.iter().map(|(_, s)| (s.last_submitted(), s.ended_until(self.idle_until(s.context()))));
        all.fold((0, 0), |newest, one| (newest.0.max(one.0), newest.1.max(one.1)))
    }

    pub fn stream_gone(&self, key: StreamKey) {
        let Some((_, number)) = self.stream_numbers.remove(&key) else { return };
        // A stream of unknown state counts as busy.
        let is_known = self.fold_of(number);
        match self.streams.get(number).filter(|s| !is_known || s.busy(self.idle_until(s.context()))) {
            Some(stream) => {
                stream.set_destroyed();
                self.follow_destroyed(number);
            }
            None => self.end_stream(number),
        }
        self.next_epoch();
    }

    /// Follows a stream that was destroyed with work outstanding, and as many former ones as there is room for.
    fn follow_destroyed(&self, number: u32) {
        // A fold before the lock. Nothing is launched any more on the streams of the list.
        let is_known = lock(&self.destroyed).len() >= MOST_DESTROYED && self.fold();
        let mut destroyed = lock(&self.destroyed);
        destroyed.push(number);
        if destroyed.len() > MOST_DESTROYED && is_known {
            // First those whose work is known to have ended, by an event or a host function: they say nothing more.
            destroyed.retain(|&number| {
                let is_busy = self.streams.get(number).is_none_or(|s| s.busy(self.idle_until(s.context())));
                if !is_busy {
                    self.end_stream(number);
                }
                is_busy
            });
        }
        if destroyed.len() > MOST_DESTROYED {
            // The context keeps an orphan time for the oldest, and no more.
            let oldest = destroyed.remove(0);
            drop(destroyed);
            if let Some(stream) = self.streams.get(oldest) {
                let last = stream.last_submitted();
                self.contexts.get(stream.context()).into_iter().for_each(|c| c.orphaned_until(last));
            }
            self.end_stream(oldest);
        }
    }

    pub(super) fn end_stream(&self, number: u32) {
        if let Some(stream) = self.streams.get(number) {
            stream.end();
            if stream.set_capturing(false) {
                self.contexts.get(stream.context()).into_iter().for_each(Context::capture_ended);
            }
            self.streams.give_back(number);
        }
    }

    pub fn thread_streams_gone(&self, thread: u32) {
        let gone: Vec<_> =
            self.stream_numbers.iter().map(|e| *e.key()).filter(|k| k.thread == thread && thread != 0).collect();
        gone.into_iter().for_each(|key| self.stream_gone(key));
    }

    pub fn stream_idle_until(&self, stream: &Stream) -> Nanos {
        self.idle_until(stream.context())
    }

    /// A capture begins or has ended on a stream; returns whether that is a change.
    pub fn set_capturing(&self, stream: u32, capturing: bool) -> bool {
        let Some(stream) = self.streams.get(stream) else { return false };
        let was = stream.set_capturing(capturing);
        if let Some(context) = self.contexts.get(stream.context()) {
            match (was, capturing) {
                (false, true) => {
                    context.capture_began();
                    // After the count: a cached stream that is made in between is of the former epoch.
                    self.next_epoch();
                }
                (true, false) => context.capture_ended(),
                _ => {}
            }
        }
        was != capturing
    }

    /// Releases destroyed streams of a context whose work has ended; all of them if the context is gone.
    pub(super) fn reap(&self, context: u32, all: bool) {
        lock(&self.destroyed).retain(|&number| {
            let Some(stream) = self.streams.get(number).filter(|s| s.context() == context) else { return true };
            let ended = all || !stream.busy(self.idle_until(context));
            if ended {
                self.end_stream(number);
            }
            !ended
        });
    }
}
