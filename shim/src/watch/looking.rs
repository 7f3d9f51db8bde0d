//! Two looks at the process's own host side by a thread of its own: what reads memory may wait for a lock of the process, and is left behind then.
//!
//! Must not: look before a rank asks, or the process has stopped.

use crate::runtime::{clock, own_thread};
use lazyguard_core::evidence::{in_two_looks, Depth, Evidence, Look, Source};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A thread that reads memory and has not come back by then is abandoned.
const ABANDONED_AFTER: Nanos = 3_000_000_000;

pub struct Looking {
    begun: Nanos,
    deepest: Depth,
    found: Arc<Mutex<Option<(Depth, Evidence)>>>,
}

pub enum Answer {
    Later,
    /// `left`: the thread was left behind in the process's memory.
    Is {
        evidence: Evidence,
        left: bool,
    },
    /// No thread could be started, or it does not get on.
    None,
}

impl Looking {
    pub fn begin(threads: Vec<u32>, apart: Nanos, deepest: Depth) -> Self {
        let (process, found) = (std::process::id(), Arc::<Mutex<Option<(Depth, Evidence)>>>::default());
        let finds = found.clone();
        // Without a thread there is no answer.
        let _ = own_thread::begin(
            "lazyguard-looks",
            || (),
            move || {
                let take = |depth| Look::take(&Source::machine(), process, &threads, depth);
                let pause = || std::thread::sleep(Duration::from_nanos(apart));
                let mut keep = |depth, evidence| *lock(&finds) = Some((depth, evidence));
                in_two_looks(&take, &clock::now, pause, deepest, &mut keep);
            },
        );
        Self { begun: clock::now(), deepest, found }
    }

    pub fn answer(&self, now: Nanos) -> Answer {
        let is_over = now.saturating_sub(self.begun) >= ABANDONED_AFTER;
        match lock(&self.found).take_if(|(depth, _)| is_over || *depth == self.deepest) {
            Some((depth, evidence)) => Answer::Is { evidence, left: depth < self.deepest },
            None if is_over => Answer::None,
            None => Answer::Later,
        }
    }
}
