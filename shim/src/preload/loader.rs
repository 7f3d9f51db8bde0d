//! The items that wait to be loaded ahead of their use.
//!
//! The hooks note items as pending for a context. [`Loader::try_now`](super::attempt) has them loaded by a thread at a good moment: a library was
//! loaded, a context created, a synchronize has returned, a cold function is about to be launched.
//!
//! Must not: hold a lock across a driver call.

use super::ahead::Ahead;
use super::idle::Questions;
use super::kernels;
use super::libraries::Libraries;
use super::queue::{Item, Queue};
use super::releases::Releases;
use crate::runtime::process::Process;
use lazyguard_core::image::Prints;
use lazyguard_core::map::HashMap;
use lazyguard_core::preload::{
    is_blanket, loads_libraries, loads_resolved, pace_reaches, rest_waits, waits_for_first_launch, FirstLaunch, Skip,
};
use lazyguard_core::profile::ImageId;
use lazyguard_core::report::{NudgeAnswer, PreloadSummary};
use lazyguard_core::settings::Policy;
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// How long a busy context is left alone, and the same in times of what it took to find that out.
const WHILE_BUSY_NANOS: u64 = 5_000_000;
const BACK_OFF: u64 = 10;
/// The least gain in pace for which the gate is closed.
const WORTH_NANOS: u64 = 2_000_000;

/// The counts that [`Loader::may_have_pending`] reads lie together, at the end of `releases` and the beginning of `libraries`.
#[derive(Default)]
#[repr(C)]
pub struct Loader {
    pub ahead: Ahead,
    queue: Mutex<Queue>,
    /// Libraries that print, or may.
    printing: Mutex<HashMap<u64, Prints>>,
    pub releases: Releases,
    pending: AtomicUsize,
    pub libraries: Libraries,
    pub(super) not_before: AtomicU64,
    /// The context was busy: nothing is tried before this.
    pub(super) busy_until: AtomicU64,
    /// A device was full: nothing is loaded ahead before this, but at the start of a context.
    pub(super) full_until: AtomicU64,
    pub(super) busy: AtomicBool,
    /// The driver itself loads eagerly.
    pub driver_eager: bool,
    pub(super) questions: Questions,
    /// The last load, or 0.
    loaded: AtomicU64,
    pub under_way: UnderWay,
}

/// How long a load takes at most that leaves no trace in the profile.
pub const LONG_NANOS: Nanos = 1_000_000_000;

/// From when on a load counts as begun: a process that is ended in it leaves that in its profile.
const BEGUN_NANOS: Nanos = 50_000_000;

/// The loads of the profile's code ahead, as its notes have them.
#[derive(Default)]
struct Loads {
    /// The load under way, and since when.
    under_way: Option<(ImageId, Nanos)>,
    /// Whether the notes have its begin.
    is_noted: bool,
    /// Those that have taken long since the last look.
    long: Vec<ImageId>,
    /// Those that have ended in time, though the notes have their begin.
    ended: Vec<ImageId>,
}

pub struct Looked {
    /// The loads that have not ended, or have taken long since the last look.
    pub bad: Vec<ImageId>,
    /// Those whose noted begin means nothing, as they have ended.
    pub ended: Vec<ImageId>,
    /// The one under way, if it has already taken long.
    pub stands: Option<ImageId>,
}

/// One thread loads at a time.
#[derive(Default)]
pub struct UnderWay(Mutex<Loads>);

impl UnderWay {
    pub(super) fn begins(&self, code: Option<ImageId>, now: Nanos) {
        let mut loads = lock(&self.0);
        (loads.under_way, loads.is_noted) = (code.map(|code| (code, now)), false);
    }

    pub(super) fn ends(&self, now: Nanos) {
        let loads = &mut *lock(&self.0);
        let Some((code, begun)) = loads.under_way.take() else { return };
        if now >= begun + LONG_NANOS {
            loads.long.push(code);
        } else if loads.is_noted {
            loads.ended.push(code);
        }
    }

