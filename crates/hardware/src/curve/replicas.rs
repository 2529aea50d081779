//! The curve of an array whose contents do not follow the order of last uses: a replica of its level, and of all levels
//! behind it, for each geometry.
//!
//! It is for arrays that do not replace by LRU, that hold entries of walk caches (each miss enters more), or that share
//! their pages with other arrays by bits above their set index. The contents of earlier levels do not depend on the
//! geometry then either ([`super`]), so that replicas need only the references that miss there.

use super::exact::{UnsteadySizes, check_replicable, kinds_of};
use super::{CurveCounts, Geometry};
use crate::config::{Machine, Serves, Tlb};
use crate::permission;
use crate::tlb::{Context, Lookup, TlbObserver, Tlbs};
use crate::walk::{WalkCaches, within_host_page};
use reach_core::{PageTable, Slot, Vpn};

/// The level as it would be with one geometry.
#[derive(Clone, Debug)]
struct Replica {
    geometry: Geometry,
    tlbs: Tlbs,
    walk_caches: WalkCaches,
    misses: u64,
}

/// One replica for each geometry.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    /// The level of the array under study.
    level: u8,
    /// The kinds of reference that it serves.
    serves: [bool; 3],
    unsteady: UnsteadySizes,
    replicas: Vec<Replica>,
    lookups: u64,
}

impl Replicas {
    /// Creates replicas for array number `array` of `machine`, whose arrays are `tlbs` and which was made with `seed`. The
    /// error completes "no curve of NAME: ".
    pub fn new(
        machine: &Machine,
        tlbs: &Tlbs,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<Replicas, String> {
        let own = &machine.tlbs[array];
        check_replicable(machine, own)?;
        let replica = |&geometry: &Geometry| {
            let Geometry { entries, ways } = geometry;
            let with_geometry = |(at, tlb): (usize, &Tlb)| {
                let (entries, ways) = if at == array { (entries, ways) } else { (tlb.entries, tlb.ways) };
                // No reference probes the earlier levels of a replica.
                let serves = if tlb.level < own.level { Serves::default() } else { tlb.serves };
                Tlb { entries, ways, serves, ..tlb.clone() }
            };
            let tlbs = machine.tlbs.iter().enumerate().map(with_geometry).collect();
            let machine = Machine { tlbs, ..machine.clone() };
            let mut tlbs = Tlbs::new(&machine, seed);
            let walk_caches = WalkCaches::new(&machine, &mut tlbs);
            Replica { geometry, tlbs, walk_caches, misses: 0 }
        };
        Ok(Replicas {
            level: own.level,
            serves: kinds_of(&own.serves),
            unsteady: UnsteadySizes::new(machine, tlbs, array),
            replicas: geometries.iter().map(replica).collect(),
            lookups: 0,
        })
    }

    /// Resets the counts; the replicas keep their contents.
    pub fn reset_counts(&mut self) {
        self.lookups = 0;
        self.replicas.iter_mut().for_each(|replica| replica.misses = 0);
    }

    /// Returns the counts, or what happened that the curve cannot count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        self.unsteady.check()?;
        let misses = self.replicas.iter().map(|replica| (replica.geometry, replica.misses)).collect();
        Ok(CurveCounts { lookups: Some(self.lookups), misses })
    }
}

impl TlbObserver for Replicas {
    fn before_lookup(&mut self, lookup: &Lookup, tlbs: &Tlbs, table: &PageTable) {
        let &Lookup { kind, context, vpn, found, host_page } = lookup;
        if found.is_some_and(|(array, _)| tlbs.arrays[array].level < self.level) {
            return;
        }
        let base = tlbs.sizes.base;
        let serves = self.serves[kind as usize];
        self.lookups += u64::from(serves);
        let control_flow = tlbs.control_flow();
        for Replica { tlbs, walk_caches, misses, .. } in &mut self.replicas {
            control_flow.into_iter().for_each(|control_flow| tlbs.set_control_flow(control_flow));
            let found = tlbs.lookup(kind, context, vpn, &mut 0);
            if found.is_some_and(|found| found.depth == 0) {
                continue;
            }
            *misses += u64::from(serves);
            let (pte, depth) = match found {
                Some(found) => (found.pte, found.depth),
                None => match walk_caches.walk(tlbs, table, context, vpn, |_, _| {}).slot {
                    Slot::Leaf(pte) => {
                        self.unsteady.record_walk(kind, pte.shift());
                        (within_host_page(pte, vpn, base, host_page), tlbs.depth(kind))
                    }
                    Slot::Table(_) | Slot::Empty => continue,
                },
            };
            if permission::check(pte, kind).is_ok() {
                tlbs.fill(kind, context, vpn, pte, depth, |_, _| {});
            }
        }
    }

    fn before_invalidate(&mut self, _: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        for replica in &mut self.replicas {
            replica.tlbs.invalidate(context, vpn, pages);
            replica.walk_caches.invalidate(context);
        }
    }
}
