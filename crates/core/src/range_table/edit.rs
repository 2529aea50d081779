//! Changing a range table: insertion and removal in a B-tree (Knuth, TAOCP 3, §6.2.4).

use super::{FEWEST, Node, RANGES, Range, RangeTable};
use crate::{FrameSource, Vpn};

/// What a node that overflowed gives to its parent: its middle range, and the node with those behind it.
type Split = (Range, u32);

impl RangeTable {
    /// Adds `range`, which overlaps none. `false`, and nothing done, when there is no frame for a node.
    pub fn insert(&mut self, range: Range, frames: &mut impl FrameSource) -> bool {
        debug_assert!(range.pages > 0 && self.walk(range.vpn, |_| {}).is_none(), "{range:?}");
        let splits = self.splits(range.vpn);
        let grows = splits == self.height as usize;
        if grows && self.may_pack() {
            return self.pack(range, frames);
        }
        if !self.reserve(splits + usize::from(grows), frames) {
            return false;
        }
        if let Some((middle, right)) = self.insert_below(self.root, range) {
            let root = self.take_node();
            self.nodes[root as usize] = Node { ranges: vec![middle], children: vec![self.root, right] };
            self.root = root;
            self.height += 1;
            self.visit(root, true);
        }
        self.len += 1;
        true
    }

    /// Puts `with` in the place of the range that starts at `vpn`. It may be shorter or longer at either end, as long as
    /// it overlaps no other.
    ///
    /// # Panics
    /// When no range starts there.
    pub fn replace(&mut self, vpn: Vpn, with: Range) {
        let mut number = self.root;
        loop {
            self.visit(number, false);
            let node = &mut self.nodes[number as usize];
            let at = node.ranges.partition_point(|range| range.vpn < vpn);
            match node.ranges.get_mut(at).filter(|range| range.vpn == vpn) {
                Some(range) => {
                    *range = with;
                    return self.visit(number, true);
                }
                None => number = *node.children.get(at).expect("a range that is replaced is there"),
            }
        }
    }

    /// Removes the range that starts at `vpn`, and returns it.
    pub fn remove(&mut self, vpn: Vpn, frames: &mut impl FrameSource) -> Option<Range> {
        let removed = self.remove_below(self.root, vpn)?;
        self.len -= 1;
        let root = &self.nodes[self.root as usize];
        if root.ranges.is_empty()
            && let Some(&only) = root.children.first()
        {
            self.give_node(self.root);
            self.root = only;
            self.height -= 1;
        }
        // One page stays for the next insertions.
        self.trim(1, frames);
        Some(removed)
    }

    /// How many nodes an insertion at `vpn` divides: those that are full, from the leaf up.
    fn splits(&self, vpn: Vpn) -> usize {
        let (mut number, mut full) = (self.root, 0);
        loop {
            let node = &self.nodes[number as usize];
            full = if node.ranges.len() < RANGES { 0 } else { full + 1 };
            match node.children.get(node.ranges.partition_point(|range| range.vpn < vpn)) {
                Some(&next) => number = next,
                None => return full,
            }
        }
    }

    fn insert_below(&mut self, number: u32, range: Range) -> Option<Split> {
        self.visit(number, false);
        let node = &mut self.nodes[number as usize];
        let at = node.ranges.partition_point(|other| other.vpn < range.vpn);
        match node.children.get(at).copied() {
            None => node.ranges.insert(at, range),
            Some(child) => {
                let (middle, right) = self.insert_below(child, range)?;
                let node = &mut self.nodes[number as usize];
                node.ranges.insert(at, middle);
                node.children.insert(at + 1, right);
            }
        }
        self.visit(number, true);
        (self.nodes[number as usize].ranges.len() > RANGES).then(|| self.split(number))
    }

    /// Divides a node of one range too many.
    fn split(&mut self, number: u32) -> Split {
        let right = self.take_node();
        let node = &mut self.nodes[number as usize];
        let ranges = node.ranges.split_off(FEWEST + 1);
        let middle = node.ranges.pop().expect("it overflowed");
        let children = if node.children.is_empty() { Vec::new() } else { node.children.split_off(FEWEST + 1) };
        self.nodes[right as usize] = Node { ranges, children };
        self.visit(right, true);
        (middle, right)
    }

