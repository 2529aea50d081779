//! The cost log: what translation costs each reference, for those who attribute it to code and data.
//!
//! Costs are differences of counters and ledger between two references, so they sum to what was counted and charged. Nothing
//! is logged where nobody asked for it.

use super::Mmu;
use crate::counters::Counters;
use reach_core::{Label, Ledger};

/// A cost of translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationSpent {
    /// Look-ups that no first-level array answered.
    pub misses: u64,
    /// Walks, or runs of the miss handler.
    pub walks: u64,
    /// Page-table entries that walks read.
    pub walk_accesses: u64,
    /// Cycles of walks and handler runs, whether or not the core waited for them.
    pub walk_cycles: u64,
    /// Cycles that the core waited: those of the ledger's labels of translation ([`Label::is_translation`]).
    pub cycles: u64,
}

impl TranslationSpent {
    /// Adds `other`.
    pub fn absorb(&mut self, other: &TranslationSpent) {
        self.misses += other.misses;
        self.walks += other.walks;
        self.walk_accesses += other.walk_accesses;
        self.walk_cycles += other.walk_cycles;
        self.cycles += other.cycles;
    }

    /// Returns the cost since `earlier`.
    fn since(&self, earlier: &TranslationSpent) -> TranslationSpent {
        TranslationSpent {
            misses: self.misses - earlier.misses,
            walks: self.walks - earlier.walks,
            walk_accesses: self.walk_accesses - earlier.walk_accesses,
            walk_cycles: self.walk_cycles - earlier.walk_cycles,
            cycles: self.cycles - earlier.cycles,
        }
    }

    /// Returns the counts of loads and stores, and those of fetches.
    pub fn counted(c: &Counters) -> [TranslationSpent; 2] {
        let data = TranslationSpent {
            misses: c.l1d_tlb_misses,
            walks: c.walks_data,
            walk_accesses: c.walk_accesses - c.walk_accesses_fetch,
            walk_cycles: c.walk_cycles - c.walk_cycles_fetch,
            cycles: 0,
        };
        let fetch = TranslationSpent {
            misses: c.l1i_tlb_misses,
            walks: c.walks_fetch,
            walk_accesses: c.walk_accesses_fetch,
            walk_cycles: c.walk_cycles_fetch,
            cycles: 0,
        };
        [data, fetch]
    }
}

/// The cost of one reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostEntry {
    /// The index of the reference in its chunk; `None`: the last reference that ran before the log was last taken.
    pub reference: Option<u32>,
    /// Whether it is a cost of fetching.
    pub fetch: bool,
    /// The cost.
    pub spent: TranslationSpent,
}

/// Costs since they were last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct CostLog {
    entries: Vec<CostEntry>,
    /// Loads and stores, and fetches: what was counted until now.
    counted: [TranslationSpent; 2],
    /// The ledger until now: the MMU's, or the out-of-order core's since it was last emptied.
    charged: Ledger,
    /// The reference that ran last.
    last: Option<u32>,
}

impl CostLog {
    fn push(&mut self, reference: Option<u32>, fetch: bool, spent: TranslationSpent) {
        if spent != TranslationSpent::default() {
            self.entries.push(CostEntry { reference, fetch, spent });
        }
    }

    /// Attributes all counts since the last call to `reference`.
    fn count(&mut self, reference: u32, counters: &Counters) {
        let before = std::mem::replace(&mut self.counted, TranslationSpent::counted(counters));
        for (side, before) in before.iter().enumerate() {
            self.push(Some(reference), side == 1, self.counted[side].since(before));
        }
    }

    /// Attributes all cycles charged since the last call to a reference: `of(label)` says to which, and whether to a fetch.
    fn charge(&mut self, ledger: &Ledger, of: impl Fn(Label) -> (Option<u32>, bool)) {
        // Handlers last, so that references come in their order.
        let others = Label::ALL.into_iter().filter(|label| label.is_translation() && *label != Label::Handler);
        for label in others.chain([Label::Handler]) {
            let cycles = ledger.charged(label).0 - self.charged.charged(label).0;
            let (reference, fetch) = of(label);
            self.push(reference, fetch, TranslationSpent { cycles, ..TranslationSpent::default() });
        }
        self.charged = ledger.clone();
    }
}

impl Mmu {
    /// Logs what translation costs each reference from now on. Call [`Mmu::take_costs`] after each run.
    pub fn enable_cost_log(&mut self) {
        let log = CostLog {
            counted: TranslationSpent::counted(&self.counters),
            charged: self.ledger.clone(),
            ..CostLog::default()
        };
        self.cost_log = Some(Box::new(log));
    }

    /// Returns whether costs are logged.
    #[inline(always)]
    pub(crate) fn logs_costs(&self) -> bool {
        self.cost_log.is_some()
    }

    /// Moves the costs since the last call, in the order of their references, to `entries`, which is emptied before.
    pub fn take_costs(&mut self, entries: &mut Vec<CostEntry>) {
        entries.clear();
        if let Some(log) = &mut self.cost_log {
            std::mem::swap(&mut log.entries, entries);
            log.last = None;
        }
    }

    /// Logs what translation has cost since the last call as the cost of `reference`, which ran in order.
    #[inline(always)]
    pub(super) fn log_costs(&mut self, reference: usize, fetch: bool) {
        if self.cost_log.is_some() {
            self.log_costs_of(reference as u32, fetch);
        }
    }

    #[inline(never)]
    fn log_costs_of(&mut self, reference: u32, fetch: bool) {
        if let Some(log) = &mut self.cost_log {
            log.count(reference, &self.counters);
            log.charge(&self.ledger, |_| (Some(reference), fetch));
        }
    }

    /// Does the same for a reference that runs out of order. Its instruction has not retired yet, so what `charged`, the core's
    /// ledger, has more than before is a cost of the reference before; but a miss handler runs at once.
    #[inline(never)]
    pub(crate) fn log_ooo_costs(&mut self, reference: usize, fetch: bool, charged: &Ledger) {
        if let Some(log) = &mut self.cost_log {
            let (last, this) = (log.last, Some(reference as u32));
            log.charge(charged, |label| match label {
                Label::Handler => (this, fetch),
                _ => (last, label.is_of_front_end()),
            });
            log.count(reference as u32, &self.counters);
            log.last = this;
        }
    }

    /// Attributes what else the core's ledger has to the last reference. The core empties it then.
    #[inline(always)]
    pub(crate) fn log_last_ooo_costs(&mut self, charged: &Ledger) {
        if let Some(log) = &mut self.cost_log {
            let last = log.last;
            log.charge(charged, |label| (last, label.is_of_front_end()));
            log.charged = Ledger::default();
        }
    }
}
