//! Where the program goes on, guessed: a small TAGE (Seznec and Michaud, JILP 2006) for conditional branches, a table of
//! targets by history for indirect ones, and a stack for returns.

use super::code::Branch;
use crate::config;

/// Tables with history.
const TABLES: usize = 4;
/// The bits of a tag: two foldings of the history side by side, of lengths without a common divisor, so that they do not
/// cancel out where a loop's count is a multiple of one.
const TAG_BITS: [u32; 2] = [9, 7];

/// Histories of many branches in few bits each, those of all tables side by side: of the bits of their indices, and of the
/// two parts of their tags.
type Folded = [[u32; TABLES]; 3];

/// How histories are folded: each new branch is shifted in and the one that is too old is taken out.
#[derive(Clone, Debug)]
struct Folding {
    bits: Folded,
    /// Where in it the branch that leaves stands.
    out: Folded,
}

impl Folding {
    fn new(index_bits: u32, lengths: [u32; TABLES]) -> Folding {
        let bits = [index_bits, TAG_BITS[0], TAG_BITS[1]];
        Folding { bits: bits.map(|bits| [bits; TABLES]), out: bits.map(|bits| lengths.map(|length| length % bits)) }
    }

    #[inline(always)]
    fn shift(&self, folded: &mut Folded, new: u32, old: [u32; TABLES]) {
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
struct Entry {
    tag: u16,
    /// −4 to 3; taken from 0 on.
    counter: i8,
    useful: u8,
}

#[derive(Clone, Debug)]
struct Table {
    entries: Box<[Entry]>,
    /// How many branches its history has.
    length: u32,
}

/// What was guessed of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The program went on there.
    pub right: bool,
    /// Of a branch that names no target: where it was thought to lead, if anything was thought.
    pub target: Option<u64>,
}

/// What the guesses of branches on a path that is not the program's have changed.
#[derive(Clone, Debug, Default)]
struct Before {
    folded: Folded,
    history: [u64; 4],
    path: u64,
    top: usize,
    /// Return addresses that were written over, and where.
    returns: Vec<(usize, u64)>,
}

/// Everything that guesses.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// −2 to 1; taken from 0 on.
    plain: Box<[i8]>,
    tables: [Table; TABLES],
    folding: Folding,
    folded: Folded,
    /// The last 256 conditional branches, the last one in bit 0 of the first word.
    history: [u64; 4],
    targets: Box<[(u64, u64)]>,
    path: u64,
    /// The same without the last branch.
    path_before: u64,
    returns: Box<[u64]>,
    top: usize,
    before: Before,
}

impl Predictor {
    /// Knows nothing yet.
    pub fn new(of: &config::Predictor) -> Predictor {
        let quarter = (of.entries / 4).max(16);
        let bits = quarter.trailing_zeros();
        // Lengths grow by a constant factor up to the longest.
        let length = |i: usize| f64::from(of.history).powf((i + 1) as f64 / TABLES as f64).round() as u32;
        let lengths: [u32; TABLES] = std::array::from_fn(|i| length(i).clamp(2, 255));
        Predictor {
            plain: vec![0; of.entries as usize].into(),
            tables: lengths.map(|length| Table { entries: vec![Entry::default(); quarter as usize].into(), length }),
            folding: Folding::new(bits, lengths),
            folded: Folded::default(),
            history: [0; 4],
            targets: vec![(0, 0); quarter as usize].into(),
            path: 0,
            path_before: 0,
            returns: vec![0; of.return_stack as usize].into(),
            top: 0,
            before: Before::default(),
        }
    }

    /// The branch that ends at `end`, before which its block begins at `start`, went on at `next`: learns that, and returns
    /// what it had guessed.
    pub fn learn(&mut self, branch: Branch, start: u64, end: u64, next: u64) -> Guess {
        let mut target = None;
        let right = match branch {
            Branch::None | Branch::Jump => true,
            Branch::Conditional => self.conditional(end, next != end),
            Branch::Call => {
                self.push(end);
                true
            }
            Branch::Indirect | Branch::IndirectCall => {
                if branch == Branch::IndirectCall {
                    self.push(end);
                }
                let (key, at) = self.target_at(start);
                let slot = &mut self.targets[at];
                target = (slot.0 == key).then_some(slot.1);
                *slot = (key, next);
                target == Some(next)
            }
            Branch::Return => {
                target = Some(self.pop());
                target == Some(next)
            }
        };
        self.path_before = self.path;
        self.go(end, next);
        Guess { right, target }
    }

