//! One attempt to load what is pending for a context: close the gate, see that no submission is under way, ask whether anything is in flight, and only
//! then load, inside the budget. Beside work in flight everything stays pending: the load would wait for it.
//!
//! Must not: load while anything is in flight in the context, or hold a lock across a driver call.

use super::gate::Closed;
use super::idle::{self, nothing_under_way, Current, Uncaptured};
use super::kernels;
use super::loader::Loader;
use super::queue::Item;
use crate::lookup::driver::Handle;
use crate::runtime::process::Process;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::image::Prints;
use lazyguard_core::preload::{
    is_blanket, leaves_enough_free, loads_libraries, within_budget, within_pace, FirstLaunch, Skip, Spent,
};
use lazyguard_core::state::{Context, FunctionKind, ThreadSlot};
use lazyguard_core::trace::{Kind, Lane, Preload, RawPayload, Record};
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const AT_A_TIME: Duration = Duration::from_millis(200);
/// How long a profile loads nothing after a device had too little memory free.
const WHILE_FULL_NANOS: Nanos = 1_000_000_000;

/// The program's call at which something is loaded.
#[derive(Clone, Copy)]
pub struct Occasion {
    pub entry_point: EntryPoint,
    pub entered: Nanos,
    pub caller: u64,
    /// A captured call does not.
    pub submits: bool,
}

impl Loader {
    /// Loads what is pending for an idle context. No call is marked in the calling thread's `slot`. With `at_start` the context has just been created,
    /// and the pace does not count.
    pub fn try_now(&self, process: &Process, slot: &ThreadSlot, context: u32, occasion: Occasion, at_start: bool) {
        if !self.has_pending() || context == 0 {
            return;
        }
        if !at_start && self.is_early(process) && !self.releases_are_due(process, context) {
            return;
        }
        // Twice: another thread's work may have ended in the first turn, and that thread has found the loader busy.
        for _ in 0..2 {
            if self.busy.swap(true, Ordering::Acquire) {
                return;
            }
            let turn = Turn(&self.busy);
            // The gate is opened now and then.
            while Attempt::new(self, process, slot, (context, occasion, at_start)).make() && at_start {}
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

    /// Whether a release waits for an idle context: the program may make no further call.
    fn releases_are_due(&self, process: &Process, context: u32) -> bool {
        self.releases.wait_for(context) && process.tracker.in_flight(context).is_empty()
    }
}

struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `try_now`.
        self.0.store(false, Ordering::Release);
    }
}

struct Attempt<'a> {
    loader: &'a Loader,
    process: &'a Process,
    slot: &'a ThreadSlot,
    context: u32,
    occasion: Occasion,
    at_start: bool,
    first: FirstLaunch,
    begun: Instant,
    done: Done,
}

#[derive(Default)]
struct Done {
    loaded: u64,
    /// Expected modules and libraries.
    modules: u64,
    refused: u64,
    left_out: u64,
    /// The pace ended it, or the gate had to be opened.
    interrupted: bool,
}

struct Content {
    kind: FunctionKind,
    owner: u64,
    handles: Vec<u64>,
    /// The code is not to come into the context yet.
    is_held: bool,
}

impl Content {
    const NONE: Self = Self { kind: FunctionKind::Function, owner: 0, handles: Vec::new(), is_held: false };
}

enum Stop {
    TurnIsOver,
    Budget(Skip),
}

/// Spent on an item, beside what was spent in the context, and on late arrivals.
struct Bill {
    before: [Spent; 2],
    kernels: u64,
    since: Instant,
}

impl Bill {
    fn now(&self) -> [Spent; 2] {
        let nanos = self.since.elapsed().as_nanos() as u64;
        self.before.map(|b| Spent { kernels: b.kernels + self.kernels, nanos: b.nanos + nanos, bytes: b.bytes })
    }
}

impl<'a> Attempt<'a> {
    fn new(
        loader: &'a Loader,
        process: &'a Process,
        slot: &'a ThreadSlot,
        (context, occasion, at_start): (u32, Occasion, bool),
    ) -> Self {
        let has_launched = process.tracker.context_entry(context).is_some_and(Context::has_launched);
        let first = match (has_launched, occasion.entry_point.class()) {
            (true, _) => FirstLaunch::Made,
            (false, Class::Launch) if occasion.submits => FirstLaunch::Now,
            (false, _) => FirstLaunch::ToCome,
        };
        Self { loader, process, slot, context, occasion, at_start, first, begun: Instant::now(), done: Done::default() }
    }

    fn due(&self) -> Vec<Item> {
        self.loader.due(self.process, self.context, self.first, self.at_start)
    }

