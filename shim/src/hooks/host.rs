//! Host functions: a stream calls the program back, and continues when the function has returned. A hang may be about one that has not
//! returned, and only the host knows which. So the hook gives the driver a function of the guard's, which notes the call, makes it, and
//! notes its return. The call itself shows that everything before it on its stream is complete.
//!
//! Protocol: a block of memory holds what the program asked for, and the called function frees it. A graph may call any number of times,
//! from clones as well, so its blocks are never freed: there is one for each function with its argument, and a limit. A program that asks
//! for a node's function gets its own. Without a block, the hook leaves everything unchanged.
//!
//! Must not: call the driver from a host function, which the driver forbids, or let the program see a function of the guard's.

use super::call::{published, succeeds, Call, Entry, Real};
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::record::guard;
use crate::runtime::{door, memory, pass_through, readable, thread};
use cudarc::driver::sys::CUgraphNodeParams as NodeParams;
use lazyguard_core::api::{EntryPoint, GraphPart, NodeKind};
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::Caller;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type HostFunction = unsafe extern "C-unwind" fn(Handle);
type Callback = unsafe extern "C-unwind" fn(Handle, i32, Handle);

/// The driver's function of an entry point, called with the program's own arguments but for what is the guard's.
macro_rules! real_with {
    ($entry:ident, ($($ty:ty),*), ($($arg:expr),*)) => {
        driver::real($entry.entry_point).map(|real| {
            // SAFETY: the driver's function of this entry point has this calling sequence.
            let real: unsafe extern "C-unwind" fn($($ty),*) -> i32 = unsafe { std::mem::transmute(real) };
            // SAFETY: the guard's function takes what it is given here; the guard's description lives until the call has returned.
            unsafe { real($($arg),*) }
        })
    };
}

#[derive(Clone, Copy)]
struct Wanted {
    entry_point: EntryPoint,
    caller: Caller,
    function: Handle,
    user_data: Handle,
    stream: u32,
    handle: u64,
    context: u32,
    /// When it was; 0 of a graph's, which no stream is known of either.
    submitted: Nanos,
}

pub(super) fn launch(entry: Entry, stream: Handle, function: Handle, user_data: Handle, real: impl Real) -> i32 {
    submit(entry, stream, [function, user_data], true, real, |wanted| {
        real_with!(entry, (Handle, HostFunction, Handle), (stream, called, wanted))
    })
}

/// The older entry point, which reports errors to the function.
pub(super) fn add_callback(
    entry: Entry,
    stream: Handle,
    function: Handle,
    user_data: Handle,
    flags: u32,
    real: impl Real,
) -> i32 {
    submit(entry, stream, [function, user_data], false, real, |wanted| {
        real_with!(entry, (Handle, Callback, Handle, u32), (stream, called_back, wanted, flags))
    })
}

/// Makes the call with the guard's function, unless it would become part of a graph and must not (`may_be_captured`).
fn submit(
    entry: Entry,
    stream: Handle,
    [function, user_data]: [Handle; 2],
    may_be_captured: bool,
    real: impl Real,
    wrapped: impl FnOnce(Handle) -> Option<i32>,
) -> i32 {
    let wanted = Cell::new(null_mut());
    let before = |call: &mut Call| {
        if function.is_null() {
            // The driver refuses it, whatever the stream is.
            return;
        }
        call.submits_to(stream);
        call.about.raw = RawPayload::about(function as u64);
        if call.was_refused() {
            return;
        }
        wanted.set(match call.is_carried_out_once() {
            true => keep(call, function, user_data),
            false if may_be_captured => keep_for_graph(call, function, user_data),
            false => not_kept(),
        });
    };
    let made = || {
        let kept = wanted.get();
        if kept.is_null() {
            return real();
        }
        let answer = wrapped(kept.cast());
        if answer != Some(SUCCESS) {
            // The driver has refused the call, so this is the only pointer to a block that is not a graph's.
            take(kept.cast());
        }
        answer.unwrap_or_else(real)
    };
    published(entry, made, before)
}

