//! The recordings of `core/tests/golden`, and how they are made.
//!
//! Must not: change one that has been released. What a version of the format means is what these files hold.

use super::build::{call, pair, Builder, TINY};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::trace::layout::{context, flag, header, lane, record, segment, stream, text, thread, Shape};
use lazyguard_core::trace::{ProcessState, WORDS};

/// A golden recording.
pub struct Case {
    /// Its name, without an ending.
    pub name: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
    /// What the defects say that are found in it.
    pub defects: &'static [&'static str],
}

/// The id of an entry point.
pub fn entry_point(symbol: &str) -> u16 {
    EntryPoint::by_symbol(symbol.as_bytes()).expect("a symbol of the table").info().id
}

fn with(mut words: [u64; WORDS], changes: &[(usize, u64)]) -> [u64; WORDS] {
    changes.iter().for_each(|&(word, value)| words[word] = value);
    words
}

fn head(entry_point: u16, kind: u8, flags: u8, result: i32) -> u64 {
    u64::from(entry_point) | u64::from(kind) << 16 | u64::from(flags) << 24 | u64::from(result as u32) << 32
}

fn mark(entry_point: u16, lane: u64, number: u64) -> u64 {
    u64::from(entry_point) | lane << 16 | number << 32
}

const MAIN: (u32, u32) = (1, 4242);
const SECOND: (u32, u32) = (2, 4250);
const GONE: (u32, u32) = (3, 4251);

/// All of them.
pub fn all() -> Vec<Case> {
    vec![
        case("everything", everything(), &[]),
        case("overwritten", overwritten(), &[]),
        case("calls_in_progress", calls_in_progress(), &[]),
        case("taking_a_segment", taking_a_segment(), &[]),
        case("cut_off", cut_off(), &["the file ends here", "segments: 4 of 7", "segment 3: 2 of 3"]),
        case("cut_off_in_the_header", cut_off_in_the_header(), &["the file ends here"]),
        case("texts_full", texts_full(), &[]),
        case("graphs", graphs(), &[]),
    ]
}

