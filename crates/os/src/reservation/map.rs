//! Population maps (Navarro et al. §4.9): the base pages of each memory object that have frames.
//!
//! A map is a radix tree over one extent of the largest page size; each level belongs to a page size. A node counts its children
//! that hold at least one page (`some`) and those that are full (`full`). A node exists while one of its pages has a frame, so an
//! absent node means two zeroes. Counts change upwards only where a child becomes or ceases to be empty or full. The lowest nodes
//! keep the frame of each page, instead of the paper's bit.

use super::Ladder;
use crate::ObjectId;
use reach_core::Pfn;
use std::cell::Cell;
use std::collections::HashMap;

/// The number that means no node, no reservation and no frame.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) slot: u32,
    pub(super) level: u8,
    /// Number of children with at least one page.
    pub(super) some: u32,
    /// Number of full children.
    pub(super) full: u32,
    /// Level of the largest empty extents below. `None` when the node is full.
    pub(super) vacant: Option<u8>,
    /// The reservation of exactly this extent, or [`NIL`].
    pub(super) reservation: u32,
    /// The children: nodes, or at level 1 frames; [`NIL`] where there is none.
    pub(super) below: Box<[u32]>,
}

/// The maps of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectMaps {
    /// The object's colour (FreeBSD's word): added to a page's index, it gives the page's place. It aligns superpages of memory
    /// with extents of the object where the object is mapped at an address that is not aligned. `None` until it is fixed.
    pub(super) colour: Option<u64>,
    /// Root nodes, by place in extents of the largest size.
    pub(super) roots: HashMap<u64, u32>,
}

/// The state of a page in its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This reservation holds a frame for the page.
    Reserved(u32),
    /// The page has a frame.
    Populated,
    /// Neither; extents around the page up to this level are empty and not reserved.
    Vacant(u8),
}

/// All population maps.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    pub(super) ladder: Ladder,
    nodes: Vec<Node>,
    unused: Vec<u32>,
    pub(super) objects: HashMap<ObjectId, ObjectMaps>,
    /// Elementary steps not yet taken: look-ups in the hash table, nodes visited.
    pub(super) steps: Cell<u64>,
}

impl Maps {
    /// Returns no maps.
    pub(super) fn new(ladder: Ladder) -> Maps {
        Maps { ladder, nodes: Vec::new(), unused: Vec::new(), objects: HashMap::new(), steps: Cell::new(0) }
    }

    pub(super) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Returns the place of page `index` of `object`.
    pub(super) fn place(&self, object: ObjectId, index: u64) -> u64 {
        index.wrapping_add(self.objects.get(&object).and_then(|maps| maps.colour).unwrap_or(0))
    }

    /// Counts elementary steps.
    pub(super) fn step(&self, steps: u64) {
        self.steps.set(self.steps.get() + steps);
    }

    fn root(&self, object: ObjectId, place: u64) -> Option<u32> {
        self.step(1);
        self.objects.get(&object)?.roots.get(&(place >> self.ladder.order(self.ladder.top()))).copied()
    }

    /// Returns the state of the page at `place`.
    pub(super) fn find(&self, object: ObjectId, place: u64) -> Found {
        let Some(mut id) = self.root(object, place) else { return Found::Vacant(self.ladder.top()) };
        let mut reservation = NIL;
        loop {
            self.step(1);
            let node = self.node(id);
            if node.reservation != NIL {
                reservation = node.reservation;
            }
            let below = node.below[self.ladder.slot(node.level, place)];
            if below == NIL {
                let vacant = Found::Vacant(node.level - 1);
                return if reservation == NIL { vacant } else { Found::Reserved(reservation) };
            }
            if node.level == 1 {
                return Found::Populated;
            }
            id = below;
        }
    }

