//! How many objects have been loaded so far, without a lock. Each `dlsym` of the program asks. `dl_iterate_phdr` answers under a lock: a program that
//! calls `dlsym` with a lock which another thread's callback of `dl_iterate_phdr` waits for would hang (ctypes beside `threadpoolctl`). So the guard reads
//! the linker's counter, and takes the lock only when that has changed.
//!
//! The counter lies in `_rtld_global` behind two free mutexes, and is looked for once, in the only thread. If it is not found, or differs from
//! `dl_iterate_phdr`'s number, the lock is taken each time.
//!
//! Must not: write there.

use super::link_map::linker;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Null where it is not known.
#[link_section = ".data.lazyguard_start"]
static COUNTER: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

const MUTEX: usize = if cfg!(target_arch = "aarch64") { 6 } else { 5 };

/// A free recursive mutex: its kind is in the third word.
const FREE: [u64; MUTEX] = {
    let mut words = [0; MUTEX];
    words[2] = 1;
    words
};

#[link_section = ".text.lazyguard_start"]
pub fn find(loads: u64) {
    let Some(variable) = linker().and_then(|map| map.dynamic().variable(c"_rtld_global")) else { return };
    let first = variable.start as *const AtomicU64;
    if !first.is_aligned() {
        return;
    }
    // SAFETY: a variable of the dynamic linker's, of this length.
    let words = unsafe { std::slice::from_raw_parts(first, variable.len() / size_of::<u64>()) };
    if let Some(counter) = behind_locks(words, loads) {
        COUNTER.store(std::ptr::from_ref(counter).cast_mut(), Ordering::Relaxed);
    }
}

/// The word with this number behind two free mutexes.
fn behind_locks(words: &[AtomicU64], number: u64) -> Option<&AtomicU64> {
    let is_one = |words: &&[AtomicU64]| {
        let mut expected = FREE.iter().chain(&FREE).chain([&number]);
        words.iter().all(|word| expected.next() == Some(&word.load(Ordering::Relaxed)))
    };
    words.windows(2 * MUTEX + 1).find(is_one)?.last()
}

/// `None` where only [`super::objects::counts`] tells.
pub fn count() -> Option<u64> {
    // SAFETY: null, or a word of the dynamic linker's, which stays.
    unsafe { COUNTER.load(Ordering::Relaxed).as_ref() }.map(|counter| counter.load(Ordering::Relaxed))
}

/// Compares the counter with `dl_iterate_phdr`'s number, in a visit.
pub fn check(loads: u64) {
    if count().is_some_and(|count| count != loads) {
        COUNTER.store(null_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_the_number_behind_two_locks() {
        let words = |parts: &[&[u64]]| parts.concat().into_iter().map(AtomicU64::new).collect::<Vec<_>>();
        let found = |parts: &[&[u64]], number| {
            let words = words(parts);
            behind_locks(&words, number).map(|word| word as *const AtomicU64 as usize - words.as_ptr() as usize)
        };
        assert_eq!(found(&[&[7, 7], &FREE, &FREE, &[7, 7]], 7), Some((2 + 2 * MUTEX) * 8));
        assert_eq!(found(&[&[7], &FREE, &FREE, &FREE, &[7]], 7), Some((1 + 3 * MUTEX) * 8), "since glibc 2.35");
        assert_eq!(found(&[&FREE, &[7], &FREE, &[7]], 7), None);
        assert_eq!(found(&[&FREE, &FREE, &[8]], 7), None);
        assert_eq!(found(&[&[7]], 7), None);
    }
}