fn case(name: &'static str, bytes: Vec<u8>, defects: &'static [&'static str]) -> Case {
    Case { name, bytes, defects }
}

/// Every kind of record, text, thread, context and stream; kinds to come; and numbers that are as big as they get.
fn everything() -> Vec<u8> {
    let shape = Shape { threads: 4, contexts: 3, streams: 6, text_bytes: 2048, segments: [3, 2, 4], records: 5 };
    let mut file = Builder::new(shape);
    file.set(header::LAST_SEEN, 9_000_000);
    file.set(header::STATE, ProcessState::Ended.number());
    file.set_all(header::WITHOUT_ENTRY, &[2, 1000, 600]);
    file.set_text(header::PROGRAM.start, "trainer-\u{e4}\u{f6}\u{fc}");

    let at = file.thread(0, MAIN, "main");
    file.set_all(at + thread::CALLS, &[41, 7]);
    file.set_all(at + thread::STACK, &[0x7ffd_0000_1000, 0x7ffd_0000_1040]);
    file.writes_others(0, [Some(3), Some(5)]);
    let at = file.thread(2, SECOND, "exactly 16 bytes");
    file.set(at + thread::STATE, thread::STATE_ENDED);
    file.set(at + thread::ENDED, 8_000_000);
    let at = file.thread(3, GONE, "free");
    file.set(at + thread::STATE, thread::STATE_FREE);

    let at = file.context_at(0);
    file.set_all(at, &[0x5500_1000, pair(1_u32, 0_u32), 10, 700, 650]);
    let at = file.context_at(2);
    file.set_all(at, &[0x5500_2000, pair(0_u32, u32::MAX), 20, 0, u64::MAX]);
    let launch = entry_point("cuLaunchKernel");
    let copy = entry_point("cuMemcpyHtoDAsync_v2");

    // Idle; busy since its first operation; busy with the middle of what was submitted; busy past everything known;
    // destroyed; gone.
    for (index, kind, context_number, last, until, operations) in [
        (0, 3_u64, 1_u32, 500, 0, &[(400, launch, 1)][..]),
        (1, 1, 1, 1500, 800, &[(900, launch, 2), (1000, copy, 0)]),
        (2, 2, 3, 1600, 1250, &[(1100, launch, 1), (1200, launch, 2), (1300, copy, 0), (1400, launch, 3)]),
        (3, 4, 3, 1700, 1650, &[(1500, launch, 1), (1600, launch, 1)]),
        (4, 0, 1, 1800, 0, &[(1700, copy, 0)]),
        (5, 1, 9, 1900, 0, &[(1850, launch, 1)]),
    ] {
        let at = file.stream_at(index);
        let handle = if kind == 3 { 1 } else { 0x6000_0000 + index as u64 * 0x100 };
        let thread_id = if kind == 4 { SECOND.1 } else { 0 };
        file.set_all(at + stream::HANDLE, &[handle, pair(context_number, thread_id), kind, u64::from(index != 5)]);
        file.set(at + stream::CAPTURING, u64::from(index == 1));
        file.set(at + stream::DESTROYED, u64::from(index == 4));
        file.set_all(at + stream::SUBMITTED, &[operations.len() as u64, last, until]);
        file.set(at + stream::BORN, 30 + index as u64);
        let words: Vec<_> = operations
            .iter()
            .flat_map(|&(at, entry_point, function)| [at, pair(entry_point, function as u32)])
            .collect();
        file.set_all(at + stream::FIRST_SINCE_IDLE, &words[..2]);
        file.set_all(at + stream::RECENT, &words);
    }
    // A stream that has gone round: its newest operation is the 35th.
    let at = file.stream_at(1);
    file.set(at + stream::SUBMITTED, 35);
    for n in 3..35_u64 {
        file.set_all(at + stream::RECENT + n as usize % 32 * 2, &[900 + n, pair(launch, n as u32)]);
    }

    file.text(text::SETTING, 0, &[], Some(b"LAZYGUARD_HANG_AFTER=5s"));
    file.name(40, 1, "_Z6kernelPf");
    file.name(41, 2, "gemm");
    file.function(42, 1, 1, 0xf001, 0xb001, true);
    file.function(43, 2, 2, 0xf002, 0xb001, false);
    file.function(44, 3, 0, 0xf003, 0, false);
    file.text(99, 45, &[1, 2, 3], Some(b"a kind to come"));
    file.text(text::STREAM, 46, &[pair(2_u32, 1_u32), 0x6000_0100, 1], None);
    file.text(text::FILE, 47, &[0x40_0000, 0x48_0000, 0], Some(b"/opt/job/bin/train"));
    file.text(text::FILE, 48, &[0x7f00_0000_0000, 0x7f00_0010_0000, 0x7f00_0000_0000], Some(b"/opt/job/lib/libops.so"));
    file.text(text::NOTE, 49, &[], Some("it is loud: \u{2026}\n".as_bytes()));
    // Number 1 becomes another function, and number 2 another stream.
    file.function(2000, 1, 2, 0xf009, 0xb002, true);
    file.text(text::STREAM, 2100, &[pair(2_u32, 3_u32), 0x6000_0999, 2], None);
    file.text(text::PATH, 2150, &[3, 0x7f00_0000_1111, 0x40_2222], None);
    file.text(text::SHARED, 2160, &[0x7f00_0000_2000, 4096, u64::MAX, 8192], None);
    file.text(text::SHARED, 2170, &[0x6b00_0000_0040, 0, 77, 0], None);
    file.text(text::SHARED, 2180, &[0x7f00_0000_2000, 64, 0, 0], None);
    file.text(text::SHARED, 2190, &[0x7f00_0000_3000, 64, 78, 4096], None);
    file.text(text::NOTE, 2200, &[], Some(b"not \xff text"));

    let place = |context: u64, block: [u64; 3]| context | block[0] << 16 | block[1] << 32 | block[2] << 48;
    let work = [
        with(
            call(launch, 900, 950),
            &[
                (record::HEAD, head(launch, 0, flag::SUBMITTED, 0)),
                (record::SUBJECT, pair(2_u32, 1_u32)),
                (record::PLACE, place(1, [128, 2, 1])),
                (record::EXTENT, 1000 | 2 << 32 | 3 << 48),
                (record::CALLER, 0x40_1234 | 3 << 48),
                (record::DETAIL, 4096),
            ],
        ),
        with(
            call(launch, 1000, 2050),
            &[
                (record::HEAD, head(launch, 0, flag::SUBMITTED | flag::CAPTURED | flag::CUT, -1)),
                (record::SUBJECT, pair(2_u32, 1_u32)),
                (record::PLACE, u64::MAX),
                (record::EXTENT, u64::MAX),
            ],
        ),
        with(call(copy, 2100, 2101), &[(record::SUBJECT, pair(2_u32, 0_u32)), (record::EXTENT, 1 << 33)]),
        with(
            call(entry_point("cuStreamQuery"), 2200, 9_000_000),
            &[
                (record::HEAD, head(entry_point("cuStreamQuery"), 5, 0, 600)),
                (record::SUBJECT, pair(7_u32, 0_u32)),
                (record::EXTENT, 123_456),
            ],
        ),
        with(call(entry_point("cuEventRecord"), 2300, 2301), &[(record::DETAIL, 0xe001)]),
    ];
    file.segment(0, 0, MAIN, 0, &work);
    let sync = entry_point("cuStreamSynchronize");
    let left = with(call(sync, 950, 960), &[(record::HEAD, head(sync, 0, flag::LEFT, 0))]);
    file.segment(3, 1, MAIN, 0, &[call(sync, 940, 945), left]);
    let wait = entry_point("cuStreamWaitValue32_v2");
    let rare_events = [
        with(call(launch, 870, 890), &[(record::HEAD, head(launch, 1, flag::SUBMITTED, 0)), (record::DETAIL, 0xb001)]),
        with(
            call(entry_point("cuLibraryLoadData"), 880, 885),
            &[(record::HEAD, head(entry_point("cuLibraryLoadData"), 2, 0, 0)), (record::DETAIL, 0xb002)],
        ),
        with(call(launch, 900, 900), &[(record::HEAD, head(launch, 3, 0, 0)), (record::EXTENT, 2)]),
        with(
            call(launch, 901, 940),
            &[(record::HEAD, head(launch, 4, 0, 0)), (record::EXTENT, pair(12_u32, 1_u32)), (record::DETAIL, 0xb001)],
        ),
        // A kind to come.
        with(call(launch, 905, 906), &[(record::HEAD, head(launch, 6, 0, 0))]),
    ];
    file.segment(5, 2, MAIN, 0, &rare_events);
    let memory = [
        with(
            call(wait, 910, 911),
            &[
                (record::HEAD, head(wait, 0, flag::SUBMITTED | flag::WAIT | flag::WIDE, 0)),
                (record::SUBJECT, pair(2_u32, 0_u32)),
                (record::PLACE, place(1, [1, 0, 0])),
                (record::EXTENT, u64::MAX),
                (record::DETAIL, 0x7000_0000),
            ],
        ),
        with(
            call(entry_point("cuMemAlloc_v2"), 900, 200_900),
            &[
                (record::HEAD, head(entry_point("cuMemAlloc_v2"), 0, 0, 2)),
                (record::EXTENT, 1 << 20),
                (record::DETAIL, 0),
            ],
        ),
    ];
    file.writes_work(0, 0);
    // Released by a thread that has ended; its records are numbered from 7.
    file.segment(6, 2, SECOND, 7, &memory);
    file.state(6, segment::RELEASED, 3);
    file.set_lane(2, lane::RELEASED, 2);
    file.bytes
}

/// Segments that were taken again and again, by several threads; records that found none.
fn overwritten() -> Vec<u8> {
    let mut file = Builder::new(Shape { streams: 1, contexts: 1, text_bytes: 0, ..TINY });
    let launch = entry_point("cuLaunchKernel");
    let at = file.thread(0, MAIN, "main");
    file.set_all(at + thread::CALLS, &[140, 130]);
    file.thread(1, SECOND, "worker");
    file.writes_others(1, [Some(4), None]);
    let row = |times: [u64; 4]| times.map(|time| call(launch, time, time + 1));
    // Two calls of different threads in one moment, and two records of one call.
    file.segment(2, 0, MAIN, 124, &row([1000, 1010, 1010, 1020]));
    file.segment(1, 0, MAIN, 128, &row([1030, 1050, 1070, 1090])[..3]);
    file.segment(0, 0, SECOND, u64::from(u32::MAX) - 1, &row([1010, 1040, 1050, 1060]));
    file.state(2, segment::RELEASED, 43);
    file.state(1, segment::CURRENT, 43);
    file.state(0, segment::CURRENT, 44);
    file.writes_work(0, 1);
    file.writes_work(1, 0);
    // A call that began before another was recorded lies behind it.
    let sync = entry_point("cuCtxSynchronize");
    file.segment(4, 1, SECOND, 4, &[call(sync, 1045, 1046), call(sync, 1041, 1049)]);
    // Of a thread without an entry in the table.
    file.segment(3, 1, (77, 5000), 0, &[call(sync, 1, 2)]);
    file.state(3, segment::RELEASED, 1);
    file.set_lane(0, lane::HAND, 130);
    file.set_lane(0, lane::OVERWRITTEN, 4_294_967_412);
    file.set_lane(0, lane::RELEASED, 4_294_967_416);
    file.set_lane(0, lane::DROPPED, 17);
    file.set_lane(1, lane::OVERWRITTEN, 4);
    file.bytes
}

/// A call in progress in each lane and in the spare place; and marks that mean that there is none.
fn calls_in_progress() -> Vec<u8> {
    let shape = Shape { threads: 9, contexts: 1, streams: 1, text_bytes: 0, segments: [5, 3, 1], records: 3 };
    let mut file = Builder::new(shape);
    let (launch, sync, load) =
        (entry_point("cuLaunchKernel"), entry_point("cuStreamSynchronize"), entry_point("cuModuleLoadData"));
    let who = |number: u32| (number, 5000 + number);
    let complete = |entry_point: u16| [call(entry_point, 100, 110), call(entry_point, 120, 130)];
    let thread = |file: &mut Builder, number: u32, lane: u64, segment_index: u32, mark: u64| {
        let at = file.thread(number as usize - 1, who(number), "in a call");
        match lane {
            0 => file.writes_work(number as usize - 1, segment_index as usize),
            1 => file.writes_others(number as usize - 1, [Some(segment_index), None]),
            _ => file.writes_others(number as usize - 1, [None, Some(segment_index)]),
        }
        // In the lane of work a mark has the record's place.
        let is_work = mark >> 16 & 0xff == 1;
        let place = file.place(segment_index as usize, (mark >> 32) as usize) as u64;
        file.set(at + thread::MARK, if is_work { mark & 0xffff_ffff | place << 32 } else { mark });
        file.set_all(at + thread::STACK, &[0x7fff_0000_0000 + u64::from(number), 0x7fff_0000_0100]);
    };
    // In progress, by lane.
    file.segment(0, 0, who(1), 0, &complete(launch));
    file.record(0, 2, &with(call(launch, 140, 0), &[(record::SUBJECT, pair(1_u32, 3_u32)), (record::CALLER, 0x1234)]));
    thread(&mut file, 1, 0, 0, mark(launch, 1, 2));
    file.segment(5, 1, who(2), (7 << 32) | 5, &complete(sync));
    file.record(5, 2, &call(sync, 150, 0));
    thread(&mut file, 2, 1, 5, mark(sync, 2, 7));
    file.segment(8, 2, who(3), 0, &[]);
    file.record(8, 0, &with(call(load, 160, 0), &[(record::HEAD, head(load, 2, 0, 0))]));
    thread(&mut file, 3, 2, 8, mark(load, 3, 0));
    // In progress, and no segment to be had.
    thread(&mut file, 4, 2, 8, mark(load, 255, 31));
    let at = file.thread_at(3);
    file.writes_others(3, [None, None]);
    file.set_all(at + thread::SPARE, &with(call(load, 170, 0), &[(record::DETAIL, 0xb00b)]));
    // The length has passed it.
    file.segment(1, 0, who(5), 0, &complete(launch));
    thread(&mut file, 5, 0, 1, mark(launch, 1, 1));
    // It has a time of return, and was not counted.
    file.segment(2, 0, who(6), 0, &complete(launch)[..1]);
    file.record(2, 1, &call(launch, 180, 190));
    thread(&mut file, 6, 0, 2, mark(launch, 1, 1));
    // The thread has ended.
    file.segment(3, 0, who(7), 0, &[]);
    file.record(3, 0, &call(launch, 200, 0));
    thread(&mut file, 7, 0, 3, mark(launch, 1, 0));
    let at = file.thread_at(6);
    file.set(at + thread::STATE, thread::STATE_ENDED);
    // The spare call has returned.
    thread(&mut file, 8, 1, 6, mark(sync, 255, 0));
    file.writes_others(7, [None, None]);
    let at = file.thread_at(7);
    file.set_all(at + thread::SPARE, &call(sync, 210, 220));
    // None at all; what lies behind the length is of an earlier time.
    file.segment(4, 0, who(9), 0, &complete(launch));
    file.record(4, 2, &call(launch, 20, 0));
    thread(&mut file, 9, 0, 4, 0);
    file.bytes
}

/// Killed between any two stores with which a segment is taken.
fn taking_a_segment() -> Vec<u8> {
    let shape = Shape { threads: 2, contexts: 1, streams: 1, text_bytes: 0, segments: [6, 1, 1], records: 2 };
    let mut file = Builder::new(shape);
    file.thread(0, MAIN, "main");
    file.thread(1, SECOND, "worker");
    let launch = entry_point("cuLaunchKernel");
    let two = |time: u64| [call(launch, time, time + 1), call(launch, time + 2, time + 3)];
    // Before: released. Then the state; then the length; then the owner; then all of it.
    file.segment(0, 0, MAIN, 10, &two(100));
    file.state(0, segment::RELEASED, 4);
    file.segment(1, 0, MAIN, 12, &two(110));
    file.state(1, segment::BEING_TAKEN, 5);
    for (index, owner) in [(2, MAIN), (3, SECOND), (4, SECOND)] {
        let at = file.segment(index, 0, owner, 14, &two(120));
        file.set(at + segment::LENGTH, 0);
        file.state(index, if index == 4 { segment::CURRENT } else { segment::BEING_TAKEN }, 5);
    }
    // Free, whatever else is in it.
    file.segment(5, 0, SECOND, 0, &two(130));
    file.state(5, segment::FREE, 0);
    file.set_lane(0, lane::HAND, 27);
    file.set_lane(0, lane::OVERWRITTEN, 10);
    file.bytes
}

/// The file ends in the middle of a record.
fn cut_off() -> Vec<u8> {
    let mut file = Builder::new(TINY);
    let launch = entry_point("cuLaunchKernel");
    file.thread(0, MAIN, "main");
    file.set(file.context_at(0) + context::HANDLE, 0x5500_1000);
    file.name(5, 1, "kernel");
    for index in [0, 2, 3, 5] {
        let lane = [0, 0, 0, 1, 1, 2, 2][index];
        let times = [10, 20, 30].map(|time| time + index as u64 * 100);
        file.segment(index, lane, MAIN, 0, &times.map(|time| call(launch, time, time + 5)));
        file.set(file.segment_at(index) + segment::FIRST, index as u64 * 4);
    }
    file.bytes.truncate((file.segment_at(3) + segment::RECORDS + 2 * WORDS + 7) * 8 + 3);
    file.bytes
}

/// Nothing is there but the first words.
fn cut_off_in_the_header() -> Vec<u8> {
    let mut file = Builder::new(TINY);
    file.bytes.truncate(header::LAST_SEEN * 8 + 5);
    file.bytes
}

/// Executable graphs, two of them under one handle.
fn graphs() -> Vec<u8> {
    let mut file = Builder::new(Shape { text_bytes: 512, contexts: 1, ..TINY });
    let part = |kind: u32, condition: u32, wide: u32, count: u32| pair(kind | condition << 16 | wide << 24, count);
    let (kernel, waits) = (part(0, 0, 0, 12), part(0x100, 1, 1, 1));
    file.text(text::GRAPH, 30, &[0x6a00, pair(15_u32, 1_u32), 0, kernel, 3, 0, waits, 0xd000, u64::MAX], None);
    file.text(text::GRAPH, 20, &[0x6a00, pair(1_u32, 0_u32), 1, part(6, 0, 0, 1), 0xe000, 0], None);
    file.text(text::GRAPH, 40, &[0x5a00, pair(7_u32, 7_u32), 0], None);
    file.bytes
}

/// The texts' area is full, and names are missing.
fn texts_full() -> Vec<u8> {
    let mut file = Builder::new(Shape { text_bytes: 160, contexts: 1, ..TINY });
    let launch = entry_point("cuLaunchKernel");
    file.thread(0, MAIN, "main");
    file.name(10, 1, "a_kernel_with_a_name");
    file.function(11, 1, 1, 0xf001, 0, true);
    file.function(12, 2, 2, 0xf002, 0, true);
    // What lies behind the bytes in use does not count: an entry that was not finished.
    let behind = file.shape.texts_at() + file.get(header::TEXTS_USED) as usize / 8;
    file.set(behind, pair(text::NOTE, 40_u32));
    file.set(header::TEXTS_LOST, 5);
    let named =
        |time: u64, function: u32| with(call(launch, time, time + 1), &[(record::SUBJECT, pair(0_u32, function))]);
    file.segment(0, 0, MAIN, 0, &[named(20, 1), named(30, 2), named(40, 3), named(10, 1)]);
    file.bytes
}
