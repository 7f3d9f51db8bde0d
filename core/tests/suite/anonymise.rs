//! What is left of a recording when it is anonymised: no text of the program's, and everything that a verdict follows from.

use crate::support::build::{call, pair, Builder};
use crate::support::cases::{self, entry_point};
use lazyguard_core::anonymise::{anonymise, Anonymised, Pseudonyms};
use lazyguard_core::api::SharedMemory;
use lazyguard_core::trace::layout::{communicator, header, record, segment, stream, text, thread, Shape};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::{Kind, Record, WORDS};

/// What no copy may have.
const MARK: &str = "Xq7Ann";
/// The same as a word of a file.
const WORD: u64 = u64::from_le_bytes(*b"Xq7AnnXq");

const MAIN: (u32, u32) = (1, 4242);

fn copy(bytes: &[u8], most: usize) -> Anonymised {
    anonymise(&Recording::open(bytes).expect("a recording"), most, &mut Pseudonyms::default()).expect("it is read")
}

/// Every kind of text and of record, with the mark in each text, in what the format does not know, and in all that is not used.
fn marked() -> Vec<u8> {
    let known: Vec<u8> = (0..=u8::MAX).filter(|&number| Kind::from_number(number).is_some()).collect();
    let records = known.len() + 4;
    let shape = Shape { threads: 3, contexts: 2, streams: 3, text_bytes: 4096, segments: [2, 2, 2], records };
    let mut file = Builder::new(shape);
    let launch = entry_point("cuLaunchKernel");
    for field in [header::PROGRAM, header::HOST, header::RANK, header::LAZYGUARD] {
        file.set_text(field.start, &format!("{MARK}\0{MARK}"));
    }
    file.set_all(header::COMMUNICATORS, &[0xc0, 77, pair(1_u32, 2_u32), 5, 0, 1, 6, 0]);
    file.set(header::COMMUNICATORS + communicator::WORDS + communicator::ID, WORD);
    file.set(500, WORD);
    let at = file.thread(0, MAIN, &format!("{MARK}\0{MARK}"));
    file.set(at + thread::SPARE, WORD);
    let at = file.thread_at(1);
    file.set(at + thread::NAME.start, WORD);
    let at = file.context_at(0);
    file.set_all(at, &[0x5500, pair(1_u32, 0_u32), 10, 0, 0, WORD, WORD, WORD]);
    let at = file.stream_at(1);
    file.set_all(at + stream::HANDLE, &[0x66, pair(1_u32, 0_u32), 2, 1]);
    file.set(at + stream::BORN + 1, WORD);
    file.set_all(at + stream::SUBMITTED, &[1, 100, 0]);
    file.set_all(at + stream::FIRST_SINCE_IDLE, &[100, pair(launch, 1_u32), WORD]);
    file.set_all(at + stream::RECENT, &[100, pair(launch, 1_u32), WORD, WORD]);

    let secret = MARK.as_bytes();
    file.name(40, 1, MARK);
    file.name(40, 2, &format!("_ZN2at6native13reduce_kernelI{}{MARK}EEvv", MARK.len()));
    file.name(40, 3, &format!("{MARK}_no_function"));
    file.function(41, 1, 1, 0xf1, 0xb1, true);
    file.function(41, 2, 2, 0xf2, 0xb1, true);
    file.text(text::FILE, 42, &[0x1000, 0x2000, 0], Some(format!("/home/{MARK}/{MARK}").as_bytes()));
    for setting in ["LAZYGUARD_OUT", "LAZYGUARD_HANG_AFTER", "LAZYGUARD_ON_HANG", MARK] {
        file.text(text::SETTING, 43, &[], Some(format!("{setting}={MARK}").as_bytes()));
    }
    file.text(text::NOTE, 44, &[], Some(secret));
    file.text(text::STREAM, 45, &[pair(2_u32, 1_u32), 0x66, 2], None);
    file.text(text::COMMUNICATOR, 46, &[1], Some(secret));
    // Text behind what a kind is made of.
    file.text(text::GRAPH, 47, &[0xe1, pair(1_u32, 0_u32), 0, pair(0_u32, 1_u32), 2, 0, WORD], None);
    file.text(text::SHARED, 47, &[0x9000, 0x1000, WORD, 0x40], None);
    file.text(99, 48, &[WORD], Some(secret));
    let used = file.shape.texts_at() + file.get(header::TEXTS_USED) as usize / 8;
    for word in used..file.shape.texts_at() + shape.text_bytes / 8 {
        file.set(word, WORD);
    }

    let mut of_all_kinds: Vec<_> = (100..).zip(known).map(|(at, kind)| of_kind(kind, at)).collect();
    // A kind to come, and a call to come.
    of_all_kinds.extend([of_kind(200, 200), [0xfff0, 201, 202, WORD, WORD, WORD, WORD, WORD]]);
    of_all_kinds[0][record::CALLER] = 0x1100;
    file.segment(4, 2, MAIN, 0, &of_all_kinds);
    // Past the length, and in a segment that was never taken.
    file.record(4, of_all_kinds.len(), &[WORD; WORDS]);
    file.set_all(file.segment_at(4) + segment::TAKEN + 1, &[WORD; 2]);
    let unused = file.segment_at(1) + segment::LENGTH;
    file.set_all(unused, &[WORD; 40]);
    file.bytes
}

