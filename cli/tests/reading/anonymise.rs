//! `lazyguard anonymise`: the copy says the same, and names nothing. `core/tests/suite/anonymise.rs` looks at every part of the format.

use super::common::{ended_process, facts, launch, Job, SMALL};
use super::{lazyguard, said, texts, Folder};
use lazyguard_core::trace::{Kind, ProcessFacts, Record};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const S: u64 = 1_000_000_000;
/// In every name of the run.
const MARK: &str = "Xq7Ann";

/// A run with a rank that hangs behind a cold launch, and one that does not, in a folder that its user has named.
fn run(folder: &Folder) -> PathBuf {
    let run = folder.of("run");
    for (rank, hangs) in [(0, true), (1, false)] {
        let path = run.join(format!("{MARK}-{rank}"));
        fs::create_dir_all(&path).unwrap();
        let process = 4242 + rank;
        let named = ProcessFacts {
            program: MARK.to_owned(),
            host: MARK.to_owned(),
            rank: rank.to_string(),
            process,
            ..ended_process()
        };
        let job = Job::of(SMALL, &named);
        let main = job.thread(100, MARK);
        let (one, two) = (job.stream(0x51), job.stream(0x52));
        let (k1, k2) = (job.function(&format!("_Z8{MARK}k1v")), job.function(&format!("{MARK}_k2")));
        job.make(main, &facts("cuEventRecord", S / 2), 1_000, 0);
        job.make(main, &Record { caller: 0x40_1111, ..launch(one, k1, S) }, 5_000, 0);
        if hangs {
            job.make(main, &Record { kind: Kind::ColdFunction, ..launch(two, k2, S + 10_000) }, 5_000, 0);
            job.hold(main, &facts("cuCtxSynchronize", S + 20_000));
        } else {
            job.ended();
        }
        let recorder = job.tracker.recorder();
        recorder.add_setting(0, "LAZYGUARD_PRELOAD=off");
        recorder.add_setting(0, &format!("LAZYGUARD_OUT=/home/{MARK}"));
        recorder.add_file(0, 0x40_0000, 0x48_0000, 0x40_0000, &format!("/home/{MARK}/train"));
        job.save(&path, 60 * S);
        for name in ["hazards.json", "log.jsonl", "stacks.txt"] {
            fs::write(
                path.join(name),
                format!("{{\"schema\": 1, \"process\": 1, \"program\": \"{MARK}\", \"rank\": \"\", \"hazards\": [], \"overflow\": 0}}"),
            )
            .unwrap();
        }
    }
    run
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// What is said of each rank: its verdicts, and its counts.
fn verdicts(run: &Path) -> Vec<Value> {
    let report: Value = serde_json::from_str(&said(&["report", "--format", "json", run.to_str().unwrap()])).unwrap();
    let mut all: Vec<_> = report["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| {
            let verdicts = process["hang"]["verdicts"].as_array().cloned().unwrap_or_default();
            let verdicts: Vec<_> = verdicts
                .iter()
                .map(|verdict| {
                    let culprits = verdict["culprits"].as_array().unwrap().iter();
                    let culprits: Vec<_> = culprits
                        .map(|culprit| (culprit["operation"]["at"].clone(), culprit["operation"]["call"].clone()))
                        .collect();
                    serde_json::json!([verdict["code"], verdict["confidence"], verdict["threads"], culprits])
                })
                .collect();
            serde_json::json!([process["rank"], process["process"], verdicts])
        })
        .collect();
    all.sort_by_key(ToString::to_string);
    all
}

