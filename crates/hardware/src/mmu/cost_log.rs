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
    /// Cycles that the core waited for translation: those of the labels `L2TlbHit`, `Walk`, `Handler`, and the three of the ITLB.
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
    /// Whether it is a cost of instructions that were squashed: behind the branch at the end of the block before, if the reference is
    /// a fetch, or else behind the reference itself.
    pub squashed: bool,
    /// The cost.
    pub spent: TranslationSpent,
}

/// Cycles charged to the labels of translation: those of loads and stores, of the front end, and of miss handlers.
#[derive(Clone, Copy, Debug, Default)]
struct Charged {
    data: u64,
    front_end: u64,
    handler: u64,
}

impl Charged {
    #[inline(always)]
    fn of(ledger: &Ledger) -> Charged {
        let sum = |labels: &[Label]| labels.iter().map(|&label| ledger.charged(label).0).sum();
        Charged {
            data: sum(&[Label::L2TlbHit, Label::Walk]),
            front_end: sum(&[Label::ItlbStall, Label::ItlbWalk, Label::ItlbL2TlbHit]),
            handler: sum(&[Label::Handler]),
        }
    }

    fn total(self) -> u64 {
        self.data + self.front_end + self.handler
    }
}

/// Costs since they were last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct CostLog {
    entries: Vec<CostEntry>,
    /// Loads and stores, and fetches: what was counted until now.
    counted: [TranslationSpent; 2],
    /// What the ledger had until now: the MMU's, or the out-of-order core's since it was last emptied.
    charged: Charged,
    /// The reference that ran last, and whether it is a fetch.
    last: Option<(u32, bool)>,
}

impl CostLog {
    #[inline(always)]
    fn push(&mut self, entry: CostEntry) {
        if entry.spent != TranslationSpent::default() {
            self.entries.push(entry);
        }
    }

    /// Attributes all counts since the last call to `reference`, and `cycles` to its fetch or to its data.
    #[inline(always)]
    fn count(&mut self, reference: u32, fetch: bool, squashed: bool, cycles: u64, counters: &Counters) {
        let [data, code] = TranslationSpent::counted(counters);
        let before = std::mem::replace(&mut self.counted, [data, code]);
        let (mut data, mut code) = (data.since(&before[0]), code.since(&before[1]));
        if fetch {
            code.cycles = cycles
        } else {
            data.cycles = cycles
        }
        let reference = Some(reference);
        self.push(CostEntry { reference, fetch: false, squashed, spent: data });
        self.push(CostEntry { reference, fetch: true, squashed, spent: code });
    }

    /// Attributes all cycles of the core since the last call to the last reference, but those of miss handlers, which it returns.
    #[inline(always)]
    fn charge_last(&mut self, ledger: &Ledger) -> u64 {
        let now = Charged::of(ledger);
        let before = std::mem::replace(&mut self.charged, now);
        // A fetch that needs the operating system is charged as loads and stores are.
        let is_fetch = self.last.is_some_and(|(_, fetch)| fetch);
        self.push_cycles(is_fetch, now.data - before.data);
        self.push_cycles(true, now.front_end - before.front_end);
        now.handler - before.handler
    }

    /// Attributes cycles to the last reference.
    fn push_cycles(&mut self, fetch: bool, cycles: u64) {
        let reference = self.last.map(|(reference, _)| reference);
        let spent = TranslationSpent { cycles, ..TranslationSpent::default() };
        self.push(CostEntry { reference, fetch, squashed: false, spent });
    }
}

impl Mmu {
    /// Logs what translation costs each reference from now on. Call [`Mmu::take_costs`] after each run.
    pub fn enable_cost_log(&mut self) {
        let log = CostLog {
            counted: TranslationSpent::counted(&self.counters),
            charged: Charged::of(&self.ledger),
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
            let charged = Charged::of(&self.ledger);
            let cycles = charged.total() - log.charged.total();
            log.charged = charged;
            log.count(reference, fetch, false, cycles, &self.counters);
        }
    }

    /// Does the same for a reference that runs out of order. Its instruction has not retired yet, so what `charged`, the core's
    /// ledger, has more than before is a cost of the reference before; but a miss handler runs at once.
    #[inline(never)]
    pub(crate) fn log_ooo_costs(&mut self, reference: usize, fetch: bool, charged: &Ledger) {
        if let Some(log) = &mut self.cost_log {
            let handler = log.charge_last(charged);
            log.count(reference as u32, fetch, false, handler, &self.counters);
            log.last = Some((reference as u32, fetch));
        }
    }

    /// Attributes what was counted since the last call to `reference` itself, or to what was `squashed` behind it, and what `charged`
    /// has more than before to the reference before.
    #[inline(never)]
    pub(crate) fn log_ooo_counts(&mut self, reference: usize, squashed: bool, charged: &Ledger) {
        if let Some(log) = &mut self.cost_log {
            // References come in their order.
            let handler = log.charge_last(charged);
            log.push_cycles(false, handler);
            log.count(reference as u32, false, squashed, 0, &self.counters);
        }
    }

    /// Attributes what else the core's ledger has to the last reference. The core empties it then.
    #[inline(always)]
    pub(crate) fn log_last_ooo_costs(&mut self, charged: &Ledger) {
        if let Some(log) = &mut self.cost_log {
            let handler = log.charge_last(charged);
            let is_fetch = log.last.is_some_and(|(_, fetch)| fetch);
            log.push_cycles(is_fetch, handler);
            log.charged = Charged::default();
        }
    }
}
