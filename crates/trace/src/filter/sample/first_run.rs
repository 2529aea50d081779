//! Code that runs for the first time.
//!
//! Programs spend much of their misses where code is new: at their start, and where they enter another phase. Such code is a
//! small part of a program and runs once, so a few of its intervals would dominate an estimate, and a sample that misses
//! them would give too low an estimate with too small an error. It is therefore a stratum of its own, of which a larger share
//! is measured (Cochran, Sampling Techniques, 3rd edition 1977, chapter 5, on optimum allocation): all of it, or its beginning
//! and one segment drawn at random from each group of consecutive ones.

use reach_core::{BlockId, Chunk, Random};

/// The references without a new block after which code is known again.
const GAP: u64 = 1000;

/// The references of new code that are simulated in detail before it counts, so that the pipeline has filled. Code that is
/// new for a shorter time does not count.
const LEAD: u64 = 200;

/// The references of new code before a measured segment that are simulated in detail.
const WARM: u64 = 1000;

/// The length of a segment, in references of new code.
pub(super) const SEGMENT: u64 = 2000;

/// The first segments, all of which are measured: programs differ most from themselves where they start.
pub(super) const IN_FULL: u64 = 100;

/// How new the code is that runs now, and whether it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// No new block was fetched lately.
    Known,
    /// New blocks are fetched, since less than [`LEAD`] references. `leads`: a measured segment follows.
    Entered { leads: bool },
    /// New code of the measured segment of this number.
    New(u64),
    /// New code of another segment. `leads`: a measured segment follows.
    Unmeasured { leads: bool },
}

/// Finds code that runs for the first time, and draws the segments of it that are measured.
#[derive(Clone, Debug)]
pub(super) struct FirstRun {
    /// A bit for each block: whether it was fetched.
    fetched: Vec<u64>,
    /// The references of the first and the last fetch of a new block, without a gap between them.
    stretch: Option<(u64, u64)>,
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
}

impl FirstRun {
    /// Measures one segment of `one_of`, which is at least 1. `seed` determines which.
    pub fn new(one_of: u64, seed: u64) -> FirstRun {
        let (fetched, stretch, new_since, detailed_since) = (Vec::new(), None, None, None);
        FirstRun { fetched, stretch, one_of, seed, done: 0, new_since, detailed_since }
    }

    /// Numbers segments from here on. Call before the [`FirstRun::fetch`] that measuring starts with.
    pub fn start(&mut self) {
        (self.done, self.new_since) = (0, None);
    }

    /// Returns whether [`FirstRun::fetch`] has anything to say about `chunk` but [`Code::Known`].
    pub fn concerns(&self, chunk: &Chunk) -> bool {
        self.stretch.is_some() || chunk.fetched.iter().any(|&block| !self.is_known(block))
    }

    #[inline(always)]
    fn is_known(&self, block: BlockId) -> bool {
        let block = block.0 as usize;
        self.fetched.get(block / 64).is_some_and(|bits| bits >> (block % 64) & 1 == 1)
    }

    /// Returns whether the segment is measured that holds reference number `at` of all new code.
    fn is_drawn(&self, at: u64) -> bool {
        let Some(segment) = (at / SEGMENT).checked_sub(IN_FULL) else { return true };
        let (group, member) = (segment / self.one_of, segment % self.one_of);
        // The numbers of a SplitMix64 generator, each by its place.
        let step = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random::new((self.seed ^ 0x4e45_5743).wrapping_add(step)).below(self.one_of) == member
    }

