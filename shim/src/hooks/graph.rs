//! Graphs: a kernel node loads its kernel when it is added; a launch submits one operation; instantiation lists what that does.
//!
//! The list is made on the program's own thread, right after its own call about the graph has returned: no other thread may use the graph
//! then. Only questions about the graph are asked, which neither load nor wait. Beyond some nodes the rest is counted: a graph of thousands
//! costs a fraction of its instantiation.
//!
//! A call that makes a graph executable or changes it sets aside as much local memory as a kernel of it needs, and waits for an idle
//! context for that (measured). While work is in flight, the list is also made before the call, which may never return: the record says
//! whether the call waits. That is asked of loaded kernels alone, since the question would load another.
//!
//! Must not: change what a graph holds, or look at one in a launch.

use super::call::{published, succeeds, written, Again, Call, Entry, Real};
use super::cold::number_of;
use super::fast::{self, Subject};
use super::{host, memop};
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::driver_queries;
use crate::record::{path, Guard};
use crate::runtime::readable;
use crate::runtime::results::{self, REVOKED};
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS_v2 as KernelNode, CUgraphNodeParams as NodeParams,
    CUDA_BATCH_MEM_OP_NODE_PARAMS as MemoryOperations,
};
use lazyguard_core::api::{GraphContents, GraphPart, NodeKind};
use lazyguard_core::hazard::rules;
use lazyguard_core::map::HashSet;
use lazyguard_core::state::{Context, FastSubmission, FunctionKind};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::RawPayload;
use std::cell::Cell;
use std::mem::{offset_of, MaybeUninit};
use std::ptr::null_mut;

const MOST_NODES: usize = 1024;
const MOST_DEEP: u32 = 4;

#[inline(always)]
pub(super) fn launch(entry: Entry, graph: Handle, stream: Handle, real: impl Again) -> i32 {
    let Subject { facts, .. } = Subject::of(entry, graph as u64, stream, RawPayload::about(graph as u64));
    let launched = |guard: &'static Guard, fast: &FastSubmission| {
        if results::is_set(REVOKED) {
            return false;
        }
        guard.tracker.graph_launches.note(fast.number, fast.entered());
        true
    };
    let begin = move || fast::begin(entry, facts, |_, kept| path::from(kept, entry.caller()), launched);
    let before = move |call: &mut Call| {
        call.submits_to(stream);
        call.about.raw = facts.raw;
        call.about.from = call.made_from(call.slot.path_to(facts.object, call.about.context, call.epoch));
        call.guard.tracker.graph_launches.note(call.guard.tracker.launches_graphs(call.slot), call.entered);
    };
    let after = move |call: &Call, result| {
        let word = call.guard.tracker.launches_graphs(call.slot);
        call.guard.tracker.graph_launches.note(word, call.returned);
        call.repeats(entry, (facts.object, word), stream, result);
    };
    let then = |guard: &Guard, fast: FastSubmission, returned| guard.tracker.graph_launches.note(fast.number, returned);
    fast::submission(entry, begin, real, then, (before, after))
}

pub(super) fn instantiate(entry: Entry, executable: Handle, graph: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        // Without a context the driver refuses the call, whatever the graph is.
        if call.about.context != 0 {
            learn(call, graph);
        }
    };
    succeeds(entry, before, real, |call| {
        if let Some(executable) = written(executable) {
            call.gave_out(executable as u64);
            note(call, executable, graph);
        }
    })
}

/// An executable graph is made to do what another graph does.
pub(super) fn update(entry: Entry, executable: Handle, graph: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        of_executable(call, executable);
        // Without an executable graph the driver refuses the call, whatever the other is.
        if !executable.is_null() {
            learn(call, graph)
        }
    };
    succeeds(entry, before, real, |call| note(call, executable, graph))
}

pub(super) fn destroy(entry: Entry, executable: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| of_executable(call, executable))
}

fn of_executable(call: &mut Call, executable: Handle) {
    call.about.context = call.current_context();
    call.about.raw = RawPayload::about(executable as u64);
}

pub(super) fn change_event_node(entry: Entry, executable: Handle, event: Handle, real: impl Real) -> i32 {
    changes_to(entry, executable, real, || {
        let waits = entry.entry_point.symbol().contains("Wait");
        GraphPart::about(if waits { NodeKind::EventWait } else { NodeKind::EventRecord }, event as u64)
    })
}

/// A node of an executable graph does something else, which is not followed.
pub(super) fn change_other_node(entry: Entry, executable: Handle, real: impl Real) -> i32 {
    changes_to(entry, executable, real, || GraphPart::of(NodeKind::Other))
}

