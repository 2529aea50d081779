//! Candidates: the potential superpages of address spaces, each with its counters.
//!
//! A candidate of the largest size and all candidates in it make a tree, with a node for each aligned extent of each size. The paper
//! uses every power of two, so that each node has two children; other machines' nodes have more.

use reach_core::{Asid, PageShift, PhysAddr, Vpn};
use std::collections::HashMap;

/// A potential superpage, or a base page: an aligned extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Candidate {
    /// The address space.
    pub asid: Asid,
    /// Number of its size among the sizes in use; 0 is the base page.
    pub level: usize,
    /// Its first base page.
    pub vpn: Vpn,
}

/// An access of the miss handler to a candidate's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Physical address of the counters.
    pub at: PhysAddr,
    /// Whether they were changed.
    pub written: bool,
}

/// The counters of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Misses that its promotion would have avoided so far (`prefetch`).
    pub prefetch: u32,
    /// Evictions of unrelated pages that its promotion would have avoided (only in Romer's full policy).
    pub capacity: u32,
    /// Number of its children that are in the TLB or contain an entry (`tlbcount`).
    pub tlbcount: u16,
    /// Number of entries of exactly this page; more than one if several arrays hold it.
    pub resident: u16,
    /// Base page: 1 if it was touched. Others: the number of their complete children.
    pub complete: u16,
}

impl Node {
    fn empty(&self) -> bool {
        self.tlbcount == 0 && self.resident == 0
    }
}

#[derive(Clone, Debug)]
struct Region {
    at: PhysAddr,
    nodes: Vec<Node>,
}

/// The trees of candidates, by address space and extent of the largest size.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Binary logarithms of the base pages of each size in use, ascending from 0.
    orders: Vec<u8>,
    /// Where each level begins in a region's nodes.
    begins: Vec<usize>,
    nodes: usize,
    regions: HashMap<(Asid, u64), Region>,
    /// What was read and written since this was last emptied.
    pub(crate) visits: Vec<Visit>,
}

/// Bytes of a candidate's counters in kernel memory.
const BYTES: u64 = 8;

impl Candidates {
    /// Returns no trees yet, for pages of `sizes`, ascending from the base page.
    pub fn new(sizes: &[PageShift]) -> Candidates {
        let orders: Vec<u8> = sizes.iter().map(|size| size.order(sizes[0])).collect();
        let largest = orders.last().copied().unwrap_or(0);
        let (mut begins, mut nodes) = (Vec::new(), 0);
        for &order in &orders {
            begins.push(nodes);
            nodes += 1 << (largest - order);
        }
        Candidates { orders, begins, nodes, regions: HashMap::new(), visits: Vec::new() }
    }

    /// Returns the level of the largest size.
    pub fn top(&self) -> usize {
        self.orders.len() - 1
    }

    /// Returns the binary logarithm of the base pages in a candidate of `level`.
    pub fn order(&self, level: usize) -> u8 {
        self.orders[level]
    }

    /// Returns the largest level whose pages are no larger than `2^order` base pages.
    pub fn level(&self, order: u8) -> usize {
        self.orders.iter().rposition(|&known| known <= order).unwrap_or(0)
    }

    /// Returns the candidate of `level` around `vpn`.
    pub fn around(&self, asid: Asid, level: usize, vpn: Vpn) -> Candidate {
        Candidate { asid, level, vpn: Vpn(vpn.0 >> self.orders[level] << self.orders[level]) }
    }

    /// Returns the bytes of kernel memory that one tree takes.
    pub fn tree_bytes(&self) -> u64 {
        self.nodes as u64 * BYTES
    }

    fn tree(&self, vpn: Vpn) -> u64 {
        vpn.0 >> self.orders[self.top()]
    }

