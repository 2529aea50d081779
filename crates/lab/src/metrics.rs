//! Derived metrics: everything in results that follows from counts, each defined once by name, unit and formula.
//!
//! A [`Sum`] adds or subtracts counts, a [`Rate`] divides two of them. Both read a [`Tally`], so the same definition gives
//! the value of a whole program, of one process and of a measured interval. `sampled` derives the error bars of rates
//! from intervals; `comparison` has the metrics that need several simulations.

mod comparison;
mod definitions;
mod error;
mod sampled;

pub(crate) use comparison::{linear_model, relative_overhead};
pub use comparison::{speedup, user_speedup};
pub use definitions::{Definition, Group, Selector, UnknownMetric, definition, definitions, groups, page};

use crate::simulation::Tally;
use reach_core::Label;
use reach_hardware::CacheCounters;

/// A sum or difference of counts.
pub struct Sum {
    /// The metric's name in rows.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// The formula.
    pub of: fn(&Tally) -> u64,
}

/// A quotient of two counts.
pub struct Rate<Counts = Tally> {
    /// The metric's name in rows.
    pub name: &'static str,
    /// The unit of the quotient.
    pub unit: &'static str,
    /// Numerator and denominator.
    pub of: fn(&Counts) -> (u64, u64),
}

impl<Counts> Rate<Counts> {
    /// Returns the rate of `counts`: 0 where the denominator is 0.
    pub fn value(&self, counts: &Counts) -> f64 {
        let (numerator, denominator) = (self.of)(counts);
        quotient(numerator, denominator)
    }
}

/// A value, and half the width of its 95 % confidence interval where a sample gives one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// `None` for a whole program, and for samples of fewer than [`crate::LEAST`] intervals or without the counted event.
    pub error: Option<f64>,
}

impl Estimate {
    /// Returns the error relative to the value; 0 where there is none.
    pub fn relative_error(&self) -> f64 {
        self.error.map_or(0.0, |error| error / self.value.abs().max(f64::MIN_POSITIVE))
    }
}

/// Returns `numerator / denominator`, and 0 where the denominator is 0.
pub(crate) fn quotient(numerator: u64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator as f64 / denominator as f64 }
}

/// Walk cycles per instruction: of all walks, for fetches as for loads and stores.
pub const WCPI: Rate =
    Rate { name: "wcpi", unit: "cycles/instruction", of: |t| (t.hardware.walk_cycles, t.counts.instructions) };

/// The four factors of WCPI (Lindsay and Bhattacharjee §IV). Each numerator is the next denominator, so the product of the
/// factors is WCPI.
pub const WCPI_FACTORS: [Rate; 4] = [
    Rate {
        name: "wcpi.accesses_per_instruction",
        unit: "ratio",
        of: |t| (t.counts.references(), t.counts.instructions),
    },
    Rate { name: "wcpi.misses_per_access", unit: "ratio", of: |t| (t.hardware.walks(), t.counts.references()) },
    Rate { name: "wcpi.walk_accesses_per_miss", unit: "ratio", of: |t| (t.hardware.walk_accesses, t.hardware.walks()) },
    Rate {
        name: "wcpi.cycles_per_walk_access",
        unit: "cycles",
        of: |t| (t.hardware.walk_cycles, t.hardware.walk_accesses),
    },
];

/// Walk cycles of loads and stores per instruction, which is what counters of some processors cover.
pub const WCPI_DATA: Rate =
    Rate { name: "wcpi_data", unit: "cycles/instruction", of: |t| ((WALK_CYCLES_DATA.of)(t), t.counts.instructions) };

/// The four factors of [`WCPI_DATA`], as those of [`WCPI`].
pub const WCPI_DATA_FACTORS: [Rate; 4] = [
    Rate {
        name: "wcpi_data.accesses_per_instruction",
        unit: "ratio",
        of: |t| (data_references(t), t.counts.instructions),
    },
    Rate { name: "wcpi_data.misses_per_access", unit: "ratio", of: |t| (t.hardware.walks_data, data_references(t)) },
    Rate {
        name: "wcpi_data.walk_accesses_per_miss",
        unit: "ratio",
        of: |t| ((WALK_ACCESSES_DATA.of)(t), t.hardware.walks_data),
    },
    Rate {
        name: "wcpi_data.cycles_per_walk_access",
        unit: "cycles",
        of: |t| ((WALK_CYCLES_DATA.of)(t), (WALK_ACCESSES_DATA.of)(t)),
    },
];

fn data_references(tally: &Tally) -> u64 {
    tally.counts.loads + tally.counts.stores
}

/// Rates that only samples report: of whole programs, two rows give each exactly.
pub const SAMPLED: [Rate; 3] = [
    Rate { name: "sample.walks_per_instruction", unit: "ratio", of: |t| (t.hardware.walks(), t.counts.instructions) },
    Rate {
        name: "sample.cycles_per_instruction",
        unit: "cycles/instruction",
        of: |t| (t.cycles(), t.counts.instructions),
    },
    Rate { name: "sample.translation", unit: "share", of: |t| (t.translation(), t.cycles()) },
];