/// A function that becomes part of a graph is left as it is.
fn not_kept() -> *mut Wanted {
    pass_through::note(PassThrough::CapturedHostFunction);
    null_mut()
}

fn keep(call: &Call, function: Handle, user_data: Handle) -> *mut Wanted {
    let place = memory::place::<Wanted>();
    if place.is_null() {
        pass_through::note(PassThrough::NoMemory);
    } else {
        let handle = call.about.stream_entry.map_or(0, lazyguard_core::state::Stream::handle);
        let (stream, context) = (call.about.stream, call.about.context);
        let (entry_point, caller, submitted) = (call.entry_point, call.caller, call.entered);
        // SAFETY: big enough, and aligned for everything.
        unsafe { place.write(Wanted { entry_point, caller, function, user_data, stream, handle, context, submitted }) };
    }
    place
}

/// A host node's description, as the driver reads it. Newer ones are longer, and have a call of their own.
#[derive(Clone, Copy)]
#[repr(C)]
struct Node {
    function: Handle,
    user_data: Handle,
}

pub(super) fn add_node(
    entry: Entry,
    added: Handle,
    graph: Handle,
    dependencies: Handle,
    count: usize,
    params: Handle,
    real: impl Real,
) -> i32 {
    node(entry, null_mut(), params, real, |params| {
        real_with!(entry, (Handle, Handle, Handle, usize, Handle), (added, graph, dependencies, count, params))
    })
}

pub(super) fn set_node(entry: Entry, changed: Handle, params: Handle, real: impl Real) -> i32 {
    node(entry, null_mut(), params, real, |params| real_with!(entry, (Handle, Handle), (changed, params)))
}

pub(super) fn change_node(entry: Entry, executable: Handle, changed: Handle, params: Handle, real: impl Real) -> i32 {
    node(entry, executable, params, real, |params| {
        real_with!(entry, (Handle, Handle, Handle), (executable, changed, params))
    })
}

/// Makes a call that describes a host node, with the guard's function in the place of the program's.
fn node(
    entry: Entry,
    executable: Handle,
    params: Handle,
    real: impl Real,
    wrapped: impl FnOnce(Handle) -> Option<i32>,
) -> i32 {
    let (wanted, function) = (Cell::new(null_mut()), Cell::new(null_mut()));
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        call.about.raw = RawPayload::about(executable as u64);
        // The driver refuses a node that is none before it looks at the description.
        let Some(node) = readable::value(params.cast::<Node>()) else { return };
        function.set(node.function);
        if !node.function.is_null() {
            wanted.set(keep_for_graph(call, node.function, node.user_data));
        }
    };
    let made = || {
        let kept = wanted.get();
        if kept.is_null() {
            return real();
        }
        let mut own = Node { function: called as *const () as Handle, user_data: kept.cast() };
        wrapped(std::ptr::from_mut(&mut own).cast()).unwrap_or_else(real)
    };
    succeeds(entry, before, made, |call| {
        if !executable.is_null() {
            call.changed(executable, GraphPart::about(NodeKind::HostFunction, function.get() as u64));
        }
    })
}

pub(super) fn node_parameters(entry: Entry, params: Handle, real: impl Real) -> i32 {
    asks_for_node(entry, params.cast(), real)
}

/// A program asks for the description of a node of any kind, which begins with the kind.
pub(super) fn any_node_parameters(entry: Entry, params: Handle, real: impl Real) -> i32 {
    // The guard's function is the first thing in no other kind's description.
    asks_for_node(entry, params.cast::<u8>().wrapping_add(offset_of!(NodeParams, __bindgen_anon_1)).cast(), real)
}

fn asks_for_node(entry: Entry, node: *mut Node, real: impl Real) -> i32 {
    succeeds(
        entry,
        |_: &mut Call| {},
        real,
        |_| {
            // SAFETY: the driver has succeeded, so that it has written a description of which this is a part.
            let told = unsafe { node.read() };
            if is_of_guard(told.function) {
                // SAFETY: as above.
                unsafe { node.write(own(told)) };
            }
        },
    )
}

fn is_of_guard(function: Handle) -> bool {
    function == called as *const () as Handle
}