    /// Returns whether the tree around `vpn` exists.
    pub fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.regions.contains_key(&(asid, self.tree(vpn)))
    }

    /// Makes the tree around `vpn`, with its counters at physical address `at`.
    pub fn add(&mut self, asid: Asid, vpn: Vpn, at: PhysAddr) {
        let region = Region { at, nodes: vec![Node::default(); self.nodes] };
        self.regions.insert((asid, self.tree(vpn)), region);
    }

    /// Drops all trees of `asid`. Returns their physical addresses, ascending.
    pub fn drop_process(&mut self, asid: Asid) -> Vec<PhysAddr> {
        let mut at: Vec<PhysAddr> =
            self.regions.iter().filter(|((of, _), _)| *of == asid).map(|(_, region)| region.at).collect();
        at.sort_unstable();
        self.regions.retain(|(of, _), _| *of != asid);
        at
    }

    /// Returns the counters of a candidate without a recorded access. `None` when its tree does not exist.
    pub(crate) fn peek(&self, candidate: Candidate) -> Option<&Node> {
        let index = self.index(candidate.level, candidate.vpn);
        self.regions.get(&(candidate.asid, self.tree(candidate.vpn))).map(|region| &region.nodes[index])
    }

    fn index(&self, level: usize, vpn: Vpn) -> usize {
        let within = vpn.0 & ((1 << self.orders[self.top()]) - 1);
        self.begins[level] + (within >> self.orders[level]) as usize
    }

    /// Calls `change` with the node of each level from `from` up around `vpn`. It returns whether it wrote the node, and whether to go
    /// on upwards.
    pub(crate) fn climb(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        from: usize,
        mut change: impl FnMut(usize, &mut Node) -> (bool, bool),
    ) {
        let (key, top) = ((asid, self.tree(vpn)), self.top());
        let Candidates { orders, begins, regions, visits, .. } = self;
        let Some(region) = regions.get_mut(&key) else { return };
        let within = vpn.0 & ((1 << orders[top]) - 1);
        for level in from..=top {
            let index = begins[level] + (within >> orders[level]) as usize;
            let (written, go_on) = change(level, &mut region.nodes[index]);
            visits.push(Visit { at: region.at + index as u64 * BYTES, written });
            if !go_on {
                return;
            }
        }
    }

    /// Records a new TLB entry for the page of `order` at `vpn`. A node without entries before counts as one more child of its
    /// parent; otherwise the nodes above stay as they are.
    pub fn inserted(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        let level = self.level(order);
        self.climb(asid, vpn, level, |at, node| {
            let was_empty = node.empty();
            match at == level {
                true => node.resident += 1,
                false => node.tlbcount += 1,
            }
            (true, was_empty)
        });
    }

    /// Records that a TLB entry for the page of `order` at `vpn` is gone.
    pub fn removed(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        let level = self.level(order);
        self.climb(asid, vpn, level, |at, node| {
            // An entry that is older than its tree was never counted.
            let count = if at == level { &mut node.resident } else { &mut node.tlbcount };
            if *count == 0 {
                return (false, false);
            }
            *count -= 1;
            (true, node.empty())
        });
    }

    /// Records that the page at `vpn` was touched. Returns the highest level whose candidate around it is complete: all of its base
    /// pages were touched.
    pub fn touch(&mut self, asid: Asid, vpn: Vpn) -> usize {
        let orders = self.orders.clone();
        let children = |level: usize| 1u16 << (orders[level] - orders[level - 1]);
        let (mut complete, mut changed) = (0, true);
        self.climb(asid, vpn, 0, |level, node| {
            let full = if level == 0 { 1 } else { children(level) };
            let written = changed && node.complete < full;
            if written {
                node.complete += 1;
            }
            let whole = node.complete == full;
            // A child that was complete before is counted already.
            changed = written && whole;
            if whole {
                complete = level;
            }
            (written, whole)
        });
        complete
    }

    /// Records that the `pages` base pages from `vpn` on are unmapped: they are untouched, and no candidate around them is complete.
    pub fn untouch(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let orders = self.orders.clone();
        let children = |level: usize| 1u16 << (orders[level] - orders[level - 1]);
        let span = 1u64 << orders[self.top()];
        let keys: Vec<u64> = self.regions.keys().filter(|(of, _)| *of == asid).map(|(_, tree)| *tree).collect();
        for tree in keys {
            let (begin, end) = ((tree * span).max(vpn.0), (tree * span + span).min(vpn.0.saturating_add(pages)));
            for at in begin..end {
                let mut changed = true;
                self.climb(asid, Vpn(at), 0, |level, node| {
                    let full = if level == 0 { 1 } else { children(level) };
                    let was_whole = node.complete == full;
                    if changed && node.complete > 0 {
                        node.complete -= 1;
                    } else {
                        changed = false;
                    }
                    changed &= was_whole;
                    (true, changed)
                });
            }
        }
    }
}
