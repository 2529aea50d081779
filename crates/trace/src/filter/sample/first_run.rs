//! Code that runs for the first time.
//!
//! Programs spend much of their misses where code is new: at their start, and where they enter another phase. Such code is a
//! small part of a program and runs once, so a few of its intervals would dominate an estimate, and a sample that misses
//! them would give too low an estimate with too small an error. It is therefore a stratum of its own, of which all is measured
//! (Cochran, Sampling Techniques, 3rd edition 1977, chapter 5, on optimum allocation).

use reach_core::{BlockId, Chunk};

/// The references without a new block after which code is known again.
const GAP: u64 = 1000;

/// The references of new code that are simulated in detail before it counts, so that the pipeline has filled. Code that is
/// new for a shorter time does not count.
const LEAD: u64 = 200;

/// How new the code is that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// No new block was fetched lately.
    Known,
    /// New blocks are fetched, since less than [`LEAD`] references.
    Entered,
    /// New blocks are fetched, since [`LEAD`] references or more.
    New,
}

/// Finds code that runs for the first time.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstRun {
    /// A bit for each block: whether it was fetched.
    fetched: Vec<u64>,
    /// The references of the first and the last fetch of a new block, without a gap between them.
    stretch: Option<(u64, u64)>,
}

impl FirstRun {
    /// Returns whether [`FirstRun::fetch`] has anything to say about `chunk` but [`Code::Known`].
    pub fn concerns(&self, chunk: &Chunk) -> bool {
        self.stretch.is_some() || chunk.fetched.iter().any(|&block| !self.is_known(block))
    }

    fn is_known(&self, block: BlockId) -> bool {
        let block = block.0 as usize;
        self.fetched.get(block / 64).is_some_and(|bits| bits >> (block % 64) & 1 == 1)
    }

    /// Notes that reference `at` of the program fetches `block`. Returns how new the code is.
    pub fn fetch(&mut self, at: u64, block: BlockId) -> Code {
        self.stretch = self.stretch.filter(|(_, last)| at - last <= GAP);
        if !self.is_known(block) {
            let block = block.0 as usize;
            self.fetched.resize(self.fetched.len().max(block / 64 + 1), 0);
            self.fetched[block / 64] |= 1 << (block % 64);
            let (first, _) = self.stretch.unwrap_or((at, at));
            self.stretch = Some((first, at));
        }
        match self.stretch {
            None => Code::Known,
            Some((first, _)) if at - first < LEAD => Code::Entered,
            Some(_) => Code::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_new_from_the_lead_to_the_gap() {
        let mut first_run = FirstRun::default();
        let mut fetch = |at, block| first_run.fetch(at, BlockId(block));
        assert_eq!(fetch(0, 70), Code::Entered);
        assert_eq!(fetch(LEAD - 1, 70), Code::Entered);
        assert_eq!(fetch(LEAD, 70), Code::New);
        assert_eq!(fetch(GAP, 70), Code::New);
        assert_eq!(fetch(GAP + 1, 70), Code::Known, "a known block");
        assert_eq!(fetch(GAP + 2, 3), Code::Entered, "another block");
        assert_eq!(fetch(2 * GAP + 2, 4), Code::New, "no gap since the last new block");
        assert_eq!(fetch(4 * GAP, 5), Code::Entered, "a gap");
    }

    #[test]
    fn chunks_of_known_blocks_concern_nobody() {
        let mut first_run = FirstRun::default();
        let chunk = Chunk { fetched: vec![BlockId(1)], ..Chunk::default() };
        assert!(first_run.concerns(&chunk));
        first_run.fetch(0, BlockId(1));
        assert!(first_run.concerns(&chunk), "code is still new");
        assert_eq!(first_run.fetch(GAP + 1, BlockId(1)), Code::Known);
        assert!(!first_run.concerns(&chunk));
    }
}