    #[inline(always)]
    fn go(&mut self, end: u64, next: u64) {
        if next != end {
            self.path = self.path << 3 ^ next >> 2;
        }
    }

    fn pop(&mut self) -> u64 {
        self.top = self.top.checked_sub(1).unwrap_or(self.returns.len() - 1);
        self.returns[self.top]
    }

    /// From here on branches are guessed that the program may not come to, until [`Predictor::come_back`]. `wrong`: the last
    /// branch, which ended at `end`, is thought to have gone there instead.
    pub fn run_wrong_path(&mut self, wrong: Option<(Branch, u64, u64)>) {
        (self.before.folded, self.before.history) = (self.folded, self.history);
        (self.before.path, self.before.top) = (self.path, self.top);
        let Some((branch, end, next)) = wrong else { return };
        self.path = self.path_before;
        self.go(end, next);
        if branch == Branch::Conditional {
            // The last one went the other way: it stands in the lowest bit of everything.
            self.folded.iter_mut().flatten().for_each(|value| *value ^= 1);
            self.history[0] ^= 1;
        }
    }

    /// Guesses where the branch that ends at `end`, and names `target` if it names one, leads. Nothing is learned.
    pub fn guess(&mut self, branch: Branch, start: u64, end: u64, target: Option<u64>) -> Option<u64> {
        if matches!(branch, Branch::Call | Branch::IndirectCall) {
            self.before.returns.push((self.top, self.returns[self.top]));
            self.push(end);
        }
        let next = match branch {
            Branch::None => end,
            Branch::Jump | Branch::Call => target?,
            Branch::Conditional => {
                let places = self.places(end);
                let taken = match self.hits(&places).0 {
                    Some(i) => self.tables[i].entries[places[i].0].counter >= 0,
                    None => self.plain[end as usize & (self.plain.len() - 1)] >= 0,
                };
                self.shift(taken);
                if taken { target? } else { end }
            }
            Branch::Indirect | Branch::IndirectCall => {
                let (key, at) = self.target_at(start);
                Some(self.targets[at]).filter(|slot| slot.0 == key)?.1
            }
            Branch::Return => self.pop(),
        };
        self.go(end, next);
        Some(next)
    }

    /// Forgets what has happened since [`Predictor::go_astray`].
    pub fn come_back(&mut self) {
        (self.folded, self.history) = (self.before.folded, self.before.history);
        (self.path, self.top) = (self.before.path, self.before.top);
        for (at, was) in self.before.returns.drain(..).rev() {
            self.returns[at] = was;
        }
    }

    fn push(&mut self, to: u64) {
        self.returns[self.top] = to;
        self.top = if self.top + 1 == self.returns.len() { 0 } else { self.top + 1 };
    }

    /// What the target of an indirect branch is found by now, and where.
    fn target_at(&self, start: u64) -> (u64, usize) {
        let key = start ^ (self.path & 0xffff_ffff) << 16;
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (key, hash as usize & (self.targets.len() - 1))
    }

    /// Where a branch stands in each table, and the tag by which it is known there.
    #[inline(always)]
    fn places(&self, pc: u64) -> [(usize, u16); TABLES] {
        let [indices, firsts, seconds] = &self.folded;
        let bits = self.folding.bits[0][0];
        std::array::from_fn(|i| {
            let index = pc ^ pc >> bits ^ u64::from(indices[i]);
            let tag = pc as u32 ^ (firsts[i] | seconds[i] << TAG_BITS[0]);
            (index as usize & (self.tables[i].entries.len() - 1), tag as u16)
        })
    }

    /// The two longest tables that know a branch.
    #[inline(always)]
    fn hits(&self, places: &[(usize, u16); TABLES]) -> (Option<usize>, Option<usize>) {
        let hit = |i: usize| u32::from(self.tables[i].entries[places[i].0].tag == places[i].1) << i;
        let hits = (0..TABLES).fold(0, |hits, i| hits | hit(i));
        let longest = |hits: u32| hits.checked_ilog2().map(|i| i as usize);
        let first = longest(hits);
        (first, first.and_then(|first| longest(hits & !(1 << first))))
    }