    pub fn look(&self, now: Nanos) -> Looked {
        let loads = &mut *lock(&self.0);
        let since = |least: Nanos| loads.under_way.filter(|(_, begun)| now >= begun + least).map(|(code, _)| code);
        let (begun, stands) = (since(BEGUN_NANOS), since(LONG_NANOS));
        loads.is_noted |= begun.is_some();
        let bad = std::mem::take(&mut loads.long).into_iter().chain(begun).collect();
        Looked { bad, ended: std::mem::take(&mut loads.ended), stands }
    }
}

impl Loader {
    pub fn new(ahead: Ahead, libraries: Libraries, driver_eager: bool) -> Self {
        Self { ahead, libraries, driver_eager, ..Self::default() }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Release: partner of the Acquire in `has_pending`.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue();
        change(&mut queue);
        self.pending.store(queue.pending_count(), Ordering::Release);
    }

    /// The profile's name of what is loaded ahead.
    pub(super) fn code(&self, item: Item) -> Option<ImageId> {
        match item {
            Item::Ahead(image, _) => self.ahead.id(image),
            Item::AheadLibrary(number) => self.libraries.id(number),
            _ => None,
        }
    }

    pub fn note(&self, text: String) {
        // A summary has a bound.
        const MOST_NOTES: usize = 64;
        let notes = &mut self.queue().notes;
        if notes.len() < MOST_NOTES && !notes.contains(&text) {
            notes.push(text);
        }
    }

    pub fn answered(&self, answer: NudgeAnswer) {
        self.queue().runtimes.push(answer);
    }

    fn add(&self, context: u32, item: Item) {
        self.change(|queue| queue.add(context, item));
    }

    fn add_everywhere(&self, process: &Process, item: Item) {
        process.tracker.contexts().for_each(|(context, _)| self.add(context, item));
    }

    pub(super) fn done(&self, context: u32, item: Item) {
        self.change(|queue| queue.done(context, item));
    }

    /// A library concerns every context. By what the profile knows of it, its kernels may wait until the start is over.
    pub fn library_loaded(&self, process: &Process, library: u64, is_known: bool) {
        if !self.wanted(loads_libraries(process.settings.preload)) {
            return;
        }
        let is_late = process.tracker.contexts().next().is_some();
        let waits = rest_waits(&process.settings, is_known, is_late, || kernels::count(library).unwrap_or(0).into());
        let item = if waits { Item::Rest(library) } else { Item::Library(library) };
        self.queue().libraries.push(item);
        self.add_everywhere(process, item);
    }

    pub fn prints(&self, library: u64, prints: Prints) {
        lock(&self.printing).insert(library, prints);
    }

    /// A runtime has loaded a fat binary itself: its expected kernels come first.
    pub fn is_the_runtimes(&self, process: &Process, number: u32, library: u64) {
        if self.libraries.is_the_runtimes(number, library) {
            self.add_everywhere(process, Item::AheadLibrary(number));
        }
    }

    /// Looks for expected libraries whose objects have come.
    #[inline]
    pub fn look_for_libraries(&self, process: &Process) {
        if !self.driver_eager {
            let found = self.libraries.look(process.now());
            found.into_iter().for_each(|number| self.add_everywhere(process, Item::AheadLibrary(number)));
        }
    }

    pub fn module_loaded(&self, process: &Process, context: u32, module: u64) {
        if self.wanted(loads_libraries(process.settings.preload)) {
            self.add(context, Item::Module(module));
        }
    }

    pub fn resolved(&self, process: &Process, context: u32, item: Item) {
        let listed = loads_libraries(process.settings.preload) && process.driver_version >= kernels::LISTS_SINCE;
        if !listed && self.wanted(loads_resolved(process.settings.preload)) {
            self.add(context, item);
        }
    }

    fn wanted(&self, by_policy: bool) -> bool {
        if by_policy && self.driver_eager {
            self.queue().skip(Skip::AlreadyEager, 1);
            return false;
        }
        by_policy
    }

    /// Every library concerns it, and every expected module.
    pub fn context_came(&self, context: u32) {
        self.ahead.all().for_each(|(image, nth)| self.add(context, Item::Ahead(image, nth)));
        self.libraries.all().into_iter().for_each(|number| self.add(context, Item::AheadLibrary(number)));
        let libraries = self.queue().libraries.clone();
        libraries.into_iter().for_each(|library| self.add(context, library));
    }