#[test]
fn the_copy_of_a_run_has_the_same_verdicts_and_none_of_its_names() {
    let folder = Folder::new("anonymise");
    let (run, out) = (run(&folder), folder.of("out"));
    let lines = said(&["anonymise", run.to_str().unwrap(), out.to_str().unwrap()]);
    let copied = files(&out);
    assert_eq!(copied, [out.join("rank0-4242/trace.lgt"), out.join("rank1-4243/trace.lgt")]);
    for file in &copied {
        let bytes = fs::read(file).unwrap();
        assert!(!bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes()), "{}", file.display());
        assert!(bytes.len() < 20_000, "{} bytes", bytes.len());
        assert!(lines.contains(file.to_str().unwrap()), "{lines}");
    }
    let before = verdicts(&run);
    assert_eq!(verdicts(&out), before);
    assert!(before[0][2][0][0] == "LG201" && before[1][2].as_array().unwrap().is_empty(), "{before:#?}");
    let text = said(&["report", out.to_str().unwrap()]);
    assert!(text.contains("loading kernel 1 ") || text.contains("kernel 2"), "{text}");
    assert!(text.contains("rank 0") && text.contains("host 1") && !text.contains(MARK), "{text}");
}

#[test]
fn processes_of_one_id_stay_apart_and_a_recording_that_cannot_be_read_is_said_to_lack() {
    let folder = Folder::new("anonymise_two");
    let run = run(&folder);
    let (one, other) = (run.join("other-machine"), run.join("unreadable"));
    fs::create_dir(&one).unwrap();
    fs::copy(run.join(format!("{MARK}-0/trace.lgt")), one.join("trace.lgt")).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("trace.lgt"), "nonsense").unwrap();
    let out = folder.of("out");
    let output = lazyguard(&["anonymise", run.to_str().unwrap(), out.to_str().unwrap()]).output().unwrap();
    let (lines, errors) = texts(&output);
    assert_eq!((output.status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(errors.contains("unreadable/trace.lgt: this is not a recording"), "{errors}");
    assert_eq!(lines.lines().count(), 4, "{lines}");
    let copied: Vec<_> =
        files(&out).iter().map(|file| file.strip_prefix(&out).unwrap().display().to_string()).collect();
    assert_eq!(copied, ["rank0-4242/trace.lgt", "rank0-4242-2/trace.lgt", "rank1-4243/trace.lgt"]);
}

#[test]
fn of_a_recording_a_recording_is_written_with_the_names_of_kernels_where_they_are_wanted() {
    let folder = Folder::new("anonymise_one");
    let recording = run(&folder).join(format!("{MARK}-0/trace.lgt"));
    let (recording, to) = (recording.to_str().unwrap(), folder.of("copy.lgt"));
    let to = to.to_str().unwrap();
    assert!(said(&["log", recording]).contains("cuEventRecord"));
    let lines = said(&["anonymise", recording, to, "--keep-kernel-names", "--last", "1"]);
    assert!(lines.contains("left out: 1 older"), "{lines}");
    let log = said(&["log", to]);
    assert!(log.contains(&format!("{MARK}_k2")) && log.contains("\"thread 1\""), "{log}");
    assert!(!log.contains("cuEventRecord") && !log.contains(&format!("\"{MARK}")), "{log}");
    assert!(said(&["report", to]).contains("LG201"));
}

#[test]
fn nothing_is_written_over_and_what_holds_no_recording_is_refused() {
    let folder = Folder::new("anonymise_over");
    let run = run(&folder);
    let (run, recording) = (run.to_str().unwrap(), run.join(format!("{MARK}-0/trace.lgt")));
    let empty = folder.of("empty");
    fs::create_dir(&empty).unwrap();
    let there = folder.of("there");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("file"), "mine").unwrap();
    let (empty, there, file) = (empty.to_str().unwrap(), there.to_str().unwrap(), there.join("file"));
    for (arguments, expect) in [
        ([run, there], "is not empty"),
        ([recording.to_str().unwrap(), file.to_str().unwrap()], "exists"),
        ([empty, folder.of("out").to_str().unwrap()], "holds no recording"),
        ([folder.of("none").to_str().unwrap(), empty], "there is no such folder"),
    ] {
        let output = lazyguard(&["anonymise", arguments[0], arguments[1]]).output().unwrap();
        let (out, errors) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expect), "{arguments:?}: {errors}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(!folder.of("out").exists());
    said(&["anonymise", run, empty]);
}
