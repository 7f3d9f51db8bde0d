//! Which private folders are removed, and which never are.

use super::*;
use std::cell::Cell;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process id above the kernel's limit.
const NO_PROCESS: u32 = 4_194_999;
/// A process that is there.
const ALIVE: u32 = 77;
/// The namespace of these tests, and another one.
const HERE: u16 = 1;
const ELSEWHERE: u16 = 2;

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn open(path: &Path) -> io::Result<File> {
    assert!(fs::symlink_metadata(path)?.is_file(), "{} is opened", path.display());
    File::open(path)
}

struct Base(PathBuf, Cell<u16>);

impl Base {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lazyguard-left-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path, Cell::new(0))
    }

    fn sight(&self) -> Sight<'static> {
        Sight {
            user: user(),
            namespace: HERE,
            entries: 4096,
            now: now(),
            exists: &|process| process == ALIVE,
            open: &open,
            // The files say it by themselves.
            is_locked: &|file| Some(file.metadata().unwrap().len() == 6),
        }
    }

    fn folder(&self, prefix: &str, process: u32, namespace: u16) -> PathBuf {
        self.1.set(self.1.get() + 1);
        let name = Private { is_run: false, user: user(), process, namespace }.name(self.1.get());
        let path = self.0.join(name.replacen("lazyguard-", prefix, 1));
        fs::create_dir(&path).unwrap();
        path
    }

    /// A process's folder, last changed so many seconds ago.
    fn process(&self, process: u32, namespace: u16, age: u64) -> PathBuf {
        aged(self.folder("lazyguard-", process, namespace), age)
    }

    /// A run's, with the folder of one process.
    fn run(&self, process: u32, namespace: u16, of_process: u32, age: u64) -> PathBuf {
        let path = self.folder("lazyguard-run-", process, namespace);
        fs::write(path.join(MARK), "{}").unwrap();
        fs::create_dir(path.join(format!("rank0-{of_process}"))).unwrap();
        aged(path, age)
    }

    fn tidy(&self) {
        tidy(&self.0, &self.sight());
    }

    fn state(&self, path: &Path) -> State {
        all_in(&self.0, &self.sight()).into_iter().find(|left| left.path == path).unwrap().state
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder, last changed so many seconds ago.
fn aged(path: PathBuf, age: u64) -> PathBuf {
    File::open(&path).unwrap().set_modified(now() - Duration::from_secs(age)).unwrap();
    path
}

/// Puts a file there without a change of the folder's age.
fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let since = fs::metadata(folder).unwrap().modified().unwrap();
    fs::write(folder.join(name), content).unwrap();
    File::open(folder).unwrap().set_modified(since).unwrap();
}

