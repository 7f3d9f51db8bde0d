//! The activity of the ranks that cannot speak while another rank waits for them (`lazyguard_core::late`): one that has not initialised CUDA yet, and imports
//! its modules for a minute, and one that is stopped.
//!
//! A thread of its own reads the markers of the job. Once a rank asks, it looks at the program's processes to which their launcher has given a rank, unless
//! a guarded process of that rank lives and is not stopped, and leaves a statement for each rank.
//!
//! Must not: look at any process before a rank asks.

use super::hang::folders_of_processes;
use super::root::process_with;
use super::tree::descends;
use crate::folder::{exists, Stat};
use crate::machine::{files, host_name, Beside};
use lazyguard_core::evidence::{Depth, Look, Looks, Source};
use lazyguard_core::late::{self, Statement};
use lazyguard_core::run_folder::file::{LATE, OF_A_JOB};
use lazyguard_core::settings::{self, Settings};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The kernel may hold the thread at a process whose memory is locked: it is left behind then.
const ENDS_WITHIN: Duration = Duration::from_millis(200);
const MOST_PROCESSES: usize = 8;
/// How long a rank that has been spoken for is, once it has a guard: that one's threads begin later.
const HANDS_OVER_IN: Duration = Duration::from_secs(5);

pub(super) fn start(places: &[PathBuf], settings: &Settings) -> Option<Beside> {
    let root = places.first().filter(|_| settings.waits_for_late_ranks())?;
    let threshold = settings.hang_after_nanos;
    let mut watch = Watch { places: places.to_vec(), markers: folders_of_markers(root), threshold, ..Watch::default() };
    let work = move |stopped: &std::sync::mpsc::Receiver<()>| {
        while stopped.recv_timeout(watch.pause()) == Err(RecvTimeoutError::Timeout) {
            watch.round(Instant::now());
        }
        watch.forget();
        watch.remove_what_is_left();
    };
    Beside::start("lazyguard-late", ENDS_WITHIN, work).ok()
}

/// The run's folder; of a run that a launcher has started for one rank, also that of the job around it.
fn folders_of_markers(root: &Path) -> Vec<PathBuf> {
    let job =
        root.parent().filter(|job| job.file_name().is_some_and(|name| name.to_string_lossy().starts_with("job-")));
    std::iter::once(root).chain(job).map(Path::to_owned).collect()
}

#[derive(Default)]
struct Watch {
    places: Vec<PathBuf>,
    markers: Vec<PathBuf>,
    threshold: u64,
    /// The newest question in each marker.
    asked: BTreeMap<PathBuf, Vec<u8>>,
    asked_until: Option<Instant>,
    /// When its first round began.
    began: Option<Instant>,
    looks: HashMap<u32, Looks>,
    /// The time that the newest looks have taken.
    cost: Duration,
    says: BTreeMap<String, Statement>,
    /// When a rank that was spoken for was first seen with a guard.
    guarded: HashMap<String, Instant>,
    written: BTreeSet<PathBuf>,
}

impl Watch {
    fn pause(&self) -> Duration {
        Duration::from_nanos(match self.asked_until {
            Some(_) => late::pause(self.threshold, nanos(self.cost)),
            None => (self.threshold / 2).clamp(250_000_000, 1_500_000_000),
        })
    }

    fn round(&mut self, now: Instant) {
        if self.is_asked_anew() {
            self.asked_until = Some(now + Duration::from_nanos(late::asked_for(self.threshold)));
        }
        match self.asked_until {
            Some(until) if now < until => self.look(now),
            Some(_) => self.forget(),
            None => {}
        }
    }

    fn is_asked_anew(&mut self) -> bool {
        let mut is_new = false;
        for folder in &self.markers {
            let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
            for name in names.filter(|name| name.to_string_lossy().starts_with(OF_A_JOB)) {
                let path = folder.join(&name);
                let Ok(content) = files::read_in(folder, &name.to_string_lossy()) else { continue };
                let question = late::question(&content).to_vec();
                is_new |= !question.is_empty() && self.asked.get(&path) != Some(&question);
                self.asked.insert(path, question);
            }
        }
        is_new
    }

