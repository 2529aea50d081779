//! Code that runs for the first time, and memory that is touched for the first time.
//!
//! Programs spend much of their misses where code is new: at their start, and where they enter another phase. New memory brings
//! page faults, which empty the pipeline and the caches. Both are a small part of a program, so a few of its intervals would
//! dominate an estimate, and a sample that misses them would give too low an estimate with too small an error. They are
//! therefore a stratum of their own, of which a larger share is measured (Cochran, Sampling Techniques, 3rd edition 1977,
//! chapter 5, on optimum allocation): all of it, or its beginning and one segment drawn at random from each group of
//! consecutive ones. A program that goes on touching new memory spends much of its time so, which ordinary intervals find.

use super::novelty::{Find, Novelty};
use reach_core::{Chunk, Random};
use std::collections::VecDeque;

/// The references without a new block or page after which a program is known again.
const GAP: u64 = 1000;

/// The references before something new that are simulated in detail, so that the pipeline has filled.
const LEAD: u64 = 200;

/// The references of a block at most, by which what leads to something new is longer: it begins with a block.
const BLOCK: u64 = 50;

/// The references of new code before a measured segment that are simulated in detail.
const WARM: u64 = 1000;

/// The length of a segment, in references of new code.
pub(super) const SEGMENT: u64 = 2000;

/// The first segments, all of which are measured: programs differ most from themselves where they start.
pub(super) const IN_FULL: u64 = 100;

/// How new the code is that runs now or what it touches, and whether it is measured. *Code* stands for both below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// Nothing new came lately.
    Known,
    /// Something new comes in less than [`LEAD`] references, in a measured segment.
    Leads,
    /// New code of the measured segment of this number.
    New(u64),
    /// New code of another segment. `leads`: a measured segment follows.
    Unmeasured { leads: bool },
}

/// Finds code that is new, and draws the segments of it that are measured.
#[derive(Clone, Debug)]
pub(super) struct FirstRun {
    novelty: Novelty,
    /// What is new after the last fetch.
    finds: VecDeque<Find>,
    /// The last reference with something new, if that was less than a gap ago.
    last: Option<u64>,
    /// The last reference that fetched a new block.
    last_block: u64,
    /// So many references more count because of new memory alone.
    memory_left: u64,
    /// What [`FirstRun::memory_left`] is where measuring starts.
    most_memory: u64,
    /// One segment of so many is measured; at least 1.
    one_of: u64,
    /// Determines which.
    seed: u64,
    /// References of new code so far, up to `new_since`. Not those before [`FirstRun::start`].
    done: u64,
    /// The last fetch, if that was of new code.
    new_since: Option<u64>,
    /// The reference from which on this stretch is simulated in detail; `None` while it is not.
    detailed_since: Option<u64>,
    /// What is new came without anything to lead to it, which now comes first.
    enters_cold: bool,
}

impl FirstRun {
    /// Measures one segment of `one_of`, which is at least 1. `seed` determines which. New memory alone counts for no more than
    /// `most_memory` references.
    pub fn new(one_of: u64, most_memory: u64, seed: u64) -> FirstRun {
        FirstRun {
            novelty: Novelty::new(),
            finds: VecDeque::new(),
            last: None,
            last_block: 0,
            memory_left: u64::MAX,
            most_memory,
            one_of,
            seed,
            done: 0,
            new_since: None,
            detailed_since: Some(0),
            enters_cold: false,
        }
    }

    /// Numbers segments from here on. Call before the [`FirstRun::fetch`] that measuring starts with.
    pub fn start(&mut self) {
        (self.done, self.new_since, self.memory_left) = (0, None, self.most_memory);
    }

    /// Looks at the next chunk, whose first reference is number `start` of the program. Returns whether any of it is new; if not,
    /// [`FirstRun::fetch`] has nothing to say about it but [`Code::Known`].
    pub fn look(&mut self, chunk: &Chunk, start: u64) -> bool {
        self.novelty.find(chunk, start, self.memory_left > 0, &mut self.finds);
        self.last.is_some() || !self.finds.is_empty()
    }

    /// Returns whether the segment is measured that holds reference number `at` of all new code.
    fn is_drawn(&self, at: u64) -> bool {
        let Some(segment) = (at / SEGMENT).checked_sub(IN_FULL) else { return true };
        let (group, member) = (segment / self.one_of, segment % self.one_of);
        // The numbers of a SplitMix64 generator, each by its place.
        let step = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random::new((self.seed ^ 0x4e45_5743).wrapping_add(step)).below(self.one_of) == member
    }