/// The header of a recording that was stamped so many seconds ago.
fn stamped(ago: u64) -> Vec<u8> {
    let now = now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut words = vec![0_u64; HEADER_BYTES / WORD];
    words[header::LAST_SEEN] = 5_000_000_000;
    words[header::ARMED_UNIX_NANOS] = now - 5_000_000_000 - ago * 1_000_000_000;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn there(folders: &[PathBuf]) -> Vec<bool> {
    folders.iter().map(|folder| folder.exists()).collect()
}

#[test]
fn what_is_older_than_a_day_goes_whatever_is_in_it() {
    let base = Base::new();
    let [old, new] = [90_000, 80_000].map(|age| {
        let (process, run) = (base.process(NO_PROCESS, HERE, age), base.run(NO_PROCESS, HERE, NO_PROCESS, age));
        let hung = base.process(NO_PROCESS, HERE, age);
        put(&hung, HANG, "{}");
        [process, run, hung]
    });
    let living = base.process(ALIVE, HERE, 90_000);
    base.tidy();
    assert_eq!((there(&old), there(&new), living.exists()), (vec![false; 3], vec![true; 3], true));
}

#[test]
fn a_failure_stays_for_a_day_without_its_recording_where_many_follow() {
    let base = Base::new();
    let hung: Vec<_> = (0..MOST_FOLDERS + 2).map(|n| base.process(NO_PROCESS, HERE, 100 + n as u64)).collect();
    let killed = base.process(NO_PROCESS, HERE, 150);
    for (number, folder) in hung.iter().enumerate() {
        put(folder, HANG, "{}");
        put(folder, TRACE, stamped(100));
        if number == 3 {
            put(folder, "log.jsonl", "");
            let log = File::options().write(true).open(folder.join("log.jsonl")).unwrap();
            rustix::fs::fallocate(&log, rustix::fs::FallocateFlags::empty(), 0, MOST_BYTES).unwrap();
        }
    }
    base.tidy();
    base.tidy();
    let whole: Vec<_> = hung.iter().map(|folder| folder.join(TRACE)).collect();
    assert_eq!(there(&whole)[..5], [true, true, true, false, false]);
    assert_eq!(there(&hung).iter().filter(|there| **there).count(), MOST_FOLDERS - 1, "the killed one was one more");
    assert!(hung[MOST_FOLDERS - 2].join(HANG).exists() && !killed.exists());
}

#[test]
fn what_all_take_together_has_a_limit_and_the_newest_stays_whatever_it_takes() {
    let left = |bytes: u64, age: u64, state| Left {
        path: age.to_string().into(),
        private: Private { is_run: age == 2, user: 0, process: NO_PROCESS, namespace: HERE },
        since: now() - Duration::from_secs(age),
        bytes,
        state,
        is_evidence: true,
        foreign: None,
    };
    let gone = |bytes, age| left(bytes, age, State::Gone);
    let paths = |all: &[Left]| -> Vec<_> {
        surplus(all, now()).iter().map(|(left, _)| left.path.display().to_string()).collect()
    };
    assert_eq!(paths(&[gone(100 << 20, 3), gone(100 << 20, 1), gone(100 << 20, 2)]), ["3"]);
    assert_eq!(paths(&[gone(4 << 30, 1), gone(1, 2)]), ["2"]);
    assert_eq!(paths(&[gone(MOST_BYTES, 1)]), [""; 0]);
    // Folders of live processes are neither removed nor counted against the limit.
    assert_eq!(paths(&[left(4 << 30, 1, State::Lives), gone(1, 2), left(1, 3, State::Lives)]), [""; 0]);
    assert_eq!(paths(&[gone(MOST_BYTES, 2), left(1, 3, State::Silent)]), ["3"]);
}

#[test]
fn what_a_living_process_has_stays_also_if_it_cannot_be_seen() {
    let base = Base::new();
    // Much that is old and large enough to go, all of living processes.
    let by_number: Vec<_> = (0..20).map(|_| base.process(ALIVE, HERE, 90_000)).collect();
    let by_stamp: Vec<_> = (0..20).map(|_| base.process(NO_PROCESS, ELSEWHERE, 90_000)).collect();
    by_stamp.iter().for_each(|folder| put(folder, TRACE, stamped(1)));
    let without_a_recording: Vec<_> = (0..20).map(|_| base.process(NO_PROCESS, ELSEWHERE, 1_000)).collect();
    let of_a_run: Vec<_> = (0..20).map(|_| base.run(NO_PROCESS, HERE, ALIVE, 90_000)).collect();
    let of_run_itself: Vec<_> = (0..20).map(|_| base.run(ALIVE, HERE, NO_PROCESS, 90_000)).collect();
    let locked: Vec<_> = (0..20).map(|_| base.run(NO_PROCESS, ELSEWHERE, NO_PROCESS, 90_000)).collect();
    locked.iter().for_each(|folder| put(folder, MARK, "locked"));
    let stamped_in_a_run: Vec<_> = (0..20).map(|_| base.run(NO_PROCESS, ELSEWHERE, NO_PROCESS, 90_000)).collect();
    stamped_in_a_run.iter().for_each(|folder| put(&folder.join(format!("rank0-{NO_PROCESS}")), TRACE, stamped(1)));
    let all = [by_number, by_stamp, without_a_recording, of_a_run, of_run_itself, locked, stamped_in_a_run];
    all.iter().flatten().for_each(|folder| assert_eq!(base.state(folder), State::Lives, "{}", folder.display()));
    base.tidy();
    assert!(there(&all.concat()).iter().all(|&there| there));
}

#[test]
fn where_numbers_of_processes_mean_nothing_the_stamp_decides() {
    let base = Base::new();
    let (fresh, silent) = (base.process(NO_PROCESS, 0, 1), base.process(NO_PROCESS, 0, 1));
    put(&fresh, TRACE, stamped(1));
    put(&silent, TRACE, stamped(3_600));
    // A system that does not report the namespace, as one without /proc.
    let sight = Sight { namespace: 0, ..base.sight() };
    let state = |path: &Path| all_in(&base.0, &sight).into_iter().find(|left| left.path == path).unwrap().state;
    assert_eq!((state(&fresh), state(&silent)), (State::Lives, State::Silent));
}

#[test]
fn what_is_no_folder_of_this_user_is_left_alone() {
    let base = Base::new();
    let target = base.0.join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join(TRACE), "mine").unwrap();
    let name = |suffix: u16| Private { is_run: false, user: user(), process: NO_PROCESS, namespace: HERE }.name(suffix);
    symlink(&target, base.0.join(name(901))).unwrap();
    fs::write(base.0.join(name(902)), "").unwrap();
    // Its name has another user than its owner.
    fs::create_dir(
        base.0.join(Private { is_run: false, user: user() + 1, process: NO_PROCESS, namespace: HERE }.name(903)),
    )
    .unwrap();
    assert_eq!(all_in(&base.0, &base.sight()), []);
    // A link in a folder is removed, but not its target.
    let left = base.process(NO_PROCESS, HERE, 1);
    symlink(target.join(TRACE), left.join(TRACE)).unwrap();
    fs::write(left.join(".hang.json.new"), "cut o").unwrap();
    let all = all_in(&base.0, &base.sight());
    assert_eq!(all.len(), 1);
    all[0].remove(&mut 4096).unwrap();
    assert_eq!((left.exists(), fs::read(target.join(TRACE)).unwrap().as_slice()), (false, &b"mine"[..]));
}

