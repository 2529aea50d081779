//! Packing: rebuilds a range table evenly, instead of letting it grow taller while its ranges fit in the present
//! levels.
//!
//! A walk reads one node per level, so a lower tree makes walks shorter. Rebuilding costs only the operating system
//! time, and happens rarely.

use super::{MIN_RANGES, Node, RangeTable, RangeTranslation};
use crate::FrameSource;

/// Tables of up to this many levels are packed until every node is full: 124 ranges in three levels (§4.2).
const FULL_LEVELS: u32 = 3;

impl RangeTable {
    /// Returns whether one more range fits in the present levels after packing. Taller trees keep an eighth free, so
    /// that many insertions pass before the next packing.
    pub(super) fn fits_after_packing(&self) -> bool {
        let capacity = RangeTable::capacity(self.height);
        self.len < if self.height <= FULL_LEVELS { capacity } else { capacity - capacity / 8 }
    }

    /// Rebuilds the tree with `range` added. Returns `false`, with the table unchanged, when there is no frame for a
    /// node.
    pub(super) fn pack(&mut self, range: RangeTranslation, frames: &mut impl FrameSource) -> bool {
        let mut all = self.ranges();
        all.insert(all.partition_point(|other| other.vpn < range.vpn), range);
        let used: u32 = self.pages.iter().flatten().map(|page| page.used).sum();
        if !self.reserve(nodes(all.len(), self.height, true).saturating_sub(used as usize), frames) {
            return false;
        }
        self.free_subtree(self.root);
        self.root = self.build(&all, self.height, true);
        self.len = all.len();
        self.trim(0, frames);
        true
    }

    fn free_subtree(&mut self, number: u32) {
        self.record_access(number, false);
        for child in std::mem::take(&mut self.nodes[number as usize].children) {
            self.free_subtree(child);
        }
        self.free_node(number);
    }

    /// Builds a subtree of `levels` levels and returns its top node.
    fn build(&mut self, ranges: &[RangeTranslation], levels: u32, root: bool) -> u32 {
        let number = self.take_node();
        let mut node = Node::default();
        let mut rest = ranges;
        for (at, share) in shares(ranges.len(), levels, root).enumerate() {
            if at > 0 {
                node.ranges.push(rest[0]);
                rest = &rest[1..];
            }
            let (own, others) = rest.split_at(share);
            node.children.push(self.build(own, levels - 1, false));
            rest = others;
        }
        node.ranges.extend(rest);
        self.nodes[number as usize] = node;
        self.record_access(number, true);
        number
    }
}

/// Returns how many of `ranges` each child of a node gets, in a subtree of `levels` levels. Empty for a leaf.
fn shares(ranges: usize, levels: u32, root: bool) -> impl Iterator<Item = usize> {
    let below = levels.checked_sub(2).map(|_| RangeTable::capacity(levels - 1));
    let fewest = if root { 2 } else { MIN_RANGES + 1 };
    // With c children, the node itself keeps c - 1 ranges.
    let children = below.map_or(0, |most| (ranges + 1).div_ceil(most + 1).max(fewest));
    let among = (ranges + 1).saturating_sub(children);
    (0..children).map(move |at| among * (at + 1) / children - among * at / children)
}

/// Returns the number of nodes of a subtree of `levels` levels with `ranges` ranges.
fn nodes(ranges: usize, levels: u32, root: bool) -> usize {
    1 + shares(ranges, levels, root).map(|share| nodes(share, levels - 1, false)).sum::<usize>()
}