    /// Notes that reference `at` of the program fetches `block`. Returns how new the code is, up to the next fetch.
    pub fn fetch(&mut self, at: u64, block: BlockId) -> Code {
        self.done += self.new_since.take().map_or(0, |since| at - since);
        self.stretch = self.stretch.filter(|(_, last)| at - last <= GAP);
        if !self.is_known(block) {
            let block = block.0 as usize;
            self.fetched.resize(self.fetched.len().max(block / 64 + 1), 0);
            self.fetched[block / 64] |= 1 << (block % 64);
            let (first, _) = self.stretch.unwrap_or((at, at));
            self.stretch = Some((first, at));
        }
        let code = match self.stretch {
            None => Code::Known,
            Some((first, _)) if at - first < LEAD => {
                Code::Entered { leads: self.is_drawn(self.done) || self.is_drawn(self.done + LEAD) }
            }
            Some(_) => {
                self.new_since = Some(at);
                match self.is_drawn(self.done) {
                    // A block with very many references can jump over what leads to a segment.
                    true if self.detailed_since.is_some_and(|since| at - since >= LEAD) => {
                        Code::New(self.done / SEGMENT)
                    }
                    drawn => Code::Unmeasured { leads: drawn || self.is_drawn(self.done + WARM) },
                }
            }
        };
        self.detailed_since = match code {
            Code::Known | Code::Entered { leads: false } | Code::Unmeasured { leads: false } => None,
            _ => self.detailed_since.or(Some(at)),
        };
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADS: Code = Code::Entered { leads: true };

    #[test]
    fn code_is_new_from_the_lead_to_the_gap() {
        let mut first_run = FirstRun::new(1, 0);
        let mut fetch = |at, block| first_run.fetch(at, BlockId(block));
        assert_eq!(fetch(0, 70), LEADS);
        assert_eq!(fetch(LEAD - 1, 70), LEADS);
        assert_eq!(fetch(LEAD, 70), Code::New(0));
        assert_eq!(fetch(GAP, 70), Code::New(0));
        assert_eq!(fetch(GAP + 1, 70), Code::Known, "a known block");
        assert_eq!(fetch(GAP + 2, 3), LEADS, "another block");
        assert_eq!(fetch(2 * GAP + 2, 4), Code::New(0), "no gap since the last new block");
        assert_eq!(fetch(4 * GAP, 5), LEADS, "a gap");
    }

    #[test]
    fn chunks_of_known_blocks_concern_nobody() {
        let mut first_run = FirstRun::new(1, 0);
        let chunk = Chunk { fetched: vec![BlockId(1)], ..Chunk::default() };
        assert!(first_run.concerns(&chunk));
        first_run.fetch(0, BlockId(1));
        assert!(first_run.concerns(&chunk), "code is still new");
        assert_eq!(first_run.fetch(GAP + 1, BlockId(1)), Code::Known);
        assert!(!first_run.concerns(&chunk));
    }

    /// One stretch of new code, a block every ten references, from a segment before those that are not all measured.
    fn stretch(one_of: u64, seed: u64) -> Vec<Code> {
        let mut first_run = FirstRun::new(one_of, seed);
        first_run.done = (IN_FULL - 1) * SEGMENT;
        (0..16_000).map(|block| first_run.fetch(u64::from(block) * 10, BlockId(block))).collect()
    }

    fn is_new(code: &Code) -> bool {
        matches!(code, Code::New(_))
    }

    #[test]
    fn one_segment_of_each_group_is_measured() {
        let codes = stretch(4, 7);
        let of_segment = (SEGMENT / 10) as usize;
        let mut segments = codes[(LEAD / 10) as usize..].chunks_exact(of_segment);
        assert!(segments.next().unwrap().iter().all(|code| *code == Code::New(IN_FULL - 1)), "all of the beginning");
        let segments: Vec<_> = segments.enumerate().collect();
        for group in segments.chunks_exact(4) {
            let measured =
                |(at, segment): &&(usize, &[Code])| segment.iter().all(|code| *code == Code::New(IN_FULL + *at as u64));
            assert_eq!(group.iter().filter(measured).count(), 1);
            assert_eq!(group.iter().flat_map(|(_, s)| s.iter()).filter(|code| is_new(code)).count(), of_segment);
        }
        assert!(stretch(1, 7)[(LEAD / 10) as usize..].iter().all(is_new));
    }

    #[test]
    fn every_segment_is_measured_equally_often_and_after_a_lead() {
        let mut measured = [0; 16];
        for seed in 0..2000 {
            let codes = stretch(4, seed);
            for (segment, times) in measured.iter_mut().enumerate() {
                let middle = LEAD + (1 + segment as u64) * SEGMENT + SEGMENT / 2;
                *times += i32::from(is_new(&codes[(middle / 10) as usize]));
            }
            let leads = |code: &Code| matches!(code, Code::Entered { leads: true } | Code::Unmeasured { leads: true });
            for at in (1..codes.len()).filter(|&at| is_new(&codes[at]) && !is_new(&codes[at - 1])) {
                assert!(codes[at - (LEAD / 10) as usize..at].iter().all(leads), "seed {seed}, block {at}");
            }
        }
        assert!(measured.iter().all(|times| (420..580).contains(times)), "{measured:?}");
    }

    #[test]
    fn a_segment_that_a_long_block_jumps_into_is_not_measured_cold() {
        for seed in 0..50 {
            let mut first_run = FirstRun::new(4, seed);
            first_run.done = IN_FULL * SEGMENT;
            let mut detailed_since = None;
            for (block, at) in (0..400).map(|block| (block, u64::from(block) * (SEGMENT - 100))) {
                match first_run.fetch(at, BlockId(block)) {
                    Code::New(_) => assert!(at - detailed_since.expect("a lead") >= LEAD),
                    Code::Entered { leads: true } | Code::Unmeasured { leads: true } => {
                        detailed_since = detailed_since.or(Some(at));
                    }
                    _ => detailed_since = None,
                }
            }
        }
    }
}
