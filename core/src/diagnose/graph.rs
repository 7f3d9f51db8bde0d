//! The content of a launched graph, as a report names it. The launch is one operation of its stream; which nodes run by now is not known.

use crate::api::{counted, GraphContents, GraphPart, NodeKind};
use crate::demangle::demangle;
use crate::order;
use crate::replay::waits_for_peers;
use serde::{Deserialize, Serialize};

/// A launched graph's content, seen at instantiation or update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphSeen {
    /// The executable graph's handle.
    pub handle: u64,
    /// Including child graphs.
    pub nodes: u32,
    /// Nodes not looked at.
    pub unseen: u32,
    /// Whether single nodes were changed later.
    pub changed: bool,
    /// The seen nodes, grouped.
    pub parts: Vec<GraphPartSeen>,
}

/// A graph's nodes of one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPartSeen {
    /// Their kind.
    pub kind: NodeKind,
    /// How many.
    pub count: u32,
    /// The kernel's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The host function's or memory operation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// The event's handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// A memory operation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

const MOST_NAMED: usize = 3;

impl GraphSeen {
    pub fn of(handle: u64, contents: &GraphContents, name: impl Fn(u32) -> Option<String>) -> Self {
        let part = |part: &GraphPart| {
            let what = |is_that: bool| is_that.then_some(part.what);
            let is_operation = matches!(part.kind, NodeKind::ValueWait | NodeKind::ValueWrite);
            GraphPartSeen {
                kind: part.kind,
                count: part.count,
                function: what(part.kind == NodeKind::Kernel).and_then(|number| name(number as u32)),
                address: what(is_operation || part.kind == NodeKind::HostFunction),
                event: what(matches!(part.kind, NodeKind::EventWait | NodeKind::EventRecord)),
                value: is_operation.then_some(part.value),
            }
        };
        let GraphContents { nodes, unseen, changed, parts } = contents;
        Self { handle, nodes: *nodes, unseen: *unseen, changed: *changed, parts: parts.iter().map(part).collect() }
    }

    pub fn peers_kernel(&self) -> Option<&str> {
        self.parts.iter().filter_map(|part| part.function.as_deref()).find(|function| waits_for_peers(function))
    }

    /// Whether it may take time, or write anywhere, beside its waits.
    pub(super) fn runs_by_itself(&self) -> bool {
        self.unseen > 0 || self.changed || self.parts.iter().any(|part| part.kind.takes_time())
    }

    /// Names the graph by the kernel that keeps it from ending, where only one may; else by a conditional node, which may go on for ever.
    pub(super) fn name(&self) -> String {
        let mut takes_time = self.parts.iter().filter(|part| part.kind.takes_time());
        let only = takes_time.next().filter(|_| self.unseen == 0 && takes_time.next().is_none());
        let all = || format!("the graph of {}", counted(self.nodes, "node"));
        match self.peers_kernel().or_else(|| only?.function.as_deref()) {
            Some(kernel) => format!("the graph with {}", demangle(kernel)),
            None if self.has_condition() => format!("{} with a conditional node", all()),
            None => all(),
        }
    }

    pub(super) fn has_condition(&self) -> bool {
        self.parts.iter().any(|part| part.kind == NodeKind::Conditional)
    }

    pub fn holds(&self) -> String {
        let mut kinds: Vec<(NodeKind, u64)> = Vec::new();
        for part in &self.parts {
            match kinds.iter_mut().find(|(kind, _)| *kind == part.kind) {
                Some((_, count)) => *count += u64::from(part.count),
                None => kinds.push((part.kind, part.count.into())),
            }
        }
        let mut kernels: Vec<_> = self.parts.iter().filter_map(|part| part.function.as_deref()).collect();
        // The kernel that waits for peers has to be among the named ones.
        order::sort_by_key(&mut kernels, |kernel| !waits_for_peers(kernel));
        let more = if kernels.len() > MOST_NAMED { ", ..." } else { "" };
        let names: Vec<_> = kernels.into_iter().take(MOST_NAMED).map(demangle).collect();
        let in_words = |(kind, count): (NodeKind, u64)| match kind {
            NodeKind::Kernel if !names.is_empty() => {
                format!("{} ({}{more})", counted(count, "kernel"), names.join(", "))
            }
            NodeKind::MemoryOperations => format!("{} of memory operations", counted(count, "node")),
            NodeKind::Other => format!("{} of another kind", counted(count, "node")),
            _ => counted(count, kind.word()),
        };
        let mut words: Vec<_> = kinds.into_iter().map(in_words).collect();
        if self.unseen > 0 {
            let was = if self.unseen == 1 { "was" } else { "were" };
            words.push(format!("{} that {was} not looked at", counted(self.unseen, "node")));
        }
        if words.is_empty() {
            words.push("nothing".to_owned());
        }
        let changed = if self.changed { "; single nodes of it were changed after that was seen" } else { "" };
        format!("{}{changed}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_graph_holds_is_told_in_a_line() {
        let mut contents = GraphContents { nodes: 15, unseen: 1, ..GraphContents::default() };
        for kernel in [1, 2, 3, 4, 4] {
            contents.add(GraphPart::about(NodeKind::Kernel, kernel));
        }
        for kind in [NodeKind::Copy, NodeKind::Copy, NodeKind::HostFunction, NodeKind::EventWait] {
            contents.add(GraphPart::about(kind, 7));
        }
        let name = |number: u32| Some(if number == 4 { "ncclDevKernel_x".to_owned() } else { format!("k{number}") });
        let seen = GraphSeen::of(9, &contents, name);
        assert_eq!(
            seen.holds(),
            "5 kernels (ncclDevKernel_x, k1, k2, ...), 2 copies, 1 host function, 1 event wait, 1 node that was not looked at"
        );
        assert_eq!(seen.name(), "the graph with ncclDevKernel_x");
        let none = |_| None;
        let one =
            GraphContents { nodes: 1, parts: vec![GraphPart::about(NodeKind::Kernel, 1)], ..GraphContents::default() };
        assert_eq!(GraphSeen::of(9, &one, name).name(), "the graph with k1");
        assert_eq!(GraphSeen::of(9, &contents, none).name(), "the graph of 15 nodes");
        assert_eq!(GraphSeen::of(9, &GraphContents::default(), none).holds(), "nothing");
        contents.add(GraphPart::about(NodeKind::Conditional, 0));
        assert_eq!(GraphSeen::of(9, &contents, name).name(), "the graph with ncclDevKernel_x");
        assert_eq!(GraphSeen::of(9, &contents, none).name(), "the graph of 15 nodes with a conditional node");
    }
}