fn own(node: Node) -> Node {
    if !is_of_guard(node.function) {
        return node;
    }
    // SAFETY: the guard's function goes with a block of `keep_for_graph`, which is never freed.
    let wanted = unsafe { node.user_data.cast::<Wanted>().read() };
    Node { function: wanted.function, user_data: wanted.user_data }
}

pub(super) fn function_of(node: Handle) -> Option<u64> {
    let mut found = Node { function: null_mut(), user_data: null_mut() };
    let answer = driver::host_node(node, std::ptr::from_mut(&mut found).cast());
    (answer == Some(SUCCESS)).then(|| own(found).function as u64)
}

/// Functions in graphs with their arguments, which are kept for good.
const MOST_OF_GRAPHS: usize = 4096;

/// A block for a function in a graph, the one that there is for it or a new one; null where there is no room, which is counted.
fn keep_for_graph(call: &Call, function: Handle, user_data: Handle) -> *mut Wanted {
    if is_of_guard(function) {
        // The program got the guard's function by a way around the hooks. The driver is given it as it is.
        return not_kept();
    }
    let mut kept = lock(&call.guard.of_graphs);
    let key = (function as u64, user_data as u64);
    if let Some(known) = kept.get(&key) {
        return known.load(Ordering::Relaxed).cast();
    }
    let made = if kept.len() < MOST_OF_GRAPHS { keep(call, function, user_data) } else { null_mut() };
    if made.is_null() {
        return not_kept();
    }
    // SAFETY: the block was just made, and no other thread has it.
    unsafe { ((*made).stream, (*made).submitted) = (0, 0) };
    kept.insert(key, AtomicPtr::new(made.cast()));
    made
}

unsafe extern "C-unwind" fn called(kept: Handle) {
    let wanted = take(kept);
    note(&wanted, Kind::HostBegins);
    // SAFETY: the program's function, as the driver would have called it.
    unsafe { std::mem::transmute::<Handle, HostFunction>(wanted.function)(wanted.user_data) };
    note(&wanted, Kind::HostEnds);
}

unsafe extern "C-unwind" fn called_back(stream: Handle, status: i32, kept: Handle) {
    let wanted = take(kept);
    note(&wanted, Kind::HostBegins);
    // SAFETY: as above.
    unsafe { std::mem::transmute::<Handle, Callback>(wanted.function)(stream, status, wanted.user_data) };
    note(&wanted, Kind::HostEnds);
}

/// Reads a block, which goes back unless it is a graph's.
fn take(kept: Handle) -> Wanted {
    // SAFETY: written by `keep`. A graph's is never freed, another one is handed to one call.
    let wanted = unsafe { kept.cast::<Wanted>().read() };
    if wanted.submitted != 0 {
        // SAFETY: allocated by `keep`, and used no more.
        unsafe { memory::give_back(kept.cast::<Wanted>()) };
    }
    wanted
}

#[inline(never)]
fn note(wanted: &Wanted, kind: Kind) {
    door::inside(|| {
        let Some(guard) = guard() else { return };
        let Some(slot) = thread::slot(guard) else { return };
        if !slot.enter(Caller { stack: std::ptr::from_ref(wanted) as usize, ..Caller::default() }) {
            return;
        }
        let now = guard.now();
        let stream = guard.tracker.stream_entry(wanted.stream);
        if let Some(stream) = stream.filter(|s| s.alive() && s.handle() == wanted.handle) {
            // The function itself is outstanding until it has returned.
            stream.complete_until(wanted.submitted.saturating_sub(u64::from(kind == Kind::HostBegins)));
        }
        let record = Record {
            kind,
            flags: flag::SUBMITTED,
            entered: now,
            returned: now,
            stream: wanted.stream,
            context: wanted.context.min(0xffff) as u16,
            raw: RawPayload::host_call(wanted.function as u64, wanted.submitted),
            caller: wanted.caller.address as u64,
            ..Record::of(wanted.entry_point)
        };
        slot.push(&record, Lane::Waits);
        slot.leave();
    });
}