    fn make(mut self) -> bool {
        let (loader, process, slot, context) = (self.loader, self.process, self.slot, self.context);
        let waits = || !self.due().is_empty() || loader.releases.wait_for(context);
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
        let idle = clear && self.shown(EntryPoint::by_symbol(b"cuEventQuery"), 0, || self.is_idle(slot.thread()));
        // With the gate closed: an unload in progress has removed its items, and the next one waits.
        let items = self.due();
        if idle {
            self.begun = Instant::now();
            while self.begun.elapsed() <= AT_A_TIME && !closed.breached() && loader.releases.wait_for(context) {
                self.shown(EntryPoint::by_symbol(b"cuMemFree_v2"), 0, || loader.releases.make_next(context));
            }
            self.begun = Instant::now();
            self.load(&items, &closed);
        } else {
            loader.queue().puts_back(Skip::InFlight, context, &items);
        }
        drop(closed);
        loader.was_idle(process, idle, entered);
        if self.done.loaded + self.done.refused + self.done.left_out > 0 {
            loader.queue().skip(Skip::DriverRefused, self.done.refused);
            slot.push(&self.record(&items, entered), Lane::RareEvents);
        }
        self.done.interrupted && self.done.loaded + self.done.modules > 0
    }

    fn record(&self, items: &[Item], entered: Nanos) -> Record {
        let owner = items.first().map_or(0, |item| item.owner());
        let raw = RawPayload::preload(Preload {
            loaded: self.done.loaded,
            refused: self.done.refused,
            left_out: self.done.left_out,
            owner: if items.iter().all(|item| item.owner() == owner) { owner } else { 0 },
        });
        let (returned, context) = (self.process.now(), self.context.min(0xffff) as u16);
        Record { kind: Kind::Preload, entered, returned, context, raw, ..Record::of(self.occasion.entry_point) }
    }

    /// The watchdog sees a driver call of the guard's own that does not return: the program's thread waits in it.
    fn shown<T>(&self, entry_point: Option<EntryPoint>, function: u32, call: impl FnOnce() -> T) -> T {
        let Some(entry_point) = entry_point else { return call() };
        let (entered, caller, context) = (self.process.now(), self.occasion.caller, self.context.min(0xffff) as u16);
        let facts = Record { kind: Kind::Preload, entered, caller, context, function, ..Record::of(entry_point) };
        self.slot.shows(&facts, call)
    }

    fn is_idle(&self, thread: u32) -> bool {
        let (process, context, entered) = (self.process, self.context, self.occasion.entered);
        match self.loader.questions.whole_context_idle(process, context, entered, self.at_start) {
            Some(idle) => idle,
            None => idle::in_flight(process, context, thread, entered).is_empty(),
        }
    }

    /// Whether the pace, the gate and the budget allow another kernel.
    fn may_go_on(&self, closed: &Closed, bill: &Bill) -> Result<(), Stop> {
        let settings = &self.process.settings;
        let [spent, late] = bill.now();
        let in_pace = self.at_start || is_blanket(settings) || within_pace(settings, self.process.now(), &late);
        if !in_pace || closed.breached() || self.begun.elapsed() > AT_A_TIME {
            return Err(Stop::TurnIsOver);
        }
        let budget = if is_blanket(settings) { Ok(()) } else { within_budget(settings, &spent) };
        budget.map_err(Stop::Budget)
    }

    fn load(&mut self, items: &[Item], closed: &Closed) {
        for item in items {
            self.load_item(*item, closed);
            if self.done.interrupted {
                break;
            }
        }
    }

    fn load_item(&mut self, item: Item, closed: &Closed) {
        let (loader, process, context) = (self.loader, self.process, self.context);
        let leaves_out = |reason| {
            loader.queue().skip(reason, 1);
            loader.done(context, item);
        };
        let is_library = matches!(item, Item::Ahead(image, _) if loader.ahead.is_library(image));
        let by = EntryPoint::by_symbol(loading(item, is_library));
        let memory = self.shown(by, 0, kernels::memory);
        if item.is_ahead() && memory.is_some_and(|memory| !leaves_enough_free(&process.settings, memory)) {
            loader.queue().puts_back(Skip::LittleMemoryFree, context, &[item]);
            return loader.full_until.store(process.now() + WHILE_FULL_NANOS, Ordering::Relaxed);
        }
        let before = {
            let queue = loader.queue();
            [queue.spent(context), queue.late]
        };
        let mut bill = Bill { before, kernels: 0, since: Instant::now() };
        if item.is_ahead() {
            // The module or library is loaded before its functions can be asked for.
            match self.may_go_on(closed, &bill) {
                Ok(()) => {}
                Err(Stop::Budget(reason)) => return leaves_out(reason),
                Err(Stop::TurnIsOver) => {
                    self.done.interrupted = true;
                    return loader.wait_for_the_pace(process, bill.before[1].nanos);
                }
            }
        }
        let begun = process.now();
        loader.under_way.begins(self.loader.code(item), begun);
        let content = self.content(item, by);
        if let Ok(content) = &content {
            self.load_all(content, closed, &mut bill);
        }
        loader.under_way.ends(process.now());
        let content = match content {
            Ok(content) => content,
            Err(reason) => return leaves_out(reason),
        };
        let [mut spent, late] = bill.now();
        spent.bytes += memory.zip(kernels::memory()).map_or(0, |(before, now)| before.free.saturating_sub(now.free));
        let mut queue = loader.queue();
        queue.set_spent(context, spent);
        if !self.at_start {
            queue.late = late;
        }
        drop(queue);
        if self.done.interrupted {
            loader.wait_for_the_pace(process, late.nanos);
        } else if !content.is_held {
            loader.done(context, item);
        }
    }

