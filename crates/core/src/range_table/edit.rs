//! Changing a range table: insertion and removal in a B-tree (Knuth, TAOCP 3, §6.2.4).

use super::{MAX_RANGES, MIN_RANGES, Node, RangeTable, RangeTranslation};
use crate::{FrameSource, Vpn};

/// The result of splitting a full node, for its parent: the middle range, and the new node with the ranges after it.
type Split = (RangeTranslation, u32);

impl RangeTable {
    /// Inserts `range`, which must overlap no other. Returns `false`, with the table unchanged, when there is no frame
    /// for a node.
    pub fn insert(&mut self, range: RangeTranslation, frames: &mut impl FrameSource) -> bool {
        debug_assert!(range.pages > 0 && self.walk(range.vpn, |_| {}).is_none(), "{range:?}");
        let splits = self.splits(range.vpn);
        let grows = splits == self.height as usize;
        if grows && self.fits_after_packing() {
            return self.pack(range, frames);
        }
        if !self.reserve(splits + usize::from(grows), frames) {
            return false;
        }
        if let Some((middle, right)) = self.insert_into(self.root, range) {
            let root = self.take_node();
            self.nodes[root as usize] = Node { ranges: vec![middle], children: vec![self.root, right] };
            self.root = root;
            self.height += 1;
            self.record_access(root, true);
        }
        self.len += 1;
        true
    }

    /// Replaces the range that starts at `vpn` by `with`, which must overlap no other range.
    ///
    /// # Panics
    /// When no range starts at `vpn`.
    pub fn replace(&mut self, vpn: Vpn, with: RangeTranslation) {
        let mut number = self.root;
        loop {
            self.record_access(number, false);
            let node = &mut self.nodes[number as usize];
            let at = node.ranges.partition_point(|range| range.vpn < vpn);
            match node.ranges.get_mut(at).filter(|range| range.vpn == vpn) {
                Some(range) => {
                    *range = with;
                    return self.record_access(number, true);
                }
                None => number = *node.children.get(at).expect("the range to replace exists"),
            }
        }
    }

    /// Removes and returns the range that starts at `vpn`; `None` when there is no such range.
    pub fn remove(&mut self, vpn: Vpn, frames: &mut impl FrameSource) -> Option<RangeTranslation> {
        let removed = self.remove_from(self.root, vpn)?;
        self.len -= 1;
        let root = &self.nodes[self.root as usize];
        if root.ranges.is_empty()
            && let Some(&only) = root.children.first()
        {
            self.free_node(self.root);
            self.root = only;
            self.height -= 1;
        }
        // One empty page stays for the next insertions.
        self.trim(1, frames);
        Some(removed)
    }

    /// Returns how many nodes an insertion at `vpn` splits: the unbroken run of full nodes from the leaf up.
    fn splits(&self, vpn: Vpn) -> usize {
        let (mut number, mut full) = (self.root, 0);
        loop {
            let node = &self.nodes[number as usize];
            full = if node.ranges.len() < MAX_RANGES { 0 } else { full + 1 };
            match node.children.get(node.ranges.partition_point(|range| range.vpn < vpn)) {
                Some(&next) => number = next,
                None => return full,
            }
        }
    }

    fn insert_into(&mut self, number: u32, range: RangeTranslation) -> Option<Split> {
        self.record_access(number, false);
        let node = &mut self.nodes[number as usize];
        let at = node.ranges.partition_point(|other| other.vpn < range.vpn);
        match node.children.get(at).copied() {
            None => node.ranges.insert(at, range),
            Some(child) => {
                let (middle, right) = self.insert_into(child, range)?;
                let node = &mut self.nodes[number as usize];
                node.ranges.insert(at, middle);
                node.children.insert(at + 1, right);
            }
        }
        self.record_access(number, true);
        (self.nodes[number as usize].ranges.len() > MAX_RANGES).then(|| self.split(number))
    }

    /// Splits a node that has one range too many.
    fn split(&mut self, number: u32) -> Split {
        let right = self.take_node();
        let node = &mut self.nodes[number as usize];
        let ranges = node.ranges.split_off(MIN_RANGES + 1);
        let middle = node.ranges.pop().expect("the node overflowed");
        let children = if node.children.is_empty() { Vec::new() } else { node.children.split_off(MIN_RANGES + 1) };
        self.nodes[right as usize] = Node { ranges, children };
        self.record_access(right, true);
        (middle, right)
    }