#[test]
fn what_somebody_has_put_there_stays_with_the_folder() {
    let base = Base::new();
    let left = base.process(NO_PROCESS, HERE, 90_000);
    put(&left, TRACE, "");
    put(&left, "notes", "mine");
    base.tidy();
    let all = all_in(&base.0, &base.sight());
    assert_eq!(all[0].foreign.as_deref(), Some("notes"));
    assert!(all[0].remove(&mut 4096).unwrap_err().to_string().contains("notes") && left.join("notes").exists());
}

#[test]
fn what_somebody_has_put_into_the_folder_of_a_run_stays_with_it() {
    for (inner, name) in [("", "notes"), ("rank0-PROCESS", "notes"), ("data", "x"), ("run-7/rank0-8", "notes")] {
        let base = Base::new();
        let run = base.run(NO_PROCESS, HERE, NO_PROCESS, 90_000);
        let inner = inner.replace("PROCESS", &NO_PROCESS.to_string());
        fs::create_dir_all(run.join(&inner)).unwrap();
        for own in [KEPT, &format!("{OF_A_JOB}-7"), &format!("{LATE}-7+host-9"), ".hang.json.new", TRACE] {
            put(&run.join(&inner), own, "");
        }
        let all = || all_in(&base.0, &base.sight());
        assert_eq!(all()[0].foreign, None, "{inner}");
        put(&run.join(&inner), name, "mine");
        base.tidy();
        let all = all();
        let foreign = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
        assert_eq!(all[0].foreign.as_deref(), Some(foreign.as_str()));
        assert!(all[0].remove(&mut 4096).is_err() && run.join(&inner).join(name).exists(), "{inner}");
    }
}

#[test]
fn the_profile_of_a_run_that_was_made_again_is_no_foreign_file() {
    let base = Base::new();
    let run = base.run(NO_PROCESS, HERE, NO_PROCESS, 0);
    let images = run.join("profile/images");
    fs::create_dir_all(&images).unwrap();
    let id = ImageId::of(b"code").to_string();
    for (folder, name) in [(run.join("profile"), "host-7-9.profile"), (run.join("profile"), ".host-7-9.profile.new")] {
        put(&folder, name, "");
    }
    put(&images, &id, "code");
    let all = all_in(&base.0, &base.sight());
    assert_eq!(all[0].foreign, None);
}

