//! The folder of `lazyguard run`: its contents, its name, and when the command removes it.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, only_run_in, text, Folder, Run, Work};
use std::fs;
use std::path::Path;

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The folders of processes, or of runs, in the folder of a run.
fn folders_in(folder: &Path) -> Vec<String> {
    names_in(folder).into_iter().filter(|name| folder.join(name).is_dir()).collect()
}

/// A program that uses CUDA, and completes whatever the guard does.
fn cuda() -> String {
    format!("'{}'", app("lazy_pair_single_kernel").display())
}

#[test]
fn a_run_that_passes_leaves_nothing_and_says_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for options in [&[][..], &["--hang-after", "5s", "--on-hang", "kill", "--timeout", "30s", "--fail-on", "hang"]] {
        let outcome = under(&work, options, &["sh", "-c", &cuda()]).finish();
        let said = (outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!((outcome.code, said), (Some(0), ("", "")), "{outcome}");
        assert_eq!(outcome.left_behind(), [""; 0]);
    }
}

#[test]
fn a_tree_of_many_short_processes_leaves_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("made/for/it");
    let many =
        "n=0; while [ $n -lt 150 ]; do (true) & sh -c 'sh -c \"exit 3\" & exit 2'; n=$((n + 1)); done; wait; echo all";
    let outcome = under(&work, &[], &["sh", "-c", many]).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "all\n", ""), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0]);
    let named = under(&work, &["--out", &out.to_string_lossy(), "--keep"], &["sh", "-c", many]).finish();
    assert_eq!((named.code, named.stderr.as_str()), (Some(0), ""), "{named}");
    assert!(!work.path().join("made").exists(), "an empty folder is left");
}

/// One after the other, and two at a time.
#[test]
fn processes_of_containers_that_all_have_one_number_have_a_folder_each() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let cuda = app("lazy_pair_single_kernel").to_string_lossy().into_owned();
    let script = "set -e; one() { unshare --pid --fork --mount-proc \"$0\"; }; one; one; one & one; wait $!";
    let options = ["--out", &*out.to_string_lossy()];
    let outcome = under(&work, &options, &["sh", "-c", script, &cuda]).finish();
    if outcome.stderr.contains("unshare:") {
        lazyguard_e2e::skipped(&format!("needs a namespace of processes: {outcome}"));
        return;
    }
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let run = only_run_in(&out);
    assert_eq!(folders_in(&run), ["rank0-1", "rank0-1.2", "rank0-1.3", "rank0-1.4"], "{outcome}");
    for folder in folders_in(&run) {
        assert!(Folder::at(&run.join(&folder)).holds("trace.lgt"), "{folder}");
    }
}

#[test]
fn every_process_has_its_folder_also_after_an_exec() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let program = "import ctypes, os, sys\n\
        assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0\n\
        os.fork() == 0 or (os.wait(), os.execv(sys.argv[1], sys.argv[1:]))\n\
        if os.fork() == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        os.wait(); os._exit(0)\n";
    let cuda = app("lazy_pair_single_kernel").to_string_lossy().into_owned();
    let run = under(&work, &["--out", &out.to_string_lossy()], &["python3", "-c", program, &cuda]);
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let run = only_run_in(&out);
    let folders = folders_in(&run);
    assert_eq!(folders.len(), 3, "{folders:?}: {outcome}");
    assert!(folders.iter().any(|name| name.ends_with(".2")), "what it was after the exec: {folders:?}");
    for folder in folders {
        assert!(Folder::at(&run.join(&folder)).holds("trace.lgt"), "{folder}");
    }
}

#[test]
fn the_private_folder_is_kept_if_the_program_fails() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = under(&work, &[], &["sh", "-c", &format!("{}; exit 3", cuda())]).finish();
    assert_eq!((outcome.code, outcome.left_behind().len()), (Some(3), 1), "{outcome}");
    let root = outcome.left_behind()[0].clone();
    assert!(outcome.stderr.contains(&format!("/{root}\n")) && outcome.stderr.lines().count() == 1, "{outcome}");
    // Without a process that used CUDA, there is nothing to keep.
    let nothing = under(&work, &[], &["sh", "-c", "exit 3"]).finish();
    assert_eq!((nothing.stderr.as_str(), nothing.left_behind()), ("", vec![]), "{nothing}");
    let kept = under(&work, &["--keep"], &["sh", "-c", &cuda()]).finish();
    assert_eq!((kept.code, kept.left_behind().len()), (Some(0), 1), "{kept}");
    assert!(kept.stderr.contains(&kept.left_behind()[0]), "where it is, is not said: {kept}");
}