    fn remove_from(&mut self, number: u32, vpn: Vpn) -> Option<RangeTranslation> {
        self.record_access(number, false);
        let node = &mut self.nodes[number as usize];
        let at = node.ranges.partition_point(|range| range.vpn < vpn);
        let here = node.ranges.get(at).is_some_and(|range| range.vpn == vpn);
        let child = node.children.get(at).copied();
        let removed = match (here, child) {
            (true, None) => node.ranges.remove(at),
            // The last range of the child before it replaces it.
            (true, Some(child)) => {
                let last = self.remove_last(child);
                let removed = std::mem::replace(&mut self.nodes[number as usize].ranges[at], last);
                self.rebalance(number, at);
                removed
            }
            (false, child) => {
                let removed = self.remove_from(child?, vpn)?;
                if !self.rebalance(number, at) {
                    return Some(removed);
                }
                removed
            }
        };
        self.record_access(number, true);
        Some(removed)
    }

    fn remove_last(&mut self, number: u32) -> RangeTranslation {
        self.record_access(number, true);
        let node = &mut self.nodes[number as usize];
        match node.children.last().copied() {
            None => node.ranges.pop().expect("no node is empty"),
            Some(child) => {
                let at = node.children.len() - 1;
                let last = self.remove_last(child);
                self.rebalance(number, at);
                last
            }
        }
    }

    /// Restores the fill of child number `at` of node `number`: it borrows a range from a sibling, or merges with it.
    /// Returns whether the node changed.
    fn rebalance(&mut self, number: u32, at: usize) -> bool {
        let node = &self.nodes[number as usize];
        if self.range_count(node.children[at]) >= MIN_RANGES {
            return false;
        }
        if at > 0 && self.range_count(node.children[at - 1]) > MIN_RANGES {
            self.rotate(number, at - 1, true);
        } else if at + 1 < node.children.len() && self.range_count(node.children[at + 1]) > MIN_RANGES {
            self.rotate(number, at, false);
        } else {
            self.merge(number, at.saturating_sub(1));
        }
        true
    }

    fn range_count(&self, number: u32) -> usize {
        self.nodes[number as usize].ranges.len()
    }

    /// Rotates a range between the children on either side of range number `at`: from left to right when `forward`.
    fn rotate(&mut self, number: u32, at: usize, forward: bool) {
        let (left, right) = self.children_around(number, at);
        let [parent, left_node, right_node] = self
            .nodes
            .get_disjoint_mut([number as usize, left as usize, right as usize])
            .expect("a node and two of its children");
        let between = &mut parent.ranges[at];
        if forward {
            let moved = std::mem::replace(between, left_node.ranges.pop().expect("the sibling has ranges to spare"));
            right_node.ranges.insert(0, moved);
            right_node.children.splice(0..0, left_node.children.pop());
        } else {
            let moved = std::mem::replace(between, right_node.ranges.remove(0));
            left_node.ranges.push(moved);
            if !right_node.children.is_empty() {
                left_node.children.push(right_node.children.remove(0));
            }
        }
        self.record_access(left, true);
        self.record_access(right, true);
    }

    /// Merges the children on either side of range number `at`, with that range between theirs.
    fn merge(&mut self, number: u32, at: usize) {
        let (left, right) = self.children_around(number, at);
        let mut emptied = std::mem::take(&mut self.nodes[right as usize]);
        let parent = &mut self.nodes[number as usize];
        let between = parent.ranges.remove(at);
        parent.children.remove(at + 1);
        let node = &mut self.nodes[left as usize];
        node.ranges.push(between);
        node.ranges.append(&mut emptied.ranges);
        node.children.append(&mut emptied.children);
        self.record_access(left, true);
        self.free_node(right);
    }

    fn children_around(&self, number: u32, at: usize) -> (u32, u32) {
        let node = &self.nodes[number as usize];
        (node.children[at], node.children[at + 1])
    }
}
