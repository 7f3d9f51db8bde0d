//! The device's side of the watch: streams whose work stands still while no thread waits for them.
//!
//! A few times a second the watchdog reads when the newest submission to each busy stream returned. The probe asks the driver about streams that rest for the
//! threshold, and the diagnosis follows their paths (`core::diagnose::unwatched`). If it finds nothing, it looks again when others have joined them, or
//! after the patience, and no more often. So it does for streams that are still submitted to, if nothing of them has ended for the threshold.

use crate::record::Guard;
use lazyguard_core::Nanos;

/// When its newest submission returned, or 0 if that was a moment ago.
type AtRest = (u32, Nanos);

/// All that was submitted until then has ended.
pub type Standing = (u32, Nanos);

#[derive(Default)]
pub struct Device {
    /// The streams at rest at the last look, and its time.
    looked_at: Vec<AtRest>,
    looked: Nanos,
    /// The work in flight is lost: streams stand for good.
    pub lost: bool,
}

impl Device {
    pub fn due(&mut self, guard: &Guard, now: Nanos, awake_since: Nanos, rest: Nanos) -> Option<Vec<u32>> {
        let threshold = guard.settings.hang_after_nanos;
        if self.lost || now < self.looked + (threshold / 2).max(rest) {
            return None;
        }
        let rests = |since: Nanos| now.saturating_sub(since.max(awake_since)) >= threshold;
        let mut streams: Vec<u32> = guard.tracker.in_flight(0).into_iter().map(|busy| busy.stream).collect();
        let entry = |number: u32| guard.tracker.stream_entry(number);
        streams
            .retain(|number| entry(*number).is_some_and(|s| rests(s.stands_since(guard.tracker.stream_idle_until(s)))));
        let submitted = |number: u32| entry(number).map(|s| s.last_submitted()).filter(|at| rests(*at)).unwrap_or(0);
        let at_rest: Vec<AtRest> = streams.iter().map(|number| (*number, submitted(*number))).collect();
        let is_new = at_rest.iter().any(|stream| !self.looked_at.contains(stream));
        let again = now >= self.looked + guard.settings.patience_nanos();
        if streams.is_empty() || !is_new && !again {
            return None;
        }
        (self.looked_at, self.looked) = (at_rest, now);
        Some(streams)
    }

    pub fn stands(guard: &Guard, streams: &[Standing]) -> bool {
        streams.iter().any(|(number, until)| {
            let stream = guard.tracker.stream_entry(*number).filter(|stream| stream.alive());
            let idle_until = |s| guard.tracker.stream_idle_until(s);
            stream.is_some_and(|s| s.ended_until(idle_until(s)) == *until && s.busy(idle_until(s)))
        })
    }

    pub fn reported(guard: &Guard, streams: impl Iterator<Item = u32>) -> Vec<Standing> {
        let entries = streams.filter_map(|number| Some((number, guard.tracker.stream_entry(number)?)));
        entries.map(|(number, s)| (number, s.ended_until(guard.tracker.stream_idle_until(s)))).collect()
    }
}
