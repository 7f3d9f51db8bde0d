//! Each function of the table, blocked for good: the guard reports every one of them, whatever it knows of the reason.

use crate::watchdog::threads_of;
use lazyguard_e2e::{command, hostile_program, number, stack_program, text, Json, Run, Running, Work, PATIENCE};
use std::collections::BTreeMap;
use std::process::Command;

/// The first `cuInit` of a process is made before there is a guard in it; the second is none of the simulated driver's; the third answers at
/// once, and has its record behind it.
const LEFT_OUT: [&str; 3] = ["cuInit", "cuGraphNodeGetParams", "ncclCommGetAsyncError"];

/// The symbols that the guard interposes, but for those.
fn symbols() -> Vec<String> {
    let printed = Command::new(command()).arg("symbols").output().unwrap_or_else(|error| panic!("{error}"));
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    printed.lines().filter(|symbol| !LEFT_OUT.contains(symbol)).map(str::to_owned).collect()
}

/// What the report says of the thread that is blocked in a symbol.
fn missing(hang: &Json, symbol: &str, thread: u32) -> Vec<String> {
    let is_it = |one: &&Json| one["thread"] == thread;
    let all = |pointer: &str| hang.pointer(pointer).and_then(Json::as_array).cloned().unwrap_or_default();
    let mut missing = Vec::new();
    // The entry of a call of NCCL has no place: its stack says it.
    let has_place = |call: &Json| number(call, "/caller") != 0 || symbol.starts_with("nccl");
    match all("/blocked").iter().find(is_it) {
        Some(call) if call["call"] == symbol && has_place(call) => {}
        other => missing.push(format!("{symbol}: as a blocked call: {other:?}")),
    }
    let judged = all("/verdicts").iter().any(|verdict| {
        let threads = verdict["threads"].as_array().is_some_and(|threads| threads.iter().any(|one| *one == thread));
        threads && text(verdict, "/code").starts_with("LG2") && !text(verdict, "/sentence").is_empty()
    });
    if !judged {
        missing.push(format!("{symbol}: no verdict"));
    }
    let stacks = all("/stacks");
    let frames = stacks.iter().find(is_it).map_or(0, |stack| stack["frames"].as_array().map_or(0, Vec::len));
    if frames < 2 {
        missing.push(format!("{symbol}: {frames} frames of a stack"));
    }
    missing
}

/// The first call for which the guard has threads.
#[test]
fn a_context_that_is_never_made_is_reported() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, hostile_program("plain_job")).guarded().kept().hang_after("300ms");
    let mut running = run.set("LGSIM_NEVER_RETURN", "cuDevicePrimaryCtxRetain").start();
    let hang = running.until_a_hang_is_reported().hang();
    assert_eq!(missing(&hang, "cuDevicePrimaryCtxRetain", running.process()), [""; 0]);
    running.stop();
}

/// They are on the program's thread, behind its own call: a question whether the context is idle, and a load.
#[test]
fn a_call_of_the_guards_own_that_never_returns_is_reported() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for symbol in ["cuEventQuery", "cuKernelGetFunction"] {
        let run = Run::new(&work, hostile_program("plain_job")).guarded().kept().hang_after("300ms");
        let mut running = run.set("LGSIM_NEVER_RETURN", symbol).start();
        let hang = running.until_a_hang_is_reported().hang();
        assert_eq!(missing(&hang, symbol, running.process()), [""; 0]);
        running.stop();
    }
}

/// As many threads as a report has stacks of, and fewer.
const AT_ONCE: usize = 56;

#[test]
fn each_function_that_never_returns_is_slow_and_then_a_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let symbols = symbols();
    assert!(symbols.len() > 280, "{symbols:?}");
    let all: Vec<_> = symbols.chunks(AT_ONCE).map(|symbols| (symbols, start(&work, symbols))).collect();
    all.into_iter().for_each(|(symbols, running)| expect_each_reported(symbols, running));
}

fn start(work: &Work, symbols: &[String]) -> Running {
    let of_driver: Vec<_> = symbols.iter().filter(|symbol| symbol.starts_with("cu")).map(String::as_str).collect();
    let run = Run::new(work, stack_program("every_call")).args(symbols).guarded().kept().hang_after("1s");
    run.set("LGSIM_NEVER_RETURN", of_driver.join(",")).set("LGSIM_NEVER_RETURN_BY_THREAD", "1").start()
}

fn expect_each_reported(symbols: &[String], mut running: Running) {
    let process = running.process();
    let threads: BTreeMap<usize, u32> = running.until("the threads", PATIENCE, |_| {
        let named = threads_of(process).into_iter();
        let named = named.filter_map(|(id, name)| Some((name.strip_prefix("never ")?.parse().ok()?, id.parse().ok()?)));
        let named: BTreeMap<usize, u32> = named.collect();
        (named.len() == symbols.len()).then_some(named)
    });
    let folder = running.until_a_hang_is_reported();
    let mut last = Vec::new();
    running.until("a report of each", PATIENCE, |_| {
        let hang = folder.hang();
        last = threads.iter().flat_map(|(at, thread)| missing(&hang, &symbols[*at], *thread)).collect();
        (last.is_empty() || is_old(&hang)).then_some(())
    });
    assert!(last.is_empty(), "{}", last.join("\n"));
    let outcome = running.stop();
    assert_eq!(outcome.stdout, "", "calls that have returned: {outcome}");
    let slow = outcome.stderr.find("lazyguard: SLOW ").unwrap_or(usize::MAX);
    let hang = outcome.stderr.find("lazyguard: HANG ").unwrap_or(0);
    assert!(slow < hang, "slow comes first: {}", outcome.stderr);
}

/// Whether the report was made long after all threads were blocked, so that nothing more comes.
fn is_old(hang: &Json) -> bool {
    let calls = hang["blocked"].as_array().cloned().unwrap_or_default();
    calls.iter().all(|call| number(call, "/blocked_nanos") > 6_000_000_000)
}
