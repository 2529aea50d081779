//! Many geometries where the order of last uses does not say what each holds: a copy of the level, and of all behind it,
//! for each geometry.
//!
//! That is so where entries are replaced otherwise than by LRU, where walk caches have their entries in the array
//! (each miss enters more), and where several arrays divide pages by bits above their set index. What the levels before
//! hold does not depend on the geometry then either ([`super`]), so that copies hear only of what these do not answer.

use super::exact::{kinds_of, stands_behind};
use super::{CurveCounts, Geometry, Unsteady};
use crate::config::{Machine, Serves, Tlb, Walker};
use crate::mmu::allows;
use crate::tlb::{Context, Tlbs};
use crate::walk::WalkCaches;
use reach_core::{Kind, PageTable, Pte, Slot, Vpn};

/// The level as it would be with one geometry.
#[derive(Clone, Debug)]
struct Copy {
    geometry: Geometry,
    tlbs: Tlbs,
    walk_caches: WalkCaches,
    misses: u64,
}

/// A copy for each geometry.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    /// The level of the array under study.
    pub level: u8,
    /// The kinds of reference that it serves.
    serves: [bool; 3],
    pub unsteady: Unsteady,
    copies: Vec<Copy>,
    lookups: u64,
}

impl Copies {
    /// Of array number `array` of `machine`; `seed` as for its TLBs. The error completes "no curve of NAME: ".
    pub fn new(machine: &Machine, array: usize, geometries: &[Geometry], seed: u64) -> Result<Copies, String> {
        let own = &machine.tlbs[array];
        stands_behind(machine, own)?;
        let copy = |&geometry: &Geometry| {
            let Geometry { entries, ways } = geometry;
            let form = |(at, tlb): (usize, &Tlb)| {
                let (entries, ways) = if at == array { (entries, ways) } else { (tlb.entries, tlb.ways) };
                // Nobody asks what stands before.
                let serves = if tlb.level < own.level { Serves::default() } else { tlb.serves };
                Tlb { entries, ways, serves, ..tlb.clone() }
            };
            let machine = Machine { tlbs: machine.tlbs.iter().enumerate().map(form).collect(), ..machine.clone() };
            let mut tlbs = Tlbs::new(&machine, seed);
            let caches = match &machine.walker {
                Walker::Hardware { caches, .. } => &caches[..],
                Walker::Software { .. } => &[],
            };
            let walk_caches = WalkCaches::new(&machine, caches, &mut tlbs);
            Copy { geometry, tlbs, walk_caches, misses: 0 }
        };
        Ok(Copies {
            level: own.level,
            serves: kinds_of(&own.serves),
            unsteady: Unsteady::new(machine, own),
            copies: geometries.iter().map(copy).collect(),
            lookups: 0,
        })
    }

    /// A reference that no level before has answered, before `table` and the unit itself hear of it. `piece` is what TLBs
    /// hold of a page.
    pub fn reference(&mut self, kind: Kind, context: Context, vpn: Vpn, table: &PageTable, piece: impl Fn(Pte) -> Pte) {
        let serves = self.serves[kind as usize];
        self.lookups += u64::from(serves);
        for Copy { tlbs, walk_caches, misses, .. } in &mut self.copies {
            let found = tlbs.lookup(kind, context, vpn, &mut 0);
            if found.is_some_and(|found| found.depth == 0) {
                continue;
            }
            *misses += u64::from(serves);
            let (pte, depth) = match found {
                Some(found) => (found.pte, found.depth),
                None => match walk_caches.walk(tlbs, table, context, vpn, |_, _| {}).slot {
                    Slot::Leaf(pte) => {
                        self.unsteady.walked(kind, pte.shift());
                        (piece(pte), tlbs.depth(kind))
                    }
                    Slot::Table(_) | Slot::Empty => continue,
                },
            };
            if allows(pte, kind) && (kind != Kind::Store || pte.dirty() || !pte.watched()) {
                tlbs.fill(kind, context, vpn, pte, depth);
            }
        }
    }

    /// What [`Tlbs::invalidate`] does, in all copies.
    pub fn forget(&mut self, context: Context, vpn: Vpn, pages: u64) {
        for copy in &mut self.copies {
            copy.tlbs.invalidate(context, vpn, pages);
            copy.walk_caches.invalidate(context);
        }
    }

    /// Counts from now on; what is held stays.
    pub fn restart(&mut self) {
        self.lookups = 0;
        self.copies.iter_mut().for_each(|copy| copy.misses = 0);
    }

    /// What was counted, unless something has happened that this does not count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        self.unsteady.check()?;
        let misses = self.copies.iter().map(|copy| (copy.geometry, copy.misses)).collect();
        Ok(CurveCounts { lookups: Some(self.lookups), misses })
    }
}