#[test]
fn what_a_folder_takes_is_counted_with_all_that_is_in_it() {
    let base = Base::new();
    let run = base.run(NO_PROCESS, HERE, NO_PROCESS, 1);
    let inner = run.join(format!("rank0-{NO_PROCESS}"));
    put(&inner, TRACE, vec![1; 1 << 20]);
    put(&inner, HANG, "{}");
    let all = all_in(&base.0, &base.sight());
    assert!((1 << 20..2 << 20).contains(&all[0].bytes) && all[0].is_evidence, "{all:?}");
    assert!(all[0].remove(&mut 4096).unwrap() >= 1 << 20 && !run.exists());
}

#[test]
fn whatever_is_in_the_way_of_a_recording_is_not_opened() {
    let base = Base::new();
    let left = base.process(NO_PROCESS, ELSEWHERE, 1);
    symlink("/dev/zero", left.join(TRACE)).unwrap();
    assert_eq!(base.state(&left), State::Silent);
}

#[test]
fn the_namespace_is_that_of_this_process() {
    assert_eq!(namespace() != 0, fs::read_link("/proc/self/ns/pid").is_ok());
    assert_eq!(namespace(), namespace());
}

/// Folders in each other, as deep as this; made without a path that is too long.
fn nest(within: &Path, depth: usize) {
    let mut folder = File::open(within).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&folder, "d", 0o700.into()).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        folder = rustix::fs::openat(&folder, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
}

