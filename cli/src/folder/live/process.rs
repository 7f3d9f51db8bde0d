//! One process, followed: its tables as they are, and the sums over its records.
//!
//! Must not: read the segments of a lane that the caller does not need; the work of a busy process is most of its recording.

use super::hang::{HangNow, Replaced};
use super::life::{Heartbeat, Life};
use super::tally::Tally;
use crate::folder::ends;
use crate::folder::process::Status;
use crate::folder::recorded::Recorded;
use crate::folder::source::{settings_of, RecordingFile, Run, HAZARDS};
use crate::words::names::Names;
use crate::words::Failure;
use lazyguard_core::api::{Class, Code, EntryPoint};
use lazyguard_core::diagnose::Confidence;
use lazyguard_core::evidence;
use lazyguard_core::hazard::{joined, Aggregator, Hazard, HazardFile, StreamClass};
use lazyguard_core::report::{HangReport, RevokedSeen, Summary};
use lazyguard_core::run_folder::file::{HANG, RUN};
use lazyguard_core::trace::read::{LiveRecording, Recording, Source, ThreadSeen};
use lazyguard_core::trace::{Lane, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Segments of work that are read at a time: 16 MiB. The newest ones are read, and any others counted.
const MOST_SEGMENTS: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Tables,
    Records,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessNow {
    pub folder: Option<PathBuf>,
    pub process: u32,
    pub program: String,
    pub host: String,
    pub rank: String,
    pub life: Life,
    pub end: Option<String>,
    pub calls: u64,
    pub launches: u64,
    /// Launches a second since the last look; `None` at the first.
    pub launches_per_second: Option<f64>,
    pub waits: Vec<WaitNow>,
    pub runs: Vec<String>,
    pub outstanding: BTreeMap<StreamClass, OutstandingNow>,
    /// The sums over the records; nothing without [`Depth::Records`].
    pub tally: Tally,
    /// Hazards by code: what was prevented apart, and by confidence, as far as the process knew. The counts of a process that runs are lower bounds.
    pub hazards: BTreeMap<(Code, bool, Confidence), u64>,
    pub hang: Option<HangNow>,
    pub hang_nanos: Nanos,
    /// The comparison of its run, while a rank of that hangs.
    pub blamed: Option<BlamedNow>,
    pub revoked: Vec<RevokedSeen>,
    pub looks_for_hangs: bool,
    /// Records that could not be read: overwritten before, or too many at a time; and those that the process did not keep.
    pub lost_records: u64,
}

/// The rank to blame for the hang of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlamedNow {
    pub rank: Option<u64>,
    /// The code of the hang.
    pub code: &'static str,
    /// Why it is behind, on the host, where that is known.
    pub class: Option<evidence::Class>,
    pub sentence: String,
}

