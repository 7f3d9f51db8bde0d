//! Work by several threads: the same on the folders of hundreds of ranks, or beside that of this thread.
//!
//! Must not: give another result than one thread would.

use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{available_parallelism, Builder};
use std::time::Duration;

/// The most threads: each keeps tables of the files of code that it has looked into, which may be large.
const MOST_THREADS: usize = 4;

/// The results of `work` on each item, in the items' order.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        Some((number, work(items.get(number)?)))
    };
    let works = || std::iter::from_fn(one).collect::<Vec<_>>();
    let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS).min(items.len());
    let mut results = std::thread::scope(|scope| {
        // Without room for another thread, this one does the work.
        let others: Vec<_> = (1..threads).filter_map(|_| Builder::new().spawn_scoped(scope, works).ok()).collect();
        let own = works();
        let of_others =
            others.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        of_others.chain(own).collect::<Vec<_>>()
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A thread that works beside this one. The drop stops it, and waits only for so long: it may be stuck in the kernel or in a library.
pub(crate) struct Beside {
    stop: Sender<()>,
    ended: Receiver<()>,
    patience: Duration,
}

impl Beside {
    pub fn start(
        name: &str,
        patience: Duration,
        work: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let ((stop, stopped), (end, ended)) = (channel(), channel());
        let works = move || {
            work(&stopped);
            // The receiver may have stopped waiting.
            let _ = end.send(());
        };
        Builder::new().name(name.to_owned()).spawn(works).map(|_| Self { stop, ended, patience })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        let _ = self.ended.recv_timeout(self.patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..500).collect();
        let slowly = |item: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(item % 7));
            item * 3
        };
        assert_eq!(each(&items, slowly), items.iter().map(|item| item * 3).collect::<Vec<_>>());
        assert_eq!(each(&[], |item: &u64| *item), Vec::<u64>::new());
    }
}
