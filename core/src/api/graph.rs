//! The content of an executable graph: its nodes, equal ones together.

use serde::{Deserialize, Serialize};

/// A node's content; memory operations count singly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A host function.
    HostFunction,
    /// A graph, whose nodes are listed too.
    ChildGraph,
    /// Order alone.
    Empty,
    /// A wait for an event.
    EventWait,
    /// A record of an event.
    EventRecord,
    /// A signal to an external semaphore.
    ExternalSignal,
    /// A wait for an external semaphore.
    ExternalWait,
    /// An allocation.
    Allocation,
    /// A release.
    Release,
    /// Memory operations, not known singly.
    MemoryOperations,
    /// A graph run by a value's condition; its content is unseen.
    Conditional,
    /// A wait for a value in memory.
    ValueWait,
    /// A write of a value to memory.
    ValueWrite,
    /// Unknown to this build.
    Other,
}

impl NodeKind {
    /// In the order of the variants: the driver's node types first, at their numbers.
    const ALL: [(Self, &'static str); 17] = [
        (Self::Kernel, "kernel"),
        (Self::Copy, "copy"),
        (Self::Fill, "fill"),
        (Self::HostFunction, "host function"),
        (Self::ChildGraph, "child graph"),
        (Self::Empty, "empty node"),
        (Self::EventWait, "event wait"),
        (Self::EventRecord, "event record"),
        (Self::ExternalSignal, "semaphore signal"),
        (Self::ExternalWait, "semaphore wait"),
        (Self::Allocation, "allocation"),
        (Self::Release, "release"),
        (Self::MemoryOperations, "node of memory operations"),
        (Self::Conditional, "conditional node"),
        (Self::ValueWait, "value wait"),
        (Self::ValueWrite, "value write"),
        (Self::Other, "node of another kind"),
    ];
    const OWN: u16 = 0x100;
    const DRIVERS: u16 = 14;

    pub fn from_number(number: u16) -> Self {
        let place = match number {
            0..Self::DRIVERS => number,
            Self::OWN.. => number - Self::OWN + Self::DRIVERS,
            _ => return Self::Other,
        };
        Self::ALL.get(usize::from(place)).map_or(Self::Other, |(kind, _)| *kind)
    }

    pub fn of_type(number: i32) -> Self {
        u16::try_from(number).ok().filter(|n| *n < Self::OWN).map_or(Self::Other, Self::from_number)
    }

    pub fn number(self) -> u16 {
        match self {
            Self::Other => Self::OWN - 1,
            Self::ValueWait => Self::OWN,
            Self::ValueWrite => Self::OWN + 1,
            driver => driver as u16,
        }
    }

    pub const fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether it may run for long by itself, or wait for what is not known.
    pub const fn takes_time(self) -> bool {
        !matches!(
            self,
            Self::ChildGraph
                | Self::Empty
                | Self::EventWait
                | Self::EventRecord
                | Self::ExternalSignal
                | Self::ValueWait
                | Self::ValueWrite
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphPart {
    pub kind: NodeKind,
    pub count: u32,
    /// The number of the function, the address of the host function or of the memory operation, or the event's handle; else 0.
    pub what: u64,
    pub value: u64,
    /// The driver's flags of a memory operation, as far as they are the condition.
    pub condition: u8,
    /// Whether a memory operation is about 64 bits; else 32.
    pub wide: bool,
}

impl GraphPart {
    pub const fn of(kind: NodeKind) -> Self {
        Self { kind, count: 1, what: 0, value: 0, condition: 0, wide: false }
    }

    pub const fn about(kind: NodeKind, what: u64) -> Self {
        Self { what, ..Self::of(kind) }
    }

    fn does_the_same(&self, other: &Self) -> bool {
        Self { count: 0, ..*self } == Self { count: 0, ..*other }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphContents {
    pub nodes: u32,
    pub unseen: u32,
    /// Whether single nodes have been changed since: waits and writes then do not count.
    pub changed: bool,
    pub parts: Vec<GraphPart>,
}

/// Most parts of one graph, and most kernels among them.
const MOST_PARTS: usize = 128;
const MOST_KERNELS: usize = 96;

impl GraphContents {
    /// Counts the part as not looked at where there are too many different ones.
    pub fn add(&mut self, part: GraphPart) {
        if let Some(same) = self.parts.iter_mut().find(|one| one.does_the_same(&part)) {
            same.count = same.count.saturating_add(part.count);
            return;
        }
        let most = if part.kind == NodeKind::Kernel { MOST_KERNELS } else { MOST_PARTS };
        if self.parts.len() < most {
            self.parts.push(part);
        } else {
            self.unseen = self.unseen.saturating_add(part.count);
        }
    }

    /// Takes in a changed node; whether that is news.
    pub fn change(&mut self, part: GraphPart) -> bool {
        let is_known = self.parts.iter().any(|one| one.does_the_same(&part));
        if !is_known {
            self.add(part);
        }
        // Another kernel leaves the waits as they are.
        let news = !is_known || part.kind != NodeKind::Kernel && !self.changed;
        self.changed |= part.kind != NodeKind::Kernel;
        news
    }

    pub fn of(&self, kind: NodeKind) -> impl Iterator<Item = &GraphPart> {
        self.parts.iter().filter(move |part| part.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_same_after_a_way_through_its_number() {
        for (at, (kind, _)) in NodeKind::ALL.into_iter().enumerate() {
            assert_eq!((NodeKind::from_number(kind.number()), kind as usize), (kind, at));
        }
        assert_eq!([NodeKind::of_type(3), NodeKind::of_type(13)], [NodeKind::HostFunction, NodeKind::Conditional]);
        assert_eq!([-1, 14, 0x100, 0x1_0000].map(NodeKind::of_type), [NodeKind::Other; 4]);
        assert_eq!(NodeKind::from_number(u16::MAX), NodeKind::Other);
    }

    #[test]
    fn nodes_that_do_the_same_are_one_part_and_waits_find_room_beside_many_kernels() {
        let mut contents = GraphContents::default();
        for n in 0..300 {
            contents.add(GraphPart::about(NodeKind::Kernel, n));
        }
        contents.add(GraphPart::about(NodeKind::Kernel, 0));
        contents.add(GraphPart::about(NodeKind::EventWait, 0xe));
        assert_eq!((contents.parts.len(), contents.unseen), (MOST_KERNELS + 1, 300 - MOST_KERNELS as u32));
        assert_eq!((contents.parts[0].count, contents.of(NodeKind::EventWait).count()), (2, 1));
    }

    #[test]
    fn a_changed_node_is_news_once() {
        let mut contents = GraphContents::default();
        contents.add(GraphPart::about(NodeKind::Kernel, 1));
        assert!(!contents.change(GraphPart::about(NodeKind::Kernel, 1)));
        assert!(contents.change(GraphPart::about(NodeKind::Kernel, 2)) && !contents.changed);
        assert!(contents.change(GraphPart::about(NodeKind::EventWait, 2)) && contents.changed);
        assert!(!contents.change(GraphPart::about(NodeKind::EventWait, 2)));
    }
}