impl ProcessNow {
    /// The sentence of its run, if this is the rank to blame.
    pub fn blame(&self) -> Option<&BlamedNow> {
        self.blamed.as_ref().filter(|blamed| blamed.rank.is_some() && blamed.rank == self.rank.parse().ok())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitNow {
    pub thread: u32,
    pub thread_name: String,
    pub what: String,
    pub nanos: Nanos,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutstandingNow {
    pub streams: u64,
    pub nanos: Nanos,
    pub what: String,
}

fn end_of(life: Life, folder: Option<&Path>, process: u32, started: Option<u64>) -> Option<String> {
    let recorded = match life {
        Life::Ended => "ended",
        Life::Gone => "was killed or ended without an exit",
        _ => return None,
    };
    let seen = folder.and_then(|folder| ends::of(folder, process, started));
    Some(ends::words(seen, life == Life::Ended, || recorded.to_owned()))
}

#[derive(Default)]
pub(super) struct Followed {
    run: Run,
    live: Option<LiveRecording<RecordingFile>>,
    heartbeat: Heartbeat,
    hang: Replaced<HangReport>,
    summary: Replaced<Summary>,
    tally: Tally,
    gathered: Aggregator,
    hazards: Replaced<HazardFile>,
    before: Option<(Instant, ProcessNow)>,
}

impl Followed {
    /// Opens its recording. Without one its reports are followed; the line says why.
    pub fn open(run: &Run) -> (Self, Option<Failure>) {
        let (live, why) = run.open_live().map_or_else(|failure| (None, Some(failure)), |live| (live, None));
        (Self { run: run.clone(), live, ..Self::default() }, why)
    }

    pub fn is_recorded(&self) -> bool {
        self.live.is_some()
    }

    pub fn is_undecided(&self) -> bool {
        self.live.as_ref().is_some_and(|live| {
            let facts = live.tables.facts();
            self.heartbeat.is_undecided(facts, Status::of(self.run.process.unwrap_or(facts.process)))
        })
    }

    pub fn look(&mut self, depth: Depth) -> Option<ProcessNow> {
        if let Some(before) = self.over() {
            return Some(before);
        }
        if let Some(folder) = &self.run.folder {
            self.hang.look(folder, HANG);
            self.summary.look(folder, RUN);
            self.hazards.look(folder, HAZARDS);
        }
        let Some(live) = &mut self.live else { return self.unrecorded() };
        // A recording that cannot be read any more stays as it was.
        let _ = live.refresh();
        self.heartbeat.see(live.tables.facts().last_seen);
        let mut in_progress = HashMap::new();
        if depth == Depth::Records {
            for thread in live.tables.threads() {
                in_progress.extend(thread.call_in_progress.map(|call| ((thread.number, call.entered), call)));
            }
            let (tally, gathered) = (&mut self.tally, &mut self.gathered);
            for (lane, most) in [(Lane::RareEvents, u64::MAX), (Lane::Waits, u64::MAX), (Lane::Work, MOST_SEGMENTS)] {
                live.news(lane, most, &mut |recording, entry| {
                    tally.see(&entry.record);
                    gathered.see(recording, entry);
                    in_progress.remove(&(entry.thread_number, entry.record.entered));
                });
            }
        }
        let mut now = self.now()?;
        in_progress.values().for_each(|call| now.tally.blocked_for(call, self.since(call.entered)));
        if let Some((at, before)) = &self.before {
            let seconds = at.elapsed().as_secs_f64();
            // Counts of threads that end are moved from one place to another, and may be in neither for a moment.
            now.launches = now.launches.max(before.launches);
            now.calls = now.calls.max(before.calls);
            now.tally.at_least(&before.tally);
            now.launches_per_second = (seconds > 0.0)
                .then(|| (now.launches - before.launches) as f64 / seconds)
                .filter(|_| now.life.is_there());
        }
        self.before = Some((Instant::now(), now.clone()));
        Some(now)
    }

    fn over(&self) -> Option<ProcessNow> {
        let (_, before) = self.before.as_ref()?;
        (before.life == Life::Ended).then(|| ProcessNow { launches_per_second: None, ..before.clone() })
    }

    fn since(&self, begin: Nanos) -> Nanos {
        self.live.as_ref().map_or(0, |live| live.tables.facts().last_seen.saturating_sub(begin))
    }

    fn now(&self) -> Option<ProcessNow> {
        let live = self.live.as_ref()?;
        let recording = &live.tables;
        let lost = Lane::ALL.map(|lane| live.lost(lane) + recording.lanes()[lane as usize].dropped);
        let facts = recording.facts();
        let life = self.heartbeat.life(facts, Status::of(self.run.process.unwrap_or(facts.process)));
        let (calls, launches) = recording.calls_and_launches();
        let goes_on = life != Life::Ended;
        let settings = settings_of(recording);
        let hang = self.hang.newest.as_ref().filter(|_| goes_on).and_then(HangNow::of);
        let rests = goes_on && hang.is_none() && stands_at_rest(recording, settings.hang_after_nanos);
        let noted = self.hazards.newest.as_ref().map(|file| file.hazards.clone()).unwrap_or_default();
        Some(ProcessNow {
            folder: None,
            blamed: None,
            process: facts.process,
            program: facts.program.clone(),
            host: facts.host.clone(),
            rank: recording.rank(),
            life,
            end: end_of(life, self.run.folder.as_deref(), facts.process, Some(facts.start_ticks)),
            calls,
            launches,
            launches_per_second: None,
            waits: if goes_on { waits(recording) } else { Vec::new() },
            runs: if rests { runs(&self.run) } else { Vec::new() },
            outstanding: if goes_on { outstanding(recording) } else { BTreeMap::new() },
            tally: self.tally.clone(),
            hazards: by_code(joined(noted, self.gathered.hazards_of(recording))),
            hang_nanos: hang.as_ref().map_or(0, |hang| self.since(hang.since)),
            hang,
            revoked: self.summary.newest.as_ref().map(|summary| summary.revoked.clone()).unwrap_or_default(),
            looks_for_hangs: settings.hang_after_nanos != 0 && settings.enabled,
            lost_records: lost.into_iter().fold(0, u64::saturating_add),
        })
    }

    fn unrecorded(&self) -> Option<ProcessNow> {
        let report = self.hang.newest.as_ref()?;
        let life = if Status::of(report.process) == Status::Gone { Life::Gone } else { Life::Unrecorded };
        Some(ProcessNow {
            process: report.process,
            life,
            end: end_of(life, self.run.folder.as_deref(), report.process, None),
            hang: HangNow::of(report),
            looks_for_hangs: true,
            ..ProcessNow::default()
        })
    }
}

fn by_code(hazards: Vec<Hazard>) -> BTreeMap<(Code, bool, Confidence), u64> {
    let mut counts = BTreeMap::<_, u64>::new();
    for hazard in hazards {
        let count = counts.entry((hazard.code, hazard.prevented, hazard.confidence)).or_default();
        *count = count.saturating_add(hazard.count);
    }
    counts
}

fn waits<S: Source>(recording: &Recording<S>) -> Vec<WaitNow> {
    let now = recording.facts().last_seen;
    let wait = |thread: &ThreadSeen| {
        let call = thread.call_in_progress?;
        let (what, nanos) = (what_of(recording, &call), now.saturating_sub(call.entered));
        Some(WaitNow { thread: thread.thread, thread_name: thread.name.clone(), what, nanos })
    };
    let mut waits: Vec<_> = recording.threads().iter().filter_map(wait).collect();
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.nanos), wait.thread));
    waits
}

