//! Miss curves: the misses of one TLB array at many geometries, counted exactly in one pass.
//!
//! Under LRU a set of w ways holds the w pages of it that were used last, whatever w is (Mattson et al. 1970). With sets
//! chosen by the low bits of the page number, each number of sets needs one such LRU stack for each set (Hill and Smith
//! 1989). So the array under study is shadowed by LRU stacks for each number of sets, and each look-up that reaches it is
//! counted at the depth of its page in each of them (`stack_curve.rs`).
//!
//! The counts equal those of separate simulations because nothing else depends on the array's geometry. The contents of
//! earlier levels follow from the references and the page table alone. A look-up that ends in a fault fills no array, and a
//! shootdown removes an entry from all. Where the array's entries do not follow the order of last uses, replicas of its
//! level count the same (`replicas.rs`). Where neither holds, the curve is refused (`exact.rs`): at the start, or in the
//! end if only some page sizes have that effect and a walk found one.

use crate::config::Machine;
use crate::tlb::{Context, Lookup, TlbObserver, Tlbs};
use reach_core::fold::PageRef;
use reach_core::{Asid, Kind, PageTable, Pte, StopReason, Vpn};
use replicas::Replicas;
use stack_curve::StackCurve;

mod exact;
mod full_stack;
mod geometry;
mod lru_stacks;
mod recent_pages;
mod replicas;
mod set_stacks;
mod stack_curve;

pub use geometry::{CurveCounts, Geometry};

/// The shadow of one TLB array, which counts what arrays of other geometries would miss in its place.
#[derive(Clone, Debug)]
pub(crate) enum MissCurve {
    Stacks(Box<StackCurve>),
    Replicas(Replicas),
}

impl MissCurve {
    /// Creates the curve of array number `array` of `machine`, whose empty arrays are `tlbs` and which was made with `seed`.
    ///
    /// # Errors
    /// Says why the misses cannot be counted exactly; completes "no curve of NAME: ".
    pub fn new(
        machine: &Machine,
        tlbs: &Tlbs,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<MissCurve, String> {
        exact::check_geometries(&machine.tlbs[array], geometries)?;
        if exact::check_stackable(machine, &machine.tlbs[array]).is_ok() {
            return Ok(MissCurve::Stacks(Box::new(StackCurve::new(machine, tlbs, array, geometries))));
        }
        Ok(MissCurve::Replicas(Replicas::new(machine, tlbs, array, geometries, seed)?))
    }

    /// Returns whether the curve needs the references that hit in the first level.
    pub fn needs_front_hits(&self) -> bool {
        match self {
            MissCurve::Stacks(curve) => curve.needs_front_hits(),
            MissCurve::Replicas(_) => false,
        }
    }

    /// Resets the counts; the shadow keeps its contents.
    pub fn reset_counts(&mut self) {
        match self {
            MissCurve::Stacks(curve) => curve.reset_counts(),
            MissCurve::Replicas(replicas) => replicas.reset_counts(),
        }
    }

    /// Returns the counts.
    ///
    /// # Errors
    /// Says what happened that the curve cannot count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        match self {
            MissCurve::Stacks(curve) => curve.counts(),
            MissCurve::Replicas(replicas) => replicas.counts(),
        }
    }
}

/// Passes an event to whichever kind of curve it is.
macro_rules! each {
    ($curve:expr, $c:ident => $call:expr) => {
        match $curve {
            MissCurve::Stacks($c) => $call,
            MissCurve::Replicas($c) => $call,
        }
    };
}

impl TlbObserver for MissCurve {
    fn before_lookup(&mut self, lookup: &Lookup, tlbs: &Tlbs, table: &PageTable) {
        each!(self, curve => curve.before_lookup(lookup, tlbs, table));
    }

    fn after_lookup(&mut self, lookup: &Lookup, outcome: &Result<Pte, StopReason>, tlbs: &Tlbs, table: &PageTable) {
        each!(self, curve => curve.after_lookup(lookup, outcome, tlbs, table));
    }

    fn front_hits(&mut self, context: Context, refs: &[PageRef], tlbs: &Tlbs) {
        each!(self, curve => curve.front_hits(context, refs, tlbs));
    }

    fn walked(&mut self, asid: Asid, kind: Kind, vpn: Vpn, pte: Pte) {
        each!(self, curve => curve.walked(asid, kind, vpn, pte));
    }

    fn before_invalidate(&mut self, tlbs: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        each!(self, curve => curve.before_invalidate(tlbs, context, vpn, pages));
    }
}
