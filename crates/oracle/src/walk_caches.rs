//! The twin of walks and walk caches: a plain descent, without the entries that walk caches save.

use crate::array::Array;
use crate::tlb::{Key, Payload, Tlbs, Unit};
use reach_core::{Asid, Layout, NodeId, PageTable, Slot, Vpn, WalkStep};
use reach_hardware::config::{self, Replacement};

/// Where a walk cache has its entries.
#[derive(Clone, Debug)]
enum Storage {
    Own(Array<Key, NodeId>),
    /// In the TLB array with this index.
    Tlb(usize),
}

/// All walk caches of a machine.
#[derive(Clone, Debug)]
pub struct WalkCaches {
    caches: Vec<(config::WalkCache, Storage)>,
    layout: Layout,
}

impl WalkCaches {
    pub fn new(machine: &config::Machine, caches: &[config::WalkCache]) -> WalkCaches {
        let storage = |cache: &config::WalkCache| match &cache.within {
            Some(name) => Storage::Tlb(machine.tlbs.iter().position(|t| t.name == *name).expect("a known array")),
            None => Storage::Own(Array::new(cache.entries, cache.ways, Replacement::Lru, 0)),
        };
        let caches = caches.iter().map(|cache| (cache.clone(), storage(cache))).collect();
        WalkCaches { caches, layout: machine.layout.clone() }
    }

    /// Returns the entries that a walk reads, root first.
    ///
    /// The lowest cached table entry saves reading that entry and all above it. Every entry read that points to a table
    /// is then cached.
    pub fn walk(&mut self, tlbs: &mut Tlbs, table: &PageTable, asid: Asid, vpn: Vpn) -> Vec<WalkStep> {
        let mut steps = table.walk(vpn);
        for level in 1..self.layout.levels() {
            if let Some(node) = self.lookup(tlbs, asid, vpn, level) {
                let cached = steps.iter().find(|s| s.level == level).map(|s| s.slot);
                assert_eq!(cached, Some(Slot::Table(node)), "a stale walk cache at level {level} for {vpn:?}");
                steps.retain(|s| s.level < level);
                break;
            }
        }
        for step in &steps {
            if let Slot::Table(node) = step.slot {
                self.insert(tlbs, asid, vpn, step.level, node);
            }
        }
        steps
    }

    fn key(&self, asid: Asid, vpn: Vpn, level: usize) -> Key {
        let span = self.layout.span(level).base_pages(self.layout.base);
        Key { asid, unit: Unit::Table(level), number: vpn.0 / span }
    }

    fn lookup(&mut self, tlbs: &mut Tlbs, asid: Asid, vpn: Vpn, level: usize) -> Option<NodeId> {
        let key = self.key(asid, vpn, level);
        let (_, storage) = self.caches.iter_mut().find(|(config, _)| config.levels.contains(&(level as u8)))?;
        match storage {
            Storage::Own(array) => array.lookup(key.number % array.sets(), key).copied(),
            Storage::Tlb(index) => {
                let set = tlbs.arrays[*index].set(key.number);
                match tlbs.arrays[*index].array.lookup(set, key) {
                    Some(&mut Payload::Table(node)) => Some(node),
                    _ => None,
                }
            }
        }
    }

    fn insert(&mut self, tlbs: &mut Tlbs, asid: Asid, vpn: Vpn, level: usize, node: NodeId) {
        let key = self.key(asid, vpn, level);
        let storage = self.caches.iter_mut().find(|(config, _)| config.levels.contains(&(level as u8)));
        match storage {
            None => {}
            Some((_, Storage::Own(array))) => {
                array.insert(key.number % array.sets(), key, node);
            }
            Some((_, Storage::Tlb(index))) => {
                let set = tlbs.arrays[*index].set(key.number);
                tlbs.arrays[*index].array.insert(set, key, Payload::Table(node));
            }
        }
    }

    /// Drops all table entries of `asid` in arrays of their own. Those in TLB arrays are dropped with the translations.
    pub fn invalidate(&mut self, asid: Asid) {
        for (_, home) in &mut self.caches {
            if let Storage::Own(array) = home {
                array.remove_if(|key| key.asid == asid);
            }
        }
    }
}