#[test]
fn an_option_overrides_its_variable() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (out, other) = (work.path().join("out"), work.path().join("other"));
    let options = ["--out", &out.to_string_lossy(), "--preload", "off", "--log", "off"];
    let run = under(&work, &options, &["sh", "-c", "echo $LAZYGUARD_PRELOAD $LAZYGUARD_LOG $LAZYGUARD_RECORD"]);
    let outcome =
        run.set("LAZYGUARD_OUT", &other).set("LAZYGUARD_PRELOAD", "eager").set("LAZYGUARD_RECORD", "1MiB").finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "off off 1MiB\n"), "{outcome}");
    assert!(!out.exists() && !other.exists());
}

#[test]
fn the_folders_name_has_its_fields_filled_in_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let template = format!("{}/100%%-%p/%r", work.path().display());
    let outcome = under(&work, &["--out", &template], &["sh", "-c", &cuda()]).set("RANK", "5").finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let folders = folders_in(&only_run_in(&work.path().join(format!("100%-{}/5", outcome.process))));
    assert!(folders.len() == 1 && folders[0].starts_with("rank5-"), "{folders:?}");
}

/// A launcher runs `lazyguard run`, once a rank.
#[test]
fn ranks_share_the_folder_that_they_are_all_given() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    for (variable, rank) in [("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "1"), ("PMI_RANK", "2"), ("RANK", "3")] {
        let run = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda()]).set(variable, rank);
        let outcome = run.finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        let own = only_run_in(&out).join(format!("rank{rank}"));
        let folders = folders_in(&own);
        assert!(folders.len() == 1 && folders[0].starts_with(&format!("rank{rank}-")), "{folders:?}");
        assert!(Folder::at(&own.join(&folders[0])).holds("run.json"));
    }
    // A process that lasts for long enough makes the marker of the job.
    let ranks_in = |job: &Path| names_in(job).into_iter().filter(|name| name != ".lazyguard-hang").collect::<Vec<_>>();
    assert_eq!(ranks_in(&only_run_in(&out)), ["rank0", "rank1", "rank2", "rank3"]);
    // The next job of the same launcher has a folder of its own.
    let again = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda()]).set("RANK", "2").finish();
    let jobs = folders_in(&out);
    assert!(again.code == Some(0) && jobs.len() == 2 && jobs[1] == format!("{}.2", jobs[0]), "{jobs:?}: {again}");
    assert_eq!(ranks_in(&out.join(&jobs[1])), ["rank2"]);
    // The launcher has named the next one.
    let run = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda()]);
    let named = run.set("SLURM_PROCID", "0").set("SLURM_JOB_ID", "17").finish();
    assert!(named.code == Some(0) && out.join("job-slurm-17/rank0").is_dir(), "{:?}: {named}", folders_in(&out));
}

/// `lazyguard run` runs a launcher, which sets its processes' ranks.
#[test]
fn the_processes_of_a_launcher_have_their_ranks_in_their_folders_names() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let launcher = format!("for rank in 0 1 2; do RANK=$rank {} & done; wait", cuda());
    let outcome = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &launcher]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folders = folders_in(&only_run_in(&out));
    let ranks: Vec<_> = folders.iter().map(|name| name.split('-').next().unwrap_or_default()).collect();
    assert_eq!(ranks, ["rank0", "rank1", "rank2"], "{folders:?}");
}

