//! The branch predictor: a small TAGE for conditional branches (Seznec and Michaud, JILP 2006), a table of targets
//! indexed by path history for indirect branches, and a return-address stack.

use super::instruction::BranchKind;
use crate::config;

/// The number of tagged tables.
const TABLES: usize = 4;
/// The bits of a tag, in two parts. The history is folded to each length, and the lengths have no common divisor. So
/// the parts do not cancel out where a loop's trip count is a multiple of one length.
const TAG_BITS: [u32; 2] = [9, 7];

/// The history of each table, folded to few bits: to the index, and to the two parts of the tag.
type FoldedHistory = [[u32; TABLES]; 3];

/// How to shift a branch into a folded history, and the oldest one out of it.
#[derive(Clone, Debug)]
struct Folding {
    bits: FoldedHistory,
    /// The bit from which the oldest branch is removed.
    out: FoldedHistory,
}

impl Folding {
    fn new(index_bits: u32, lengths: [u32; TABLES]) -> Folding {
        let bits = [index_bits, TAG_BITS[0], TAG_BITS[1]];
        Folding { bits: bits.map(|bits| [bits; TABLES]), out: bits.map(|bits| lengths.map(|length| length % bits)) }
    }

    #[inline(always)]
    fn shift(&self, folded: &mut FoldedHistory, new: u32, old: [u32; TABLES]) {
        for ((values, bits), out) in folded.iter_mut().zip(&self.bits).zip(&self.out) {
            for table in 0..TABLES {
                let value = values[table] << 1 | new;
                let value = value ^ old[table] << out[table];
                values[table] = (value ^ value >> bits[table]) & ((1 << bits[table]) - 1);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct TaggedEntry {
    tag: u16,
    /// -4 to 3. Predicts taken from 0 up.
    counter: i8,
    /// 0 to 3. An entry is replaced only at 0.
    useful: u8,
}

#[derive(Clone, Debug)]
struct TaggedTable {
    entries: Box<[TaggedEntry]>,
    /// The number of branches in its history.
    length: u32,
}

/// The prediction of a branch, compared with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Whether the program continued there.
    pub correct: bool,
    /// The predicted target of an indirect branch or a return. `None` for other branches, and where the table had none.
    pub target: Option<u64>,
}

/// A branch and the address at which the wrong path continues after it.
#[derive(Clone, Copy, Debug)]
pub struct WrongTurn {
    /// The mispredicted branch.
    pub branch: BranchKind,
    /// The byte after the branch.
    pub end: u64,
    /// The start of the wrong path.
    pub target: u64,
}

/// The state to which the predictor returns after a wrong path.
#[derive(Clone, Debug, Default)]
struct Checkpoint {
    folded: FoldedHistory,
    history: [u64; 4],
    path: u64,
    top: usize,
    /// The return addresses that were overwritten, with their indices, in order.
    returns: Vec<(usize, u64)>,
}

/// What the tables say of a conditional branch.
#[derive(Clone, Copy)]
struct TablePrediction {
    /// The table of the longest history with an entry. `None`: the base predictor provides.
    provider: Option<usize>,
    /// What the provider predicts.
    provided: bool,
    /// What the table of the next shorter history predicts.
    alternative: bool,
    /// The provider's entry is new: its counter is weak, and it was not useful yet.
    is_new: bool,
}

/// The branch predictor.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// The base predictor's counters, -2 to 1. They predict taken from 0 up.
    base: Box<[i8]>,
    /// -8 to 7. From 0 up, the alternative is better than a new entry, as for branches that follow no pattern.
    prefers_alternative: i8,
    tables: [TaggedTable; TABLES],
    folding: Folding,
    folded: FoldedHistory,
    /// The outcomes of the last 256 conditional branches, the latest in bit 0 of the first word.
    history: [u64; 4],
    /// By hash of block and path: the full key, and the last target.
    targets: Box<[(u64, u64)]>,
    /// The targets of the last taken branches, hashed.
    path: u64,
    /// `path` without the last branch.
    previous_path: u64,
    /// The return-address stack, a ring.
    returns: Box<[u64]>,
    /// The index of its next free entry.
    top: usize,
    checkpoint: Checkpoint,
}

impl Predictor {
    /// Creates an untrained predictor.
    pub fn new(config: &config::Predictor) -> Predictor {
        let quarter = (config.entries / 4).max(16);
        let bits = quarter.trailing_zeros();
        // Lengths grow by a constant factor up to the longest.
        let length = |i: usize| f64::from(config.history).powf((i + 1) as f64 / TABLES as f64).round() as u32;
        let lengths: [u32; TABLES] = std::array::from_fn(|i| length(i).clamp(2, 255));
        let table = |length| TaggedTable { entries: vec![TaggedEntry::default(); quarter as usize].into(), length };
        Predictor {
            base: vec![0; config.entries as usize].into(),
            prefers_alternative: 0,
            tables: lengths.map(table),
            folding: Folding::new(bits, lengths),
            folded: FoldedHistory::default(),
            history: [0; 4],
            targets: vec![(0, 0); quarter as usize].into(),
            path: 0,
            previous_path: 0,
            returns: vec![0; config.return_stack as usize].into(),
            top: 0,
            checkpoint: Checkpoint::default(),
        }
    }

    /// Takes over what `other`, a predictor of the same kind, has learned.
    pub fn copy_from(&mut self, other: &Predictor) {
        self.base.copy_from_slice(&other.base);
        self.prefers_alternative = other.prefers_alternative;
        for (own, table) in self.tables.iter_mut().zip(&other.tables) {
            own.entries.copy_from_slice(&table.entries);
        }
        self.targets.copy_from_slice(&other.targets);
        self.returns.copy_from_slice(&other.returns);
        (self.folded, self.history, self.top) = (other.folded, other.history, other.top);
        (self.path, self.previous_path) = (other.path, other.previous_path);
    }

    /// Trains with the outcome of a branch: the block from `start` to before `end` ends with it, and the program
    /// continued at `next`. Returns what had been predicted.
    pub fn learn(&mut self, branch: BranchKind, start: u64, end: u64, next: u64) -> Prediction {
        let mut target = None;
        let correct = match branch {
            BranchKind::None | BranchKind::Jump => true,
            BranchKind::Conditional => self.learn_conditional(end, next != end),
            BranchKind::Call => {
                self.push_return(end);
                true
            }
            BranchKind::Indirect | BranchKind::IndirectCall => {
                if branch == BranchKind::IndirectCall {
                    self.push_return(end);
                }
                let (key, index) = self.target_index(start);
                let entry = &mut self.targets[index];
                target = (entry.0 == key).then_some(entry.1);
                *entry = (key, next);
                target == Some(next)
            }
            BranchKind::Return => {
                target = Some(self.pop_return());
                target == Some(next)
            }
        };
        self.previous_path = self.path;
        self.extend_path(end, next);
        Prediction { correct, target }
    }

    #[inline(always)]
    fn extend_path(&mut self, end: u64, next: u64) {
        if next != end {
            self.path = self.path << 3 ^ next >> 2;
        }
    }

    fn pop_return(&mut self) -> u64 {
        self.top = self.top.checked_sub(1).unwrap_or(self.returns.len() - 1);
        self.returns[self.top]
    }

    /// Begins a wrong path, up to [`Predictor::end_wrong_path`]. `turn` is the mispredicted branch. `None` where the
    /// wrong path follows a load that violated memory order: then the history is the program's.
    pub fn begin_wrong_path(&mut self, turn: Option<WrongTurn>) {
        (self.checkpoint.folded, self.checkpoint.history) = (self.folded, self.history);
        (self.checkpoint.path, self.checkpoint.top) = (self.path, self.top);
        let Some(WrongTurn { branch, end, target }) = turn else { return };
        self.path = self.previous_path;
        self.extend_path(end, target);
        if branch == BranchKind::Conditional {
            // The branch was predicted the other way. Its outcome is the lowest bit of every history.
            self.folded.iter_mut().flatten().for_each(|value| *value ^= 1);
            self.history[0] ^= 1;
        }
    }

    /// Predicts where a branch on the wrong path continues. The block from `start` to before `end` ends with it, and
    /// `target` is its direct target.
    ///
    /// Updates histories and the return-address stack, and trains nothing. `None` if the target is unknown.
    pub fn predict(&mut self, branch: BranchKind, start: u64, end: u64, target: Option<u64>) -> Option<u64> {
        if matches!(branch, BranchKind::Call | BranchKind::IndirectCall) {
            self.checkpoint.returns.push((self.top, self.returns[self.top]));
            self.push_return(end);
        }
        let next = match branch {
            BranchKind::None => end,
            BranchKind::Jump | BranchKind::Call => target?,
            BranchKind::Conditional => {
                let slots = self.slots(end);
                let taken = self.choose(self.look_up(end, &slots));
                self.shift_history(taken);
                if taken { target? } else { end }
            }
            BranchKind::Indirect | BranchKind::IndirectCall => {
                let (key, index) = self.target_index(start);
                Some(self.targets[index]).filter(|entry| entry.0 == key)?.1
            }
            BranchKind::Return => self.pop_return(),
        };
        self.extend_path(end, next);
        Some(next)
    }

    /// Ends the wrong path: restores the state at its begin.
    pub fn end_wrong_path(&mut self) {
        (self.folded, self.history) = (self.checkpoint.folded, self.checkpoint.history);
        (self.path, self.top) = (self.checkpoint.path, self.checkpoint.top);
        for (index, old) in self.checkpoint.returns.drain(..).rev() {
            self.returns[index] = old;
        }
    }

    fn push_return(&mut self, to: u64) {
        self.returns[self.top] = to;
        self.top = if self.top + 1 == self.returns.len() { 0 } else { self.top + 1 };
    }

    /// Returns the key of an indirect branch on the current path, and its index in the table of targets.
    fn target_index(&self, start: u64) -> (u64, usize) {
        let key = start ^ (self.path & 0xffff_ffff) << 16;
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (key, hash as usize & (self.targets.len() - 1))
    }

    /// Returns the index of a branch in each tagged table, and its tag.
    #[inline(always)]
    fn slots(&self, pc: u64) -> [(usize, u16); TABLES] {
        let [indices, firsts, seconds] = &self.folded;
        let bits = self.folding.bits[0][0];
        std::array::from_fn(|i| {
            let index = pc ^ pc >> bits ^ u64::from(indices[i]);
            let tag = pc as u32 ^ (firsts[i] | seconds[i] << TAG_BITS[0]);
            (index as usize & (self.tables[i].entries.len() - 1), tag as u16)
        })
    }

    /// Returns the two tables of longest history whose tags match, the longest first.
    #[inline(always)]
    fn hits(&self, slots: &[(usize, u16); TABLES]) -> (Option<usize>, Option<usize>) {
        let hit = |i: usize| u32::from(self.tables[i].entries[slots[i].0].tag == slots[i].1) << i;
        let hits = (0..TABLES).fold(0, |hits, i| hits | hit(i));
        let longest = |hits: u32| hits.checked_ilog2().map(|i| i as usize);
        let first = longest(hits);
        (first, first.and_then(|first| longest(hits & !(1 << first))))
    }

    /// Looks up the conditional branch at `pc`.
    #[inline(always)]
    fn look_up(&self, pc: u64, slots: &[(usize, u16); TABLES]) -> TablePrediction {
        let by_base = self.base[pc as usize & (self.base.len() - 1)] >= 0;
        let predict = |i: Option<usize>| i.map_or(by_base, |i: usize| self.tables[i].entries[slots[i].0].counter >= 0);
        let (provider, alternate) = self.hits(slots);
        let is_new = provider.is_some_and(|i| {
            let entry = self.tables[i].entries[slots[i].0];
            entry.useful == 0 && matches!(entry.counter, -1 | 0)
        });
        TablePrediction { provider, provided: predict(provider), alternative: predict(alternate), is_new }
    }

    /// Returns the prediction: what the provider says, unless its entry is new and new entries have done worse than the
    /// alternative (Seznec and Michaud: `USE_ALT_ON_NA`).
    #[inline(always)]
    fn choose(&self, found: TablePrediction) -> bool {
        if found.is_new && self.prefers_alternative >= 0 { found.alternative } else { found.provided }
    }

    /// Trains with a conditional branch. Returns whether it was predicted correctly.
    fn learn_conditional(&mut self, pc: u64, taken: bool) -> bool {
        let slots = self.slots(pc);
        let found = self.look_up(pc, &slots);
        let TablePrediction { provider, provided, alternative, is_new } = found;
        let predicted = self.choose(found);
        if is_new && provided != alternative {
            let by = if alternative == taken { 1 } else { -1 };
            self.prefers_alternative = (self.prefers_alternative + by).clamp(-8, 7);
        }
        let mask = self.base.len() - 1;
        let base = &mut self.base[pc as usize & mask];
        match provider {
            Some(i) => {
                let entry = &mut self.tables[i].entries[slots[i].0];
                entry.counter = if taken { (entry.counter + 1).min(3) } else { (entry.counter - 1).max(-4) };
                if provided != alternative {
                    entry.useful =
                        if provided == taken { (entry.useful + 1).min(3) } else { entry.useful.saturating_sub(1) };
                }
            }
            None => *base = if taken { (*base + 1).min(1) } else { (*base - 1).max(-2) },
        }
        // A new entry that was right may become a pattern's; give it time.
        if predicted != taken && provided != taken {
            self.allocate(provider.map_or(0, |i| i + 1), &slots, taken);
        }
        self.shift_history(taken);
        predicted == taken
    }

    /// Enters a mispredicted branch in the first table, from number `from` on, whose entry is not useful. Ages the
    /// entries if all are useful.
    fn allocate(&mut self, from: usize, slots: &[(usize, u16); TABLES], taken: bool) {
        for (table, &(index, tag)) in self.tables.iter_mut().zip(slots).skip(from) {
            let entry = &mut table.entries[index];
            if entry.useful == 0 {
                *entry = TaggedEntry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return;
            }
        }
        for (table, &(index, _)) in self.tables.iter_mut().zip(slots).skip(from) {
            table.entries[index].useful -= 1;
        }
    }

    fn shift_history(&mut self, taken: bool) {
        let new = u32::from(taken);
        let old = std::array::from_fn(|i| {
            let old = self.tables[i].length - 1;
            (self.history[old as usize / 64] >> (old % 64) & 1) as u32
        });
        self.folding.shift(&mut self.folded, new, old);
        for word in (1..4).rev() {
            self.history[word] = self.history[word] << 1 | self.history[word - 1] >> 63;
        }
        self.history[0] = self.history[0] << 1 | u64::from(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Predictor {
        Predictor::new(&config::Predictor { entries: 4096, history: 100, return_stack: 16 })
    }

    /// How many of the last hundred of `n` branches are predicted correctly.
    fn correct_of_last_hundred(n: u64, mut taken: impl FnMut(u64) -> bool) -> usize {
        let mut predictor = predictor();
        let correct = |i| {
            let next = if taken(i) { 0x1000 } else { 0x1010 };
            predictor.learn(BranchKind::Conditional, 0x1000, 0x1010, next).correct
        };
        (0..n).map(correct).skip(n as usize - 100).filter(|correct| *correct).count()
    }

    #[test]
    fn patterns_are_learned_and_random_outcomes_are_not() {
        assert_eq!(correct_of_last_hundred(200, |_| true), 100);
        assert_eq!(correct_of_last_hundred(2000, |i| i % 7 == 3), 100);
        assert_eq!(correct_of_last_hundred(20_000, |i| i % 40 == 0), 100, "a loop of forty");
        let mut random = reach_core::Random::new(7);
        assert!((30..70).contains(&correct_of_last_hundred(20_000, |_| random.below(2) == 0)));
    }

    #[test]
    fn returns_are_predicted_to_their_calls() {
        let mut predictor = predictor();
        for depth in 0..10 {
            assert!(predictor.learn(BranchKind::Call, depth, 100 + depth, 1000).correct);
        }
        for depth in (0..10).rev() {
            assert!(predictor.learn(BranchKind::Return, 0, 0, 100 + depth).correct);
        }
    }

    #[test]
    fn indirect_targets_are_predicted_by_path() {
        let mut predictor = predictor();
        let mut correct = |i: u64| predictor.learn(BranchKind::Indirect, 0x1000, 0x1010, 0x2000 + i % 3 * 256).correct;
        let rounds: Vec<bool> = (0..200).map(&mut correct).collect();
        assert!(rounds[100..].iter().all(|correct| *correct));
        assert!(!rounds[..3].iter().any(|correct| *correct));
    }

    #[test]
    fn a_wrong_path_leaves_no_trace_in_the_predictor() {
        let mut random = reach_core::Random::new(3);
        let (mut with_wrong_paths, mut without) = (predictor(), predictor());
        let kinds =
            [BranchKind::Conditional, BranchKind::Call, BranchKind::Indirect, BranchKind::Return, BranchKind::Jump];
        for _ in 0..3000 {
            let branch = kinds[random.below(5) as usize];
            let (end, next) = (random.below(8) * 16, random.below(8) * 16);
            assert_eq!(with_wrong_paths.learn(branch, end, end, next), without.learn(branch, end, end, next));
            let target = if next == end { 16 } else { end };
            with_wrong_paths.begin_wrong_path(Some(WrongTurn { branch, end, target }));
            for _ in 0..random.below(20) {
                let end = random.below(8) * 16;
                with_wrong_paths.predict(kinds[random.below(5) as usize], end, end, Some(16));
            }
            with_wrong_paths.end_wrong_path();
        }
    }
}
