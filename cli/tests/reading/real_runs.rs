//! Recordings of real runs on cards, as `lazyguard anonymise` leaves them: code, culprit and ranks follow from the recordings alone.
//!
//! `scripts/lib/recordings.py` says what `expected.json` holds, and `scripts/gpu-check --keep-recordings` writes it.

use super::said;
use serde_json::{json, Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Of a process.
const MOST_BYTES: u64 = 256 << 10;

fn runs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testapps/frameworks/recordings");
    let mut runs: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    runs.sort();
    runs
}

fn expected(run: &Path) -> Map<String, Value> {
    let text =
        fs::read_to_string(run.join("expected.json")).unwrap_or_else(|error| panic!("{}: {error}", run.display()));
    serde_json::from_str(&text).expect("an object")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What is found, in the form of what is expected.
fn found(report: &Value, code: &str) -> Map<String, Value> {
    let firsts = array(&report["processes"]).iter().filter_map(|process| process["hang"]["verdicts"].get(0));
    let firsts: Vec<_> = firsts.collect();
    let Some(verdict) = firsts.iter().find(|verdict| verdict["code"] == code).or(firsts.first()) else {
        return Map::from_iter([("code".to_owned(), "none".into())]);
    };
    let operation = &verdict["culprits"][0]["operation"];
    let culprit = if operation["function"].is_null() { &operation["call"] } else { &operation["function"] };
    let mut ranks = Map::from_iter([("number".to_owned(), report["ranks"]["number"].clone())]);
    for name in ["behind", "different", "blocked"] {
        let of_them = array(&report["ranks"][name]).iter().map(|one| one["rank"].clone());
        ranks.insert(name.to_owned(), of_them.collect());
    }
    Map::from_iter([
        ("code".to_owned(), verdict["code"].clone()),
        ("culprit".to_owned(), culprit.clone()),
        ("ranks".to_owned(), ranks.into()),
    ])
}

/// Two ranks of PyTorch: the blame, what each does, and the hang.
#[test]
fn a_report_of_a_hang_fits_on_a_screen() {
    const MOST_LINES: usize = 40;
    let reports = runs().into_iter().map(|run| said(&["report", run.to_str().expect("a path that is a text")]));
    let hangs: Vec<_> = reports.filter(|report| report.contains("\nHANG ")).collect();
    assert!(hangs.len() > 10, "{} recordings of hangs", hangs.len());
    for report in hangs {
        assert!(report.lines().count() <= MOST_LINES, "{report}");
        assert!(!report.contains("launched at libnccl.so") && !report.contains("\nhazard LG"), "{report}");
    }
}

#[test]
fn of_each_run_code_culprit_and_ranks_follow_from_its_recordings_alone() {
    let runs = runs();
    assert!(!runs.is_empty(), "no recordings of real runs");
    for run in runs {
        let expected = expected(&run);
        let code = expected["code"].as_str().expect("a code");
        let report = said(&["report", "--format", "json", run.to_str().expect("a path that is a text")]);
        let found = found(&serde_json::from_str(&report).expect("an object"), code);
        assert!(
            code == "none" || expected.contains_key("culprit") || expected.contains_key("ranks"),
            "{}",
            run.display()
        );
        for (what, value) in expected.iter().filter(|(what, _)| !["program", "differs"].contains(&what.as_str())) {
            assert_eq!(found.get(what), Some(value), "{what} of {}", run.display());
        }
    }
}

#[test]
fn each_run_is_small_and_holds_anonymised_recordings_and_nothing_else() {
    for run in runs() {
        let all = fs::read_dir(&run).expect("a folder").map(|entry| entry.expect("an entry").path());
        let processes: Vec<_> =
            all.filter(|path| path.file_name().is_none_or(|name| name != "expected.json")).collect();
        assert!(!processes.is_empty(), "{}", run.display());
        for process in processes {
            let files: Vec<_> = fs::read_dir(&process).expect("a folder of a process").flatten().collect();
            let names: Vec<_> = files.iter().map(fs::DirEntry::file_name).collect();
            assert_eq!(names, ["trace.lgt"], "{}", process.display());
            assert!(files[0].metadata().is_ok_and(|about| about.len() <= MOST_BYTES), "{}", process.display());
            let report = said(&["report", "--format", "json", process.to_str().expect("a path that is a text")]);
            let report: Value = serde_json::from_str(&report).expect("an object");
            let recording = &report["recording"];
            let named = json!([recording["program"], recording["host"]]);
            let is_pseudonym =
                |name: &Value, what: &str| name.as_str().is_some_and(|name| name.is_empty() || name.starts_with(what));
            assert!(is_pseudonym(&named[0], "program ") && is_pseudonym(&named[1], "host "), "{named}");
        }
    }
}
