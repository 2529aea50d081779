//! Who fills the TLB after a miss: a hardware walker with its walk caches, or a handler in software.

use crate::array::Array;
use crate::config;
use crate::tlb::{Context, Tlbs};
use reach_core::{NodeId, PageTable, PhysAddr, Slot, Vpn};

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
    Own(Array<u64>),
    Within(usize),
}

/// The walk caches of a machine, by level.
#[derive(Clone, Debug)]
pub(crate) struct WalkCaches {
    homes: Vec<Home>,
    /// For each level of the page table the home of its entries.
    by_level: Vec<Option<usize>>,
    /// Binary logarithm of the base pages that an entry of each level spans.
    orders: Vec<u32>,
}

impl WalkCaches {
    pub fn new(machine: &config::Machine, caches: &[config::WalkCache], tlbs: &mut Tlbs) -> WalkCaches {
        let levels = machine.layout.levels();
        let mut by_level = vec![None; levels];
        let mut homes = Vec::new();
        for cache in caches {
            for &level in &cache.levels {
                by_level[level as usize] = Some(homes.len());
            }
            homes.push(match &cache.within {
                Some(name) => {
                    let index = machine.tlbs.iter().position(|t| t.name == *name);
                    let index = index.expect("machines are checked: `within` names an array");
                    tlbs.arrays[index].lend();
                    Home::Within(index)
                }
                None => Home::Own(Array::new(cache.entries as usize, cache.ways as usize, config::Replacement::Lru, 0)),
            });
        }
        let base = machine.layout.base.0;
        let orders = (0..levels).map(|l| u32::from(machine.layout.span(l).0 - base)).collect();
        WalkCaches { homes, by_level, orders }
    }

    /// The lowest table that the caches know for `vpn`, with its level.
    #[inline]
    fn lookup(&mut self, tlbs: &mut Tlbs, context: Context, vpn: Vpn) -> Option<(NodeId, usize)> {
        for level in 1..self.by_level.len() {
            let Some(home) = self.by_level[level] else { continue };
            let number = vpn.0 >> self.orders[level];
            let word = match &mut self.homes[home] {
                Home::Own(array) => {
                    let set = number as usize & (array.sets() - 1);
                    array.lookup(set, context.table_tag(level, number)).copied()
                }
                Home::Within(index) => tlbs.arrays[*index].lookup_table(context, level, number),
            };
            if let Some(word) = word {
                return Some((NodeId(word as u32), level - 1));
            }
        }
        None
    }

    #[inline]
    fn enter(&mut self, tlbs: &mut Tlbs, context: Context, vpn: Vpn, level: usize, next: NodeId) {
        let Some(home) = self.by_level[level] else { return };
        let number = vpn.0 >> self.orders[level];
        let word = u64::from(next.0);
        match &mut self.homes[home] {
            Home::Own(array) => {
                let set = number as usize & (array.sets() - 1);
                array.insert(set, context.table_tag(level, number), word);
            }
            Home::Within(index) => tlbs.arrays[*index].enter_table(context, level, number, word),
        }
    }

    /// Forgets all entries of `context` (those that live within TLB arrays go with their translations). An
    /// invalidation of one page drops the context's whole walk caches (Intel SDM 4.10.4.1).
    pub fn invalidate(&mut self, context: Context) {
        for home in &mut self.homes {
            if let Home::Own(array) = home {
                array.remove_all(|tag| context.owns(tag));
            }
        }
    }

    /// Walks to `vpn` from the lowest table that the caches know; `read` is told of every entry read.
    #[inline]
    pub fn walk(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut read: impl FnMut(PhysAddr),
    ) -> Walked {
        let top = (table.root(), self.by_level.len() - 1);
        let (mut node, mut level) = self.lookup(tlbs, context, vpn).unwrap_or(top);
        let mut accesses = 0;
        loop {
            let index = table.index(level, vpn);
            let slot = table.slot(node, index);
            accesses += 1;
            read(table.entry_at(node, index));
            match slot {
                Slot::Table(next) => {
                    self.enter(tlbs, context, vpn, level, next);
                    node = next;
                    level -= 1;
                }
                Slot::Leaf(_) | Slot::Empty => return Walked { node, index, slot, accesses },
            }
        }
    }
}