#[test]
fn a_second_run_does_not_mix_with_the_first() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let run = || under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda()]).finish();
    let first = run();
    let old = only_run_in(&out);
    let second = run();
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{second}");
    let new: Vec<_> = folders_in(&out).into_iter().map(|name| out.join(name)).filter(|run| *run != old).collect();
    assert_eq!((new.len(), folders_in(&old).len(), folders_in(&new[0]).len()), (1, 1, 1), "{new:?}");
    let said = |arguments: &[&str]| {
        let outcome = Run::new(&work, command()).args(arguments).args([&out]).finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        outcome
    };
    let report = said(&["report"]);
    let line =
        format!("the newest of 2 runs: {}; lazyguard report --list {} lists them", new[0].display(), out.display());
    assert_eq!(report.stderr.trim_end(), format!("lazyguard: {line}"), "{report}");
    assert!(report.stdout.contains(": 1 process, no hang"), "{report}");
    let list = said(&["report", "--list"]);
    let runs: Vec<_> = list.stdout.lines().collect();
    assert_eq!((runs.len(), list.stderr.as_str()), (2, ""), "{list}");
    for (line, run) in runs.iter().zip([&new[0], &old]) {
        assert!(line.contains(&format!("  {}  sh -c ", run.display())), "{line}");
    }
    // A folder with one process of a run serves wherever one process is read.
    let records = said(&["log", "--event", "launch"]);
    assert!(records.stdout.contains("cuLaunchKernel"), "{records}");
    let exported = said(&["export", "--to", "perfetto"]);
    assert!(exported.stdout.contains(&format!("{}/rank0-", new[0].display())), "{exported}");
}

/// What a file had before stays, and so does a link: as root, the command would take `/dev/stdout` from the machine.
#[test]
fn an_export_to_a_descriptor_is_written_behind_what_is_there() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    assert_eq!(under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda()]).finish().code, Some(0));
    let link = work.path().join("link").display().to_string();
    std::os::unix::fs::symlink("/proc/self/fd/1", &link).unwrap();
    let export = format!("{} export --to perfetto -o", command().display());
    let bash = |script: &str| Run::new(&work, "bash").args(["-c", script]).finish();
    let alone = bash(&format!("{export} - {} | sha256sum", out.display()));
    for (path, how) in
        [("/dev/stdout", ""), (link.as_str(), ""), ("/dev/fd/3", "3>&1 >&2"), ("/dev/stderr", "2>&1 >/dev/null")]
    {
        let (file, out) = (work.path().join("file"), out.display());
        let script = format!(
            "{{ printf said; {export} {path} {out} {how}; }} >{0}; tail -c +5 {0} | sha256sum; head -c 4 {0}",
            file.display()
        );
        let outcome = bash(&script);
        assert_eq!(outcome.stdout, format!("{}said", alone.stdout), "{script}: {outcome}");
    }
    let part = Run::new(&work, command()).args(["export", "--to", "cuda", "--since", "1s"]).args([&out]).finish();
    assert_eq!(
        (part.code, part.stderr.as_str()),
        (Some(1), "lazyguard: --since and --until are about --to perfetto\n")
    );
    let full = bash(&format!(
        "trap '' XFSZ; ulimit -f 0; {export} {link} {} >{}",
        out.display(),
        work.path().join("file").display()
    ));
    assert!(full.code == Some(1) && Path::new(&link).is_symlink(), "{full}");
}

#[test]
fn where_one_process_is_read_a_run_of_several_names_them() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let two = format!("{0}; {0}", cuda());
    let outcome = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &two]).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let run = only_run_in(&out);
    let names = folders_in(&run).iter().map(|name| run.join(name).display().to_string()).collect::<Vec<_>>().join(", ");
    let log = Run::new(&work, command()).args(["log"]).args([&out]).finish();
    let expect = format!("lazyguard: {}: holds 2 processes; name the folder of one of them: {names}\n", run.display());
    assert_eq!((log.code, log.stdout.as_str(), log.stderr), (Some(1), "", expect));
}