    /// Returns the nodes on the path from the root to `place` that exist, each with its level.
    pub(super) fn path(&self, object: ObjectId, place: u64) -> impl Iterator<Item = (u8, &Node)> {
        let mut next = self.root(object, place).unwrap_or(NIL);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            self.step(1);
            next = if node.level > 1 { node.below[self.ladder.slot(node.level, place)] } else { NIL };
            Some((node.level, node))
        })
    }

    /// Returns the frame of the page at `place`. `None` when it has none.
    pub(super) fn frame(&self, object: ObjectId, place: u64) -> Option<Pfn> {
        let (level, node) = self.path(object, place).last()?;
        let frame = node.below[self.ladder.slot(level, place)];
        (level == 1 && frame != NIL).then_some(Pfn(frame as u64))
    }

    /// Returns the node of `level` that holds `place`. Makes it and those above it if they do not exist.
    pub(super) fn grow(&mut self, object: ObjectId, place: u64, level: u8) -> u32 {
        let top = self.ladder.top();
        let mut id = match self.root(object, place) {
            Some(root) => root,
            None => {
                let root = self.add(NIL, 0, top);
                let roots = &mut self.objects.entry(object).or_default().roots;
                roots.insert(place >> self.ladder.order(top), root);
                root
            }
        };
        for at in (level..top).rev() {
            self.step(1);
            let slot = self.ladder.slot(at + 1, place);
            let mut child = self.node(id).below[slot];
            if child == NIL {
                child = self.add(id, slot as u32, at);
                self.node_mut(id).below[slot] = child;
            }
            id = child;
        }
        id
    }

    fn add(&mut self, parent: u32, slot: u32, level: u8) -> u32 {
        let below = vec![NIL; self.ladder.fan(level) as usize].into_boxed_slice();
        let node = Node { parent, slot, level, some: 0, full: 0, vacant: Some(level - 1), reservation: NIL, below };
        match self.unused.pop() {
            Some(id) => {
                *self.node_mut(id) = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Records that the page at `place` has frame `pfn`. Returns its lowest node.
    pub(super) fn populate(&mut self, object: ObjectId, place: u64, pfn: Pfn) -> u32 {
        let leaf = self.grow(object, place, 1);
        let slot = self.ladder.slot(1, place);
        let old = std::mem::replace(&mut self.node_mut(leaf).below[slot], pfn.0 as u32);
        debug_assert_eq!(old, NIL, "{object:?}: {place:#x} is populated already");
        self.carry(leaf, 1);
        leaf
    }

    /// Records that the page at `place` no longer has frame `pfn`. Returns its lowest node. Does nothing and returns `None` when
    /// the page has another frame or none.
    pub(super) fn depopulate(&mut self, object: ObjectId, place: u64, pfn: Pfn) -> Option<u32> {
        let mut id = self.root(object, place)?;
        loop {
            self.step(1);
            let node = self.node(id);
            let below = node.below[self.ladder.slot(node.level, place)];
            if node.level == 1 {
                if below as u64 != pfn.0 {
                    return None;
                }
                break;
            }
            if below == NIL {
                return None;
            }
            id = below;
        }
        let slot = self.ladder.slot(1, place);
        self.node_mut(id).below[slot] = NIL;
        self.carry(id, -1);
        Some(id)
    }

    /// Adds `step`, 1 or -1, to the counts of the lowest node `leaf`, and updates the nodes above as far as anything changes.
    fn carry(&mut self, leaf: u32, step: i32) {
        let (mut some, mut full, mut id) = (step, step, leaf);
        while id != NIL {
            self.step(1);
            let fan = self.ladder.fan(self.node(id).level);
            let node = self.node_mut(id);
            let before = (node.some > 0, node.full == fan, node.vacant);
            node.some = node.some.wrapping_add_signed(some);
            node.full = node.full.wrapping_add_signed(full);
            let vacant = self.largest_vacant(id);
            let node = self.node_mut(id);
            node.vacant = vacant;
            let after = (node.some > 0, node.full == fan, vacant);
            if before == after {
                return;
            }
            some = i32::from(after.0) - i32::from(before.0);
            full = i32::from(after.1) - i32::from(before.1);
            id = node.parent;
        }
    }

    /// Returns the level of the largest empty extents below `id`. `None` when it is full.
    fn largest_vacant(&self, id: u32) -> Option<u8> {
        let node = self.node(id);
        if node.some < self.ladder.fan(node.level) {
            return Some(node.level - 1);
        }
        if node.level == 1 {
            return None;
        }
        // Every child holds a page, so the largest empty extent is the largest of theirs.
        self.step(u64::from(node.some));
        node.below.iter().filter_map(|&child| self.node(child).vacant).max()
    }

    /// Returns the reservation that holds the extent of node `id`. `None` when none does.
    pub(super) fn reservation_over(&self, mut id: u32) -> Option<u32> {
        while id != NIL {
            let node = self.node(id);
            if node.reservation != NIL {
                return Some(node.reservation);
            }
            id = node.parent;
        }
        None
    }

    /// Removes `id` and the nodes above it that hold no page.
    pub(super) fn prune(&mut self, object: ObjectId, place: u64, mut id: u32) {
        while id != NIL && self.node(id).some == 0 {
            debug_assert_eq!(self.node(id).reservation, NIL, "an empty reservation");
            let (parent, slot) = (self.node(id).parent, self.node(id).slot);
            self.node_mut(id).below = Box::default();
            self.unused.push(id);
            if parent != NIL {
                self.node_mut(parent).below[slot as usize] = NIL;
            } else if let Some(maps) = self.objects.get_mut(&object) {
                maps.roots.remove(&(place >> self.ladder.order(self.ladder.top())));
            }
            id = parent;
        }
    }

    /// Returns the nodes of one object, in a fixed order.
    fn nodes_of(&self, object: ObjectId) -> Vec<u32> {
        let Some(maps) = self.objects.get(&object) else { return Vec::new() };
        let mut roots: Vec<(u64, u32)> = maps.roots.iter().map(|(&at, &root)| (at, root)).collect();
        roots.sort_unstable();
        let mut found: Vec<u32> = roots.into_iter().map(|(_, root)| root).collect();
        let mut at = 0;
        while let Some(node) = found.get(at).map(|&id| self.node(id)) {
            if node.level > 1 {
                found.extend(node.below.iter().filter(|&&below| below != NIL));
            }
            at += 1;
        }
        found
    }

    /// Returns the reservations of one object.
    pub(super) fn reservations_of(&self, object: ObjectId) -> Vec<u32> {
        let reservations = self.nodes_of(object).into_iter().map(|id| self.node(id).reservation);
        reservations.filter(|&reservation| reservation != NIL).collect()
    }

    /// Removes all nodes of an object whose reservations are gone. Returns the frames that its pages still have.
    pub(super) fn end(&mut self, object: ObjectId) -> Vec<Pfn> {
        let mut frames = Vec::new();
        for id in self.nodes_of(object) {
            let node = self.node_mut(id);
            let below = std::mem::take(&mut node.below);
            if node.level == 1 {
                frames.extend(below.iter().filter(|&&frame| frame != NIL).map(|&frame| Pfn(frame as u64)));
            }
            self.unused.push(id);
        }
        self.objects.remove(&object);
        frames
    }

    /// Returns all nodes with their objects and first places, roots before their children.
    pub(super) fn all(&self) -> Vec<(ObjectId, u64, u32)> {
        let mut found = Vec::new();
        for (&object, maps) in &self.objects {
            let top = self.ladder.order(self.ladder.top());
            let mut todo: Vec<(u64, u32)> = maps.roots.iter().map(|(&at, &root)| (at << top, root)).collect();
            while let Some((place, id)) = todo.pop() {
                found.push((object, place, id));
                let node = self.node(id);
                if node.level > 1 {
                    let step = self.ladder.pages(node.level - 1);
                    let children = node.below.iter().enumerate().filter(|&(_, &child)| child != NIL);
                    todo.extend(children.map(|(slot, &child)| (place + slot as u64 * step, child)));
                }
            }
        }
        found
    }
}
