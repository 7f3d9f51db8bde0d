//! Loading functions ahead of their use.
//!
//! The hooks note what is to be loaded as pending for a context. [`Loader::try_now`] carries it out in the thread that is at a good
//! moment: a library was loaded, a context was created, a synchronize has returned, a cold function is about to be launched.
//! Carrying out means: close the gate, see that no submission is under way, ask whether anything is in flight, and only then load,
//! inside the budget. If something is in flight everything stays pending: the load would wait for it, which is the very deadlock
//! this is to prevent.
//!
//! Must not: load while anything is in flight in the context, or hold a lock across a driver call.

use super::ahead::{self, Ahead};
use super::gate::Closed;
use super::idle::{self, Questions, Uncaptured};
use super::libraries::Libraries;
use super::queue::{Item, Queue};
use super::releases::Release;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::runtime::process::Process;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::image::Prints;
use lazyguard_core::map::HashMap;
use lazyguard_core::preload::{
    is_blanket, leaves_enough_free, loads_libraries, loads_resolved, pace_reaches, rest_waits, waits_for_first_launch,
    within_budget, within_pace, Code, FirstLaunch, Known, Memory, Skip, Spent,
};
use lazyguard_core::report::{NudgeAnswer, PreloadSummary};
use lazyguard_core::settings::Policy;
use lazyguard_core::state::{Context, FunctionKind, ThreadSlot};
use lazyguard_core::sync::lock;
use lazyguard_core::trace::{Kind, Lane, Preload, RawPayload, Record};
use lazyguard_core::Nanos;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a submission that is under way is waited for before the context counts as busy.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// How long the loader leaves a busy context alone before it asks again.
const WHILE_BUSY_NANOS: u64 = 5_000_000;

/// How long nothing is loaded ahead of the program after a device had too little memory free.
const WHILE_FULL_NANOS: u64 = 1_000_000_000;

/// A busy context is left alone for this many times as long as it took to find that out.
const BACK_OFF: u64 = 10;

/// The longest that the gate is kept closed at a time.
const AT_A_TIME: Duration = Duration::from_millis(200);

/// The shortest span for which the gate is closed.
const WORTH_NANOS: u64 = 2_000_000;

/// The call of the program at whose occasion something is loaded.
#[derive(Clone, Copy)]
pub struct Occasion {
    pub entry_point: EntryPoint,
    pub entered: Nanos,
    /// Whether it submits something: a call that is captured does not.
    pub submits: bool,
}

#[derive(Default)]
pub struct Loader {
    pub ahead: Ahead,
    pub libraries: Libraries,
    queue: Mutex<Queue>,
    /// Libraries that print, or may print.
    printing: Mutex<HashMap<u64, Prints>>,
    pending: AtomicUsize,
    /// The pace is not met before this moment.
    not_before: AtomicU64,
    busy_until: AtomicU64,
    /// Nothing is loaded ahead of the program before this moment, but at the start of a context: a device had too little memory free.
    full_until: AtomicU64,
    busy: AtomicBool,
    driver_eager: AtomicBool,
    questions: Questions,
    /// When something was loaded last; 0 for never.
    loaded: AtomicU64,
}

/// The result of one attempt.
#[derive(Default)]
struct Outcome {
    loaded: u64,
    /// Modules and libraries that the program is expected to load itself.
    modules: u64,
    refused: u64,
    stopped: Option<Skip>,
    left_out: u64,
    /// The pace ended it, or the gate had to be opened; the rest stays pending.
    interrupted: bool,
}

