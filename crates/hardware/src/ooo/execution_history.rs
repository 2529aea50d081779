//! What is remembered of the instructions that have been executed: where their blocks stand, and what each referred to.
//! Only what this core has executed counts, never what else is known of the program.

use super::code::{Code, references};
use reach_core::{BlockId, prefetch};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How often in a row a load must not have depended on a store of unknown address before it goes ahead of such stores.
const TRUSTED: u8 = 15;
const NOTHING: u32 = u32::MAX;

/// What is known of a block.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The number of its first reference among all.
    first: u32,
    /// The address space in which it was executed last, one up.
    space: u32,
}

/// One of an instruction's references.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// The last address, and by how much it differs from the one before.
    last: u64,
    step: u64,
    /// The first and the last unit that were touched.
    low: u32,
    high: u32,
    /// How often there was one, up to 2, and whether the last two steps were the same.
    times: u8,
    steady: bool,
    /// The first-level TLB did not have the last one's page.
    far: bool,
    /// Up to [`TRUSTED`].
    trust: u8,
}

/// The last guess of a reference.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    at: u64,
    /// The number of the wrong_path in which it was made.
    wrong_path: u32,
}

/// Hashes where blocks stand: programs do not choose that to harm this one.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(24) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// Binary logarithm of the unit in which bounds are kept.
const UNIT: u32 = 16;

impl Past {
    fn note(&mut self, at: u64, far: bool) {
        self.far = far;
        let unit = (at >> UNIT) as u32;
        if self.times == 0 {
            (self.low, self.high) = (unit, unit);
        } else {
            let step = at.wrapping_sub(self.last);
            self.steady = self.times > 1 && step == self.step;
            self.step = step;
            (self.low, self.high) = (self.low.min(unit), self.high.max(unit));
        }
        self.times = (self.times + 1).min(2);
        self.last = at;
    }

    /// What may follow `at`. A run goes on. What does not run, and was far from where its instruction had been, goes on by
    /// its last step all the same, but stays among the addresses that the instruction has touched. So guesses leave the
    /// first-level TLB about as often as the instruction does.
    fn after(&self, at: u64) -> u64 {
        let next = at.wrapping_add(self.step);
        if self.steady || !self.far {
            return if self.steady { next } else { at };
        }
        let (low, span) = (u64::from(self.low) << UNIT, u64::from(self.high - self.low + 1) << UNIT);
        match next {
            next if next.wrapping_sub(low) < span => next,
            // A step is shorter than the span.
            next if next.wrapping_add(span).wrapping_sub(low) < span => next.wrapping_add(span),
            next if next.wrapping_sub(span).wrapping_sub(low) < span => next.wrapping_sub(span),
            _ => at,
        }
    }
}

/// All that is remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    space: u32,
    blocks: HashMap<(u32, u64), BlockId, BuildHasherDefault<PlaceHasher>>,
    seen: Vec<Seen>,
    /// By number of reference; what only excursions ask for stands apart.
    past: Vec<Past>,
    guesses: Vec<Guess>,
    wrong_path: u32,
}

impl History {
    /// What is executed from here on is executed in this address space.
    pub fn enter(&mut self, space: u32) {
        self.space = space;
    }

    /// `block` is executed. Returns the number of its first reference.
    #[inline]
    pub fn execute(&mut self, code: &Code, block: BlockId) -> u32 {
        match self.seen.get(block.0 as usize) {
            Some(seen) if seen.space == self.space + 1 => seen.first,
            _ => self.meet(code, block),
        }
    }