    fn conditional(&mut self, pc: u64, taken: bool) -> bool {
        let places = self.places(pc);
        let (provider, other) = self.hits(&places);
        let mask = self.plain.len() - 1;
        let plain = &mut self.plain[pc as usize & mask];
        let by_plain = *plain >= 0;
        let guess = |i: Option<usize>, tables: &[Table; TABLES]| {
            i.map_or(by_plain, |i| tables[i].entries[places[i].0].counter >= 0)
        };
        let (guessed, alternative) = (guess(provider, &self.tables), guess(other, &self.tables));
        match provider {
            Some(i) => {
                let entry = &mut self.tables[i].entries[places[i].0];
                entry.counter = if taken { (entry.counter + 1).min(3) } else { (entry.counter - 1).max(-4) };
                if guessed != alternative {
                    entry.useful =
                        if guessed == taken { (entry.useful + 1).min(3) } else { entry.useful.saturating_sub(1) };
                }
            }
            None => *plain = if taken { (*plain + 1).min(1) } else { (*plain - 1).max(-2) },
        }
        if guessed != taken {
            self.allocate(provider.map_or(0, |i| i + 1), &places, taken);
        }
        self.shift(taken);
        guessed == taken
    }

    /// Enters the branch in the first table from `from` on where its place is not useful to another.
    fn allocate(&mut self, from: usize, places: &[(usize, u16); TABLES], taken: bool) {
        for (table, &(at, tag)) in self.tables.iter_mut().zip(places).skip(from) {
            let entry = &mut table.entries[at];
            if entry.useful == 0 {
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return;
            }
        }
        for (table, &(at, _)) in self.tables.iter_mut().zip(places).skip(from) {
            table.entries[at].useful -= 1;
        }
    }

    fn shift(&mut self, taken: bool) {
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

    /// How many of the last hundred of `n` are guessed right.
    fn right(n: u64, mut taken: impl FnMut(u64) -> bool) -> usize {
        let mut predictor = predictor();
        let guess =
            |i| predictor.learn(Branch::Conditional, 0x1000, 0x1010, if taken(i) { 0x1000 } else { 0x1010 }).right;
        (0..n).map(guess).skip(n as usize - 100).filter(|right| *right).count()
    }

    #[test]
    fn patterns_are_learned_and_chance_is_not() {
        assert_eq!(right(200, |_| true), 100);
        assert_eq!(right(2000, |i| i % 7 == 3), 100);
        assert_eq!(right(20_000, |i| i % 40 == 0), 100, "a loop of forty");
        let mut random = reach_core::Random::new(7);
        assert!((30..70).contains(&right(20_000, |_| random.below(2) == 0)));
    }

    #[test]
    fn returns_go_where_calls_were() {
        let mut predictor = predictor();
        for depth in 0..10 {
            assert!(predictor.learn(Branch::Call, depth, 100 + depth, 1000).right);
        }
        for depth in (0..10).rev() {
            assert!(predictor.learn(Branch::Return, 0, 0, 100 + depth).right);
        }
    }

    #[test]
    fn indirect_targets_are_known_by_the_way_to_them() {
        let mut predictor = predictor();
        let rounds: Vec<bool> =
            (0..200).map(|i| predictor.learn(Branch::Indirect, 0x1000, 0x1010, 0x2000 + i % 3 * 256).right).collect();
        assert!(rounds[100..].iter().all(|right| *right));
        assert!(!rounds[..3].iter().any(|right| *right));
    }

    #[test]
    fn nothing_is_left_of_a_way_that_was_not_gone() {
        let mut random = reach_core::Random::new(3);
        let (mut strays, mut stays) = (predictor(), predictor());
        let kinds = [Branch::Conditional, Branch::Call, Branch::Indirect, Branch::Return, Branch::Jump];
        for _ in 0..3000 {
            let branch = kinds[random.below(5) as usize];
            let (end, next) = (random.below(8) * 16, random.below(8) * 16);
            assert_eq!(strays.learn(branch, end, end, next), stays.learn(branch, end, end, next));
            strays.run_wrong_path(Some((branch, end, if next == end { 16 } else { end })));
            for _ in 0..random.below(20) {
                let end = random.below(8) * 16;
                strays.guess(kinds[random.below(5) as usize], end, end, Some(16));
            }
            strays.come_back();
        }
    }
}
