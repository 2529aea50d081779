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
    let until_event = event.map_or(next.refs.len(), |(at, _)| *at as usize);
    let refs = &next.refs[..until_event.min(most - following.refs.len())];
    let fetches = refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
    following.refs.extend_from_slice(refs);
    following.fetched.extend_from_slice(&next.fetched[..fetches]);
    following.refs.len() < most && event.is_none() && !next.is_outline()
}