fn of_kind(kind: u8, at: u64) -> [u64; WORDS] {
    let mut words = call(entry_point("cuLaunchKernel"), at, at + 1);
    words[record::HEAD] |= u64::from(kind) << 16;
    words[record::SUBJECT] = pair(2_u32, 2_u32);
    if kind == 200 {
        words[record::EXTENT..].fill(WORD);
    }
    words
}

#[test]
fn no_text_of_the_program_is_in_the_copy() {
    let bytes = marked();
    let has_mark = |bytes: &[u8]| bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes());
    assert!(has_mark(&bytes));
    let read = Recording::open(&bytes[..]).expect("a recording");
    assert_eq!((read.unknown_records(), read.strings().unknown, read.defect_count()), (2, 1, 0));
    let copied = copy(&bytes, usize::MAX);
    let at = copied.bytes.windows(MARK.len()).position(|part| part == MARK.as_bytes());
    assert_eq!(at, None, "the mark is at this byte of the copy");
    assert_eq!((copied.unknown, copied.older, copied.passed_over), (3, 0, 0));
    expect_same(&bytes, &copied.bytes);
    let copy = Recording::open(copied.bytes).expect("a recording");
    let function = |number| copy.strings().function(number, 1000).and_then(|function| function.name);
    assert_eq!((function(1), function(2)), (Some("kernel 1"), Some("at::native::reduce_kernel<1>")));
    assert_eq!(
        (copy.strings().communicators.newest(1, 1000).map(AsRef::as_ref), copy.strings().files[0].path.as_str()),
        (Some("group 1"), "file 1")
    );
    assert_eq!((copy.facts().program.as_str(), copy.facts().host.as_str()), ("program 1", "host 1"));
    assert_eq!((copy.facts().rank.as_str(), copy.facts().lazyguard.as_str()), ("", ""));
    assert!(copy.strings().settings.is_empty() && copy.strings().notes.is_empty());
    assert_eq!(copy.strings().graphs.all().count(), 1);
    let shared = SharedMemory { address: 0x9000, bytes: 0x1000, identity: 1, offset: 0x40 };
    assert_eq!(copy.strings().shared, [shared]);
}

