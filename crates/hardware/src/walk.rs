//! Page walks, and the walk caches (paging-structure caches) that shorten them.
//!
//! `nested.rs` adds the second dimension of a walk in a guest, which `shadow.rs` takes away where a monitor shadows the guest's
//! table; `organized.rs` walks page tables that are not radix trees; `backing.rs` says what lies together in memory.

use crate::array::Array;
use crate::config;
use crate::tlb::{Context, Tlbs};
pub(crate) use backing::Backing;
pub use nested::{GUEST_MEMORY, MOST_GUESTS};
pub(crate) use nested::{HostFrames, Nested, host_vpn, within_host_page};
pub(crate) use organized::{OrganizedCaches, WaitsFor};
use reach_core::{NodeId, PageTable, PhysAddr, Slot, Vpn};
pub(crate) use shadow::{WalkModes, has_memory, read_below};

mod backing;
mod nested;
mod organized;
mod shadow;

/// The entry at which a walk ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    pub node: NodeId,
    pub index: usize,
    pub slot: Slot,
}

/// Where a walk cache keeps its entries.
#[derive(Clone, Debug)]
enum Storage {
    /// In an array of its own.
    Own { array: Array<u64>, set_mask: u64 },
    /// In the TLB array of this number, among the translations.
    Within(usize),
}

/// A level of the page table whose entries are cached.
#[derive(Clone, Copy, Debug)]
struct CachedLevel {
    level: usize,
    /// Index of the walk cache.
    cache: usize,
    /// Binary logarithm of the base pages that an entry spans.
    order: u32,
}

/// The walk caches of a machine, by level.
#[derive(Clone, Debug)]
pub(crate) struct WalkCaches {
    storage: Vec<Storage>,
    /// Lowest level first.
    cached: Vec<CachedLevel>,
    /// Number of levels of the page table.
    levels: usize,
}

impl WalkCaches {
    /// Creates the empty walk caches of `machine`. Those within a TLB array borrow its entries.
    pub fn new(machine: &config::Machine, tlbs: &mut Tlbs) -> WalkCaches {
        let levels = machine.layout.levels();
        let (mut storage, mut cached) = (Vec::new(), Vec::new());
        for cache in machine.walk_caches() {
            cached.extend(cache.levels.iter().map(|&level| CachedLevel {
                level: level.into(),
                cache: storage.len(),
                order: machine.layout.span(level.into()).order(machine.layout.base).into(),
            }));
            storage.push(match &cache.within {
                Some(name) => {
                    let index = machine.tlbs.iter().position(|t| t.name == *name);
                    let index = index.expect("lab checks that `within` names a TLB array");
                    tlbs.arrays[index].lend();
                    Storage::Within(index)
                }
                None => {
                    let array = Array::new(cache.entries as usize, cache.ways as usize, config::Replacement::Lru, 0);
                    Storage::Own { set_mask: array.sets() as u64 - 1, array }
                }
            });
        }
        cached.sort_by_key(|cached| cached.level);
        WalkCaches { storage, cached, levels }
    }

    /// Returns the lowest table that the caches hold for `vpn`, with its level.
    #[inline]
    fn lookup(&mut self, tlbs: &mut Tlbs, table: &PageTable, context: Context, vpn: Vpn) -> Option<(NodeId, usize)> {
        for &CachedLevel { level, cache, order } in &self.cached {
            let number = vpn.0 >> order;
            let word = match &mut self.storage[cache] {
                Storage::Own { array, set_mask } => {
                    array.lookup((number & *set_mask) as usize, context.table_tag(level, number)).copied()
                }
                Storage::Within(index) => tlbs.arrays[*index].lookup_table(context, level, number),
            };
            if let Some(word) = word {
                return Some((table.node_at(word as u32), level - 1));
            }
        }
        None
    }

    /// Enters the entry of `level` for `vpn`, which points to the table `next`, if its level is cached.
    #[inline]
    fn insert(&mut self, tlbs: &mut Tlbs, context: Context, vpn: Vpn, level: usize, next: NodeId) {
        let Some(&CachedLevel { cache, order, .. }) = self.cached.iter().find(|cached| cached.level == level) else {
            return;
        };
        let number = vpn.0 >> order;
        let word = u64::from(next.offset());
        match &mut self.storage[cache] {
            Storage::Own { array, set_mask } => {
                array.insert((number & *set_mask) as usize, context.table_tag(level, number), word);
            }
            Storage::Within(index) => tlbs.arrays[*index].insert_table(context, level, number, word),
        }
    }

    /// Drops all entries of `context`. The invalidation of one page drops the context's whole walk caches (Intel SDM
    /// 4.10.4.1). [`Tlbs::invalidate`] drops the entries within TLB arrays.
    pub fn invalidate(&mut self, context: Context) {
        for storage in &mut self.storage {
            if let Storage::Own { array, .. } = storage {
                array.remove_if(|tag| context.owns(tag));
            }
        }
    }

    /// Walks to `vpn` from the lowest table that the caches hold. Calls `read` with the address of every entry read, and
    /// with whether the walk caches held its table.
    #[inline]
    pub fn walk(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut read: impl FnMut(PhysAddr, bool),
    ) -> Walked {
        let read = |_, at, cached| {
            read(at, cached);
            true
        };
        self.try_walk(tlbs, table, context, vpn, read).expect("`read` never aborts the walk")
    }

    /// Walks like [`WalkCaches::walk`], but aborts at the first entry for which `read` returns false. `read` also gets the
    /// entry's node. Returns `None` if aborted; that entry is not cached.
    #[inline]
    pub fn try_walk(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut read: impl FnMut(NodeId, PhysAddr, bool) -> bool,
    ) -> Option<Walked> {
        let top = (table.root(), self.levels - 1);
        let cached = self.lookup(tlbs, table, context, vpn);
        let (mut node, mut level) = cached.unwrap_or(top);
        let mut is_first = true;
        loop {
            let index = table.index(level, vpn);
            let slot = table.slot(node, index);
            if !read(node, table.entry_addr(node, index), is_first && cached.is_some()) {
                return None;
            }
            is_first = false;
            match slot {
                Slot::Table(next) => {
                    self.insert(tlbs, context, vpn, level, next);
                    node = next;
                    level -= 1;
                }
                Slot::Leaf(_) | Slot::Empty => return Some(Walked { node, index, slot }),
            }
        }
    }
}