    fn load_all(&mut self, content: &Content, closed: &Closed, bill: &mut Bill) {
        let (tracker, &Content { kind, owner, ref handles, .. }) = (&self.process.tracker, content);
        // Found once: a module has thousands of functions.
        let symbol: &[u8] = if kind == FunctionKind::Kernel { b"cuKernelGetFunction" } else { b"cuFuncLoad" };
        let by = EntryPoint::by_symbol(symbol);
        for (n, &handle) in handles.iter().enumerate() {
            let number = tracker.function(handle, kind, owner);
            if tracker.function_entry(number).is_some_and(|f| f.loaded_in(self.context)) {
                continue;
            }
            match self.may_go_on(closed, bill) {
                Ok(()) if self.shown(by, number, || kernels::load(self.process, self.context, kind, handle, owner)) => {
                    bill.kernels += 1;
                    self.done.loaded += 1;
                }
                Ok(()) => self.done.refused += 1,
                Err(Stop::TurnIsOver) => {
                    self.done.interrupted = true;
                    break;
                }
                Err(Stop::Budget(reason)) => {
                    let left_out = (handles.len() - n) as u64;
                    self.loader.queue().skip(reason, left_out);
                    self.done.left_out += left_out;
                    break;
                }
            }
        }
    }

    fn content(&mut self, item: Item, by: Option<EntryPoint>) -> Result<Content, Skip> {
        let there = match item {
            Item::Library(library) | Item::Rest(library) => {
                return listed(FunctionKind::Kernel, library, self.shown(by, 0, || kernels::of_library(library)));
            }
            Item::Module(module) => {
                return listed(FunctionKind::Function, module, self.shown(by, 0, || kernels::of_module(module)));
            }
            Item::Kernel(kernel, library) => return listed(FunctionKind::Kernel, library, Some(vec![kernel])),
            Item::Function(function, module) => return listed(FunctionKind::Function, module, Some(vec![function])),
            Item::Ahead(image, nth) => self.shown(by, 0, || self.loader.ahead.load(self.context, image, nth))?,
            Item::AheadLibrary(number) => Some(self.shown(by, 0, || self.loader.libraries.load(number))?),
        };
        let Some(there) = there else { return Ok(Content::NONE) };
        let (process, context, owner, kind) = (self.process, self.context, there.owner, there.kind);
        self.done.modules += u64::from(there.is_new);
        // A library comes into the context with its first kernel. The loader already knows whether an older one prints.
        match kind {
            FunctionKind::Function => process.tracker.set_present(owner, context, true),
            FunctionKind::Kernel if there.is_new && there.prints != Prints::No => {
                self.loader.prints(owner, there.prints)
            }
            FunctionKind::Kernel => {}
        }
        if self.loader.waits_for_launch(item, self.first) {
            return Ok(Content { is_held: true, ..Content::NONE });
        }
        let handles = match (there.functions, kind) {
            (Some(functions), _) => functions,
            // A run that hangs in the load of a module has not used it yet: all of it is loaded.
            (None, FunctionKind::Function) if loads_libraries(process.settings.preload) => {
                self.shown(by, 0, || kernels::of_module(owner)).unwrap_or_default()
            }
            (None, FunctionKind::Function) => Vec::new(),
            // Something else of it is wanted, such as a variable.
            (None, FunctionKind::Kernel) => {
                self.shown(by, 0, || kernels::bring(process, context, owner));
                Vec::new()
            }
        };
        listed(kind, owner, Some(handles))
    }
}

/// The driver's function that loads it, or lists what it has to load.
fn loading(item: Item, is_library: bool) -> &'static [u8] {
    match item {
        Item::Ahead(..) if !is_library => b"cuModuleLoadDataEx",
        Item::Ahead(..) | Item::AheadLibrary(_) => b"cuLibraryLoadData",
        Item::Library(_) | Item::Rest(_) => b"cuLibraryEnumerateKernels",
        Item::Module(_) => b"cuModuleGetFunction",
        Item::Kernel(..) => b"cuKernelGetFunction",
        Item::Function(..) => b"cuFuncLoad",
    }
}

fn listed(kind: FunctionKind, owner: u64, handles: Option<Vec<u64>>) -> Result<Content, Skip> {
    handles.map(|handles| Content { kind, owner, handles, is_held: false }).ok_or(Skip::CannotEnumerate)
}