fn changes_to(entry: Entry, executable: Handle, real: impl Real, part: impl FnOnce() -> GraphPart) -> i32 {
    succeeds(entry, |call| of_executable(call, executable), real, |call| call.changed(executable, part()))
}

impl Call {
    pub fn changed(&self, executable: Handle, part: GraphPart) {
        self.guard.tracker.graph_node_is(executable as u64, part, self.returned);
    }

    fn local_memory_of(&self, kernel: Handle, number: u32) -> Needs {
        let tracker = &self.guard.tracker;
        let ask = || {
            let function = tracker.function_entry(number).filter(|_| self.is_loaded_as(kernel, number))?;
            let context = tracker.context_entry(self.about.context)?;
            driver_queries::local_bytes(kernel, function.kind() == FunctionKind::Kernel, context.device().max(0))
        };
        ask().map_or(Needs::UNKNOWN, |bytes| Needs { bytes, ..Needs::default() })
    }

    /// The call makes an executable graph run this kernel, or none where it is null, of which it was said before. Returns what that needs.
    fn is_to_run(&mut self, kernel: Handle) -> Needs {
        let needs = if kernel.is_null() { Needs::default() } else { self.local_memory_of(kernel, self.about.function) };
        self.is_to_set_aside(needs);
        needs
    }