    fn remove_below(&mut self, number: u32, vpn: Vpn) -> Option<Range> {
        self.visit(number, false);
        let node = &mut self.nodes[number as usize];
        let at = node.ranges.partition_point(|range| range.vpn < vpn);
        let here = node.ranges.get(at).is_some_and(|range| range.vpn == vpn);
        let child = node.children.get(at).copied();
        let removed = match (here, child) {
            (true, None) => node.ranges.remove(at),
            // The last range before it takes its place.
            (true, Some(child)) => {
                let last = self.remove_last(child);
                let removed = std::mem::replace(&mut self.nodes[number as usize].ranges[at], last);
                self.refill(number, at);
                removed
            }
            (false, child) => {
                let removed = self.remove_below(child?, vpn)?;
                if !self.refill(number, at) {
                    return Some(removed);
                }
                removed
            }
        };
        self.visit(number, true);
        Some(removed)
    }

    fn remove_last(&mut self, number: u32) -> Range {
        self.visit(number, true);
        let node = &mut self.nodes[number as usize];
        match node.children.last().copied() {
            None => node.ranges.pop().expect("nodes hold ranges"),
            Some(child) => {
                let at = node.children.len() - 1;
                let last = self.remove_last(child);
                self.refill(number, at);
                last
            }
        }
    }

    /// Child number `at` of `number` may have a range too few: a sibling gives one, or the two become one. Returns
    /// whether the node changed.
    fn refill(&mut self, number: u32, at: usize) -> bool {
        let node = &self.nodes[number as usize];
        if self.fill(node.children[at]) >= FEWEST {
            return false;
        }
        if at > 0 && self.fill(node.children[at - 1]) > FEWEST {
            self.shift(number, at - 1, true);
        } else if at + 1 < node.children.len() && self.fill(node.children[at + 1]) > FEWEST {
            self.shift(number, at, false);
        } else {
            self.unite(number, at.saturating_sub(1));
        }
        true
    }

    fn fill(&self, number: u32) -> usize {
        self.nodes[number as usize].ranges.len()
    }

    /// Moves a range across number `at` of a node: from the child before it to the one behind it, or back.
    fn shift(&mut self, number: u32, at: usize, forward: bool) {
        let (left, right) = self.children_around(number, at);
        let [parent, left_node, right_node] = self
            .nodes
            .get_disjoint_mut([number as usize, left as usize, right as usize])
            .expect("a node and two of its children");
        let between = &mut parent.ranges[at];
        if forward {
            let moved = std::mem::replace(between, left_node.ranges.pop().expect("more than enough"));
            right_node.ranges.insert(0, moved);
            right_node.children.splice(0..0, left_node.children.pop());
        } else {
            let moved = std::mem::replace(between, right_node.ranges.remove(0));
            left_node.ranges.push(moved);
            if !right_node.children.is_empty() {
                left_node.children.push(right_node.children.remove(0));
            }
        }
        self.visit(left, true);
        self.visit(right, true);
    }

    /// Makes the children before and behind range number `at` of a node one, with that range between them.
    fn unite(&mut self, number: u32, at: usize) {
        let (left, right) = self.children_around(number, at);
        let mut gone = std::mem::take(&mut self.nodes[right as usize]);
        let parent = &mut self.nodes[number as usize];
        let between = parent.ranges.remove(at);
        parent.children.remove(at + 1);
        let node = &mut self.nodes[left as usize];
        node.ranges.push(between);
        node.ranges.append(&mut gone.ranges);
        node.children.append(&mut gone.children);
        self.visit(left, true);
        self.give_node(right);
    }

    fn children_around(&self, number: u32, at: usize) -> (u32, u32) {
        let node = &self.nodes[number as usize];
        (node.children[at], node.children[at + 1])
    }
}
