//! Changing a page table, which only the operating system does.

use super::words::Words;
use super::{HEAD, Layout, MappedPage, NodeId, PageTable, PteWrites, Slot, TABLE};
use crate::organization::TableTraffic;
use crate::{FrameSource, Pfn, PhysAddr, Pte, RangeTable, RangeTranslation, Vpn};
use std::ops::Deref;

mod organized;
mod shadow;

/// A page table that its owner, an operating system, can change. It dereferences to the [`PageTable`] that processors
/// read, through which no translation can be changed.
///
/// ```
/// use reach_core::{EditablePageTable, FrameSource, Layout, PageShift, Pfn, PhysAddr, Pte, Vpn};
///
/// /// Hands out physical memory from address 0 on.
/// struct Memory(u64);
/// impl FrameSource for Memory {
///     fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
///         self.0 += bytes;
///         Some(PhysAddr(self.0 - bytes))
///     }
///     fn free_table(&mut self, _: PhysAddr, _: u64) {}
/// }
///
/// let mut memory = Memory(0);
/// let mut table = EditablePageTable::new(Layout::x86_64(), &mut memory).unwrap();
/// let huge = Pte::new(Pfn(1024), PageShift(21)).with_writable(true);
/// let writes = table.set(Vpn(512), huge, &mut memory).unwrap();
/// assert_eq!((writes.entries, writes.nodes), (1, 2));
/// // A walk reads three entries: a 2 MB page needs no node at level 0.
/// assert_eq!(table.walk(Vpn(700)).len(), 3);
/// assert_eq!(table.page(Vpn(700)).unwrap().vpn, Vpn(512));
/// ```
#[derive(Debug)]
pub struct EditablePageTable {
    table: PageTable,
    /// Traffic of the organization since it was last taken.
    log: Vec<TableTraffic>,
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
        let PageTable { layout, levels, words, root, free, bytes, ranges, segments, organization, host: _, shadowed } =
            &self.table;
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
                organization: organization.as_ref().map(|organization| organization.copied()),
                // It is lent while a processor runs, never copied.
                host: None,
                shadowed: shadowed.clone(),
            },
            log: self.log.clone(),
        }
    }
}