fn what_of<S: Source>(recording: &Recording<S>, call: &Record) -> String {
    let mut what = about(recording, call.entry_point, call.function);
    if let (Payload::Communication(about), Class::Collective) = (call.payload(), call.entry_point.class()) {
        what += &format!(" on communicator {}", about.communicator);
    }
    if call.stream != 0 {
        what += &format!(" on stream {}", call.stream);
    }
    what
}

fn about<S: Source>(recording: &Recording<S>, call: EntryPoint, function: u32) -> String {
    match Names::new(recording.strings()).function(function, Nanos::MAX) {
        Some(name) => format!("{} of {name}", call.symbol()),
        None => call.symbol().to_owned(),
    }
}

/// Whether a stream has had work outstanding for the threshold, and nothing was submitted to it since.
fn stands_at_rest<S: Source>(recording: &Recording<S>, threshold: Nanos) -> bool {
    let now = recording.facts().last_seen;
    let rests = |at: Nanos| threshold != 0 && now.saturating_sub(at) >= threshold;
    recording.streams().iter().any(|s| rests(s.work.submissions.last) && recording.oldest(s).is_some())
}

/// Kernels that run while no thread waits for them. This reads all records: few processes have a stream at rest.
fn runs(run: &Run) -> Vec<String> {
    let recorded = run.open().ok().flatten().and_then(|opened| Recorded::read(opened).ok());
    recorded.map(|recorded| recorded.unwatched()).unwrap_or_default()
}

fn outstanding<S: Source>(recording: &Recording<S>) -> BTreeMap<StreamClass, OutstandingNow> {
    let now = recording.facts().last_seen;
    let mut classes = BTreeMap::<_, OutstandingNow>::new();
    for stream in recording.streams() {
        let Some(oldest) = recording.oldest(stream) else { continue };
        let nanos = now.saturating_sub(oldest.at);
        let known = classes.entry(StreamClass::of(Some(stream.kind))).or_default();
        known.streams += 1;
        if known.streams == 1 || nanos > known.nanos {
            let call = EntryPoint::by_id(oldest.entry_point).map(|call| about(recording, call, oldest.function));
            known.nanos = nanos;
            known.what = format!("{} on stream {}", call.unwrap_or_default(), stream.number);
        }
    }
    classes
}

impl ProcessNow {
    pub fn hangs(&self) -> bool {
        let exists = self.life.is_there() || self.life == Life::Unrecorded;
        exists && self.hang.as_ref().is_some_and(|hang| hang.is_hang)
    }