    /// Libraries retain the primary context again long after the start.
    pub fn starts_on(&self, device: i32) -> bool {
        self.queue().started.insert(device)
    }

    pub fn context_gone(&self, context: u32, handle: u64) {
        self.questions.forget(handle);
        self.ahead.context_gone(context);
        self.releases.context_gone(context);
        self.change(|queue| queue.context_gone(context));
    }

    pub fn owner_goes(&self, owner: u64) {
        self.libraries.gone(owner);
        lock(&self.printing).remove(&owner);
        self.change(|queue| queue.owner_goes(owner));
    }

    pub fn has_loaded_since(&self, then: Nanos) -> bool {
        self.loaded.load(Ordering::Relaxed) >= then
    }

    /// Whether anything is pending, or an expected library may have come.
    #[inline]
    pub fn may_have_pending(&self) -> bool {
        self.has_pending() || self.libraries.are_expected()
    }

    /// Whether anything waits to be loaded or released, in any context. Acquire: partner of the Release where it is noted.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0 || self.releases.any()
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The items that wait for a context and may be loaded now.
    pub(super) fn due(&self, process: &Process, context: u32, first: FirstLaunch, at_start: bool) -> Vec<Item> {
        let mut items = self.queue().pending_for(context, process.now());
        if first != FirstLaunch::Made {
            items.retain(|item| !self.waits_for_launch(*item, first));
        }
        if !at_start && process.now() < self.full_until.load(Ordering::Relaxed) {
            items.retain(|item| !item.is_ahead());
        }
        items
    }

    /// Whether something waits until right before this first launch of a context.
    pub fn waits_for_this_launch(&self, process: &Process, context: u32) -> bool {
        let waits = |item: &Item| {
            let waits = |first| self.waits_for_launch(*item, first);
            waits(FirstLaunch::ToCome) && !waits(FirstLaunch::Now)
        };
        self.has_pending() && self.queue().pending_for(context, process.now()).iter().any(waits)
    }

    /// Loading a library brings it into no context, and waits for nothing.
    pub(super) fn waits_for_launch(&self, item: Item, first: FirstLaunch) -> bool {
        let library = match item {
            Item::Ahead(image, _) if !self.ahead.is_library(image) => {
                return waits_for_first_launch(self.ahead.prints(image), true, first);
            }
            Item::Ahead(image, nth) => self.ahead.library(image, nth),
            Item::AheadLibrary(number) => self.libraries.library(number),
            item => Some(item.owner()),
        };
        let prints = library.and_then(|library| lock(&self.printing).get(&library).copied());
        prints.is_some_and(|prints| waits_for_first_launch(prints, false, first))
    }

    /// Notes whether an attempt that began at `begun` found the context idle.
    pub(super) fn was_idle(&self, process: &Process, idle: bool, begun: Nanos) {
        let now = process.now();
        match idle {
            true => _ = self.loaded.fetch_max(now, Ordering::Relaxed),
            false => self.busy_until.store(now + WHILE_BUSY_NANOS.max(BACK_OFF * (now - begun)), Ordering::Relaxed),
        }
    }

    /// Leaves the rest until it is worth closing the gate.
    pub(super) fn wait_for_the_pace(&self, process: &Process, spent: Nanos) {
        if !is_blanket(&process.settings) {
            let again = pace_reaches(&process.settings, spent + WORTH_NANOS);
            self.not_before.store(again.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub fn summary(&self, policy: Policy) -> PreloadSummary {
        // The watchdog asks too, and must not wait for a stopped thread.
        let mut summary = match self.queue.try_lock() {
            Ok(queue) => queue.summary(policy),
            Err(_) => PreloadSummary { policy: PreloadSummary::policy_name(policy), ..PreloadSummary::default() },
        };
        self.releases.sum_up(&mut summary);
        (summary.modules_ahead, summary.modules_handed_over) = self.ahead.modules.both();
        let (of_runtimes, of_images) = (self.libraries.counted.both(), self.ahead.libraries.both());
        summary.libraries_ahead = of_runtimes.0 + of_images.0;
        summary.libraries_handed_over = of_runtimes.1 + of_images.1;
        summary
    }
}
