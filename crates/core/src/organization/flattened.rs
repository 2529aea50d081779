//! `flattened`: a radix tree of which two levels at a time are one node.
//!
//! After: Park, Vougioukas, Sandberg and Black-Schaffer, "Every Walk's a Hit: Making Page Walks Single-Access Cache Hits",
//! ASPLOS 2022. The text was not at hand; what is said of it here is from its abstract and from later papers.
//!
//! | design | here |
//! |---|---|
//! | levels 4 and 3, and 2 and 1, are nodes of 2 MB | [`Node::Flat`] |
//! | where memory has no block of 2 MB, two levels of 4 KB | [`Node::Split`] |
//! | a walk cache of the pointers to nodes | [`WALK_CACHES`] |
//!
//! Readings. A page of the upper level of a node is replicated in all entries of the lower that it spans. Every node is
//! flattened that can be. An empty node is freed when the next entry is added. The second half of the paper, caches that
//! prefer page-table entries, is not modelled.

use super::{ENTRY, Entries, Numbers, Organization, TableTraffic, Walker};
use crate::{FrameSource, Layout, PhysAddr, Vpn};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Entries of the walk caches: pointers to nodes of the lowest pair of levels, and of the pair above.
pub(super) const WALK_CACHES: [u32; 2] = [32, 4];

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct BitSet {
    words: Vec<u64>,
    count: usize,
}

impl BitSet {
    fn contains(&self, at: u64) -> bool {
        self.words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn set(&mut self, at: u64, present: bool) {
        debug_assert_ne!(self.contains(at), present);
        if self.words.len() <= at as usize / 64 {
            self.words.resize(at as usize / 64 + 1, 0);
        }
        self.words[at as usize / 64] ^= 1 << (at % 64);
        self.count = if present { self.count + 1 } else { self.count - 1 };
    }
}

/// Where a node lies.
#[derive(Clone, Debug)]
enum Node {
    /// Two levels in one block.
    Flat(PhysAddr),
    /// The upper level, and the nodes of the lower by index.
    Split(PhysAddr, BTreeMap<u64, PhysAddr>),
}

/// A node of two levels, and what it holds.
#[derive(Clone, Debug)]
struct Pair {
    node: Node,
    /// Pages of the lower level and of the upper, by index.
    pages: [BitSet; 2],
    /// Nodes below.
    children: usize,
}

impl Pair {
    fn is_empty(&self) -> bool {
        self.children == 0 && self.pages.iter().all(|pages| pages.count == 0)
    }
}

/// The shape of the nodes of two levels.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Index bits of the lower level and of the upper; 0 for one that the tree lacks.
    bits: [u8; 2],
    /// Binary logarithms of the base pages that an entry of the lower level spans.
    order: u8,
}

impl Shape {
    fn index_bits(self) -> u8 {
        self.bits[0] + self.bits[1]
    }

    /// Returns the number of the node for `vpn`.
    fn node(self, vpn: Vpn) -> u64 {
        vpn.0 >> self.order >> self.index_bits()
    }

    /// Returns the index in the node of the entry for `vpn`, in units of the lower level or of the upper.
    fn index(self, vpn: Vpn, upper: bool) -> u64 {
        let within = vpn.0 >> self.order & ((1 << self.index_bits()) - 1);
        if upper { within >> self.bits[0] } else { within }
    }

    fn bytes(self, bits: u8) -> u64 {
        ENTRY << bits
    }

    /// Takes memory for an empty node: one block if there is one.
    fn node_in(self, memory: &mut dyn FrameSource) -> Option<Node> {
        if let Some(block) = memory.allocate_table(self.bytes(self.index_bits())) {
            return Some(Node::Flat(block));
        }
        let upper = memory.allocate_table(self.bytes(self.bits[1]))?;
        Some(Node::Split(upper, BTreeMap::new()))
    }
}

/// A flattened radix tree.
#[derive(Clone, Debug)]
pub(super) struct Flattened {
    numbers: Numbers,
    /// From the lowest pair of levels up.
    shapes: Vec<Shape>,
    /// By pair of levels: the nodes by number.
    pairs: Vec<BTreeMap<u64, Pair>>,
    /// Nodes that may be empty: their pair of levels, and a page that they translate.
    emptied: Vec<(usize, Vpn)>,
}