/// The share of walks for loads and stores that did not retire (Lindsay and Bhattacharjee, Table VI).
pub const NOT_RETIRED: Rate = Rate {
    name: "walks.not_retired",
    unit: "share",
    of: |t| (t.hardware.walks_aborted + t.hardware.walks_wrong_path, t.hardware.walks_data),
};

/// The name of [`not_retired_by_events`] in rows.
pub const NOT_RETIRED_BY_EVENTS: &str = "walks.not_retired.by_events";

/// Returns the same share as a processor's events give it: walks initiated less those counted by instruction. The events
/// count differently, so the share can be negative.
pub fn not_retired_by_events(tally: &Tally) -> f64 {
    let h = &tally.hardware;
    (h.walks_data as f64 - h.stlb_miss_retired as f64) / h.walks_data.max(1) as f64
}

/// Look-ups of first-level arrays by fetches, squashed ones included: each costs energy.
pub const L1I_TLB_LOOKUPS: Sum =
    Sum { name: "l1i_tlb_lookups", unit: "count", of: |t| t.counts.fetches + t.hardware.squashed_fetches };

/// Look-ups of first-level arrays by loads and stores, squashed ones included.
pub const L1D_TLB_LOOKUPS: Sum = Sum {
    name: "l1d_tlb_lookups",
    unit: "count",
    of: |t| t.counts.loads + t.counts.stores + t.hardware.squashed_loads + t.hardware.squashed_stores,
};

/// The name of [`l2_tlb_lookups`] in rows.
pub const L2_TLB_LOOKUPS: &str = "l2_tlb_lookups";

/// Returns the look-ups of second-level arrays: first-level misses on the sides, instructions and data, that have one.
pub fn l2_tlb_lookups(tally: &Tally, second_level: [bool; 2]) -> u64 {
    let misses = [tally.hardware.l1i_tlb_misses, tally.hardware.l1d_tlb_misses];
    misses.into_iter().zip(second_level).filter(|(_, present)| *present).map(|(misses, _)| misses).sum()
}

/// Page-table entries that walks for loads and stores read.
pub const WALK_ACCESSES_DATA: Sum = Sum {
    name: "walk_accesses.data",
    unit: "count",
    of: |t| t.hardware.walk_accesses - t.hardware.walk_accesses_fetch,
};

/// Walk cycles for loads and stores.
pub const WALK_CYCLES_DATA: Sum =
    Sum { name: "walk_cycles.data", unit: "cycles", of: |t| t.hardware.walk_cycles - t.hardware.walk_cycles_fetch };

/// Walks that found a translation.
pub const WALKS_FILLED: Sum = Sum {
    name: "walks.filled",
    unit: "count",
    of: |t| {
        let h = &t.hardware;
        // In samples, all four are rounded estimates.
        h.walks().saturating_sub(h.walks_faulting + h.walks_aborted + h.walks_fetch_aborted)
    },
};

/// Cycles of misses and of everything done because of them. Over [`WALKS_FILLED`] it is the cost of a miss (Fang et al.
/// 1999, §5.1).
pub const MISS_CYCLES: Sum = Sum {
    name: "miss_cycles",
    unit: "cycles",
    of: |t| cycles_of(t, &[Label::Walk, Label::ItlbWalk, Label::Handler, Label::Copy, Label::Remap]),
};

/// Cycles of the operating system.
pub const SYSTEM_CYCLES: Sum = Sum {
    name: "system_cycles",
    unit: "cycles",
    of: |t| Label::ALL.into_iter().filter(|label| label.is_system()).map(|label| t.ledger.charged(label).0).sum(),
};

/// All other cycles.
pub const USER_CYCLES: Sum = Sum { name: "user_cycles", unit: "cycles", of: |t| t.cycles() - (SYSTEM_CYCLES.of)(t) };

impl Tally {
    /// Returns the cycles of address translation.
    pub fn translation(&self) -> u64 {
        use Label::{Handler, ItlbL2TlbHit, ItlbStall, ItlbWalk, L2TlbHit, Walk};
        cycles_of(self, &[L2TlbHit, Walk, Handler, ItlbStall, ItlbWalk, ItlbL2TlbHit])
    }

    /// Returns all cycles.
    pub fn cycles(&self) -> u64 {
        self.ledger.total().0
    }
}

fn cycles_of(tally: &Tally, labels: &[Label]) -> u64 {
    labels.iter().map(|&label| tally.ledger.charged(label).0).sum()
}

/// Accesses to a cache: the program's and those of walks.
pub fn cache_accesses(cache: &CacheCounters) -> u64 {
    cache.fetches + cache.loads + cache.stores + cache.walks
}

/// Misses of a cache: the program's and those of walks.
pub fn cache_misses(cache: &CacheCounters) -> u64 {
    cache.fetch_misses + cache.load_misses + cache.store_misses + cache.walk_misses
}

/// The hit ratio of a cache; rows put the cache's name before it.
pub const CACHE_HIT_RATIO: Rate<CacheCounters> =
    Rate { name: "hit_ratio", unit: "ratio", of: |c| (cache_accesses(c) - cache_misses(c), cache_accesses(c)) };
