//! Programs that hang without preloading, killed meanwhile: the diagnosis from their folders.

use crate::{ask, questions};
use lazyguard_e2e::{expect_only_slow, number, run, text, text_report_of, App, Json, Outcome, Recording, Run, Work};
use libtest_mimic::Trial;
use std::fs;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    let hanging = lazyguard_e2e::apps().into_iter().filter(App::hangs_bare);
    hanging.flat_map(|app| ask("killed", &app.name, questions![killed_it_is_diagnosed_from_its_folder])).collect()
}

/// Function, kind of stream and number of stream.
type Culprit = (String, String, u64);

/// The codes and culprits of a hang, without what two runs of a program cannot have in common.
fn verdicts(report: &Json) -> Vec<(String, Vec<Culprit>)> {
    let culprit = |culprit: &Json| {
        let function = culprit["operation"]["function"].as_str().unwrap_or_default().to_owned();
        (function, text(culprit, "/stream/kind").to_owned(), number(culprit, "/stream/number"))
    };
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let verdict = |verdict: &Json| {
        (text(verdict, "/code").to_owned(), list(&verdict["culprits"]).iter().map(culprit).collect::<Vec<_>>())
    };
    list(&report["verdicts"]).iter().map(verdict).collect()
}

fn without_preloading<'w>(work: &'w Work, app: &App, hang_after: &str) -> Run<'w> {
    run(work, app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after(hang_after)
}

/// Waits until the program has made no driver call for a while, and kills it.
fn killed_at_standstill(work: &Work, app: &App) -> Outcome {
    const STANDSTILL: Duration = Duration::from_millis(800);
    // Not by the clock alone: after a pause of the whole machine the guard has to have come to its heartbeat again.
    const TURNS: u32 = 80;
    let log = work.path().join("calls");
    let mut running = without_preloading(work, app, "60s").set("LGSIM_CALL_LOG", &log).start();
    let (mut since, mut turns, mut length) = (Instant::now(), 0, 0);
    running.until("the standstill", lazyguard_e2e::PATIENCE, |_| {
        let now = fs::metadata(&log).map_or(0, |metadata| metadata.len());
        if now != length {
            (since, turns, length) = (Instant::now(), 0, now);
        }
        turns += 1;
        (length > 0 && since.elapsed() >= STANDSTILL && turns >= TURNS).then_some(())
    });
    assert!(!running.out().join("hang.json").exists(), "it was reported, and the threshold was not past");
    running.stop()
}

fn killed_it_is_diagnosed_from_its_folder(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    let mut running = without_preloading(&work, &app, "300ms").start();
    let live = running.until_a_hang_is_reported().hang();
    let folder = running.stop().out();
    let after = Recording::of(folder.path());
    assert_eq!((after.text("/state"), after.is_alive()), ("guarded", false));
    assert_eq!(text(&live, "/verdicts/0/code"), app.expected_code());
    // The very same process: everything that counts is the same to the last handle.
    assert_eq!(verdicts(&after.0), verdicts(&live), "after: {:#}\nlive: {live:#}", after.0);
    let stream = number(&live, "/verdicts/0/culprits/0/stream/number");
    let culprits = |report: &Json| report["verdicts"][0]["culprits"].clone();
    assert_eq!(culprits(&after.0), culprits(&live));
    let blocked = |snapshot: &Json| {
        let calls = snapshot["blocked"].as_array().cloned().unwrap_or_default();
        let keys = ["thread", "thread_name", "call", "entered", "context", "stream", "function", "cold"];
        calls.iter().map(|call| keys.map(|key| call[key].clone())).collect::<Vec<_>>()
    };
    assert_eq!(blocked(&after.0["snapshot"]), blocked(&live), "after: {:#}\nlive: {live:#}", after.0);
    let waits = |snapshot: &Json| {
        let waits = snapshot["waits"].as_array().cloned().unwrap_or_default();
        let keys = ["stream", "at", "address", "value", "condition", "satisfying_writes", "other_writes"];
        waits.iter().map(|wait| keys.map(|key| wait[key].clone())).collect::<Vec<_>>()
    };
    assert_eq!(waits(&after.0["snapshot"]), waits(&live), "after: {:#}\nlive: {live:#}", after.0);

    // Killed before the guard reported: the folder is all there is.
    let folder = killed_at_standstill(&work, &app).out();
    assert!(!folder.holds("hang.json") && !folder.holds("run.json"));
    let before = Recording::of(folder.path());
    let said = text_report_of(folder.path());
    if app.expected_code() == "LG299" {
        // A hang of no known pattern may only be slow, and there was no time to find out.
        let mut busy = before.0["snapshot"]["streams"].as_array().into_iter().flatten();
        let on_it = busy.find(|busy| busy["stream"]["number"] == stream);
        let handle = on_it.map(|busy| number(busy, "/stream/handle"));
        let kernel = text(&live, "/verdicts/0/culprits/0/operation/function");
        expect_only_slow(&before.0, kernel, handle.unwrap_or_default());
        assert!(
            said.contains("SUSPECTED ") && said.contains(&format!("waits for {kernel} on stream {stream}, ")),
            "{said}"
        );
        return;
    }
    // Another run: what a second thread had submitted when this one was killed depends on the machine, the cause does not.
    let causes = |report: &Json| -> Vec<_> {
        verdicts(report).into_iter().map(|(code, culprits)| (code, culprits.into_iter().next())).collect()
    };
    assert_eq!(causes(&before.0), causes(&live), "before: {:#}\nlive: {live:#}", before.0);
    let (fix, code) = (text(&before.0, "/verdicts/0/fix"), app.expected_code());
    assert!(said.contains(&format!("{code} (")) && said.contains(fix), "{said}");
}
