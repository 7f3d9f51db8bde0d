//! Why processes do not go on, seen from outside: two looks at each, a second apart, at what the kernel says, and then one at its memory.
//!
//! Must not: wait for a process's memory: a thread reads it, and is left behind where a lock of the process holds it.

use lazyguard_core::evidence::{in_two_looks, Depth, Evidence, Look, Source};
use std::sync::mpsc::channel;
use std::thread::{sleep, Builder};
use std::time::{Duration, Instant};

/// Between the looks: a call that lasts so long is no quick one.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long the memory of a process may take.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_LOOKED_AT: usize = 64;

/// Looks at these processes at once; of each, these threads count beside the main one. A process may be missing in the answer.
pub(crate) fn of(processes: &[(u32, Vec<u32>)]) -> Vec<Evidence> {
    let processes = &processes[..processes.len().min(MOST_LOOKED_AT)];
    let (found, finds) = channel();
    for (process, threads) in processes.iter().cloned() {
        let found = found.clone();
        let looks = move || {
            let threads: Vec<u32> =
                std::iter::once(process).chain(threads.into_iter().filter(|one| *one != process)).collect();
            let take = |depth| Look::take(&Source::machine(), process, &threads, depth);
            let begin = Instant::now();
            let now = || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // The receiver may have gone on without this process.
            let mut send = |_, evidence| drop(found.send(evidence));
            in_two_looks(&take, &now, || sleep(BETWEEN), Depth::Memory, &mut send);
        };
        // Without a thread there is no evidence of it.
        let _ = Builder::new().name("lazyguard-looks".to_owned()).spawn(looks);
    }
    drop(found);
    let until = Instant::now() + BETWEEN + PATIENCE;
    let mut all: Vec<Evidence> = Vec::new();
    while let Ok(evidence) = finds.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.retain(|known| known.process != evidence.process);
        all.push(evidence);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::evidence::Class;
    use std::process::Command;

    #[test]
    fn processes_are_looked_at_at_once_and_one_that_is_gone_is_told() {
        let mut sleeps = Command::new("sleep").arg("60").spawn().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let begin = Instant::now();
        let found = of(&[(sleeps.id(), Vec::new()), (ended.id(), Vec::new())]);
        assert!(begin.elapsed() < (BETWEEN + PATIENCE) * 2, "{:?}", begin.elapsed());
        let class = |process| found.iter().find(|one| one.process == process).map(|one| one.class);
        assert_eq!((class(sleeps.id()), class(ended.id())), (Some(Class::Rests), Some(Class::Gone)), "{found:?}");
        assert!(found.iter().all(|one| one.lacks.is_empty()), "{found:?}");
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
    }
}
