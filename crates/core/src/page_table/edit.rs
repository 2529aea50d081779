//! Changing a page table: what the operating system does to it.

use super::words::Words;
use super::{HEAD, Layout, MappedPage, NodeId, PageTable, PteWrites, Slot, TABLE};
use crate::{FrameSource, PhysAddr, Pte, RangeTable, RangeTranslation, Vpn};
use std::ops::Deref;

/// A page table that its owner, an operating system, can change. It dereferences to the [`PageTable`] that processors
/// read; nobody can change a table through that.
#[derive(Debug)]
pub struct EditablePageTable {
    table: PageTable,
}

impl Deref for EditablePageTable {
    type Target = PageTable;

    #[inline(always)]
    fn deref(&self) -> &PageTable {
        &self.table
    }
}

impl Clone for EditablePageTable {
    fn clone(&self) -> EditablePageTable {
        let PageTable { layout, levels, words, root, free, bytes, ranges, segments } = &self.table;
        EditablePageTable {
            table: PageTable {
                layout: layout.clone(),
                levels: *levels,
                words: words.clone(),
                root: *root,
                free: free.clone(),
                bytes: *bytes,
                ranges: ranges.clone(),
                segments: segments.clone(),
            },
        }
    }
}

impl EditablePageTable {
    /// Makes an empty table, which has a root only. Returns `None` when there is no frame for the root.
    pub fn new(layout: Layout, frames: &mut impl FrameSource) -> Option<EditablePageTable> {
        let mut levels = [(0, 0); Layout::MOST_LEVELS];
        for (level, slot) in levels.iter_mut().enumerate().take(layout.levels()) {
            *slot = (layout.span(level).order(layout.base), (1 << layout.bits[level]) - 1);
        }
        let free = vec![Vec::new(); layout.levels()];
        let (root, words) = (NodeId(0), Words::default());
        let table = PageTable { layout, levels, words, root, free, bytes: 0, ranges: None, segments: Vec::new() };
        let mut table = EditablePageTable { table };
        table.table.root = table.add_node(table.layout.levels() - 1, frames)?;
        Some(table)
    }

    /// Returns the table for a processor, which may set accessed and dirty bits but change no translation.
    #[inline(always)]
    pub fn hardware_view(&mut self) -> &mut PageTable {
        &mut self.table
    }

    /// Returns the range table of the address space, to be set or changed. The caller keeps it redundant to this table.
    #[inline(always)]
    pub fn ranges_mut(&mut self) -> &mut Option<Box<RangeTable>> {
        &mut self.table.ranges
    }

    /// Returns the segments of the address space, to be changed. The caller keeps them ascending by address, disjoint and
    /// redundant to this table.
    #[inline(always)]
    pub fn segments_mut(&mut self) -> &mut Vec<RangeTranslation> {
        &mut self.table.segments
    }

    /// Writes the entry of the page that starts at `vpn` (all copies of it), over whatever stood there: smaller pages
    /// below it are dropped with their nodes. `vpn` and `pte` must be aligned to the page's size.
    /// `None` when there is no frame for a node; then nothing was written but some nodes may have been added.
    pub fn set(&mut self, vpn: Vpn, pte: Pte, frames: &mut impl FrameSource) -> Option<PteWrites> {
        let shift = pte.shift();
        debug_assert!(vpn.is_aligned(shift, self.layout.base), "{vpn:?} for a page of {shift}");
        let (target, copies) = self.layout.placement(shift);
        let mut nodes = 0;
        let mut node = self.root();
        for level in (target + 1..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            node = match self.slot(node, index) {
                Slot::Table(next) => next,
                Slot::Empty => {
                    let next = self.add_node(level - 1, frames)?;
                    self.write(node, index, TABLE | next.0);
                    nodes += 1;
                    next
                }
                Slot::Leaf(old) => panic!("{old:?} stands above {vpn:?}: demote it first"),
            };
        }
        let index = self.index(target, vpn);
        for i in index..index + copies as usize {
            self.drop_subtree(node, target, i, frames);
            self.write(node, i, pte.0);
        }
        Some(PteWrites { at: self.entry_addr(node, index), entries: copies, nodes })
    }

    /// Removes the page that holds `vpn` and frees nodes that become empty (never the root). Returns the page and the
    /// entries written.
    pub fn clear(&mut self, vpn: Vpn, frames: &mut impl FrameSource) -> Option<(MappedPage, PteWrites)> {
        let entry = self.page(vpn)?;
        let (target, copies) = self.layout.placement(entry.pte.shift());
        let mut path = Vec::with_capacity(self.layout.levels());
        let mut node = self.root();
        for level in (target + 1..self.layout.levels()).rev() {
            let index = self.index(level, entry.vpn);
            path.push((node, index));
            let Slot::Table(next) = self.slot(node, index) else { unreachable!("a page was found below") };
            node = next;
        }
        let index = self.index(target, entry.vpn);
        let written = PteWrites { at: self.entry_addr(node, index), entries: copies, nodes: 0 };
        for i in index..index + copies as usize {
            self.write(node, i, 0);
        }
        let mut level = target;
        while let Some((parent, index)) = path.pop() {
            if self.words[node.offset() as usize + 1] > 0 {
                break;
            }
            self.free_node(node, level, frames);
            level += 1;
            self.write(parent, index, 0);
            node = parent;
        }
        Some((entry, written))
    }

