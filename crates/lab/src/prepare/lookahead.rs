//! Holds batches back until the references that follow them are known.

use super::Batch;
use crate::conditions::Timing;
use reach_core::{Chunk, Event, Kind};
use reach_hardware::ooo::{FOLLOWING, Following};
use std::collections::VecDeque;

/// Gives each batch the references that follow it, so that wrong paths at its end know the same of the program as all
/// others, and results do not depend on where chunks are cut.
#[derive(Debug)]
pub struct Lookahead {
    /// How many references each batch gets.
    most: usize,
    /// Batches, each with whether it lacks references.
    batches: VecDeque<(Batch, bool)>,
    ended: bool,
}

impl Lookahead {
    /// Creates an empty queue. Only out-of-order timing looks ahead.
    pub fn new(timing: Timing) -> Lookahead {
        let most = if timing == Timing::Ooo { FOLLOWING } else { 0 };
        Lookahead { most, batches: VecDeque::new(), ended: false }
    }

    /// Adds the next batch of the program.
    pub fn push(&mut self, batch: Batch) {
        for (earlier, lacks) in self.batches.iter_mut().filter(|(_, lacks)| *lacks) {
            *lacks = append(&mut earlier.following, &batch.chunk, self.most);
            // The references may be of blocks that are new.
            if !batch.chunk.refs.is_empty() {
                earlier.code.clone_from(&batch.code);
            }
        }
        let lacks = self.most > 0 && !batch.chunk.is_outline();
        self.batches.push_back((batch, lacks));
    }

    /// Ends the program.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether [`Lookahead::pop`] has an answer: the next batch, or the end.
    pub fn is_ready(&self) -> bool {
        self.ended || self.batches.front().is_some_and(|(_, lacks)| !lacks)
    }

    /// Takes the next batch. `None` at the end.
    pub fn pop(&mut self) -> Option<Batch> {
        self.batches.pop_front().map(|(batch, _)| batch)
    }
}

/// Appends the first references of `next` up to an event, and up to `most` in all. Returns whether more may follow.
fn append(following: &mut Following, next: &Chunk, most: usize) -> bool {
    let event = next.events.iter().find(|(_, event)| !matches!(event, Event::Mark(_)));
    // An outline has events, and no references.
    let until_event = event.map_or(next.refs.len(), |(at, _)| next.refs.len().min(*at as usize));
    let refs = &next.refs[..until_event.min(most - following.refs.len())];
    let fetches = refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
    following.refs.extend_from_slice(refs);
    following.fetched.extend_from_slice(&next.fetched[..fetches]);
    following.refs.len() < most && event.is_none() && !next.is_outline()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preparer;
    use reach_core::{Asid, Block, BlockId, BlockTable, Random, Ref, ThreadId, VirtAddr};

    /// Cuts 5,000 references into pieces of up to `longest`, and looks ahead. An event precedes reference number 3,000, a mark
    /// number 1,500.
    fn batches(longest: u64, seed: u64) -> (Vec<Ref>, Vec<Batch>) {
        let mut blocks = BlockTable::default();
        let id = blocks.push(Block { pc: VirtAddr(0x1000), len: 4, instructions: 2, bytes: Box::default() });
        let (mut preparer, mut lookahead) = (Preparer::new(Timing::Ooo), Lookahead::new(Timing::Ooo));
        let (mut random, mut whole, mut batches) = (Random::new(seed), Vec::new(), Vec::new());
        while whole.len() < 5000 {
            let mut chunk = Chunk::default();
            for _ in 0..1 + random.below(longest) {
                match whole.len() {
                    1500 => chunk.push_event(Event::Mark(reach_core::Mark::Detailed)),
                    3000 => chunk.push_event(Event::Switch { asid: Asid(1), thread: ThreadId(1) }),
                    _ => {}
                }
                match whole.len() % 3 {
                    0 => chunk.push_fetch(id, blocks.get(id)),
                    _ => chunk.refs.push(Ref::load(VirtAddr(whole.len() as u64 * 8))),
                }
                whole.push(chunk.refs[chunk.refs.len() - 1]);
            }
            lookahead.push(preparer.prepare(chunk, &blocks));
            while lookahead.is_ready() {
                batches.extend(lookahead.pop());
            }
        }
        lookahead.end();
        batches.extend(std::iter::from_fn(|| lookahead.pop()));
        (whole, batches)
    }

    #[test]
    fn a_batch_gets_the_next_references_up_to_an_event_wherever_chunks_are_cut() {
        for (longest, seed) in [(1, 1), (50, 2), (900, 3), (2500, 4)] {
            let (whole, batches) = batches(longest, seed);
            let mut end = 0;
            for batch in &batches {
                end += batch.chunk.refs.len();
                let event = if end <= 3000 { 3000 } else { whole.len() };
                let expected = &whole[end..event.min(end + FOLLOWING).min(whole.len())];
                assert_eq!(batch.following.refs, expected, "{longest}: up to {end}");
                let fetches = batch.following.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
                assert_eq!(batch.following.fetched, vec![BlockId(0); fetches]);
            }
            assert_eq!(end, whole.len(), "no batch is lost");
        }
    }
}