#[test]
fn a_run_in_a_run_has_its_folder_in_the_others_and_one_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let lazyguard = command().to_string_lossy().into_owned();
    let tells = format!("{}; echo \"$LD_PRELOAD\"", cuda());
    let inner = [lazyguard.as_str(), "run", "--keep", "--", "sh", "-c", &tells];
    let outcome = under(&work, &["--out", &out.to_string_lossy()], &inner).finish();
    let expected = format!("{}\n", lazyguard_e2e::library().display());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), expected.as_str()), "{outcome}");
    let outer = only_run_in(&out);
    let folders = folders_in(&outer);
    assert!(folders.len() == 1 && folders[0].starts_with("run-"), "{folders:?}");
    assert_eq!(folders_in(&outer.join(&folders[0])).len(), 1, "{outcome}");
    // Nothing is left of either if nothing is worth it; the inner one's exit code comes out.
    let inner = [lazyguard.as_str(), "run", "--", "sh", "-c", "exit 9"];
    let outcome = under(&work, &[], &inner).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str(), outcome.left_behind()), (Some(9), "", vec![]), "{outcome}");
    // What the inner one has kept the outer one leaves there, and needs no second word.
    let failing = format!("'{lazyguard}' run sh -c '{}; exit 3' || true", cuda().replace('\'', ""));
    let outcome = under(&work, &[], &["sh", "-c", &failing]).finish();
    let said = outcome.stderr.trim_end().rsplit(' ').next().unwrap_or_default();
    assert!(outcome.code == Some(0) && outcome.stderr.lines().count() == 1, "{outcome}");
    assert_eq!(folders_in(Path::new(said)).len(), 1, "{outcome}");
    // The outer one ends a hang in the inner one's.
    let hangs = app("lazy_pair").to_string_lossy().into_owned();
    let inner = [lazyguard.as_str(), "run", "--preload", "off", "--hang-after", "300ms", "--", &hangs];
    let outcome = under(&work, &["--on-hang", "kill"], &inner).start().finish_within(lazyguard_e2e::PATIENCE);
    assert_eq!(outcome.code, Some(117), "{outcome}");
}

/// What the program writes is not looked at, but what is written about it can be read.
#[test]
fn the_mark_says_what_was_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let run = under(&work, &["--out", &out.to_string_lossy()], &["sh", "-c", &cuda(), "a word"]).set("PMIX_RANK", "7");
    let outcome = run.finish();
    let mark = fs::read_to_string(only_run_in(&out).join("rank7/supervised.json"))
        .unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let mark: lazyguard_e2e::Json = serde_json::from_str(&mark).unwrap_or_else(|error| panic!("{error}: {mark}"));
    assert_eq!((text(&mark, "/rank"), text(&mark, "/command/3")), ("7", "a word"), "{mark:#}");
}

/// A shell finds the options, and a person the manual.
#[test]
fn completions_and_the_manual_are_there() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let said = |arguments: &[&str]| {
        let outcome = Run::new(&work, command()).args(arguments).finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        outcome.stdout
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(said(&["completions", shell]).contains("hang-after"), "{shell}");
    }
    let script = work.path().join("completions");
    fs::write(&script, said(&["completions", "bash"])).unwrap();
    for (words, expect) in [
        (&["--on-h"][..], "--on-hang"),
        (&["--on-hang", ""], "report abort fail revoke kill"),
        (&["--preload", "a"], "auto"),
        (&["--annotations", "g"], "github gitlab"),
    ] {
        let before = if words.len() == 1 { "run" } else { words[0] };
        let last = words.last().copied().unwrap_or_default();
        let asks = format!(
            ". '{}'; COMP_WORDS=(lazyguard run {} '{last}'); COMP_CWORD={}; _lazyguard lazyguard '{last}' '{before}'; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words[..words.len() - 1].join(" "),
            words.len() + 1
        );
        let completed = Run::new(&work, "bash").args(["-c", &asks]).finish();
        assert_eq!(completed.stdout.trim_end(), expect, "{words:?}: {completed}");
    }
    assert!(said(&["man"]).contains(".TH lazyguard"));
    let page = said(&["man", "run"]);
    assert!(page.contains("\\-\\-on\\-hang") && page.contains("Examples:"), "{page}");
    said(&["man", "--out", &work.path().join("man").to_string_lossy()]);
    assert!(work.path().join("man/lazyguard-run.1").is_file());
    let help = said(&["run", "--help"]);
    assert!(
        help.contains("LAZYGUARD_HANG_AFTER") && help.contains("Exit codes:") && help.lines().count() <= 64,
        "{help}"
    );
}
