//! Who fills the TLB after a miss: a hardware walker with its walk caches, or a handler in software.

use crate::array::Array;
use crate::config;
use crate::tlb::{Context, Tlbs};
pub(crate) use nested::{Frames, Nested};
use reach_core::{NodeId, PageTable, PhysAddr, Slot, Vpn};

mod nested;

/// The end of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    pub node: NodeId,
    pub index: usize,
    pub slot: Slot,
    /// Page-table entries read.
    pub accesses: u32,
}

/// A walk cache: its own array, or room in a TLB array.
#[derive(Clone, Debug)]
enum Home {
    Own { array: Array<u64>, set_mask: u64 },
    Within(usize),
}

/// Which entries of a level are kept, and where.
#[derive(Clone, Copy, Debug)]
struct Kept {
    level: usize,
    home: usize,
    /// Binary logarithm of the base pages that an entry spans.
    order: u32,
}

/// The walk caches of a machine, by level.
#[derive(Clone, Debug)]
pub(crate) struct WalkCaches {
    homes: Vec<Home>,
    /// The levels of which entries are kept, lowest first.
    kept: Vec<Kept>,
    levels: usize,
}

impl WalkCaches {
    pub fn new(machine: &config::Machine, caches: &[config::WalkCache], tlbs: &mut Tlbs) -> WalkCaches {
        let levels = machine.layout.levels();
        let (mut homes, mut kept) = (Vec::new(), Vec::new());
        for cache in caches {
            kept.extend(cache.levels.iter().map(|&level| Kept {
                level: level.into(),
                home: homes.len(),
                order: machine.layout.span(level.into()).order(machine.layout.base).into(),
            }));
            homes.push(match &cache.within {
                Some(name) => {
                    let index = machine.tlbs.iter().position(|t| t.name == *name);
                    let index = index.expect("machines are checked: `within` names an array");
                    tlbs.arrays[index].lend();
                    Home::Within(index)
                }
                None => {
                    let array = Array::new(cache.entries as usize, cache.ways as usize, config::Replacement::Lru, 0);
                    Home::Own { set_mask: array.sets() as u64 - 1, array }
                }
            });
        }
        kept.sort_by_key(|kept| kept.level);
        WalkCaches { homes, kept, levels }
    }

    /// The lowest table that the caches know for `vpn`, with its level.
    #[inline]
    fn lookup(&mut self, tlbs: &mut Tlbs, table: &PageTable, context: Context, vpn: Vpn) -> Option<(NodeId, usize)> {
        for &Kept { level, home, order } in &self.kept {
            let number = vpn.0 >> order;
            let word = match &mut self.homes[home] {
                Home::Own { array, set_mask } => {
                    array.lookup((number & *set_mask) as usize, context.table_tag(level, number)).copied()
                }
                Home::Within(index) => tlbs.arrays[*index].lookup_table(context, level, number),
            };
            if let Some(word) = word {
                return Some((table.node_at(word as u32), level - 1));
            }
        }
        None
    }

    #[inline]
    fn enter(&mut self, tlbs: &mut Tlbs, context: Context, vpn: Vpn, level: usize, next: NodeId) {
        let Some(&Kept { home, order, .. }) = self.kept.iter().find(|kept| kept.level == level) else { return };
        let number = vpn.0 >> order;
        let word = u64::from(next.offset());
        match &mut self.homes[home] {
            Home::Own { array, set_mask } => {
                array.insert((number & *set_mask) as usize, context.table_tag(level, number), word);
            }
            Home::Within(index) => tlbs.arrays[*index].enter_table(context, level, number, word),
        }
    }

    /// Forgets all entries of `context` (those that live within TLB arrays go with their translations). An
    /// invalidation of one page drops the context's whole walk caches (Intel SDM 4.10.4.1).
    pub fn invalidate(&mut self, context: Context) {
        for home in &mut self.homes {
            if let Home::Own { array, .. } = home {
                array.remove_all(|tag| context.owns(tag));
            }
        }
    }

    /// Walks to `vpn` from the lowest table that the caches know; `read` is told of every entry read, and whether the
    /// caches knew where it is.
    #[inline]
    pub fn walk(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut read: impl FnMut(PhysAddr, bool),
    ) -> Walked {
        let read = |at, known| {
            read(at, known);
            true
        };
        self.walk_while(tlbs, table, context, vpn, read).expect("told to go on at each entry")
    }

    /// The same, but ends without result, and without having learned of it, at an entry where `read` says so.
    #[inline]
    pub fn walk_while(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut read: impl FnMut(PhysAddr, bool) -> bool,
    ) -> Option<Walked> {
        let top = (table.root(), self.levels - 1);
        let known = self.lookup(tlbs, table, context, vpn);
        let (mut node, mut level) = known.unwrap_or(top);
        let mut accesses = 0;
        loop {
            let index = table.index(level, vpn);
            let slot = table.slot(node, index);
            accesses += 1;
            if !read(table.entry_addr(node, index), accesses == 1 && known.is_some()) {
                return None;
            }
            match slot {
                Slot::Table(next) => {
                    self.enter(tlbs, context, vpn, level, next);
                    node = next;
                    level -= 1;
                }
                Slot::Leaf(_) | Slot::Empty => return Some(Walked { node, index, slot, accesses }),
            }
        }
    }
}