    /// Whether it submits no more, and nothing of it is in flight.
    pub fn is_stalled(&self) -> bool {
        let exists = self.life.is_there() || self.life == Life::Unrecorded;
        exists && self.hang.as_ref().is_some_and(|hang| hang.is_stalled)
    }

    pub fn who(&self) -> String {
        let rank = if self.rank.is_empty() { String::new() } else { format!("rank {}, ", self.rank) };
        let program = if self.program.is_empty() { String::new() } else { format!(" ({})", self.program) };
        format!("{rank}process {}{program}", self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::{facts, hazard, launch, Job};
    use lazyguard_core::diagnose::{Snapshot, Status as Verdict};
    use lazyguard_core::report::{json, HangReport, PreloadSummary};
    use lazyguard_core::trace::Kind;
    use std::fs;

    #[test]
    fn a_process_is_followed_while_its_recording_grows() {
        let folder = std::env::temp_dir().join(format!("lazyguard-followed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let job = Job::new();
        let (main, stream, kernel) = (job.thread(100, "main"), job.stream(0x51), job.function("_Z2k1v"));
        for at in [1_000, 3_000, 5_000] {
            job.make(main, &launch(stream, kernel, at), 500, 0);
        }
        job.make(main, &Record { kind: Kind::ColdFunction, ..launch(stream, kernel, 9_000) }, 2_000_000, 0);
        job.synchronize(main, stream, 10_000_000, 3_000_000);
        job.save(&folder, 20_000_000);
        let (mut followed, why) = Followed::open(&Run::find_quietly(&folder).unwrap());
        assert!(why.is_none() && followed.is_undecided());
        let now = followed.look(Depth::Records).unwrap();
        assert_eq!((now.launches, now.calls, now.launches_per_second), (4, 5, None));
        let sums = |now: &ProcessNow| [now.tally.blocked[0], now.tally.blocked[1]];
        assert_eq!((sums(&now), now.tally.loads[0]), ([3_000_000, 2_000_000], 1));
        assert!(now.waits.is_empty() && now.outstanding.is_empty() && now.hazards.is_empty());

        job.make(main, &launch(stream, kernel, 30_000_000), 500, 0);
        job.note(main, &hazard(101, stream, kernel, facts("cuLaunchKernel", 35_000_000)));
        job.hold(main, &facts("cuCtxSynchronize", 40_000_000));
        job.save(&folder, 1_040_000_000);
        let report = HangReport::new(4242, "train", None, Snapshot::default(), PreloadSummary::default());
        let mut report = HangReport { status: Verdict::Hang, ..report };
        fs::write(folder.join("hang.json"), json(&report)).unwrap();
        let now = followed.look(Depth::Records).unwrap();
        assert_eq!((now.life, now.launches, now.hangs()), (Life::Runs, 5, true));
        assert!(now.launches_per_second.is_some_and(|rate| rate > 0.0));
        let wait = &now.waits[0];
        assert_eq!((wait.thread, wait.what.as_str(), wait.nanos), (100, "cuCtxSynchronize", 1_000_000_000));
        let outstanding = &now.outstanding[&StreamClass::NonBlocking];
        assert_eq!((outstanding.streams, outstanding.nanos), (1, 1_010_000_000));
        assert_eq!(outstanding.what, "cuLaunchKernel of k1 on stream 1");
        assert_eq!(now.hazards, BTreeMap::from([((Code::LG101, false, Confidence::Possible), 1)]));
        // The call in progress counts, and its record does not count once more.
        assert_eq!(sums(&now), [1_003_000_000, 2_000_000]);
        let same = followed.look(Depth::Records).unwrap();
        assert_eq!((sums(&same), same.hazards, same.lost_records), (sums(&now), now.hazards, 0));

        report.resolved = Some(2_000_000_000);
        // Another file, as the guard puts it there.
        fs::write(folder.join("new"), json(&report)).unwrap();
        fs::rename(folder.join("new"), folder.join("hang.json")).unwrap();
        job.ended();
        job.save(&folder, 2_000_000_000);
        let now = followed.look(Depth::Records).unwrap();
        assert_eq!((now.life, now.hangs(), now.waits.len(), now.outstanding.len()), (Life::Ended, false, 0, 0));
        assert_eq!(now.launches_per_second, None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