    /// The call is about to set so much local memory aside. Its record says whether it waits for that.
    fn is_to_set_aside(&mut self, needs: Needs) {
        let set_aside = self.guard.tracker.context_entry(self.about.context).map_or(0, Context::local_memory);
        if needs.has_unknown || rules::grows_local_memory(needs.bytes, set_aside) {
            self.about.flags |= flag::SETS_ASIDE;
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Needs {
    /// The most bytes a thread, of those that could be asked.
    bytes: u64,
    /// Whether one could not be asked.
    has_unknown: bool,
}

impl Needs {
    const UNKNOWN: Self = Self { bytes: 0, has_unknown: true };

    fn and(self, others: Self) -> Self {
        Self { bytes: self.bytes.max(others.bytes), has_unknown: self.has_unknown || others.has_unknown }
    }
}

/// The contents of a graph, and the needs of its kernels among the nodes that were looked at: the rest hardly has other kernels.
#[derive(Default)]
struct Listed {
    contents: GraphContents,
    needs: Needs,
    asked: HashSet<u32>,
}

/// The record says what the graph needs. The list is not kept over the call: nothing of the hook's may need cleaning up.
fn learn(call: &mut Call, graph: Handle) {
    if !graph.is_null() && !call.guard.tracker.in_flight(call.about.context).is_empty() {
        let needs = list(call, graph).needs;
        call.is_to_set_aside(needs);
    }
}

fn list(call: &Call, graph: Handle) -> Listed {
    let mut listed = Listed::default();
    take_in(call, graph, &mut listed, &mut { MOST_NODES }, MOST_DEEP);
    listed
}

fn note(call: &Call, executable: Handle, graph: Handle) {
    let listed = list(call, graph);
    call.has_set_aside(listed.needs.bytes);
    call.guard.tracker.graph_is(executable as u64, listed.contents, call.returned);
}

/// Takes in the nodes of a graph, as long as there are `left` to be looked at.
fn take_in(call: &Call, graph: Handle, listed: &mut Listed, left: &mut usize, deep: u32) {
    let mut count = 0;
    if driver::graph_nodes(graph, null_mut(), &mut count) != Some(SUCCESS) || count == 0 {
        return;
    }
    let counted = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let mut looked_at = if deep == 0 { 0 } else { count.min(*left) };
    let mut nodes = vec![null_mut(); looked_at];
    if looked_at > 0 && driver::graph_nodes(graph, nodes.as_mut_ptr(), &mut looked_at) != Some(SUCCESS) {
        looked_at = 0;
    }
    nodes.truncate(looked_at);
    let contents = &mut listed.contents;
    contents.nodes = contents.nodes.saturating_add(counted(count));
    contents.unseen = contents.unseen.saturating_add(counted(count.saturating_sub(nodes.len())));
    *left = left.saturating_sub(nodes.len());
    for node in nodes {
        let kind = NodeKind::of_type(driver::told(-1, |kind| driver::graph_node_type(node, kind)).unwrap_or(-1));
        match (kind, is_about(call, kind, node, listed)) {
            (NodeKind::ChildGraph, Some(child)) => {
                listed.contents.add(GraphPart::of(kind));
                take_in(call, child as Handle, listed, left, deep - 1);
            }
            (NodeKind::MemoryOperations, _) => memory_operations(node, &mut listed.contents),
            (kind, what) => listed.contents.add(GraphPart::about(kind, what.unwrap_or(0))),
        }
    }
}

/// The object of a node of this kind: the number of the kernel, the address of the host function, the handle of event or graph.
fn is_about(call: &Call, kind: NodeKind, node: Handle, listed: &mut Listed) -> Option<u64> {
    let handle = |ask: fn(Handle, *mut Handle) -> Option<i32>| {
        let found = driver::told(null_mut(), |found| ask(node, found));
        found.filter(|found| !found.is_null()).map(|found| found as u64)
    };
    match kind {
        NodeKind::Kernel => {
            let mut params = MaybeUninit::<KernelNode>::zeroed();
            let place = params.as_mut_ptr().cast();
            let with_kernel = match driver::kernel_node_v2(node, place) {
                None => driver::kernel_node(node, place).filter(|result| *result == SUCCESS).map(|_| false)?,
                Some(result) => (result == SUCCESS).then_some(true)?,
            };
            let function = function_of(place.cast(), with_kernel);
            (!function.is_null()).then(|| {
                let number = number_of(call, function);
                call.guard.tracker.introduce_function(number, call.entered);
                if listed.asked.insert(number) {
                    listed.needs = listed.needs.and(call.local_memory_of(function, number));
                }
                number.into()
            })
        }
        NodeKind::HostFunction => host::function_of(node),
        NodeKind::EventWait => handle(driver::event_wait_node),
        NodeKind::EventRecord => handle(driver::event_record_node),
        NodeKind::ChildGraph => handle(driver::child_graph),
        _ => None,
    }
}

fn memory_operations(node: Handle, contents: &mut GraphContents) {
    let mut params = MaybeUninit::<MemoryOperations>::zeroed();
    if driver::memory_operations_node(node, params.as_mut_ptr().cast()) != Some(SUCCESS) {
        return contents.add(GraphPart::of(NodeKind::MemoryOperations));
    }
    // SAFETY: integers and pointers, which are zero or were written by the driver.
    let params = unsafe { params.assume_init() };
    for operation in memop::operations(params.count, params.paramArray.cast()) {
        let kind = if operation.waits { NodeKind::ValueWait } else { NodeKind::ValueWrite };
        contents.add(GraphPart {
            value: operation.value,
            condition: (operation.flags & 3) as u8,
            wide: operation.wide,
            ..GraphPart::about(kind, operation.address)
        });
    }
}

/// A node is added, or changed in a graph.
pub(super) fn add_node(entry: Entry, params: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| _ = call.uses_node(params))
}

/// A node of an executable graph is changed.
pub(super) fn change_node(entry: Entry, executable: Handle, params: Handle, real: impl Real) -> i32 {
    let (kind, needs) = (Cell::new(NodeKind::Other), Cell::new(Needs::default()));
    let before = |call: &mut Call| {
        let (is, kernel) = call.uses_node(params);
        kind.set(is);
        needs.set(call.is_to_run(kernel));
    };
    succeeds(entry, before, real, |call| match kind.get() {
        NodeKind::Kernel if call.about.function != 0 => {
            call.has_set_aside(needs.get().bytes);
            call.changed(executable, GraphPart::about(NodeKind::Kernel, call.about.function.into()));
        }
        // They are the same to the diagnosis, whatever they copy.
        NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill => {}
        kind => call.changed(executable, GraphPart::of(kind)),
    })
}

impl Call {
    /// Reads a structure of a kernel node's own, or one for any node, which begins with the kind.
    fn uses_node(&mut self, params: Handle) -> (NodeKind, Handle) {
        self.about.context = self.current_context();
        let symbol = self.entry_point.symbol();
        let (kind, node, with_kernel) = if symbol.contains("KernelNode") {
            // The first version of the structure ends before the kernel's handle.
            (NodeKind::Kernel, params, symbol.ends_with("_v2"))
        } else {
            let kind = readable::value(params.cast::<i32>()).map_or(NodeKind::Other, NodeKind::of_type);
            (kind, params.wrapping_byte_add(offset_of!(NodeParams, __bindgen_anon_1)), true)
        };
        if kind != NodeKind::Kernel {
            return (kind, null_mut());
        }
        let kernel = function_of(node, with_kernel);
        self.uses(kernel);
        (kind, kernel)
    }
}

/// The function of a kernel node, or its kernel; null without a description, which the driver looks at last.
fn function_of(params: Handle, with_kernel: bool) -> Handle {
    let at = |offset| readable::value(params.cast::<u8>().wrapping_add(offset).cast::<Handle>()).unwrap_or(null_mut());
    let function = at(offset_of!(KernelNode, func));
    if function.is_null() && with_kernel {
        at(offset_of!(KernelNode, kern))
    } else {
        function
    }
}