    /// Empties the entries of the page that holds `vpn` but keeps every node, for a caller that at once writes smaller
    /// pages in its place. Returns the page and the entries written.
    pub fn clear_entries(&mut self, vpn: Vpn) -> Option<(MappedPage, PteWrites)> {
        let entry = self.page(vpn)?;
        let (node, index) = self.find(entry.vpn)?;
        let (_, copies) = self.layout.placement(entry.pte.shift());
        for i in index..index + copies as usize {
            self.write(node, i, 0);
        }
        Some((entry, PteWrites { at: self.entry_addr(node, index), entries: copies, nodes: 0 }))
    }

    /// Rewrites the page that holds `vpn` in all its copies; the size must stay the same.
    pub fn update(&mut self, vpn: Vpn, change: impl Fn(Pte) -> Pte) -> Option<PteWrites> {
        let (node, index) = self.find(vpn)?;
        let PageTable { words, layout, .. } = &mut self.table;
        let words = &mut words[node.offset() as usize + HEAD..];
        let (_, copies) = layout.placement(Pte(words[index]).shift());
        let first = index & !(copies as usize - 1);
        for word in &mut words[first..first + copies as usize] {
            let new = change(Pte(*word));
            debug_assert!(new.present() && new.shift() == Pte(*word).shift());
            *word = new.0;
        }
        Some(PteWrites { at: self.entry_addr(node, first), entries: copies, nodes: 0 })
    }

    /// The leaf node (level 0) that holds `vpn` lies at `at` from now on. Returns where it lay; `None` without such a node.
    pub fn move_leaf_node(&mut self, vpn: Vpn, at: PhysAddr) -> Option<PhysAddr> {
        let mut node = self.root();
        let mut above = 0;
        for level in (1..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            let Slot::Table(next) = self.slot(node, index) else { return None };
            above = node.offset() as usize + HEAD + index;
            node = next;
        }
        let place = node.offset() as usize;
        let moved = NodeId::new(place, at, self.layout.base);
        match above {
            0 => self.table.root = moved,
            above => self.table.words[above] = TABLE | moved.0,
        }
        Some(PhysAddr(std::mem::replace(&mut self.table.words[place], at.0)))
    }

    /// Gives all frames back, those of its ranges too. The table must not be used afterwards.
    pub fn release(&mut self, frames: &mut impl FrameSource) {
        if let Some(mut ranges) = self.table.ranges.take() {
            ranges.release(frames);
        }
        let top = self.layout.levels() - 1;
        for index in 0..1 << self.layout.bits[top] {
            self.drop_subtree(self.root(), top, index, frames);
        }
        self.free_node(self.root(), top, frames);
        self.table.words = Words::default();
    }

    fn add_node(&mut self, level: usize, frames: &mut impl FrameSource) -> Option<NodeId> {
        let bytes = self.layout.node_bytes(level);
        let at = frames.allocate_table(bytes)?;
        self.table.bytes += bytes;
        let len = HEAD + (1 << self.layout.bits[level]);
        let place = self.table.free[level].pop().map_or(self.words.len(), |place| place as usize);
        if place == self.words.len() {
            self.table.words.grow(len);
        }
        let words = &mut self.table.words[place..][..len];
        words.fill(0);
        words[0] = at.0;
        Some(NodeId::new(place, at, self.layout.base))
    }

    fn free_node(&mut self, node: NodeId, level: usize, frames: &mut impl FrameSource) {
        let bytes = self.layout.node_bytes(level);
        frames.free_table(node.at(self.layout.base), bytes);
        self.table.bytes -= bytes;
        self.table.free[level].push(node.offset());
    }

    fn drop_subtree(&mut self, node: NodeId, level: usize, index: usize, frames: &mut impl FrameSource) {
        if let Slot::Table(below) = self.slot(node, index) {
            for i in 0..1 << self.layout.bits[level - 1] {
                self.drop_subtree(below, level - 1, i, frames);
            }
            self.free_node(below, level - 1, frames);
        }
    }

    fn write(&mut self, node: NodeId, index: usize, word: u64) {
        let old = std::mem::replace(&mut self.table.words[node.offset() as usize + HEAD + index], word);
        let used = &mut self.table.words[node.offset() as usize + 1];
        *used = *used + u64::from(word != 0) - u64::from(old != 0);
    }
}
