//! What a virtual machine monitor knows of a guest's page table that it shadows: shadow paging, and agile paging (Gandhi, Hill and
//! Swift, ISCA 2016).
//!
//! A node is in one of two modes (§III). In *shadow* mode the monitor keeps a node of its own beside the guest's. Walks read that
//! one, whose entries lead to the host's frames, and each write of the guest to its own node traps to the monitor, which writes both.
//! In *nested* mode walks read the guest's node, and the host's table translates each address, and the guest writes without a trap. A
//! walk changes mode once, from shadow to nested: all nodes below a nested one are nested.
//!
//! With shadow paging all nodes stay in shadow mode. With agile paging a node enters nested mode, with all below it, at its second write
//! within an interval, and leaves it at the end of an interval without a write (§III-C).
//!
//! Only the paper's abstract was at hand: the policy and its sections are recalled, to be checked against the text.

use super::{HEAD, Layout, NodeId};

/// The writes within an interval that put a node into nested mode.
const WRITES: u32 = 2;

/// The traps that changes of a shadowed page table cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowTraps {
    /// Entries that the guest wrote in nodes in shadow mode.
    pub writes: u64,
    /// Accessed and dirty bits that a reference needs in an entry in shadow mode: the monitor sets them in both nodes.
    pub marks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    level: u8,
    used: bool,
    nested: bool,
    /// Entries written in this interval.
    writes: u32,
    /// The number of the node above; the root's own.
    above: u32,
}

/// The modes of a page table's nodes, and the traps since they were last taken.
#[derive(Clone, Debug)]
pub struct Shadowed {
    agile: bool,
    /// The fewest words of a node, by which offsets become numbers.
    stride: usize,
    nodes: Vec<Node>,
    pub(super) traps: ShadowTraps,
}

impl Shadowed {
    pub(super) fn new(layout: &Layout, agile: bool) -> Shadowed {
        let least = layout.bits.iter().min().copied().unwrap_or(0);
        Shadowed { agile, stride: HEAD + (1 << least), nodes: Vec::new(), traps: ShadowTraps::default() }
    }

    #[inline]
    fn number(&self, node: NodeId) -> usize {
        node.offset() as usize / self.stride
    }

    /// Returns whether walks read the guest's own `node`, and translate its address by the host's table.
    #[inline]
    pub fn is_nested(&self, node: NodeId) -> bool {
        self.nodes[self.number(node)].nested
    }

    /// Takes up a new node below `above`; the root is its own. It has the mode of the node above.
    pub(super) fn add(&mut self, node: NodeId, level: usize, above: NodeId) {
        let (number, above) = (self.number(node), self.number(above));
        if self.nodes.len() <= number {
            self.nodes.resize(number + 1, Node::default());
        }
        let nested = above != number && self.nodes[above].nested;
        self.nodes[number] = Node { level: level as u8, used: true, nested, writes: 0, above: above as u32 };
    }

    /// Forgets a node that is freed.
    pub(super) fn remove(&mut self, node: NodeId) {
        let number = self.number(node);
        self.nodes[number] = Node::default();
    }

    /// Notes that the guest wrote `entries` of `node`. Returns the node's level if it enters nested mode now: then
    /// [`Shadowed::nest`] must follow for it and all nodes below.
    pub(super) fn write(&mut self, node: NodeId, entries: u64) -> Option<usize> {
        let number = self.number(node);
        let Node { level, nested, writes, .. } = &mut self.nodes[number];
        let before = *writes;
        *writes = writes.saturating_add(u32::try_from(entries).unwrap_or(u32::MAX));
        if *nested {
            return None;
        }
        // Each write traps, until one of them changes the mode.
        let trapping = if self.agile { entries.min(u64::from(WRITES.saturating_sub(before))) } else { entries };
        self.traps.writes += trapping;
        (self.agile && *writes >= WRITES).then_some(usize::from(*level))
    }

    /// Puts a node into nested mode.
    pub(super) fn nest(&mut self, node: NodeId) {
        let number = self.number(node);
        self.nodes[number].nested = true;
    }

    /// Notes that a reference set accessed or dirty bits in an entry of `node`.
    #[cold]
    pub(super) fn mark(&mut self, node: NodeId) {
        self.traps.marks += u64::from(!self.is_nested(node));
    }

    /// Returns how many nodes are in nested mode.
    pub fn nested_nodes(&self) -> u64 {
        self.nodes.iter().filter(|node| node.nested).count() as u64
    }

    /// Ends an interval: nodes without a write in it go back to shadow mode, from the root down. Returns how many did.
    pub(super) fn end_interval(&mut self) -> u64 {
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|&number| self.nodes[number].used).collect();
        order.sort_by_key(|&number| std::cmp::Reverse(self.nodes[number].level));
        let mut back = 0;
        for number in order {
            let node = self.nodes[number];
            let above = self.nodes[node.above as usize];
            let stays_below = node.above as usize != number && above.nested;
            if node.nested && node.writes == 0 && !stays_below {
                self.nodes[number].nested = false;
                back += 1;
            }
        }
        self.nodes.iter_mut().for_each(|node| node.writes = 0);
        back
    }

    /// Checks that no node below a nested one is in shadow mode.
    pub(super) fn check(&self) {
        for node in self.nodes.iter().filter(|node| node.used && !node.nested) {
            assert!(!self.nodes[node.above as usize].nested, "a node in shadow mode is below a nested one");
        }
    }
}