    /// Goes on to reference `at` of the program, a fetch. Returns how new the code is, up to the next fetch.
    pub fn fetch(&mut self, at: u64) -> Code {
        self.count(at);
        let was_new = self.last.is_some_and(|last| at - last <= GAP);
        while let Some(find) = self.finds.pop_front_if(|find| find.at <= at) {
            self.last = Some(at);
            if find.is_block {
                self.last_block = at;
            }
        }
        self.last = self.last.filter(|last| at - last <= GAP);
        let is_drawn = self.is_drawn(self.done);
        // The program itself starts with an empty pipeline.
        let has_led = self.detailed_since.is_some_and(|since| at - since >= LEAD || since == 0);
        self.enters_cold = self.last.is_some() && is_drawn && !has_led && (self.enters_cold || !was_new);
        let code = match self.last {
            // Another chunk ended soon before what is new.
            Some(_) if self.enters_cold => Code::Leads,
            Some(_) if is_drawn && has_led => Code::New(self.done / SEGMENT),
            // A block with very many references can jump over what leads to a segment.
            Some(_) => Code::Unmeasured { leads: is_drawn || self.is_drawn(self.done + WARM) },
            None if is_drawn && self.finds.front().is_some_and(|find| find.at - at <= LEAD + BLOCK) => Code::Leads,
            None => Code::Known,
        };
        self.new_since = matches!(code, Code::New(_) | Code::Unmeasured { .. }).then_some(at);
        self.detailed_since = match code {
            Code::Known | Code::Unmeasured { leads: false } => None,
            _ => self.detailed_since.or(Some(at)),
        };
        code
    }

