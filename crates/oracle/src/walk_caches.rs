//! Walks: a plain descent, less what the walk caches save.

use crate::array::Array;
use crate::tlb::{Held, Key, Tlbs, What};
use reach_core::{Asid, Layout, NodeId, PageTable, Slot, Vpn, WalkStep};
use reach_hardware::config::{self, Replacement};

#[derive(Clone, Debug)]
enum Home {
    Own(Array<Key, NodeId>),
    Within(usize),
}

/// The walk caches of a machine.
#[derive(Clone, Debug)]
pub struct WalkCaches {
    caches: Vec<(config::WalkCache, Home)>,
    layout: Layout,
}

impl WalkCaches {
    pub fn new(machine: &config::Machine, caches: &[config::WalkCache]) -> WalkCaches {
        let home = |cache: &config::WalkCache| match &cache.within {
            Some(name) => Home::Within(machine.tlbs.iter().position(|t| t.name == *name).expect("a known array")),
            None => Home::Own(Array::new(cache.entries, cache.ways, Replacement::Lru, 0)),
        };
        let caches = caches.iter().map(|cache| (cache.clone(), home(cache))).collect();
        WalkCaches { caches, layout: machine.layout.clone() }
    }

    /// The entries that a walk reads, root first. The lowest table entry that is cached spares it that entry and all
    /// above; every entry read that points to a table is cached.
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
                self.enter(tlbs, asid, vpn, step.level, node);
            }
        }
        steps
    }

    fn key(&self, asid: Asid, vpn: Vpn, level: usize) -> Key {
        let span = self.layout.span(level).base_pages(self.layout.base);
        Key { asid, what: What::Table(level), number: vpn.0 / span }
    }

    fn lookup(&mut self, tlbs: &mut Tlbs, asid: Asid, vpn: Vpn, level: usize) -> Option<NodeId> {
        let key = self.key(asid, vpn, level);
        let (_, home) = self.caches.iter_mut().find(|(config, _)| config.levels.contains(&(level as u8)))?;
        match home {
            Home::Own(array) => array.lookup(key.number % array.sets(), key).copied(),
            Home::Within(index) => {
                let array = &mut tlbs.arrays[*index].array;
                match array.lookup(key.number % array.sets(), key) {
                    Some(&mut Held::Table(node)) => Some(node),
                    _ => None,
                }
            }
        }
    }

    fn enter(&mut self, tlbs: &mut Tlbs, asid: Asid, vpn: Vpn, level: usize, node: NodeId) {
        let key = self.key(asid, vpn, level);
        let home = self.caches.iter_mut().find(|(config, _)| config.levels.contains(&(level as u8)));
        match home {
            None => {}
            Some((_, Home::Own(array))) => {
                array.insert(key.number % array.sets(), key, node);
            }
            Some((_, Home::Within(index))) => {
                let array = &mut tlbs.arrays[*index].array;
                array.insert(key.number % array.sets(), key, Held::Table(node));
            }
        }
    }

    /// Forgets all table entries of `asid`. Those among translations are forgotten with them.
    pub fn invalidate(&mut self, asid: Asid) {
        for (_, home) in &mut self.caches {
            if let Home::Own(array) = home {
                array.remove_if(|key| key.asid == asid);
            }
        }
    }
}