    fn look(&mut self, now: Instant) {
        let (begin, source) = (Instant::now(), Source::machine());
        let at = nanos(now.saturating_duration_since(*self.began.get_or_insert(now)));
        let mut former = std::mem::take(&mut self.looks);
        let ranks = self.without_a_guard(now);
        self.says.retain(|rank, _| ranks.contains_key(rank));
        for (rank, processes) in ranks {
            let compared = processes.into_iter().filter_map(|process| {
                let looks = self.looks.entry(process).or_insert(former.remove(&process).unwrap_or_default());
                looks.add(Look::take(&source, process, &[], Depth::Kernel), at)
            });
            // The wrapper of a rank waits for the rank itself.
            if let Some((evidence, between)) = compared.max_by_key(|(evidence, _)| evidence.moves) {
                let process = evidence.process;
                let new = || Statement::of(&source, rank.clone(), host_name().unwrap_or_default(), process);
                let says = self.says.entry(rank.clone()).or_insert_with(new);
                if says.process != process {
                    *says = Statement { looks: says.looks, moved: says.moved, ..new() };
                }
                says.looked(&evidence, false, between);
            }
        }
        self.cost = begin.elapsed();
        self.write();
    }

    /// The processes of each rank of which no guarded one lives and is not stopped, or has lived for long.
    fn without_a_guard(&mut self, now: Instant) -> BTreeMap<String, Vec<u32>> {
        let armed = folders_of_processes(&self.places).into_iter().filter_map(|folder| process_with(&folder));
        let armed: BTreeSet<u32> = armed.filter(|process| exists(*process)).collect();
        let with_rank = |process: u32| descends(process as i32).then(|| Some((rank_of(process)?, process))).flatten();
        let mut ranks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (rank, process) in files::numbered::<u32>("/proc").filter_map(with_rank) {
            ranks.entry(rank).or_default().push(process);
        }
        ranks.retain(|rank, processes| {
            let is_guarded = processes.iter().any(|process| armed.contains(process) && !is_stopped(*process));
            let mut since = || *self.guarded.entry(rank.clone()).or_insert(now);
            !is_guarded || self.says.contains_key(rank) && now.saturating_duration_since(since()) < HANDS_OVER_IN
        });
        ranks.values_mut().for_each(|processes| processes.truncate(MOST_PROCESSES));
        ranks
    }

    fn write(&mut self) {
        let mut written = BTreeSet::new();
        for (marker, says) in self.asked.keys().flat_map(|marker| self.says.values().map(move |says| (marker, says))) {
            let prefix = marker.file_name().and_then(|name| late::prefix(name.to_str()?));
            let Some((folder, prefix)) = marker.parent().zip(prefix) else { continue };
            let path = folder.join(format!("{prefix}{}-run{}-{}", says.host, std::process::id(), says.rank));
            let text = serde_json::to_string(says).unwrap_or_default();
            if files::replace(&path, text.as_bytes(), Some(0o600)).is_ok() {
                written.insert(path);
            }
        }
        let former = std::mem::replace(&mut self.written, written);
        former.difference(&self.written).for_each(|path| drop(fs::remove_file(path)));
    }

    /// The statements of processes that were killed. The run is over: no other one removes them from its folder.
    fn remove_what_is_left(&self) {
        let (source, host) = (Source::machine(), host_name().unwrap_or_default());
        for folder in &self.markers {
            let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
            for name in names.filter(|name| name.to_string_lossy().starts_with(LATE)) {
                let content = files::read_in(folder, &name.to_string_lossy()).unwrap_or_default();
                let is_left = |says: Statement| says.is_of_a_former_process(&source, &host);
                if Statement::read(&content).is_some_and(is_left) {
                    let _ = fs::remove_file(folder.join(name));
                }
            }
        }
    }

