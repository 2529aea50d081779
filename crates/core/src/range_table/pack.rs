//! Packing: a tree that would grow taller though its ranges fit in the levels that it has is built anew, as even as can
//! be. The walker's time is levels; the operating system's is not.

use super::{MIN_RANGES, Node, RangeTable, RangeTranslation};
use crate::FrameSource;

/// Up to so many levels ranges are packed until every node is full: 124 ranges in three levels (§4.2).
const TIGHT: u32 = 3;

impl RangeTable {
    /// Whether one more range fits in the present levels. In tall trees an eighth stays free: the next packing is to be
    /// far off.
    pub(super) fn fits_after_packing(&self) -> bool {
        let most = RangeTable::capacity(self.height);
        self.len < if self.height <= TIGHT { most } else { most - most / 8 }
    }

    /// Builds the tree anew, with `range`. `false`, and nothing done, when there is no frame for a node.
    pub(super) fn pack(&mut self, range: RangeTranslation, frames: &mut impl FrameSource) -> bool {
        let mut all = self.ranges();
        all.insert(all.partition_point(|other| other.vpn < range.vpn), range);
        let used: u32 = self.pages.iter().flatten().map(|page| page.used).sum();
        if !self.reserve(nodes(all.len(), self.height, true).saturating_sub(used as usize), frames) {
            return false;
        }
        self.give_all(self.root);
        self.root = self.build(&all, self.height, true);
        self.len = all.len();
        self.trim(0, frames);
        true
    }

    fn give_all(&mut self, number: u32) {
        self.record_access(number, false);
        for child in std::mem::take(&mut self.nodes[number as usize].children) {
            self.give_all(child);
        }
        self.give_node(number);
    }

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

/// How many of `ranges` each child of a node gets, in a tree of so many levels: none in a leaf.
fn shares(ranges: usize, levels: u32, root: bool) -> impl Iterator<Item = usize> {
    let below = levels.checked_sub(2).map(|_| RangeTable::capacity(levels - 1));
    let fewest = if root { 2 } else { MIN_RANGES + 1 };
    // c children take all but c - 1 ranges.
    let children = below.map_or(0, |most| (ranges + 1).div_ceil(most + 1).max(fewest));
    let among = (ranges + 1).saturating_sub(children);
    (0..children).map(move |at| among * (at + 1) / children - among * at / children)
}

fn nodes(ranges: usize, levels: u32, root: bool) -> usize {
    1 + shares(ranges, levels, root).map(|share| nodes(share, levels - 1, false)).sum::<usize>()
}