#[test]
fn folders_that_lie_too_deep_in_each_other_stay_and_take_no_stack() {
    let base = Base::new();
    let run = base.run(NO_PROCESS, HERE, NO_PROCESS, 100);
    // The removal of such a depth on a stack of this size ends the process, unless it stops.
    nest(&run, 3_000);
    put(&run.join(format!("rank0-{NO_PROCESS}")), TRACE, "");
    let run = aged(run, 90_000);
    let (place, sight) = (base.0.clone(), base.sight());
    let (user, namespace) = (sight.user, sight.namespace);
    let sweep = move || {
        let exists = |process| process == ALIVE;
        let sight = Sight {
            user,
            namespace,
            entries: 4096,
            now: now(),
            exists: &exists,
            open: &open,
            is_locked: &|_| Some(false),
        };
        tidy(&place, &sight);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(sweep).unwrap().join().unwrap();
    assert!(
        run.join("d/d/d/d/d").exists() && !run.join(format!("rank0-{NO_PROCESS}")).exists() && !run.join(MARK).exists()
    );
    let error = all_in(&base.0, &base.sight())[0].remove(&mut 4096).unwrap_err();
    assert!(error.to_string().contains("deeper"), "{error}");
}

#[test]
fn as_deep_as_folders_of_lazyguard_lie_in_each_other_they_go() {
    let base = Base::new();
    let outer = base.run(NO_PROCESS, HERE, NO_PROCESS, 100);
    // The place for other users, a run in it that the program has started, one of its processes.
    let place = outer.join("0123456789abcdef0123456789abcdef");
    let process = place.join(format!("run-{NO_PROCESS}/rank0-{NO_PROCESS}"));
    fs::create_dir_all(&process).unwrap();
    [&place, &place.join(format!("run-{NO_PROCESS}"))].iter().for_each(|run| put(run, MARK, "{}"));
    put(&process, HANG, "{}");
    symlink(&base.0, process.join(TRACE)).unwrap();
    let all = all_in(&base.0, &base.sight());
    assert!(all[0].is_evidence && all[0].state == State::Gone);
    all[0].remove(&mut 4096).unwrap();
    assert!(!outer.exists() && base.0.exists());
}

#[test]
fn no_more_entries_are_looked_at_or_removed_than_a_sweep_may() {
    let base = Base::new();
    let run = base.run(NO_PROCESS, HERE, NO_PROCESS, 100);
    (0..100).for_each(|n| fs::write(run.join(format!("{OF_A_JOB}-{n}")), "").unwrap());
    let run = aged(run, 90_000);
    // An entry beyond may be of a process that lives, or the report of a hang.
    let few = all_in(&base.0, &Sight { entries: 50, ..base.sight() }).remove(0);
    assert_eq!((few.state, few.is_evidence), (State::Lives, true));
    let all = all_in(&base.0, &base.sight()).remove(0);
    assert_eq!((all.state, all.is_evidence), (State::Gone, false));
    let (mut entries, count) = (60, || fs::read_dir(&run).unwrap().count());
    let error = all.remove(&mut entries).unwrap_err();
    assert!(error.to_string().contains("more entries"), "{error}");
    assert_eq!((entries, count()), (0, 42));
    all.remove(&mut 60).unwrap();
    assert!(!run.exists());
    assert!(remove_folder(Path::new("/nonexistent/x"), &mut 1).is_err());
    // A link in the place of the folder.
    symlink(&base.0, base.0.join("link")).unwrap();
    assert!(remove_folder(&base.0.join("link"), &mut 60).is_err() && base.0.join("link").exists());
}

#[test]
fn the_first_namespace_of_another_host_or_boot_is_another_one() {
    let first = Some("pid:[4026531836]");
    let here = namespace_by(Some("3b6ee7ba-6d8b-4a6b-9d8f-0d4b2f1a7c11\n"), first);
    let there = namespace_by(Some("c1c5dbbd-1f19-4e42-8cc3-9d0a5e2c7b02\n"), first);
    let container = namespace_by(Some("3b6ee7ba-6d8b-4a6b-9d8f-0d4b2f1a7c11\n"), Some("pid:[4026532836]"));
    assert!(here != there && here != container && ![here, there, container].contains(&0));
    // Other versions have to come to the same number.
    assert_eq!(here, namespace_by(Some("3b6ee7ba-6d8b-4a6b-9d8f-0d4b2f1a7c11"), first));
    for (boot, link) in [(None, first), (Some("\n"), first), (Some("node7"), None), (None, None)] {
        assert_eq!(namespace_by(boot, link), 0, "{boot:?} {link:?}");
    }
    assert!((0..200_000).all(|n| namespace_by(Some(&format!("{n}")), first) != 0));
}

#[test]
fn a_lock_on_a_run_counts_whatever_its_number_says() {
    let base = Base::new();
    let (locked, free) =
        (base.run(NO_PROCESS, HERE, NO_PROCESS, 90_000), base.run(NO_PROCESS, HERE, NO_PROCESS, 90_000));
    put(&locked, MARK, "locked");
    assert_eq!((base.state(&locked), base.state(&free)), (State::Lives, State::Gone));
    // The library asks for no lock: it leaves runs alone.
    let elsewhere = base.run(NO_PROCESS, ELSEWHERE, NO_PROCESS, 90_000);
    let state = |sight: &Sight<'_>, path: &Path| {
        all_in(&base.0, sight).into_iter().find(|left| left.path == path).unwrap().state
    };
    let library = Sight { is_locked: &|_| Some(true), ..base.sight() };
    assert_eq!((state(&library, &free), state(&library, &elsewhere)), (State::Lives, State::Lives));
    // A file system that has no locks.
    let without = Sight { is_locked: &|_| None, ..base.sight() };
    let recent = base.run(NO_PROCESS, ELSEWHERE, NO_PROCESS, 1_000);
    assert_eq!((state(&without, &free), state(&without, &elsewhere)), (State::Gone, State::Silent));
    assert_eq!(state(&without, &recent), State::Lives);
}

#[test]
fn what_an_earlier_boot_has_left_goes_in_the_end() {
    let base = Base::new();
    let of_processes = [base.process(NO_PROCESS, ELSEWHERE, 90_000), base.process(NO_PROCESS, ELSEWHERE, 90_000)];
    put(&of_processes[0], TRACE, stamped(90_000));
    let run = base.run(NO_PROCESS, ELSEWHERE, NO_PROCESS, 90_000);
    let recent = base.process(NO_PROCESS, ELSEWHERE, 1_000);
    base.tidy();
    assert_eq!(there(&of_processes), [false, false]);
    assert_eq!((run.exists(), recent.exists()), (false, true));
}

#[test]
fn the_process_of_a_folder_in_a_runs_is_told_by_its_name() {
    for (name, expect) in [
        ("rank0-42", Some(42)),
        ("rank-1-42.3", Some(42)),
        ("run-42", Some(42)),
        ("run-42-2", Some(42)),
        ("rank0", None),
        ("rank0-", None),
        ("logs-x", None),
    ] {
        assert_eq!(process_of(name), expect, "{name}");
    }
}