    fn forget(&mut self) {
        (self.asked_until, self.looks, self.guarded) = (None, HashMap::new(), HashMap::new());
        self.says.clear();
        self.write();
    }
}

fn is_stopped(process: u32) -> bool {
    Stat::of(process as i32).is_some_and(Stat::is_stopped)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// By its environment at its start.
fn rank_of(process: u32) -> Option<String> {
    let environment = files::read(files::about_memory(process, "environ")).ok()?;
    let environment = String::from_utf8_lossy(&environment);
    settings::rank(|name| {
        let is_it = |entry: &&str| entry.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        environment.split('\0').find(is_it).map(|entry| entry[name.len() + 1..].to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::evidence::Class;
    use std::process::Command;

    #[test]
    fn a_rank_without_a_guard_is_spoken_for_while_another_one_asks() {
        let folder = std::env::temp_dir().join(format!("lazyguard-late-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let marker = folder.join(format!("{OF_A_JOB}-j"));
        let mut start = Command::new("sh");
        let mut rank = start.args(["-c", "while :; do :; done"]).env("RANK", "7").spawn().unwrap();
        let (places, markers) = (vec![folder.clone()], folders_of_markers(&folder));
        let mut watch = Watch { places, markers, threshold: 1_000_000_000, ..Watch::default() };
        let says = || {
            let names = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
            let it = names.filter(|path| path.to_string_lossy().ends_with("-7")).find_map(|path| fs::read(path).ok());
            it.and_then(|bytes| Statement::read(&bytes))
        };
        let mut now = Instant::now();
        let mut round = |watch: &mut Watch, pause: u64| {
            std::thread::sleep(Duration::from_millis(300));
            now += Duration::from_millis(pause);
            watch.round(now);
        };
        fs::write(&marker, "17 node7 1 0\n").unwrap();
        (0..2).for_each(|_| round(&mut watch, 300));
        assert!(watch.looks.is_empty() && says().is_none(), "no rank asks");
        fs::write(&marker, "17 node7 1 0\nlate 18 node7 1 0\n").unwrap();
        (0..3).for_each(|_| round(&mut watch, 300));
        let said = says().unwrap();
        assert_eq!((said.rank.as_str(), said.process, said.moved), ("7", rank.id(), said.looks), "{said:?}");
        round(&mut watch, 60_000);
        assert!(says().is_none() && watch.looks.is_empty(), "no rank asks any more");
        // One with a guard speaks for itself.
        fs::create_dir(folder.join(format!("rank7-{}", rank.id()))).unwrap();
        fs::write(folder.join(format!("rank7-{}/log.jsonl", rank.id())), "").unwrap();
        fs::write(folder.join(format!("rank7-{}/run.json", rank.id())), "").unwrap();
        fs::write(&marker, "17 node7 1 0\nlate 19 node7 1 0\n").unwrap();
        (0..3).for_each(|_| round(&mut watch, 300));
        assert!(says().is_none());
        // It cannot while it is stopped.
        let signal =
            |name: &str| assert!(Command::new("kill").args([name, &rank.id().to_string()]).status().unwrap().success());
        signal("-STOP");
        (0..3).for_each(|_| round(&mut watch, 300));
        let said = says().unwrap();
        assert_eq!((said.class, said.moved), (Some(Class::Stopped), 0), "{said:?}");
        signal("-CONT");
        (0..3).for_each(|_| round(&mut watch, 2_500));
        assert!(says().is_none(), "it speaks itself");
        let of = Statement::of(&Source::machine(), String::new(), host_name().unwrap_or_default(), rank.id());
        let left = folder.join(format!("{LATE}-j+node7-18"));
        fs::write(&left, serde_json::to_string(&of).unwrap()).unwrap();
        watch.remove_what_is_left();
        assert!(left.exists(), "its process lives");
        rank.kill().unwrap();
        rank.wait().unwrap();
        watch.remove_what_is_left();
        assert!(!left.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