/// What a reader finds in both, but for names and the numbers of streams.
fn expect_same(bytes: &[u8], copied: &[u8]) {
    let (old, new) = (Recording::open(bytes).expect("a recording"), Recording::open(copied).expect("a recording"));
    assert_eq!(new.defects(), []);
    assert_eq!(new.missing_bytes(), 0);
    let facts = |recording: &Recording<&[u8]>| {
        let facts = recording.facts();
        let counts = [facts.without_entry, facts.texts_lost, facts.former_calls, facts.former_launches];
        (facts.process, facts.armed_unix_nanos, facts.start_ticks, facts.last_seen, facts.state, counts, facts.start)
    };
    assert_eq!(facts(&new), facts(&old));
    assert_eq!((new.contexts(), new.communicators()), (old.contexts(), old.communicators()));
    for (new, old) in new.lanes().iter().zip(old.lanes()) {
        assert_eq!((new.overwritten, new.dropped, new.released), (old.overwritten, old.dropped, old.released));
    }
    let plain = |record: &Record| Record {
        stream: 0,
        raw: if record.kind == Kind::Hazard { Default::default() } else { record.raw },
        ..*record
    };
    let records = |recording: &Recording<&[u8]>| {
        let records = recording.records();
        records.map(|entry| (entry.thread_number, entry.thread, entry.lane, plain(&entry.record))).collect::<Vec<_>>()
    };
    assert_eq!(records(&new), records(&old));
    assert_eq!(new.threads().len(), old.threads().len());
    for (new, old) in new.threads().iter().zip(old.threads()) {
        let of = |seen: &lazyguard_core::trace::read::ThreadSeen| {
            (
                seen.number,
                seen.thread,
                seen.state,
                seen.born,
                seen.ended,
                seen.calls,
                seen.launches,
                seen.call_in_progress.as_ref().map(plain),
            )
        };
        assert_eq!(of(new), of(old));
    }
    let busy = |recording: &Recording<&[u8]>| {
        let streams = recording.streams().iter().filter(|stream| stream.work.submissions.count > 0);
        streams
            .map(|stream| {
                (
                    stream.handle,
                    stream.kind,
                    stream.work.submissions.count,
                    stream.oldest(0),
                    stream.work.recent.clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(busy(&new), busy(&old));
}

#[test]
fn of_every_golden_recording_the_copy_says_the_same() {
    let mut copied = 0;
    for case in cases::all() {
        // Of one that is cut off in the header, the areas are gone.
        let copy = copy(&case.bytes, usize::MAX);
        expect_same(&case.bytes, &copy.bytes);
        copied += copy.records;
    }
    assert!(copied > 50, "{copied}");
}

#[test]
fn any_damaged_recording_is_copied_or_refused() {
    for case in cases::all() {
        let mut damaged: Vec<_> =
            (16..case.bytes.len()).step_by(24).map(|length| case.bytes[..length].to_vec()).collect();
        for (word, value) in (2..60).flat_map(|word| [0, 1, 7, 1 << 32, u64::MAX].map(|value| (word, value))) {
            let mut bytes = case.bytes.clone();
            let Some(place) = bytes.get_mut(word * 8..word * 8 + 8) else { continue };
            place.copy_from_slice(&u64::to_le_bytes(value));
            damaged.push(bytes);
        }
        for bytes in damaged {
            let Ok(recording) = Recording::open(&bytes[..]) else { continue };
            let copied = anonymise(&recording, usize::MAX, &mut Pseudonyms::default()).expect("it is read");
            let copy = Recording::open(copied.bytes).expect("a recording");
            assert_eq!(copy.records().count() as u64, copied.records);
        }
    }
}

#[test]
fn of_each_lane_the_last_records_are_kept_and_the_others_counted_as_overwritten() {
    let case = cases::all().into_iter().find(|case| case.name == "everything").expect("the case");
    let (all, last) = (copy(&case.bytes, usize::MAX), copy(&case.bytes, 2));
    assert_eq!(last.records + last.older, all.records);
    let (all, last) = (Recording::open(all.bytes).unwrap(), Recording::open(last.bytes).unwrap());
    for (one, other) in last.lanes().iter().zip(all.lanes()) {
        assert_eq!((one.present, one.written()), (other.present.min(2), other.written()));
    }
    let newest = all.records().last().map(|entry| entry.record.entered);
    assert_eq!(last.records().last().map(|entry| entry.record.entered), newest);
}

#[test]
fn one_name_has_one_pseudonym_in_all_recordings_of_a_job() {
    let mut pseudonyms = Pseudonyms::default();
    let names = ["a", "b", "a"].map(|host| {
        let mut file = Builder::new(crate::support::build::TINY);
        file.set_text(header::HOST.start, &format!("{host}\0\0\0\0\0"));
        let copy = anonymise(&Recording::open(file.bytes).unwrap(), usize::MAX, &mut pseudonyms).unwrap();
        let copy = Recording::open(copy.bytes).unwrap();
        format!("{}, {}", copy.facts().host, copy.facts().program)
    });
    assert_eq!(names, ["host 1, program 1", "host 2, program 1", "host 1, program 1"]);
}
