//! CUDA runtime instances that hold too many fat binaries for all their kernels to be loaded.
//!
//! An instance of this kind is left alone by default: it registers a fat binary at the first use of one of its kernels, and that load hangs
//! under a kernel that waits for it. Where a setting asks for it, the instance registers everything at start, and of each of its libraries
//! the module comes into the context, without kernels: at once (`LAZYGUARD_PRELOAD=modules`), or when the program shows that work may wait
//! behind other work from now on (`auto,danger=modules`): a communicator is created, a stream waits for a value, a grid is launched
//! whose blocks wait for one another. That moment stands in the account in any case, with what was not registered then.
//!
//! The guard knows the libraries of an instance by the caller: the object in which the instance is calls `cuLibraryLoadData` for each.
//!
//! Must not: cost anything where no instance is large.

use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::{DangerSeen, PreloadSummary};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// A large instance.
struct Instance {
    /// The addresses of the object that it is in.
    object: Range<u64>,
    fat_binaries: u64,
    /// Whether it registers everything at start.
    registers: bool,
    /// How many it has registered.
    registered: u64,
}

/// A library of an instance that registers everything.
struct Library {
    handle: u64,
    /// Whether the program has used a kernel of it.
    used: bool,
}

#[derive(Default)]
struct Known {
    instances: Vec<Instance>,
    libraries: Vec<Library>,
    danger: Option<DangerSeen>,
}

/// See the module.
#[derive(Default)]
pub struct Large {
    known: Mutex<Known>,
    /// Whether there is an instance, and one that registers everything.
    is_any: AtomicBool,
    registers_any: AtomicBool,
    /// Whether the program has shown danger.
    is_danger: AtomicBool,
    modules: AtomicU64,
    nanos: AtomicU64,
}

impl Large {
    /// There is an instance in the object at these addresses.
    pub fn add(&self, object: Range<u64>, fat_binaries: u64, registers: bool) {
        lock(&self.known).instances.push(Instance { object, fat_binaries, registers, registered: 0 });
        self.is_any.store(true, Ordering::Relaxed);
        self.registers_any.fetch_or(registers, Ordering::Relaxed);
    }

    /// Whether there is an instance that registers everything.
    pub fn registers_any(&self) -> bool {
        self.registers_any.load(Ordering::Relaxed)
    }

    /// A runtime has loaded a library; its call came from `caller`. Whether it is of an instance that registers everything: of those the
    /// kernels are not loaded before the program uses one.
    pub fn registers(&self, caller: u64, library: u64) -> bool {
        if !self.is_any.load(Ordering::Relaxed) {
            return false;
        }
        let mut known = lock(&self.known);
        let Some(instance) = known.instances.iter_mut().find(|one| one.object.contains(&caller)) else { return false };
        instance.registered += 1;
        let registers = instance.registers;
        if registers {
            known.libraries.push(Library { handle: library, used: false });
        }
        registers
    }

    /// The program is about to use a kernel of a library. Whether it is the first one of a library of an instance that registers everything.
    pub fn is_first_use(&self, library: u64) -> bool {
        if !self.is_any.load(Ordering::Relaxed) {
            return false;
        }
        let mut known = lock(&self.known);
        let found = known.libraries.iter_mut().find(|one| one.handle == library);
        found.is_some_and(|one| !std::mem::replace(&mut one.used, true))
    }

    /// A library is about to be unloaded.
    pub fn gone(&self, library: u64) {
        if self.is_any.load(Ordering::Relaxed) {
            lock(&self.known).libraries.retain(|one| one.handle != library);
        }
    }

    /// The libraries of the instances that register everything.
    pub fn libraries(&self) -> Vec<u64> {
        lock(&self.known).libraries.iter().map(|one| one.handle).collect()
    }

    /// Whether the program has shown danger.
    #[inline]
    pub fn is_danger(&self) -> bool {
        self.is_danger.load(Ordering::Relaxed)
    }

    /// The program shows danger by this call. Whether it is the first time.
    pub fn shows_danger(&self, entry_point: EntryPoint, at: Nanos) -> bool {
        if self.is_danger.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut known = lock(&self.known);
        // One that registers everything has done so at its start; for a driver before 12.0 as modules.
        let missing = |one: &Instance| one.fat_binaries.saturating_sub(one.registered);
        let unregistered = known.instances.iter().filter(|one| !one.registers).map(missing).sum();
        known.danger = Some(DangerSeen { call: entry_point.into(), at, unregistered });
        true
    }

    /// The module of one of the libraries has come into a context, in so much time.
    pub fn brought(&self, took: Duration) {
        self.modules.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The account of it.
    pub fn account(&self, summary: PreloadSummary) -> PreloadSummary {
        // The watchdog asks too: it must not wait for a thread that was stopped while it held the lock.
        let danger = self.known.try_lock().ok().and_then(|known| known.danger.clone());
        PreloadSummary {
            library_modules: self.modules.load(Ordering::Relaxed),
            library_modules_nanos: self.nanos.load(Ordering::Relaxed),
            danger: danger.filter(|_| self.is_any.load(Ordering::Relaxed)),
            ..summary
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(symbol: &str) -> EntryPoint {
        EntryPoint::by_symbol(symbol.as_bytes()).unwrap()
    }

    #[test]
    fn a_library_belongs_to_the_instance_whose_code_has_loaded_it() {
        let large = Large::default();
        assert!(!large.registers(150, 0xa), "there is no instance");
        large.add(300..400, 50, false);
        assert!(!large.registers_any());
        large.add(100..200, 400, true);
        assert!(large.registers_any());
        assert_eq!(
            [99, 100, 199, 200, 350].map(|caller| large.registers(caller, caller)),
            [false, true, true, false, false]
        );
        assert_eq!(large.libraries(), [100, 199]);
        large.gone(100);
        assert_eq!(large.libraries(), [199]);
    }

    #[test]
    fn the_first_use_of_such_a_library_is_told_once() {
        let large = Large::default();
        assert!(!large.is_first_use(0xa));
        large.add(100..200, 400, true);
        large.registers(100, 0xa);
        assert_eq!([0xb, 0xa, 0xa].map(|library| large.is_first_use(library)), [false, true, false]);
    }

    #[test]
    fn the_first_sign_of_danger_is_kept_with_what_was_not_registered_then() {
        let large = Large::default();
        let account = || large.account(PreloadSummary::default());
        large.add(100..200, 400, false);
        large.add(300..400, 50, true);
        large.registers(150, 0xa);
        assert_eq!((large.is_danger(), account().danger), (false, None));
        let signs = ["cuStreamWaitValue32_v2", "cuLaunchCooperativeKernel"].map(call);
        assert_eq!(signs.map(|sign| large.shows_danger(sign, 7)), [true, false]);
        assert!(large.is_danger());
        large.registers(150, 0xb);
        assert_eq!(account().danger, Some(DangerSeen { call: signs[0].into(), at: 7, unregistered: 399 }));
        large.brought(Duration::from_nanos(5));
        large.brought(Duration::from_nanos(6));
        assert_eq!((account().library_modules, account().library_modules_nanos), (2, 11));
        let small = Large::default();
        assert!(small.shows_danger(signs[0], 7));
        assert_eq!(small.account(PreloadSummary::default()).danger, None, "nothing was left out");
    }
}