    /// Counts what was new before reference `at`.
    fn count(&mut self, at: u64) {
        let Some(since) = self.new_since.take() else { return };
        self.done += at - since;
        if at - self.last_block > GAP && self.memory_left > 0 {
            self.memory_left = self.memory_left.saturating_sub(at - since);
            if self.memory_left == 0 {
                self.finds.retain(|find| find.is_block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{BlockId, Ref, VirtAddr};

    /// A program at which nothing was new so far.
    fn known(one_of: u64, most_memory: u64, seed: u64) -> FirstRun {
        let mut first_run = FirstRun::new(one_of, most_memory, seed);
        first_run.start();
        first_run.detailed_since = None;
        first_run
    }

    /// Returns how new a program is with a fetch every ten references up to `end`, and something new at the fetches `finds`.
    fn codes(first_run: &mut FirstRun, finds: impl IntoIterator<Item = Find>, end: u64) -> Vec<Code> {
        first_run.finds.extend(finds);
        (0..end / 10).map(|fetch| first_run.fetch(10 * fetch)).collect()
    }

    fn block(at: u64) -> Find {
        Find { at, is_block: true }
    }

    fn is_new(code: &Code) -> bool {
        matches!(code, Code::New(_))
    }

    #[test]
    fn code_is_new_from_the_first_find_to_the_gap_and_a_lead_comes_before() {
        let codes = codes(&mut known(1, 0, 0), [3000, 3500, 6000].map(block), 10_000);
        for (at, code) in (0..).step_by(10).zip(codes) {
            let expected = match at {
                3000..=4500 | 6000..=7000 => Code::New(if at < 5000 { 0 } else { (1510 + at - 6000) / SEGMENT }),
                2750..3000 | 5750..6000 => Code::Leads,
                _ => Code::Known,
            };
            assert_eq!(code, expected, "{at}");
        }
    }

    #[test]
    fn the_start_of_a_program_needs_no_lead_and_a_chunk_that_begins_with_something_new_gets_it_late() {
        assert_eq!(codes(&mut FirstRun::new(1, 0, 0), [block(0)], 10), [Code::New(0)]);
        let mut first_run = known(1, 0, 0);
        first_run.finds.push_back(block(5000));
        let codes: Vec<_> = (0..2 * GAP / 10).map(|fetch| first_run.fetch(5000 + 10 * fetch)).collect();
        let (lead, gap) = (LEAD as usize / 10, GAP as usize / 10);
        assert!(codes[..lead].iter().all(|code| *code == Code::Leads));
        assert!(codes[lead..=gap].iter().all(is_new) && !codes[gap + 1..].iter().any(is_new));
    }

    /// Known code that touches a new page every 100 references is new for as long as was said, then known.
    #[test]
    fn new_memory_counts_like_new_code_until_there_is_too_much_of_it() {
        let pages = (20..120).map(|n| Find { at: 100 * n, is_block: false });
        let codes = codes(&mut known(1, 5000, 0), pages, 20_000);
        let new = codes.iter().filter(|code| is_new(code)).count();
        assert!((500..=600).contains(&new) && codes.last() == Some(&Code::Known), "{new}");
        assert!(codes[..180].iter().chain(&codes[900..]).all(|code| !is_new(code)));
    }

    #[test]
    fn chunks_without_anything_new_concern_nobody() {
        let mut first_run = FirstRun::new(1, 0, 0);
        first_run.start();
        let refs = vec![Ref::fetch(VirtAddr(64), 4)];
        let chunk = Chunk { refs, fetched: vec![BlockId(1)], ..Chunk::default() };
        assert!(first_run.look(&chunk, 0));
        first_run.fetch(0);
        assert!(first_run.look(&chunk, 1), "code is still new");
        assert_eq!(first_run.fetch(GAP + 1), Code::Known);
        assert!(!first_run.look(&chunk, GAP + 2));
    }

    /// One stretch of new code, a block every ten references, from a segment before those that are not all measured.
    fn stretch(one_of: u64, seed: u64) -> Vec<Code> {
        let mut first_run = FirstRun::new(one_of, 0, seed);
        first_run.done = (IN_FULL - 1) * SEGMENT;
        codes(&mut first_run, (0..16_000).map(|fetch| block(10 * fetch)), 160_000)
    }

    #[test]
    fn one_segment_of_each_group_is_measured() {
        let codes = stretch(4, 7);
        let of_segment = (SEGMENT / 10) as usize;
        let mut segments = codes.chunks_exact(of_segment);
        assert!(segments.next().unwrap().iter().all(|code| *code == Code::New(IN_FULL - 1)), "all of the beginning");
        let segments: Vec<_> = segments.enumerate().collect();
        for group in segments.chunks_exact(4) {
            let measured =
                |(at, segment): &&(usize, &[Code])| segment.iter().all(|code| *code == Code::New(IN_FULL + *at as u64));
            assert_eq!(group.iter().filter(measured).count(), 1);
            assert_eq!(group.iter().flat_map(|(_, s)| s.iter()).filter(|code| is_new(code)).count(), of_segment);
        }
        assert!(stretch(1, 7).iter().all(is_new));
    }

    #[test]
    fn every_segment_is_measured_equally_often_and_after_a_lead() {
        let mut measured = [0; 16];
        for seed in 0..2000 {
            let codes = stretch(4, seed);
            for (segment, times) in measured.iter_mut().enumerate() {
                let middle = (1 + segment as u64) * SEGMENT + SEGMENT / 2;
                *times += i32::from(is_new(&codes[(middle / 10) as usize]));
            }
            let leads = |code: &Code| matches!(code, Code::Leads | Code::Unmeasured { leads: true });
            for at in (1..codes.len()).filter(|&at| is_new(&codes[at]) && !is_new(&codes[at - 1])) {
                assert!(codes[at - (LEAD / 10) as usize..at].iter().all(leads), "seed {seed}, block {at}");
            }
        }
        assert!(measured.iter().all(|times| (420..580).contains(times)), "{measured:?}");
    }

    #[test]
    fn a_segment_that_a_long_block_jumps_into_is_not_measured_cold() {
        for seed in 0..50 {
            let mut first_run = known(4, 0, seed);
            first_run.done = IN_FULL * SEGMENT;
            let mut detailed_since = None;
            for at in (1..400).map(|fetch| fetch * (SEGMENT - 100)) {
                first_run.finds.push_back(block(at));
                match first_run.fetch(at) {
                    Code::New(_) => assert!(at - detailed_since.expect("a lead") >= LEAD),
                    Code::Leads | Code::Unmeasured { leads: true } => {
                        detailed_since = detailed_since.or(Some(at));
                    }
                    _ => detailed_since = None,
                }
            }
        }
    }
}
