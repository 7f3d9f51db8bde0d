//! What the tests of both targets expect of a run.

use crate::folder::{number, text, Folder, Json};
use crate::programs::App;
use crate::run::Run;
use crate::work::Work;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A run of a driver-API program, bare.
pub fn run<'w>(work: &'w Work, app: &App) -> Run<'w> {
    Run::new(work, app.path()).args(app.args())
}

/// The summary of a run that met nothing out of the ordinary.
pub fn expect_uneventful(folder: &Folder) -> Json {
    assert!(!folder.holds("hang.json"), "a hang was reported: {}", folder.report("text"));
    let summary = folder.summary();
    assert_eq!(text(&summary, "/ended"), "exit");
    assert_eq!(number(&summary, "/hangs"), 0);
    for lost in summary["lost"].as_array().into_iter().flatten() {
        assert_eq!(lost[1], 0, "the summary says that something was lost: {summary:#}");
    }
    // What a program may do without losing anything of what it is guarded for.
    const HARMLESS: [&str; 4] = ["not_armed", "captured_host_function", "unknown_version", "asked_by_driver"];
    for passed in summary["passed_through"].as_array().expect("the summary lists what passed through") {
        assert!(HARMLESS.contains(&text(passed, "/reason")), "a call passed through untouched: {summary:#}");
    }
    summary
}

/// Counts of the calls in a log of the simulated driver, by symbol.
pub fn calls(path: &Path) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut counts = BTreeMap::new();
    for symbol in text.lines().filter_map(|line| line.split_whitespace().nth(1)) {
        *counts.entry(symbol.to_owned()).or_default() += 1;
    }
    counts
}

/// What the watchdog has said, a heading and what belongs to it each: reports, their repetitions, and that one has resolved.
pub fn watchdog_blocks(stderr: &str) -> Vec<Vec<&str>> {
    let headings = ["HANG ", "SLOW ", "RESOLVED ", "ENDED WITH ERROR ", "ABANDONED "];
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in stderr.lines() {
        let Some(own) = line.strip_prefix("lazyguard: ") else { continue };
        match blocks.last_mut() {
            _ if headings.iter().any(|heading| own.starts_with(heading)) => blocks.push(vec![line]),
            Some(block) => block.push(line),
            None => {}
        }
    }
    blocks
}

/// Reports with such a heading. A repetition is a line, and no report.
fn reports<'s>(stderr: &'s str, heading: &str) -> Vec<Vec<&'s str>> {
    let heading = format!("lazyguard: {heading} ");
    let mut blocks = watchdog_blocks(stderr);
    blocks.retain(|block| block[0].starts_with(&heading) && !block[0].ends_with(", as reported"));
    blocks
}

/// The lines of the one report of a hang on standard error. What is called slow before has a report of its own, and no more than one.
pub fn expect_a_block(stderr: &str) -> Vec<&str> {
    let mut hangs = reports(stderr, "HANG");
    assert_eq!(hangs.len(), 1, "one report of a hang was expected:\n{stderr}");
    let slow = reports(stderr, "SLOW");
    assert!(slow.len() <= 1, "it is called slow more than once:\n{stderr}");
    for block in hangs.iter().chain(&slow) {
        assert!(block.len() > 4, "the report says next to nothing:\n{stderr}");
    }
    hangs.remove(0)
}

/// The one report of something slow, which has no code and blames nothing.
pub fn expect_slow(stderr: &str) -> Vec<&str> {
    let mut slow = reports(stderr, "SLOW");
    assert_eq!(slow.len(), 1, "one report of something slow was expected:\n{stderr}");
    let block = slow.remove(0);
    assert!(block.len() > 4, "the report says next to nothing:\n{stderr}");
    let accuses = |line: &&&str| line.contains("LG2") || line.contains("  fix: ");
    assert_eq!(block.iter().find(accuses), None, "what is only slow has no code:\n{stderr}");
    block
}

/// From the recording nothing is known to be wrong: a kernel on a stream is waited for, which may only be slow.
pub fn expect_only_slow(recording: &Json, kernel: &str, stream: u64) {
    let verdicts = recording["verdicts"].as_array().map_or(1, Vec::len);
    assert_eq!((text(recording, "/status"), verdicts), ("slow", 0), "{recording:#}");
    let oldest = recording["snapshot"]["streams"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|busy| busy["stream"]["handle"] == stream);
    assert_eq!(oldest.map(|busy| text(busy, "/oldest/function")), Some(kernel), "{recording:#}");
    let number = oldest.map_or(0, |busy| number(busy, "/stream/number"));
    let waits = format!("waits for {kernel} on stream {number}, and {kernel} has not ended: ");
    let first = recording["slow"][0].as_str().unwrap_or_default();
    assert!(first.starts_with(&waits), "it is not said what is waited for: {recording:#}");
}