    #[cold]
    fn meet(&mut self, code: &Code, block: BlockId) -> u32 {
        let at = block.0 as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, Seen { first: NOTHING, space: 0 });
        }
        if self.seen[at].first == NOTHING {
            self.seen[at].first = self.past.len() as u32;
            let references = self.past.len() + references(code.of(block));
            self.past.resize(references, Past::default());
            self.guesses.resize(references, Guess::default());
        }
        self.seen[at].space = self.space + 1;
        self.blocks.insert((self.space, code.place(block).start), block);
        self.seen[at].first
    }

    /// Tells this computer's caches that what is known of `block` will be needed soon.
    #[inline(always)]
    pub fn prefetch(&self, block: BlockId) {
        if let Some(seen) = self.seen.get(block.0 as usize) {
            prefetch(&self.past, seen.first as usize);
        }
    }

    /// The block that stands at `start`, and the number of its first reference, if it was executed here.
    pub fn block_at(&self, start: u64) -> Option<(BlockId, u32)> {
        let block = *self.blocks.get(&(self.space, start))?;
        Some((block, self.seen[block.0 as usize].first))
    }

    /// Reference number `number` was to `at`, `far` from the pages that the first-level TLB had.
    #[inline(always)]
    pub fn note(&mut self, number: u32, at: u64, far: bool) {
        self.past[number as usize].note(at, far);
    }

    /// Whether load number `number` goes ahead of stores whose addresses are not known.
    #[inline(always)]
    pub fn trusts(&self, number: u32) -> bool {
        self.past[number as usize].trust == TRUSTED
    }

    /// It did, or would have, and needed what one of them stores: or not.
    #[inline(always)]
    pub fn learn(&mut self, number: u32, conflict: bool) {
        let trust = &mut self.past[number as usize].trust;
        *trust = if conflict { 0 } else { (*trust + 1).min(TRUSTED) };
    }

    /// Addresses are guessed anew.
    pub fn set_out(&mut self) {
        self.wrong_path = self.wrong_path.wrapping_add(1);
    }

    /// What reference number `number` may refer to next, in this wrong_path; none where it was never executed. What is no
    /// run is guessed among what is `mapped` only, or is the last address again.
    pub fn guess(&mut self, number: u32, mapped: impl Fn(u64) -> bool) -> Option<u64> {
        let (past, guess) = (&self.past[number as usize], &mut self.guesses[number as usize]);
        if past.times == 0 {
            return None;
        }
        let from = if guess.wrong_path == self.wrong_path { guess.at } else { past.last };
        let next = past.after(from);
        let next = if past.steady || next == past.last || mapped(next) { next } else { past.last };
        *guess = Guess { at: next, wrong_path: self.wrong_path };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guesses after these addresses.
    fn guesses(addresses: &[u64], far: bool, mapped: impl Fn(u64) -> bool) -> [Option<u64>; 3] {
        let mut history = History {
            past: vec![Past::default()],
            guesses: vec![Guess::default()],
            wrong_path: 1,
            ..History::default()
        };
        addresses.iter().for_each(|&at| history.note(0, at, far));
        [(); 3].map(|()| history.guess(0, &mapped))
    }

    #[test]
    fn runs_go_on_and_what_is_none_stays_where_it_was() {
        for far in [false, true] {
            assert_eq!(guesses(&[], far, |_| true), [None; 3]);
            assert_eq!(guesses(&[5000], far, |_| true), [Some(5000); 3]);
            assert_eq!(guesses(&[0, 64, 128], far, |_| false), [Some(192), Some(256), Some(320)], "a run");
        }
        let within = |at: &Option<u64>| at.is_some_and(|at| (0x10000..0x90000).contains(&at));
        let random = [0x10000, 0x84000, 0x32100, 0x5aaa0];
        let far = guesses(&random, true, |_| true);
        assert!(far.iter().all(within), "{far:x?}");
        assert_eq!(far[0], Some(0x5aaa0 + 0x5aaa0 - 0x32100));
        assert_eq!(guesses(&random, true, |_| false), [Some(0x5aaa0); 3], "where nothing is");
        assert_eq!(guesses(&random, false, |_| true), [Some(0x5aaa0); 3], "not far");
        let down = guesses(&[0x10000, 0x8ffff, 0x10000], true, |_| true);
        assert_eq!(down[0], Some(0x10001), "one span further up");
    }

    #[test]
    fn trust_takes_fifteen_times_and_goes_at_once() {
        let mut history = History { past: vec![Past::default()], ..History::default() };
        for _ in 0..15 {
            assert!(!history.trusts(0));
            history.learn(0, false);
        }
        assert!(history.trusts(0));
        history.learn(0, true);
        assert!(!history.trusts(0));
    }
}
