//! The device's side of the watch: streams whose work stands still while no thread waits for them.
//!
//! A few times a second the watchdog reads when the newest submission to each busy stream returned. The probe asks the driver about streams that rest for the
//! threshold, and the diagnosis follows their paths (`core::diagnose::unwatched`). If it finds nothing, it looks again when others have joined them, or
//! after the patience, and no more often.

use crate::record::Guard;
use lazyguard_core::Nanos;

/// When its newest submission returned.
type AtRest = (u32, Nanos);

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
        let at_rest = at_rest(guard, now, threshold, awake_since);
        let is_new = at_rest.iter().any(|stream| !self.looked_at.contains(stream));
        let again = now >= self.looked + guard.settings.patience_nanos();
        if at_rest.is_empty() || !is_new && !again {
            return None;
        }
        let streams = at_rest.iter().map(|(number, _)| *number).collect();
        (self.looked_at, self.looked) = (at_rest, now);
        Some(streams)
    }

    pub fn stands(guard: &Guard, streams: &[AtRest]) -> bool {
        streams.iter().any(|(number, submitted)| {
            let stream = guard.tracker.stream_entry(*number).filter(|stream| stream.alive());
            stream.is_some_and(|s| s.last_submitted() == *submitted && s.busy(guard.tracker.stream_idle_until(s)))
        })
    }

    pub fn reported(guard: &Guard, streams: impl Iterator<Item = u32>) -> Vec<AtRest> {
        streams.filter_map(|number| Some((number, guard.tracker.stream_entry(number)?.last_submitted()))).collect()
    }
}

fn at_rest(guard: &Guard, now: Nanos, threshold: Nanos, awake_since: Nanos) -> Vec<AtRest> {
    let busy = guard.tracker.in_flight(0).into_iter().map(|busy| busy.stream).filter(|stream| *stream != 0);
    let mut streams = Device::reported(guard, busy);
    streams.retain(|(_, submitted)| now.saturating_sub((*submitted).max(awake_since)) >= threshold);
    streams
}
