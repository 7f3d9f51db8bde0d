//! Looks at a busy process, as at a hang: it notices none of them.

use lazyguard_core::evidence::{Depth, Evidence, Look, Source};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Two threads compute the same again and again, and look whether they are traced; the main one takes every signal, and waits for the end of its input.
const BUSY: &str = "
import os, signal, threading
signals, wrong, ended = [], [], threading.Event()
for number in signal.valid_signals():
    try: signal.signal(number, lambda number, _: signals.append(number))
    except (OSError, ValueError): pass
def work():
    s = 0
    for i in range(5000): s = (s * 31 + i) % 1000003
    return s
right = work()
def works():
    while not ended.is_set():
        status = open('/proc/self/status').read()
        if work() != right or 'TracerPid:\\t0' not in status: wrong.append(status)
threads = [threading.Thread(target=works) for _ in range(2)]
for thread in threads: thread.start()
print('busy', flush=True)
os.read(0, 1)
ended.set()
for thread in threads: thread.join()
print(right, signals, wrong)
";
const LOOKS: usize = 1000;

fn said_beside(looks: usize) -> String {
    let mut start = Command::new("python3");
    let mut busy = start.args(["-c", BUSY]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut threads = Vec::new();
    while threads.len() < 3 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", busy.id())).unwrap();
        threads = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    }
    let mut before = None;
    let mut seen_to_compute = 0;
    for _ in 0..looks {
        let look = Look::take(&Source::machine(), busy.id(), &threads, Depth::Memory);
        let evidence = before.map(|before| Evidence::of(&before, &look, 1_000_000));
        seen_to_compute += usize::from(evidence.is_some_and(|evidence| evidence.moves));
        before = Some(look);
    }
    assert!(looks == 0 || seen_to_compute > looks / 10, "{seen_to_compute} of {looks}");
    busy.stdin.take().unwrap().write_all(b".").unwrap();
    let output = busy.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_thousand_looks_at_a_busy_process_change_nothing_of_it() {
    assert_eq!(said_beside(LOOKS), said_beside(0));
}
