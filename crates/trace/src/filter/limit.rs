//! Ends a program after a number of references.

use crate::{Ending, Progress, Source, Stop, TraceError};
use reach_core::{BlockTable, Chunk, Event, Kind, Mark};
use std::time::Duration;

/// The first references of a program.
///
/// References between [`Mark::FastForward`] and [`Mark::Measure`] or [`Mark::Detailed`] are given and not counted,
/// whether a filter put the marks there or a recording has them.
pub struct Limited<S> {
    source: S,
    limit: u64,
    counted: u64,
    /// Whether the present references are fast-forwarded.
    fast_forwards: bool,
}

impl<S: Source> Limited<S> {
    /// Limits `source`, which must be at its start, to `limit` counted references. `None` means no limit.
    pub fn new(source: S, limit: Option<u64>) -> Limited<S> {
        Limited { source, limit: limit.unwrap_or(u64::MAX), counted: 0, fast_forwards: false }
    }

    /// Returns how many references were counted so far.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Counts the references of `chunk`. Returns the place of the first one beyond the limit, if there is one.
    fn count(&mut self, chunk: &Chunk) -> Option<usize> {
        let mut from = 0;
        for (at, event) in &chunk.events {
            let end = self.count_range(from, *at as usize);
            if end.is_some() {
                return end;
            }
            from = *at as usize;
            self.apply(event);
        }
        self.count_range(from, chunk.refs.len())
    }

    /// Counts the references `from..to` of a chunk. Returns the place of the first one beyond the limit.
    fn count_range(&mut self, from: usize, to: usize) -> Option<usize> {
        let wanted = if self.fast_forwards { 0 } else { (to - from) as u64 };
        let left = self.limit - self.counted;
        self.counted += wanted.min(left);
        (wanted > left).then(|| from + left as usize)
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Mark(Mark::FastForward) => self.fast_forwards = true,
            Event::Mark(Mark::Measure | Mark::Detailed) => self.fast_forwards = false,
            _ => {}
        }
    }

    /// Counts the references of an outline. An outline cannot be cut; callers with a limit do not ask for one.
    fn count_outline(&mut self, chunk: &Chunk) {
        for step in &chunk.outline {
            chunk.events[step.events.clone()].iter().for_each(|(_, event)| self.apply(event));
            self.counted += if self.fast_forwards { 0 } else { step.counts.references() };
        }
    }
}

/// Drops all references of `chunk` from number `end` on, and the events after them.
fn truncate(chunk: &mut Chunk, end: usize) {
    chunk.refs.truncate(end);
    chunk.folded = chunk.folded.min(end);
    chunk.page_refs.retain(|page_ref| page_ref.index() < end);
    chunk.events.retain(|(at, _)| *at as usize <= end);
    let fetches = chunk.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
    chunk.fetched.truncate(fetches);
}

impl<S: Source> Source for Limited<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.counted == self.limit || !self.source.fill(chunk)? {
            return Ok(false);
        }
        if chunk.is_outline() {
            self.count_outline(chunk);
        } else if let Some(end) = self.count(chunk) {
            truncate(chunk, end);
        }
        Ok(true)
    }

    fn blocks(&self) -> &BlockTable {
        self.source.blocks()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn waited(&self) -> Duration {
        self.source.waited()
    }

    /// Returns the ending of the source. If the limit ended the program, a missing rest is none of ours.
    fn ending(&mut self) -> Ending {
        let ending = self.source.ending();
        if self.counted == self.limit { ending.stopped_by(Stop::Limit(self.limit)) } else { ending }
    }
}

#[cfg(test)]
mod tests;
