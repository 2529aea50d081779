//! Pieces of free memory, for placements that look for much of it again and again. Listing all free blocks takes time in proportion to
//! their number; a survey does it once.

use reach_core::Pfn;
use reach_os::Buddy;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The pieces of free memory at one time, none of which touches another. Later allocations are found out; later frees are not.
pub(super) struct Survey {
    /// The length of each by its first frame.
    pieces: BTreeMap<u64, u64>,
    /// The pieces by length, then by descending address.
    lengths: BTreeSet<(u64, Reverse<u64>)>,
}

/// Returns the end of the free block that holds frame `at`; `None` when it is not free.
fn end_of_block(at: u64, buddy: &Buddy) -> Option<u64> {
    buddy.free_block(Pfn(at)).map(|(head, order)| head + (1 << order))
}

/// Returns the end of the free memory that begins at `at`, or `end` if that comes first.
fn end_of_run(at: u64, end: u64, buddy: &Buddy) -> u64 {
    let mut reached = at;
    while reached < end
        && let Some(next) = end_of_block(reached, buddy)
    {
        reached = next;
    }
    reached.min(end)
}

impl Survey {
    /// Surveys free memory.
    pub fn new(buddy: &Buddy) -> Survey {
        let mut survey = Survey { pieces: BTreeMap::new(), lengths: BTreeSet::new() };
        // Blocks come by address, and neighbours make one piece.
        let mut piece = (0, 0);
        for (at, order) in buddy.free_blocks() {
            if at != piece.1 {
                survey.insert(piece.0, piece.1);
                piece = (at, at);
            }
            piece.1 += 1 << order;
        }
        survey.insert(piece.0, piece.1);
        survey
    }

    fn insert(&mut self, start: u64, end: u64) {
        if end > start {
            self.pieces.insert(start, end - start);
            self.lengths.insert((end - start, Reverse(start)));
        }
    }

    /// Removes the piece at `start`. Returns its end.
    fn remove(&mut self, start: u64) -> u64 {
        let length = self.pieces.remove(&start).unwrap_or(0);
        self.lengths.remove(&(length, Reverse(start)));
        start + length
    }

    /// Returns the last free frame.
    pub fn last(&mut self, buddy: &Buddy) -> Option<u64> {
        loop {
            let (&start, length) = self.pieces.last_key_value()?;
            let frame = start + length - 1;
            if end_of_block(frame, buddy).is_some() {
                return Some(frame);
            }
            self.remove(start);
            self.insert(start, frame);
        }
    }

    /// Returns free memory for `pages` pages: the next from frame `next` on, and behind the last from the first on, that is large
    /// enough, or else the largest piece.
    pub fn find(&mut self, pages: u64, next: u64, buddy: &Buddy) -> Option<Range<u64>> {
        loop {
            let &(largest, Reverse(first)) = self.lengths.last()?;
            let next_fit = if largest < pages { None } else { self.next_fit(pages, next) };
            let (piece, at, length) = next_fit.unwrap_or((first, first, largest));
            let end = at + length.min(pages);
            if end_of_run(at, end, buddy) == end {
                return Some(at..end);
            }
            self.resurvey(piece, buddy);
        }
    }

    /// Returns the piece at or behind `next` with `pages` frames, where in it they begin, and how many there are.
    fn next_fit(&self, pages: u64, next: u64) -> Option<(u64, u64, u64)> {
        let around = self.pieces.range(..=next).next_back().filter(|&(start, length)| start + length > next);
        let from = around.map_or(next, |(&start, _)| start);
        // The first piece may have been begun by the last mapping.
        let rest = |(&start, &length): (&u64, &u64)| {
            let at = if start <= next && next < start + length { next } else { start };
            (start, at, start + length - at)
        };
        self.pieces.range(from..).chain(self.pieces.range(..from)).map(rest).find(|&(_, _, length)| length >= pages)
    }

    /// Surveys a piece again, of which something was allocated.
    fn resurvey(&mut self, start: u64, buddy: &Buddy) {
        let end = self.remove(start);
        let mut at = start;
        while at < end {
            let run = end_of_run(at, end, buddy);
            self.insert(at, run);
            // The frame that ends a run is allocated.
            at = run + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reach_os::ListOrder;

    /// Finds memory among all free blocks as they are now.
    fn plain(pages: u64, next: u64, buddy: &Buddy) -> Option<Range<u64>> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for (at, order) in buddy.free_blocks() {
            match pieces.last_mut() {
                Some((start, length)) if *start + *length == at => *length += 1 << order,
                _ => pieces.push((at, 1 << order)),
            }
        }
        let from = pieces.partition_point(|&(start, length)| start + length <= next);
        let rest = |&(start, length): &(u64, u64)| {
            let at = if start <= next && next < start + length { next } else { start };
            (at, start + length - at)
        };
        let fitting = pieces[from..].iter().chain(&pieces[..from]).map(rest).find(|&(_, length)| length >= pages);
        let found = fitting.or(pieces.iter().copied().max_by_key(|&(start, length)| (length, Reverse(start))));
        found.map(|(at, length)| at..at + length.min(pages))
    }

    proptest! {
        #[test]
        fn a_survey_finds_what_all_blocks_say_as_long_as_nothing_is_freed(
            held in prop::collection::vec(0..256u64, 0..40),
            steps in prop::collection::vec((0..3u8, 0..256u64, 1..80u64), 1..60),
        ) {
            let mut buddy = Buddy::new(256, 6, ListOrder::Lifo);
            held.iter().for_each(|&frame| _ = buddy.allocate_at(Pfn(frame), 0));
            let mut survey = Survey::new(&buddy);
            for (step, frame, pages) in steps {
                match step {
                    0 => _ = buddy.allocate_at(Pfn(frame), 0),
                    1 => {
                        let last = (0..256).rev().find(|&frame| buddy.free_block(Pfn(frame)).is_some());
                        prop_assert_eq!(survey.last(&buddy), last);
                    }
                    _ => prop_assert_eq!(survey.find(pages, frame, &buddy), plain(pages, frame, &buddy)),
                }
            }
        }
    }
}