impl Flattened {
    pub fn new(layout: &Layout) -> Flattened {
        let numbers = Numbers::new(layout);
        let bits = |level: usize| layout.bits.get(level).copied().unwrap_or(0);
        let shape = |lower: usize| Shape { bits: [bits(lower), bits(lower + 1)], order: numbers.orders[lower] };
        let shapes: Vec<_> = (0..layout.levels()).step_by(2).map(shape).collect();
        Flattened { pairs: vec![BTreeMap::new(); shapes.len()], emptied: Vec::new(), numbers, shapes }
    }

    fn pair(&self, at: usize, vpn: Vpn) -> Option<&Pair> {
        self.pairs[at].get(&self.shapes[at].node(vpn))
    }

    /// Makes the nodes on the way to an entry of `level` for `vpn`, from the root down to the pair of levels that has it.
    fn make(&mut self, level: usize, vpn: Vpn, memory: &mut dyn FrameSource) -> Option<()> {
        for at in (level / 2..self.shapes.len()).rev() {
            let shape = self.shapes[at];
            let number = shape.node(vpn);
            if let Entry::Vacant(vacant) = self.pairs[at].entry(number) {
                vacant.insert(Pair { node: shape.node_in(memory)?, pages: Default::default(), children: 0 });
                if let Some(above) = self.shapes.get(at + 1) {
                    let above = self.pairs[at + 1].get_mut(&above.node(vpn)).expect("made before");
                    above.children += 1;
                }
            }
            // The lower level is needed for its own pages and for what is below.
            let pair = self.pairs[at].get_mut(&number).expect("made above");
            if let Node::Split(_, lower) = &mut pair.node
                && (at > level / 2 || level.is_multiple_of(2))
                && !lower.contains_key(&shape.index(vpn, true))
            {
                lower.insert(shape.index(vpn, true), memory.allocate_table(shape.bytes(shape.bits[0]))?);
            }
        }
        Some(())
    }

    /// Frees nodes that are empty, but not the root.
    fn free_empty(&mut self, memory: &mut dyn FrameSource) {
        for (lowest, vpn) in std::mem::take(&mut self.emptied) {
            for at in lowest..self.shapes.len() - 1 {
                let number = self.shapes[at].node(vpn);
                if !self.pairs[at].get(&number).is_some_and(Pair::is_empty) {
                    break;
                }
                let pair = self.pairs[at].remove(&number).expect("found above");
                self.free(at, pair, memory);
                let above = self.shapes[at + 1].node(vpn);
                self.pairs[at + 1].get_mut(&above).expect("a node has a parent").children -= 1;
            }
        }
    }

    fn free(&self, at: usize, pair: Pair, memory: &mut dyn FrameSource) {
        let shape = self.shapes[at];
        match pair.node {
            Node::Flat(node) => memory.free_table(node, shape.bytes(shape.index_bits())),
            Node::Split(upper, lower) => {
                memory.free_table(upper, shape.bytes(shape.bits[1]));
                lower.into_values().for_each(|node| memory.free_table(node, shape.bytes(shape.bits[0])));
            }
        }
    }

    /// Marks `entries` as present or absent, and logs the writes of replicas.
    fn mark(&mut self, entries: Entries, present: bool, log: &mut Vec<TableTraffic>) {
        let (at, upper) = (entries.level / 2, entries.level % 2);
        let shape = self.shapes[at];
        for number in entries.first..entries.first + entries.count {
            let vpn = Vpn(number << self.numbers.orders[entries.level]);
            let pair = self.pairs[at].get_mut(&shape.node(vpn)).expect("its nodes were made");
            pair.pages[upper].set(shape.index(vpn, upper == 1), present);
            if let (Node::Flat(node), 1) = (&pair.node, upper) {
                let first = *node + (shape.index(vpn, false) + 1) * ENTRY;
                let bytes = shape.bytes(shape.bits[0]) - ENTRY;
                log.push(TableTraffic { at: first, bytes, write: true });
            }
            if !present && pair.is_empty() {
                self.emptied.push((at, vpn));
            }
        }
    }
}