impl Loader {
    pub fn new(ahead: Ahead, libraries: Libraries) -> Self {
        Self { ahead, libraries, ..Self::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Changes the queue, and says how much is pending now. Release: partner of the Acquire in `has_pending`.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue();
        change(&mut queue);
        self.pending.store(queue.pending_count(), Ordering::Release);
    }

    /// The driver itself loads eagerly: there is nothing left to preload.
    pub fn set_driver_eager(&self) {
        self.driver_eager.store(true, Ordering::Relaxed);
    }

    pub fn driver_eager(&self) -> bool {
        self.driver_eager.load(Ordering::Relaxed)
    }

    /// Notes an action of the guard that follows from, or departs from, a setting.
    pub fn note(&self, text: String) {
        self.queue().notes.push(text);
    }

    pub fn answered(&self, answer: NudgeAnswer) {
        self.queue().runtimes.push(answer);
    }

    fn skip(&self, reason: Skip, count: u64) {
        self.queue().skip(reason, count);
    }

    /// The program has released something, which waits until the context is idle. `false` if that waits already.
    pub fn put_off(&self, context: u32, release: Release) -> bool {
        let mut is_new = false;
        self.change(|queue| is_new = queue.put_off(context, release));
        is_new
    }

    /// Whether a release of the same waits.
    pub fn waits(&self, release: Release) -> bool {
        self.has_pending() && self.queue().waits(release)
    }

    /// See [`Queue::registrations_that_wait`].
    pub fn registrations_that_wait(&self) -> Vec<u64> {
        self.queue().registrations_that_wait()
    }

    /// Makes the oldest release that waits for the context, which is current; `false` where none waits.
    pub fn make_next_release(&self, context: u32) -> bool {
        let mut next = None;
        self.change(|queue| next = queue.next_release(context));
        let made = next.map(Release::make);
        made.into_iter().for_each(|succeeded| self.queue().released(succeeded));
        made.is_some()
    }

    fn add(&self, context: u32, item: Item) {
        self.change(|queue| queue.add(context, item));
    }

    /// A library was loaded; it concerns every context there is, and every one to come. What the profile knows of it says whether its kernels, or
    /// those that the profile does not name, wait until the start is over.
    pub fn library_loaded(&self, process: &Process, library: u64, known: Known) {
        if !self.wanted(loads_libraries(process.settings.preload)) {
            return;
        }
        let is_late = process.tracker.contexts().next().is_some();
        let waits = rest_waits(&process.settings, known, is_late, || kernel_count(library).unwrap_or(0).into());
        let item = if waits { Item::Rest(library) } else { Item::Library(library) };
        self.queue().libraries.push(item);
        self.add_everywhere(process, item);
    }

    /// A library prints, or may print.
    pub fn prints(&self, library: u64, prints: Prints) {
        lock(&self.printing).insert(library, prints);
    }

    /// A runtime has loaded a fat binary itself: the kernels of it that the program is expected to use are loaded first.
    pub fn is_the_runtimes(&self, process: &Process, number: u32, library: u64) {
        if self.libraries.is_the_runtimes(number, library) {
            self.add_everywhere(process, Item::AheadLibrary(number));
        }
    }

    /// Looks whether objects have come whose libraries are expected to be loaded.
    #[inline]
    pub fn look_for_libraries(&self, process: &Process) {
        if self.driver_eager() {
            return;
        }
        self.libraries
            .look(process.now())
            .into_iter()
            .for_each(|number| self.add_everywhere(process, Item::AheadLibrary(number)));
    }

    fn add_everywhere(&self, process: &Process, item: Item) {
        process.tracker.contexts().for_each(|(context, _)| self.add(context, item));
    }

    pub fn module_loaded(&self, process: &Process, context: u32, module: u64) {
        if self.wanted(loads_libraries(process.settings.preload)) {
            self.add(context, Item::Module(module));
        }
    }

    pub fn resolved(&self, process: &Process, context: u32, item: Item) {
        let listed = loads_libraries(process.settings.preload) && process.driver_version >= LISTS_SINCE;
        if !listed && self.wanted(loads_resolved(process.settings.preload)) {
            self.add(context, item);
        }
    }

    fn wanted(&self, by_policy: bool) -> bool {
        if by_policy && self.driver_eager() {
            self.skip(Skip::AlreadyEager, 1);
            return false;
        }
        by_policy
    }

    pub fn context_came(&self, context: u32) {
        self.ahead.all().for_each(|(image, nth)| self.add(context, Item::Ahead(image, nth)));
        self.libraries.all().into_iter().for_each(|number| self.add(context, Item::AheadLibrary(number)));
        let libraries = self.queue().libraries.clone();
        libraries.into_iter().for_each(|library| self.add(context, library));
    }

    /// Whether this is the first context on a device. Each library that retains the primary one again makes the same call,
    /// long after the start: so it has to be asked also where nothing is pending.
    pub fn starts_on(&self, device: i32) -> bool {
        self.queue().started.insert(device)
    }

    pub fn context_gone(&self, context: u32, handle: u64) {
        self.questions.forget(handle);
        self.ahead.context_gone(context);
        self.change(|queue| queue.context_gone(context));
    }

    pub fn owner_goes(&self, owner: u64) {
        self.libraries.gone(owner);
        lock(&self.printing).remove(&owner);
        self.change(|queue| queue.owner_goes(owner));
    }

    /// When something was loaded last; 0 for never.
    pub fn last_loaded(&self) -> Nanos {
        self.loaded.load(Ordering::Relaxed)
    }

    /// Whether anything waits to be loaded, in any context. Acquire: partner of the Release where it is noted.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Loads what is pending for a context, if nothing is in flight there. `slot` is the calling thread's, with no call
    /// marked in it, inside LazyGuard's code; `occasion` is the call at which this happens. What is pending when the
    /// context has just been created (`at_start`) is loaded at once, inside the budget; what turns up later, also at a pace.
    pub fn try_now(&self, process: &Process, slot: &ThreadSlot, context: u32, occasion: Occasion, at_start: bool) {
        if !self.has_pending() || context == 0 {
            return;
        }
        if !at_start && self.is_early(process) && !self.releases_are_due(process, context) {
            return;
        }
        // Twice: another thread's work may have ended in the first turn, in which that thread finds the loader busy.
        for _ in 0..2 {
            if self.busy.swap(true, Ordering::Acquire) {
                return;
            }
            let turn = Turn(&self.busy);
            // The gate is opened now and then, also where much is to be loaded at once.
            while self.attempt(process, slot, context, occasion, at_start) && at_start {}
            drop(turn);
            if !self.releases_are_due(process, context) {
                return;
            }
        }
    }

    /// Whether the context was busy a moment ago, or what waits for it is out of pace.
    fn is_early(&self, process: &Process) -> bool {
        let now = process.now();
        now < self.busy_until.load(Ordering::Relaxed)
            || now < self.not_before.load(Ordering::Relaxed) && !is_blanket(&process.settings)
    }

    /// Whether a release waits for the context, in which nothing is in flight as far as the guard knows. The program may make no
    /// further call.
    fn releases_are_due(&self, process: &Process, context: u32) -> bool {
        let waits = self.has_pending() && self.queue().has_releases(context);
        waits && process.tracker.in_flight(context).is_empty()
    }

    /// Returns whether something was loaded, and more may be.
    fn attempt(&self, process: &Process, slot: &ThreadSlot, context: u32, occasion: Occasion, at_start: bool) -> bool {
        let first = first_launch(process, context, occasion);
        let pending = || self.due(process, context, first, at_start);
        let waits = || !pending().is_empty() || self.queue().has_releases(context);
        let Some(entry) = process.tracker.context_entry(context).filter(|c| c.alive() && waits()) else {
            return false;
        };
        let handle = entry.handle() as Handle;
        let entered = process.now();
        let Some(closed) = Closed::close(context) else { return false };
        let _uncaptured = Uncaptured::new();
        let clear = nothing_under_way(process, slot, context);
        if !entry.alive() || entry.handle() != handle as u64 {
            return false;
        }
        let Some(_current) = Current::make(handle) else { return false };
        let idle = clear && self.idle(process, context, slot.thread(), occasion.entered, at_start);
        // Read after the gate is closed: an unload in progress has removed its items, and the next one waits at the gate.
        let items = pending();
        let outcome = if idle {
            let begun = Instant::now();
            while begun.elapsed() <= AT_A_TIME && !closed.breached() && self.make_next_release(context) {}
            self.load(process, Place { context, first }, &items, at_start, &closed)
        } else {
            self.queue().puts_back(Skip::InFlight, context, &items);
            let took = process.now() - entered;
            self.busy_until.store(process.now() + WHILE_BUSY_NANOS.max(BACK_OFF * took), Ordering::Relaxed);
            Outcome::default()
        };
        drop(closed);
        if idle {
            self.loaded.fetch_max(process.now(), Ordering::Relaxed);
        }
        if outcome.loaded + outcome.refused + outcome.left_out == 0 {
            return outcome.interrupted && outcome.modules > 0;
        }
        self.skip(Skip::DriverRefused, outcome.refused);
        if let Some(reason) = outcome.stopped {
            self.skip(reason, outcome.left_out);
        }
        let owner = items.first().map_or(0, |item| item.owner());
        let record = Record {
            kind: Kind::Preload,
            entered,
            returned: process.now(),
            context: context.min(0xffff) as u16,
            raw: RawPayload::preload(Preload {
                loaded: outcome.loaded,
                refused: outcome.refused,
                left_out: outcome.left_out,
                owner: if items.iter().all(|item| item.owner() == owner) { owner } else { 0 },
            }),
            ..Record::of(occasion.entry_point)
        };
        slot.push(&record, Lane::RareEvents);
        outcome.interrupted && outcome.loaded + outcome.modules > 0
    }

    /// What waits for a context, and whose turn has come.
    fn due(&self, process: &Process, context: u32, first: FirstLaunch, at_start: bool) -> Vec<Item> {
        let mut items = self.queue().pending_for(context, process.now());
        if first != FirstLaunch::Made {
            items.retain(|item| !self.waits_for_launch(*item, first));
        }
        if !at_start && process.now() < self.full_until.load(Ordering::Relaxed) {
            items.retain(|item| !item.is_ahead());
        }
        items
    }

    /// Whether something waits for a context, which is about to have its first launch, until right before that.
    pub fn waits_for_this_launch(&self, process: &Process, context: u32) -> bool {
        let waits = |item: &Item| {
            let waits = |first| self.waits_for_launch(*item, first);
            waits(FirstLaunch::ToCome) && !waits(FirstLaunch::Now)
        };
        let pending = if self.has_pending() { self.queue().pending_for(context, process.now()) } else { Vec::new() };
        pending.iter().any(waits)
    }

    /// Whether an item waits for the first launch of its context, as far as is known what it is. To load a library brings it into no context: that waits for
    /// nothing.
    fn waits_for_launch(&self, item: Item, first: FirstLaunch) -> bool {
        let library = match item {
            Item::Ahead(image, _) if !self.ahead.is_library(image) => {
                return waits_for_first_launch(self.ahead.prints(image), Code::Module, first);
            }
            Item::Ahead(image, nth) => self.ahead.library(image, nth),
            Item::AheadLibrary(number) => self.libraries.library(number),
            item => Some(item.owner()),
        };
        let prints = library.and_then(|library| lock(&self.printing).get(&library).copied());
        prints.is_some_and(|prints| waits_for_first_launch(prints, Code::Library, first))
    }

    fn idle(&self, process: &Process, context: u32, thread: u32, entered: Nanos, at_start: bool) -> bool {
        match self.questions.whole_context_idle(process, context, entered, at_start) {
            Some(idle) => idle,
            // The tables were full: objects without a number are not tracked.
            None => process.tracker.overflowed() == 0 && idle::in_flight(process, context, thread, entered).is_empty(),
        }
    }

    fn load(&self, process: &Process, place: Place, items: &[Item], at_start: bool, closed: &Closed) -> Outcome {
        let context = place.context;
        let mut outcome = Outcome::default();
        let begun = Instant::now();
        let is_blanket = is_blanket(&process.settings);
        // The pace is met, or the gate has to be opened.
        let turn_is_over = |late: &Spent| {
            let out_of_pace = !at_start && !is_blanket && !within_pace(&process.settings, process.now(), late);
            out_of_pace || closed.breached() || begun.elapsed() > AT_A_TIME
        };
        let budget = |spent: &Spent| if is_blanket { Ok(()) } else { within_budget(&process.settings, spent) };
        for item in items {
            if outcome.interrupted {
                break;
            }
            let before = memory();
            if item.is_ahead() && before.is_some_and(|memory| !leaves_enough_free(&process.settings, memory)) {
                self.queue().puts_back(Skip::LittleMemoryFree, context, &[*item]);
                self.full_until.store(process.now() + WHILE_FULL_NANOS, Ordering::Relaxed);
                continue;
            }
            let since = Instant::now();
            let mut spent = self.queue().spent(context);
            if item.is_ahead() {
                // The module or library is loaded before its functions can be asked for.
                let late = self.queue().late;
                if turn_is_over(&late) {
                    outcome.interrupted = true;
                    self.wait_for_the_pace(process, late.nanos);
                    break;
                }
                if let Err(reason) = budget(&spent) {
                    self.skip(reason, 1);
                    self.done(context, *item);
                    continue;
                }
            }
            let Content { kind, owner, handles: found, is_held } =
                match self.content(process, place, *item, &mut outcome) {
                    Ok(content) => content,
                    Err(reason) => {
                        self.skip(reason, 1);
                        self.done(context, *item);
                        continue;
                    }
                };
            let (nanos_before, late_before) = (spent.nanos, self.queue().late);
            let mut late = late_before;
            let took = || since.elapsed().as_nanos() as u64;
            for (n, &handle) in found.iter().enumerate() {
                let number = process.tracker.function(handle, kind, owner);
                if process.tracker.function_entry(number).is_some_and(|f| f.loaded_in(context)) {
                    continue;
                }
                spent.nanos = nanos_before + took();
                late.nanos = late_before.nanos + took();
                if turn_is_over(&late) {
                    outcome.interrupted = true;
                    break;
                }
                if let Err(reason) = budget(&spent) {
                    outcome.stopped = Some(reason);
                    outcome.left_out += (found.len() - n) as u64;
                    break;
                }
                if load_one(process, context, kind, handle, owner) {
                    spent.kernels += 1;
                    late.kernels += 1;
                    outcome.loaded += 1;
                } else {
                    outcome.refused += 1;
                }
            }
            spent.nanos = nanos_before + took();
            spent.bytes += before.zip(memory()).map_or(0, |(before, now)| before.free.saturating_sub(now.free));
            self.queue().set_spent(context, spent);
            if !at_start {
                late.nanos = late_before.nanos + took();
                self.queue().late = late;
            }
            if outcome.interrupted {
                self.wait_for_the_pace(process, late.nanos);
            } else if !is_held {
                self.done(context, *item);
            }
        }
        outcome
    }

    /// What an item stands for. A module or library that is expected is loaded for it.
    fn content(&self, process: &Process, place: Place, item: Item, outcome: &mut Outcome) -> Result<Content, Skip> {
        let context = place.context;
        let (owner, kind, handles) = match item {
            Item::Library(library) | Item::Rest(library) => (library, FunctionKind::Kernel, kernels_of(library)),
            Item::Module(module) => (module, FunctionKind::Function, functions_of(module)),
            Item::Kernel(kernel, library) => (library, FunctionKind::Kernel, Some(vec![kernel])),
            Item::Function(function, module) => (module, FunctionKind::Function, Some(vec![function])),
            Item::Ahead(image, nth) => {
                let there = match self.ahead.load(context, image, nth) {
                    ahead::Outcome::There(there) => there,
                    ahead::Outcome::Given => return Ok(Content::NONE),
                    ahead::Outcome::Refused => return Err(Skip::DriverRefused),
                };
                outcome.modules += u64::from(there.is_new);
                // A library comes into the context with its first kernel.
                match there.kind {
                    FunctionKind::Function => process.tracker.set_present_preloaded(there.owner, context),
                    FunctionKind::Kernel => self.may_print(there.owner, self.ahead.prints(image), there.is_new),
                }
                if self.waits_for_launch(item, place.first) {
                    return Ok(Content { is_held: true, ..Content::NONE });
                }
                // A run that hangs in the load of a module has not used it yet. So all of it is loaded, as of a module that the program loads.
                let loads_all = loads_libraries(process.settings.preload);
                let all = || functions_of(there.owner).filter(|_| loads_all).unwrap_or_default();
                (there.owner, there.kind, Some(there.functions.unwrap_or_else(all)))
            }
            Item::AheadLibrary(number) => {
                let there = self.libraries.load(number)?;
                outcome.modules += u64::from(there.is_new);
                self.may_print(there.library, there.prints, there.is_new);
                if self.waits_for_launch(item, place.first) {
                    return Ok(Content { is_held: true, ..Content::NONE });
                }
                if there.is_without_kernels {
                    bring(process, context, there.library);
                }
                (there.library, FunctionKind::Kernel, Some(there.kernels))
            }
        };
        let content = |handles| Content { kind, owner, handles, is_held: false };
        handles.map(content).ok_or(Skip::CannotEnumerate)
    }

    /// A library that the guard has loaded prints, or may print; of one that was there before, that is known.
    fn may_print(&self, library: u64, prints: Prints, is_new: bool) {
        if is_new && prints != Prints::No {
            self.prints(library, prints);
        }
    }

    /// Leaves the rest until so much more may have been spent that it is worth to close the gate.
    fn wait_for_the_pace(&self, process: &Process, spent: Nanos) {
        if !is_blanket(&process.settings) {
            let again = pace_reaches(&process.settings, spent + WORTH_NANOS);
            self.not_before.store(again.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    fn done(&self, context: u32, item: Item) {
        self.change(|queue| queue.done(context, item));
    }

    pub fn summary(&self, policy: Policy) -> PreloadSummary {
        // The watchdog asks too: it must not wait for a thread that was stopped while it held the queue's lock.
        let summary = match self.queue.try_lock() {
            Ok(queue) => queue.summary(policy),
            Err(_) => PreloadSummary { policy: PreloadSummary::policy_name(policy), ..PreloadSummary::default() },
        };
        let (modules_ahead, modules_handed_over) = self.ahead.modules();
        let (of_runtimes, of_images) = (self.libraries.counts(), self.ahead.libraries());
        let (libraries_ahead, libraries_handed_over) = (of_runtimes.0 + of_images.0, of_runtimes.1 + of_images.1);
        PreloadSummary { modules_ahead, modules_handed_over, libraries_ahead, libraries_handed_over, ..summary }
    }
}

struct Content {
    kind: FunctionKind,
    owner: u64,
    handles: Vec<u64>,
    /// It is not to come into the context yet: the item stays pending.
    is_held: bool,
}

impl Content {
    const NONE: Self = Self { kind: FunctionKind::Function, owner: 0, handles: Vec::new(), is_held: false };
}

/// A context that something is loaded into.
#[derive(Clone, Copy)]
struct Place {
    context: u32,
    first: FirstLaunch,
}

/// How far a context is with its first launch, at this call.
fn first_launch(process: &Process, context: u32, occasion: Occasion) -> FirstLaunch {
    let has_launched = process.tracker.context_entry(context).is_some_and(Context::has_launched);
    match (has_launched, occasion.entry_point.class()) {
        (true, _) => FirstLaunch::Made,
        (false, Class::Launch) if occasion.submits => FirstLaunch::Now,
        (false, _) => FirstLaunch::ToCome,
    }
}

/// This thread's turn at loading.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `try_now`; the next thread sees the queue as this one left them.
        self.0.store(false, Ordering::Release);
    }
}

/// A context, current to this thread; the thread's own comes back when this is dropped.
struct Current {
    pushed: bool,
}

impl Current {
    fn make(context: Handle) -> Option<Self> {
        let pushed = driver::current_context() != context;
        (!pushed || driver::ctx_push(context) == Some(SUCCESS)).then_some(Self { pushed })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            driver::ctx_pop(&mut null_mut());
        }
    }
}

/// Waits until no other thread is in a call that the gate stops. `false` if a thread stays in one: the context is busy.
fn nothing_under_way(process: &Process, own: &ThreadSlot, context: u32) -> bool {
    let since = Instant::now();
    loop {
        let under_way = process.tracker.threads().any(|(_, slot)| {
            !std::ptr::eq(slot, own)
                && slot.published().is_some_and(|call| {
                    let class = call.entry_point.class();
                    let here = call.context == 0 || call.context == context || class.concerns_every_context();
                    class.waits_at_gate() && here
                })
        });
        if !under_way {
            return true;
        }
        if since.elapsed() > UNDER_WAY {
            return false;
        }
        std::thread::yield_now();
    }
}

/// From this version on the driver can list a library's kernels and a module's functions.
const LISTS_SINCE: i32 = 12040;

/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: i32 = 801;

fn kernel_count(library: u64) -> Option<u32> {
    let mut count = 0;
    (driver::library_kernel_count(&mut count, library as Handle)? == SUCCESS).then_some(count)
}

fn kernels_of(library: u64) -> Option<Vec<u64>> {
    let count = kernel_count(library)?;
    let mut kernels = vec![null_mut(); count as usize];
    if driver::library_kernels(kernels.as_mut_ptr(), count, library as Handle)? != SUCCESS {
        return None;
    }
    Some(kernels.into_iter().map(|k| k as u64).collect())
}

fn functions_of(module: u64) -> Option<Vec<u64>> {
    let mut count = 0;
    if driver::module_function_count(&mut count, module as Handle)? != SUCCESS {
        return None;
    }
    let mut functions = vec![null_mut(); count as usize];
    if driver::module_functions(functions.as_mut_ptr(), count, module as Handle)? != SUCCESS {
        return None;
    }
    Some(functions.into_iter().map(|f| f as u64).collect())
}

/// What the driver says of the memory of the current context's device.
fn memory() -> Option<Memory> {
    let (mut free, mut total) = (0, 0);
    let asked = driver::memory_info(&mut free, &mut total)? == SUCCESS;
    asked.then_some(Memory { free: free as u64, total: total as u64 })
}

fn bring(process: &Process, context: u32, library: u64) {
    if driver::library_module(&mut null_mut(), library as Handle) == Some(SUCCESS) {
        process.tracker.set_present_preloaded(library, context);
    }
}

fn load_one(process: &Process, context: u32, kind: FunctionKind, handle: u64, owner: u64) -> bool {
    let loaded = match kind {
        FunctionKind::Kernel => {
            let mut function = null_mut();
            let loaded = driver::kernel_function(&mut function, handle as Handle) == Some(SUCCESS);
            if loaded {
                mark_function_loaded(process, context, function as u64, owner);
            }
            loaded
        }
        FunctionKind::Function => match driver::function_load(handle as Handle) {
            Some(result) if result != NOT_SUPPORTED => result == SUCCESS,
            // Before 12.4, asking a resolved function for an attribute loads it.
            _ => driver::function_attribute(&mut 0, NUM_REGS, handle as Handle) == Some(SUCCESS),
        },
    };
    if loaded {
        let number = process.tracker.function(handle, kind, owner);
        if let Some(function) = process.tracker.function_entry(number) {
            function.set_preloaded(context);
        }
        process.tracker.set_present_preloaded(owner, context);
    }
    loaded
}

/// `CU_FUNC_ATTRIBUTE_NUM_REGS`.
const NUM_REGS: i32 = 4;

/// A kernel's function is loaded with it. The report names what that prevented under the kernel, whose use comes first.
fn mark_function_loaded(process: &Process, context: u32, handle: u64, owner: u64) {
    let number = process.tracker.function(handle, FunctionKind::Function, owner);
    if let Some(function) = process.tracker.function_entry(number) {
        function.set_loaded_in(context);
    }
}
