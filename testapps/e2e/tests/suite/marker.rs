//! A hang of one process has the others of its job leave what they do, also those that share nothing with it but a folder.

use crate::nccl::{bare, job, killed, program};
use lazyguard_e2e::{app, command, library, Run, Work};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// Whether a process whose folder's name begins like this has left what it does, anywhere under the folder.
pub(crate) fn answered(folder: &Path, name: &str) -> bool {
    left(folder, name, "dump.json").is_some()
}

/// A file of that process, without its spaces.
pub(crate) fn left(folder: &Path, name: &str, file: &str) -> Option<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        let is_it = path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name));
        let own = fs::read_to_string(path.join(file)).ok().filter(|_| is_it);
        own.map(|text| text.replace(' ', "")).or_else(|| path.is_dir().then(|| left(&path, name, file)).flatten())
    })
}

/// Three ranks of each job, and the last one sleeps instead of its collective. Only the first job looks for hangs.
#[test]
fn the_ranks_of_the_job_answer_within_three_seconds_and_those_of_another_job_in_the_folder_do_not() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let start = |program: &str, job_name: &str, hang_after: &str| {
        let ranks = job(&work, program, 3, "steps skip");
        let run = bare(&work, &ranks).set("LD_PRELOAD", library()).set("MASTER_ADDR", job_name).set("MASTER_PORT", "1");
        run.set("LAZYGUARD_OUT", out.join(format!("{job_name}%r-%p"))).hang_after(hang_after).start()
    };
    let mut other = start("nccl_job_plugin", "other", "0");
    other.until("that the other job stands still", lazyguard_e2e::PATIENCE, |other| {
        other.stdout().contains("rank 2: skip").then_some(())
    });
    let mut hangs = start("nccl_job", "hangs", "400ms");
    hangs.until("the hang", lazyguard_e2e::PATIENCE, |hangs| hangs.stderr().contains("HANG").then_some(()));
    hangs.until("the answer of the rank that sleeps", Duration::from_secs(3), |_| {
        answered(&out, "hangs2-").then_some(())
    });
    // They have looked once more.
    std::thread::sleep(Duration::from_secs(2));
    assert!(!answered(&out, "other"));
    let marker =
        |job: &str| fs::read_to_string(out.join(format!(".lazyguard-hang-master-{job}-1"))).unwrap_or_default();
    assert!(marker("hangs").ends_with('\n') && marker("other").is_empty(), "{} {}", marker("hangs"), marker("other"));
    hangs.stop();
    other.stop();
}

/// As `srun` does it: `lazyguard run` once a rank.
#[test]
fn ranks_with_a_run_each_answer_and_their_report_says_what_the_one_did_that_is_behind() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (out, shared) = (work.path().join("out"), work.path().join("shared"));
    let script = format!(
        "export WORLD_SIZE=4 SLURM_JOB_ID=17 SLURM_STEP_ID=0; for rank in 0 1 2 3; do RANK=$rank SLURM_PROCID=$rank '{}' run \
         --hang-after 400ms --out '{}' -- '{}' '{}' steps skip & done; wait",
        command().display(),
        out.display(),
        program("nccl_job"),
        shared.display()
    );
    let run = Run::new(&work, "sh").args(["-c", &script]);
    // One of them writes its report for all.
    let hangs = |rank: u32| {
        left(&out, &format!("rank{rank}-"), "hang.json").is_some_and(|report| report.contains("\"status\":\"hang\""))
    };
    let said = killed(run, &out, |said| said.contains("HANG") && (0..3).all(hangs) && answered(&out, "rank3-"));
    let sentence = said.lines().nth(2).unwrap_or_default();
    assert!(
        sentence.starts_with("rank 3 has not called collective 12 of communicator 0 (")
            && sentence.ends_with("and its main thread was waiting, in no driver call; ranks 0-2 wait in it."),
        "{said}"
    );
    assert!(out.join("job-slurm-17-0/.lazyguard-hang-slurm-17-0").is_file());
}

/// Also where it hangs: a program that is no rank of a job, one that has named no folder, and one whose folder is in a place of all users.
#[test]
fn a_process_that_shares_no_folder_with_a_job_makes_no_marker() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let markers_of = |place: &str, rank: &str, setting: &str, mode: u32| {
        let place = work.folder(place);
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap_or_else(|error| panic!("{error}"));
        let run = Run::new(&work, app("lazy_pair")).guarded().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
        let folder = if setting == "TMPDIR" { place.clone() } else { place.join("%p") };
        let mut running = run.set("RANK", rank).set(setting, folder).start();
        running.until("the hang", lazyguard_e2e::PATIENCE, |running| running.stderr().contains("HANG").then_some(()));
        running.stop();
        let entries = fs::read_dir(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display())).flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().any(|name| !name.starts_with(".lazyguard-hang")), "it has a folder there: {names:?}");
        names.iter().filter(|name| name.starts_with(".lazyguard-hang")).count()
    };
    assert_eq!(markers_of("ranked", "0", "LAZYGUARD_OUT", 0o755), 1);
    assert_eq!(markers_of("alone", "", "LAZYGUARD_OUT", 0o755), 0);
    assert_eq!(markers_of("everybodys", "0", "LAZYGUARD_OUT", 0o1777), 0);
    assert_eq!(markers_of("private", "0", "TMPDIR", 0o755), 0);
}
