//! Counting what other arrays in an array's place would have missed ([`crate::curve`]).

use super::Mmu;
use crate::cache::Caches;
use crate::config;
use crate::curve::{self, Belongs, Copies, Curve, CurveCounts, Geometry};
use crate::tlb::number_of;
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Kind, PageTable, Pte, StopReason, Vpn};

impl Mmu {
    /// From now on it is counted what arrays of these geometries would miss in the place of array number `array` of
    /// `machine`, which this is with the same `seed`. Call it before the first reference. The error completes "no curve of
    /// NAME: ".
    pub fn observe(
        &mut self,
        machine: &config::Machine,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<(), String> {
        if self.perfect {
            return Err("translation never misses under this system".into());
        }
        if self.telling.is_some() {
            return Err("the system acts on misses and on what leaves the TLB, which depends on its geometry".into());
        }
        if self.aux_tlb.is_some() {
            return Err("the system puts something beside the TLB, which answers and learns from its misses".into());
        }
        curve::check(&machine.tlbs[array], geometries)?;
        match Curve::new(machine, array, geometries) {
            Ok(mut curve) => {
                curve.unsteady.set(self.tlbs.unsteady_in(array, curve.unsteady.kinds));
                curve.set_hears(self.tlbs.ask_first_of_all(array));
                self.curve = Some(Box::new(curve));
            }
            Err(_) => {
                let mut copies = Copies::new(machine, array, geometries, seed)?;
                copies.unsteady.set(self.tlbs.unsteady_in(array, copies.unsteady.kinds));
                self.copies = Some(Box::new(copies));
            }
        }
        Ok(())
    }

    /// Counts for the curve begin anew; what arrays hold stays.
    pub fn restart_curve(&mut self) {
        if let Some(curve) = &mut self.curve {
            curve.restart();
        }
        if let Some(copies) = &mut self.copies {
            copies.restart();
        }
    }

    /// What was counted for the curve, where there is one; an error where something happened that it cannot count.
    pub fn curve_counts(&self) -> Option<Result<CurveCounts, String>> {
        match &self.curve {
            Some(curve) => Some(curve.counts()),
            None => Some(self.copies.as_ref()?.counts()),
        }
    }

    /// Whether what shadows an array hears of references that the arrays asked first answer.
    pub(super) fn observes_all(&self) -> bool {
        self.curve.as_ref().is_some_and(|curve| curve.hears_any())
    }

    /// References that the arrays asked first have just answered, one after the other.
    #[inline(never)]
    pub(super) fn observe_hits(&mut self, entries: &[PageRef]) {
        let Mmu { tlbs, curve: Some(curve), context, base, .. } = self else { return };
        let (context, to_vpn) = (*context, u32::from(base.0) - PAGE_SHIFT);
        let sole = [Kind::Fetch, Kind::Load, Kind::Store].map(|kind| tlbs.sole(kind, curve.array));
        for entry in entries {
            let (kind, vpn) = (entry.kind(), Vpn(entry.page() >> to_vpn));
            if !curve.hears(kind) {
                continue;
            }
            let belongs = match &sole[kind as usize] {
                Some(probe) => {
                    let (_, tag) = probe.place(context, vpn);
                    Belongs::Here(number_of(tag), tag)
                }
                None => curve.belongs(kind, context.key(vpn), |array| {
                    // What has been found has not gone since: nothing was entered.
                    let found = tlbs.whereabouts(kind, context, vpn);
                    let elsewhere = found.is_none_or(|(at, _)| at != array);
                    let place = found.and_then(|(_, size)| tlbs.place_in(array, kind, context, vpn, size));
                    if elsewhere { Belongs::Elsewhere } else { belongs_at(place) }
                }),
            };
            curve.looked_up(context.number() as u64, belongs);
        }
    }

    /// One reference to one page, of which the curve is told.
    #[inline(never)]
    pub(super) fn reference_observed(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let found = self.tlbs.whereabouts(kind, self.context, vpn);
        if let Some(mut copies) = self.copies.take() {
            if found.is_none_or(|(array, _)| self.tlbs.arrays[array].level >= copies.level) {
                copies.reference(kind, self.context, vpn, table, |pte| self.piece(pte, vpn));
            }
            self.copies = Some(copies);
        }
        let done = self.reference_unobserved(kind, vpn, table, caches);
        if let (None, Ok(pte), Some(curve)) = (found, &done, &mut self.curve) {
            curve.unsteady.walked(kind, pte.shift());
        }
        let Some(curve) = self.curve.as_ref().filter(|curve| curve.serves[kind as usize]) else { return done };
        if found.is_some_and(|(array, _)| self.tlbs.arrays[array].level < curve.level) {
            return done;
        }
        // A page that is not mapped stands nowhere; what is mapped stands as walks find it.
        let size = match (&done, found) {
            (Ok(pte), _) => Some(pte.shift()),
            (Err(_), Some((_, size))) => Some(size),
            (Err(_), None) => table.lookup(vpn).map(|pte| self.piece(pte, vpn).shift()),
        };
        let array = curve.array;
        let place = size.and_then(|size| self.tlbs.place_in(array, kind, self.context, vpn, size));
        let elsewhere = found.is_some_and(|(at, _)| at != array && self.tlbs.arrays[at].level == curve.level);
        let context = self.context.number() as u64;
        let Some(curve) = &mut self.curve else { return done };
        match (if elsewhere { Belongs::Elsewhere } else { belongs_at(place) }, &done) {
            (Belongs::Here(number, tag), Err(_)) => curve.faulted(number, tag),
            (belongs, _) => curve.looked_up(context, belongs),
        }
        done
    }
}

fn belongs_at(place: Option<(u64, u64)>) -> Belongs {
    place.map_or(Belongs::Nowhere, |(number, tag)| Belongs::Here(number, tag))
}