impl EditablePageTable {
    /// Makes an empty table, which has a root only. Returns `None` when there is no frame for the root.
    pub fn new(layout: Layout, frames: &mut impl FrameSource) -> Option<EditablePageTable> {
        let mut levels = [(0, 0); Layout::MAX_LEVELS];
        for (level, slot) in levels.iter_mut().enumerate().take(layout.levels()) {
            *slot = (layout.span(level).order(layout.base), (1 << layout.bits[level]) - 1);
        }
        let free = vec![Vec::new(); layout.levels()];
        let (root, words) = (NodeId(0), Words::default());
        let organization = layout.kind.build(&layout);
        let segments = Vec::new();
        let (ranges, host, shadowed) = (None, None, None);
        let table =
            PageTable { layout, levels, words, root, free, bytes: 0, ranges, segments, organization, host, shadowed };
        let mut table = EditablePageTable { table, log: Vec::new() };
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

    /// Returns the segments of the address space, to be changed. The caller keeps them ascending by address, disjoint
    /// and redundant to this table.
    #[inline(always)]
    pub fn segments_mut(&mut self) -> &mut Vec<RangeTranslation> {
        &mut self.table.segments
    }

    /// Maps the page that starts at `vpn`: writes all its replicated entries. Smaller pages at those addresses are
    /// dropped with their nodes. `vpn` and the frame must be aligned to the page's size.
    ///
    /// Returns `None` when there is no frame for a node. Then nothing is mapped, but some nodes may have been added.
    ///
    /// # Panics
    /// When a larger page covers `vpn`.
    pub fn set(&mut self, vpn: Vpn, pte: Pte, frames: &mut impl FrameSource) -> Option<PteWrites> {
        let shift = pte.shift();
        debug_assert!(vpn.is_aligned(shift, self.layout.base), "{vpn:?} for a page of {shift}");
        let (target, replicas) = self.layout.placement(shift);
        let organized = match self.organization {
            Some(_) => Some(self.insert_organized(vpn, shift, frames)?),
            None => None,
        };
        let mut nodes = 0;
        let mut node = self.root();
        for level in (target + 1..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            node = match self.slot(node, index) {
                Slot::Table(next) => next,
                Slot::Empty => {
                    let next = self.add_node(level - 1, frames)?;
                    if let Some(shadowed) = &mut self.table.shadowed {
                        shadowed.add(next, level - 1, node);
                    }
                    self.write(node, index, TABLE | next.0);
                    nodes += 1;
                    next
                }
                Slot::Leaf(old) => panic!("{old:?} covers {vpn:?}: demote it first"),
            };
        }
        let index = self.index(target, vpn);
        for i in index..index + replicas as usize {
            self.drop_subtree(node, target, i, frames);
            self.write(node, i, pte.0);
        }
        Some(organized.unwrap_or(PteWrites { at: self.entry_addr(node, index), entries: replicas, nodes }))
    }

    /// Unmaps the page that contains `vpn` and frees nodes that become empty, except the root. Returns the page and the
    /// writes; `None` when `vpn` is not mapped.
    pub fn clear(&mut self, vpn: Vpn, frames: &mut impl FrameSource) -> Option<(MappedPage, PteWrites)> {
        let entry = self.page(vpn)?;
        let organized = self.remove_organized(&entry);
        let (target, replicas) = self.layout.placement(entry.pte.shift());
        let mut path = Vec::with_capacity(self.layout.levels());
        let mut node = self.root();
        for level in (target + 1..self.layout.levels()).rev() {
            let index = self.index(level, entry.vpn);
            path.push((node, index));
            let Slot::Table(next) = self.slot(node, index) else { unreachable!("a page was found below") };
            node = next;
        }
        let index = self.index(target, entry.vpn);
        let written = PteWrites { at: self.entry_addr(node, index), entries: replicas, nodes: 0 };
        for i in index..index + replicas as usize {
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
        Some((entry, organized.unwrap_or(written)))
    }

    /// Unmaps the page that contains `vpn` but keeps every node, for a caller that maps smaller pages there next.
    /// Returns the page and the writes; `None` when `vpn` is not mapped.
    pub fn clear_entries(&mut self, vpn: Vpn) -> Option<(MappedPage, PteWrites)> {
        let entry = self.page(vpn)?;
        let organized = self.remove_organized(&entry);
        let (node, index) = self.find(entry.vpn)?;
        let (_, replicas) = self.layout.placement(entry.pte.shift());
        for i in index..index + replicas as usize {
            self.write(node, i, 0);
        }
        let written = PteWrites { at: self.entry_addr(node, index), entries: replicas, nodes: 0 };
        Some((entry, organized.unwrap_or(written)))
    }

    /// Applies `change` to all entries of the page that contains `vpn`. The size must stay the same. Returns the
    /// writes; `None` when `vpn` is not mapped.
    pub fn update(&mut self, vpn: Vpn, change: impl Fn(Pte) -> Pte) -> Option<PteWrites> {
        let (node, index) = self.find(vpn)?;
        let PageTable { words, layout, .. } = &mut self.table;
        let words = &mut words[node.offset() as usize + HEAD..];
        let (_, replicas) = layout.placement(Pte(words[index]).shift());
        let first = index & !(replicas as usize - 1);
        for word in &mut words[first..first + replicas as usize] {
            let new = change(Pte(*word));
            debug_assert!(new.present() && new.shift() == Pte(*word).shift());
            *word = new.0;
        }
        self.note_writes(node, replicas);
        if self.organization.is_some() {
            let page = self.page(vpn)?;
            return Some(self.organized_writes(self.layout.entries(page.vpn, page.pte.shift())));
        }
        Some(PteWrites { at: self.entry_addr(node, first), entries: replicas, nodes: 0 })
    }

    /// Moves the leaf node (level 0) for `vpn` to physical address `at`. Returns its former address; `None` when there
    /// is no such node, or hardware does not read the tree.
    pub fn move_leaf_node(&mut self, vpn: Vpn, at: PhysAddr) -> Option<PhysAddr> {
        if self.organization.is_some() {
            return None;
        }
        let mut node = self.root();
        let mut above = 0;
        for level in (1..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            let Slot::Table(next) = self.slot(node, index) else { return None };
            above = node.offset() as usize + HEAD + index;
            node = next;
        }
        let offset = node.offset() as usize;
        let moved = NodeId::new(offset, at, self.layout.base);
        match above {
            0 => self.table.root = moved,
            above => self.table.words[above] = TABLE | moved.0,
        }
        Some(PhysAddr(std::mem::replace(&mut self.table.words[offset], at.0)))
    }

    /// Frees all memory of the table and of its range table. The table must not be used afterwards.
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
        if let Some(organization) = &mut self.table.organization {
            organization.release(frames);
        }
    }

    fn add_node(&mut self, level: usize, frames: &mut impl FrameSource) -> Option<NodeId> {
        let bytes = self.layout.node_bytes(level);
        let allocated = match self.organization {
            Some(_) => None,
            None => Some(frames.allocate_table(bytes)?),
        };
        self.table.bytes += bytes;
        let len = HEAD + (1 << self.layout.bits[level]);
        let offset = self.table.free[level].pop().map_or(self.words.len(), |offset| offset as usize);
        let at = allocated.unwrap_or_else(|| outside(offset).addr(self.layout.base));
        if offset == self.words.len() {
            self.table.words.grow(len);
        }
        let words = &mut self.table.words[offset..][..len];
        words.fill(0);
        words[0] = at.0;
        Some(NodeId::new(offset, at, self.layout.base))
    }

    fn free_node(&mut self, node: NodeId, level: usize, frames: &mut impl FrameSource) {
        let bytes = self.layout.node_bytes(level);
        if self.organization.is_none() {
            frames.free_table(node.at(self.layout.base), bytes);
        }
        self.table.bytes -= bytes;
        self.table.free[level].push(node.offset());
        if let Some(shadowed) = &mut self.table.shadowed {
            shadowed.remove(node);
        }
    }

    /// Frees all nodes below entry `index` of `node`. The entry itself is left for the caller to overwrite.
    fn drop_subtree(&mut self, node: NodeId, level: usize, index: usize, frames: &mut impl FrameSource) {
        if let Slot::Table(below) = self.slot(node, index) {
            for i in 0..1 << self.layout.bits[level - 1] {
                self.drop_subtree(below, level - 1, i, frames);
            }
            self.free_node(below, level - 1, frames);
        }
    }

    /// Writes an entry and keeps the node's use count.
    fn write(&mut self, node: NodeId, index: usize, word: u64) {
        let old = std::mem::replace(&mut self.table.words[node.offset() as usize + HEAD + index], word);
        let used = &mut self.table.words[node.offset() as usize + 1];
        *used = *used + u64::from(word != 0) - u64::from(old != 0);
        self.note_writes(node, 1);
    }
}

/// Returns the frame of the node at `offset` of a tree that hardware does not read: outside all memory.
fn outside(offset: usize) -> Pfn {
    Pfn(1 << 31 | offset as u64 >> 1)
}
