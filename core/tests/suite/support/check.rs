//! What holds for any bytes that are read as a recording.
//!
//! Shared with the fuzz target.

use lazyguard_core::trace::layout::{context, stream, thread, WORD};
use lazyguard_core::trace::read::{LiveRecording, Recording};
use lazyguard_core::trace::{Lane, WORDS};

/// Reads all there is and checks what has to hold; returns how many records there were, if it is a recording.
pub fn check(bytes: &[u8]) -> Option<u64> {
    let recording = Recording::open(bytes).ok()?;
    let fits = |count: usize, words: usize| assert!(count * words * WORD <= bytes.len(), "{count} of {words} words");
    fits(recording.threads().len(), thread::WORDS);
    fits(recording.contexts().len(), context::WORDS);
    fits(recording.streams().len(), stream::WORDS);
    let present: u64 = recording.lanes().iter().map(|lane| lane.present).sum();
    fits(present as usize, WORDS);
    assert!(recording.defects().len() as u64 <= recording.defect_count());
    assert!(recording.defects().len() <= 64);

    let texts = recording.strings();
    let mut records = recording.records();
    let (mut count, mut last) = (0, None);
    for entry in &mut records {
        count += 1;
        let place = (entry.record.entered, entry.thread_number, entry.lane, entry.number);
        assert!(last <= Some(place), "{last:?} before {place:?}");
        last = Some(place);
        let _ = texts.function(entry.record.function, entry.record.returned);
        let _ = texts.streams.newest(entry.record.stream, entry.record.returned);
    }
    assert_eq!(count + recording.unknown_records(), present);
    assert_eq!(records.passed_over, 0);
    assert!(records.finish().is_ok());
    for stream in recording.streams() {
        let oldest = stream.oldest(0);
        assert!(oldest.is_none() || stream.busy(0));
    }
    let _ = (texts.functions().count(), texts.streams.all().count(), texts.setting("LAZYGUARD_HANG_AFTER"));
    Some(count)
}

/// The same for a reader that follows the recording: it finds no more than fits, and nothing twice.
pub fn check_followed(bytes: &[u8]) {
    let Ok(mut live) = LiveRecording::open(bytes) else { return };
    for lane in Lane::ALL {
        let (mut first, mut second) = (0, 0);
        live.news(lane, u64::MAX, &mut |_, _| first += 1);
        assert!(first * WORDS * WORD <= bytes.len(), "{first} records of {lane:?}");
        live.news(lane, u64::MAX, &mut |_, _| second += 1);
        assert_eq!(second, 0);
        let _ = live.lost(lane);
    }
    assert!(live.refresh().is_ok());
}