impl Organization for Flattened {
    fn bytes(&self) -> u64 {
        let all =
            self.pairs.iter().zip(&self.shapes).flat_map(|(pairs, shape)| pairs.values().zip(std::iter::repeat(shape)));
        all.map(|(pair, shape)| match &pair.node {
            Node::Flat(_) => shape.bytes(shape.index_bits()),
            Node::Split(_, lower) => shape.bytes(shape.bits[1]) + lower.len() as u64 * shape.bytes(shape.bits[0]),
        })
        .sum()
    }

    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        self.free_empty(memory);
        let order = self.numbers.orders[entries.level];
        for number in entries.first..entries.first + entries.count {
            let vpn = Vpn(number << order);
            let made = self.make(entries.level, vpn, memory);
            if made.is_none() {
                // Some of the nodes on the way to these entries may have been made.
                for vpn in (entries.first..=number).map(|number| Vpn(number << order)) {
                    let lowest = (entries.level / 2..self.shapes.len()).find(|&at| self.pair(at, vpn).is_some());
                    self.emptied.extend(lowest.map(|at| (at, vpn)));
                }
                return None;
            }
        }
        self.mark(entries, true, log);
        Some(())
    }

    fn remove(&mut self, entries: Entries, log: &mut Vec<TableTraffic>) {
        self.mark(entries, false, log);
    }

    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr> {
        let (shape, pair) = (self.shapes[level / 2], self.pair(level / 2, vpn)?);
        let upper = level % 2 == 1;
        if !pair.pages[level % 2].contains(shape.index(vpn, upper)) {
            return None;
        }
        match &pair.node {
            Node::Flat(node) => Some(*node + shape.index(vpn, false) * ENTRY),
            Node::Split(node, _) if upper => Some(*node + shape.index(vpn, true) * ENTRY),
            Node::Split(_, lower) => {
                let within = shape.index(vpn, false) & ((1 << shape.bits[0]) - 1);
                Some(*lower.get(&shape.index(vpn, true))? + within * ENTRY)
            }
        }
    }

    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool {
        let top = self.shapes.len() - 1;
        // The pointer to a node that became empty was dropped from the caches with its last page.
        let cached = (0..top.min(WALK_CACHES.len())).find(|&at| {
            walker.lookup(at, self.shapes[at].node(vpn)) && self.pair(at, vpn).is_some_and(|pair| !pair.is_empty())
        });
        for at in (0..=cached.unwrap_or(top)).rev() {
            let (shape, Some(pair)) = (self.shapes[at], self.pair(at, vpn)) else { return true };
            if at < top.min(WALK_CACHES.len()) && cached != Some(at) {
                walker.insert(at, shape.node(vpn));
            }
            let is_page = [false, true].map(|upper| pair.pages[usize::from(upper)].contains(shape.index(vpn, upper)));
            match &pair.node {
                Node::Flat(node) => {
                    if !walker.read(&[*node + shape.index(vpn, false) * ENTRY], None) {
                        return false;
                    }
                }
                Node::Split(node, lower) => {
                    if !walker.read(&[*node + shape.index(vpn, true) * ENTRY], None) {
                        return false;
                    }
                    let lower = lower.get(&shape.index(vpn, true)).filter(|_| !is_page[1]);
                    let within = shape.index(vpn, false) & ((1 << shape.bits[0]) - 1);
                    if lower.is_some_and(|node| !walker.read(&[*node + within * ENTRY], None)) {
                        return false;
                    }
                }
            }
            if is_page.contains(&true) {
                return true;
            }
        }
        true
    }

    fn release(&mut self, memory: &mut dyn FrameSource) {
        for at in 0..self.pairs.len() {
            let pairs = std::mem::take(&mut self.pairs[at]);
            pairs.into_values().for_each(|pair| self.free(at, pair, memory));
        }
    }

    fn check(&self) {
        for at in 0..self.pairs.len() {
            for (&number, pair) in &self.pairs[at] {
                let vpn = Vpn(number << (self.shapes[at].order + self.shapes[at].index_bits()));
                assert!(at + 1 == self.shapes.len() || self.pair(at + 1, vpn).is_some(), "a node has no parent");
                let span = self.shapes[at].index_bits();
                let is_child = |child: &&u64| *child >> span == number;
                let children = if at == 0 { 0 } else { self.pairs[at - 1].keys().filter(is_child).count() };
                assert_eq!(pair.children, children, "nodes below");
            }
        }
    }

    fn copied(&self) -> Box<dyn Organization> {
        Box::new(self.clone())
    }
}
