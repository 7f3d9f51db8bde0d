//! Private folders of ended processes: how many the guard keeps, and `lazyguard clean`.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, run, App, Run, Work};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A process id above the kernel's limit.
const NO_PROCESS: u32 = 4_194_999;
/// Folders that stay in one place.
const MOST: usize = 128;

/// A folder in memory, gone with the test.
struct InMemory(PathBuf);

/// The number of the namespace in the name of a private folder, as every version of LazyGuard computes it: FNV-1a of this boot and of the
/// namespace.
fn namespace() -> u16 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|error| panic!("{error}"));
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_else(|error| panic!("{error}"));
    let bytes = boot.trim().bytes().chain(link.to_string_lossy().bytes().collect::<Vec<_>>());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((hash >> 16) as u16 ^ hash as u16).max(1)
}

impl InMemory {
    fn new(test: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/lazyguard-e2e-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    fn folders(&self) -> BTreeSet<PathBuf> {
        fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// What failed runs have left, the newest last: with the report of a hang, and a recording of so many bytes.
    fn failed(&self, kind: &str, count: u64, bytes: usize) -> Vec<PathBuf> {
        let user = fs::metadata(&self.0).map_or(0, |about| about.uid());
        let namespace = namespace();
        (0..count)
            .map(|number| {
                let path = self.0.join(format!("lazyguard-{kind}{user}-{NO_PROCESS}-{namespace:04x}{number:04x}"));
                let process = if kind.is_empty() { path.clone() } else { path.join(format!("rank0-{NO_PROCESS}")) };
                fs::create_dir_all(&process).unwrap_or_else(|error| panic!("{error}"));
                fs::write(process.join("hang.json"), "{}").unwrap_or_else(|error| panic!("{error}"));
                fs::write(process.join("trace.lgt"), vec![1; bytes]).unwrap_or_else(|error| panic!("{error}"));
                if !kind.is_empty() {
                    fs::write(path.join("supervised.json"), "{}").unwrap_or_else(|error| panic!("{error}"));
                    fs::write(path.join("kept"), "").unwrap_or_else(|error| panic!("{error}"));
                }
                let age = Duration::from_secs(80_000 - 100 * number);
                let folder = fs::File::open(&path).unwrap_or_else(|error| panic!("{error}"));
                folder.set_modified(SystemTime::now() - age).unwrap_or_else(|error| panic!("{error}"));
                path
            })
            .collect()
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        // What cannot be removed lies in memory, and is gone with the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Those that are there, by their places in the list.
fn there(folders: &[PathBuf]) -> Vec<usize> {
    folders.iter().enumerate().filter(|(_, folder)| folder.exists()).map(|(place, _)| place).collect()
}

#[test]
fn failed_processes_do_not_fill_the_memory() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let memory = InMemory::new("failed");
    let failed = memory.failed("", MOST as u64 + 5, 4096);
    // A process that hangs is alive: its folder does not count among those of ended processes.
    let mut living =
        run(&work, &App::named("plain_spin")).guarded().set("TMPDIR", &memory.0).hang_after("200ms").start();
    living
        .until("the verdict", lazyguard_e2e::PATIENCE, |running| running.stderr().contains("details: ").then_some(()));
    assert_eq!(there(&failed), (5..MOST + 5).collect::<Vec<_>>(), "the newest stay");
    let own: Vec<_> = memory.folders().into_iter().filter(|folder| !failed.contains(folder)).collect();
    assert_eq!(own.len(), 1, "{own:?}");
    // Many more fail, and it is by far the oldest.
    let old = fs::File::open(&own[0]).unwrap_or_else(|error| panic!("{error}"));
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap_or_else(|error| panic!("{error}"));
    memory.failed("", MOST as u64 + 40, 4096);
    let passed = run(&work, &App::named("route_direct_link")).guarded().set("TMPDIR", &memory.0).finish();
    assert_eq!(passed.code, Some(0), "{passed}");
    assert!(own[0].join("hang.json").exists(), "the folder of a living process is gone");
    assert_eq!(memory.folders().len(), MOST + 1, "those of the dead, and the living one");
    living.stop();
}

#[test]
fn failed_runs_do_not_fill_the_memory_whatever_each_of_them_takes() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let memory = InMemory::new("failed-runs");
    let failed = memory.failed("run-", 5, 100 << 20);
    let program = app("lazy_pair_single_kernel");
    let passed = under(&work, &[], &[&program]).set("TMPDIR", &memory.0).finish();
    assert_eq!((passed.code, passed.stderr.as_str()), (Some(0), ""), "{passed}");
    let whole: Vec<_> = failed.iter().map(|run| run.join(format!("rank0-{NO_PROCESS}/trace.lgt"))).collect();
    assert_eq!((there(&whole), there(&failed).len()), (vec![3, 4], 5), "256 MiB in all");
}

#[test]
fn clean_gives_back_what_a_killed_process_has_left_and_spares_the_living() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let memory = InMemory::new("clean");
    let start = || {
        let run = run(&work, &App::named("plain_spin")).guarded().set("TMPDIR", &memory.0).hang_after("200ms");
        let mut running = run.start();
        running.until("the verdict", lazyguard_e2e::PATIENCE, |running| {
            running.stderr().contains("details: ").then_some(())
        });
        running
    };
    let killed = start().stop();
    let dead = memory.folders();
    let living = start();
    let of_the_living: Vec<_> = memory.folders().difference(&dead).cloned().collect();
    assert_eq!((dead.len(), of_the_living.len()), (1, 1));
    // Only in that place: nothing else on this machine is as old as this makes it.
    let old = |folder: &Path| {
        let file = fs::File::open(folder).unwrap_or_else(|error| panic!("{error}"));
        file.set_modified(SystemTime::now() - Duration::from_secs(3600 * 1_000_000))
            .unwrap_or_else(|error| panic!("{error}"));
    };
    dead.iter().chain(&of_the_living).for_each(|folder| old(folder));
    let clean = |more: &[&str]| {
        let run = Run::new(&work, command()).args(["clean", "--older-than", "900000h"]).args(more);
        let outcome = run.set("TMPDIR", &memory.0).finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        outcome.stdout
    };
    let would = clean(&["--dry-run"]);
    assert!(would.contains("1 folder would be removed, 16.") && memory.folders().len() == 2, "{would}");
    let said = clean(&[]);
    assert!(said.contains(&format!("(process {}, of a failure, 16.", killed.process)), "{said}");
    assert!(said.contains("1 folder removed, 16.") && said.contains(" MiB freed\n"), "{said}");
    assert_eq!(memory.folders().into_iter().collect::<Vec<_>>(), of_the_living);
    let report = Run::new(&work, command()).args(["report", &living.process().to_string()]).finish();
    assert!(report.code == Some(0) && report.stdout.contains("plain_spin"), "{report}");
    living.stop();
}
