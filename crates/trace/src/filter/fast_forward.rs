//! Fast-forward: keeps of a program's beginning only what the operating system would notice.
//!
//! Measurements often concern a program that is under way, and depend on the state that its beginning left: mappings,
//! touched pages, cached files. That state needs all events, and of the references only the first to each page and the
//! first store to it. Results count from the end of the beginning ([`Mark::Measure`]).

mod touched;

use super::beginning::{Beginning, FastForward};
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{Asid, BlockId, BlockTable, Chunk, Event, Kind, Mark, Ref, Remap};
use std::time::Duration;
use touched::{PAGE_SHIFT, TouchedPages};

/// A program whose beginning is fast-forwarded.
///
/// This source keeps all events of the beginning. It keeps a reference of the beginning if it is the first to its page, or
/// the first store to it, since an event changed the page; the fetch of the reference's block stays with it.
pub struct FastForwarded<S> {
    source: S,
    beginning: Beginning,
    /// References still to fast-forward; `u64::MAX` until the phase comes that ends the beginning.
    remaining: u64,
    /// References fast-forwarded so far.
    fast_forwarded: u64,
    /// Whether [`Mark::FastForward`] was given, if there is a beginning.
    announced: bool,
    /// Whether [`Mark::Measure`] was given, if there is a beginning.
    measuring: bool,
    /// Whether the source is a sample, fast-forwarded between its intervals.
    between_intervals: bool,
    /// Whether the present references lie between intervals.
    between: bool,
    /// Scratch buffer for the source's chunk, reused between calls.
    input: Chunk,
    touched: TouchedPages,
    asid: Asid,
    /// The last page of each kind of reference. Most references are to the same page again, and add nothing.
    last_page: [Option<u64>; 3],
    /// The last fetch, unless it was kept.
    pending_fetch: Option<(BlockId, Ref)>,
}

impl<S: Source> FastForwarded<S> {
    /// Fast-forwards the beginning of `source`, which must be at its start.
    pub fn new(source: S, fast_forward: FastForward) -> FastForwarded<S> {
        let (no_beginning, beginning) = (fast_forward.is_nothing(), Beginning::new(fast_forward));
        FastForwarded {
            source,
            remaining: beginning.references().unwrap_or(u64::MAX),
            beginning,
            fast_forwarded: 0,
            announced: no_beginning,
            measuring: no_beginning,
            between_intervals: false,
            between: false,
            input: Chunk::default(),
            touched: TouchedPages::default(),
            asid: Asid(0),
            last_page: [None; 3],
            pending_fetch: None,
        }
    }

    /// Fast-forwards a sample ([`crate::Sampled`]) before its first interval and between intervals.
    pub fn between_intervals(sampled: S) -> FastForwarded<S> {
        FastForwarded { between_intervals: true, ..FastForwarded::new(sampled, FastForward::default()) }
    }

    /// Appends to `chunk` what stays of the input: a part of the beginning, and everything after it.
    fn filter(&mut self, chunk: &mut Chunk) {
        let input = std::mem::take(&mut self.input);
        if !std::mem::replace(&mut self.announced, true) {
            chunk.push_event(Event::Mark(Mark::FastForward));
        }
        let (mut events, mut fetched) = (input.events.iter().peekable(), input.fetched.iter());
        for (at, &r) in input.refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                self.keep_event(event, chunk);
            }
            let block = (r.kind() == Kind::Fetch).then(|| *fetched.next().expect("a fetch has its block"));
            let fast_forwards = self.remaining > 0 || self.between;
            if !fast_forwards && !std::mem::replace(&mut self.measuring, true) {
                chunk.push_event(Event::Mark(Mark::Measure));
            }
            self.remaining -= u64::from(self.remaining > 0);
            self.fast_forwarded += u64::from(fast_forwards);
            match block {
                Some(block) => {
                    self.pending_fetch = Some((block, r));
                    if !fast_forwards || self.is_first(r) {
                        self.keep_fetch(chunk);
                    }
                }
                None if !fast_forwards || self.is_first(r) => {
                    self.keep_fetch(chunk);
                    chunk.refs.push(r);
                }
                None => {}
            }
        }
        events.for_each(|(_, event)| self.keep_event(event, chunk));
        self.input = input;
    }

    /// Keeps `event`. Adds [`Mark::FastForward`] if the references that follow it lie between intervals and earlier marks do
    /// not say so.
    fn keep_event(&mut self, event: &Event, chunk: &mut Chunk) {
        // What the kernel executes is fast-forwarded, too.
        if matches!(event, Event::SystemCall(_)) && (self.remaining > 0 || self.between) {
            return;
        }
        let was_between = self.between;
        self.apply(event);
        chunk.push_event(event.clone());
        if self.between && (!was_between || *event == Event::Mark(Mark::Measure)) {
            chunk.push_event(Event::Mark(Mark::FastForward));
        }
    }

    /// Handles the end of the source. Fails where the beginning has not ended.
    fn end(&self) -> Result<bool, TraceError> {
        match self.remaining {
            0 => Ok(false),
            _ => Err(self.beginning.never_ended(self.source.name(), self.fast_forwarded)),
        }
    }

    /// Keeps the last fetch: the next reference belongs to its block.
    fn keep_fetch(&mut self, chunk: &mut Chunk) {
        if let Some((block, fetch)) = self.pending_fetch.take() {
            chunk.refs.push(fetch);
            chunk.fetched.push(block);
        }
    }

    /// Adds `r` to the touched pages. Returns whether it is the first reference, or the first store, to one of them.
    #[inline]
    fn is_first(&mut self, r: Ref) -> bool {
        let (first, last) = (r.addr().0 >> PAGE_SHIFT, r.last().0 >> PAGE_SHIFT);
        let before = self.last_page[r.kind() as usize].replace(last);
        let store = r.kind() == Kind::Store;
        if first == last {
            before != Some(last) && self.touched.touch(self.asid, last, store)
        } else {
            self.touched.touch(self.asid, first, store) | self.touched.touch(self.asid, last, store)
        }
    }

    /// Applies `event`: the pages that it may change count as untouched.
    fn apply(&mut self, event: &Event) {
        self.last_page = [None; 3];
        match event {
            Event::Switch { asid, .. } => {
                self.asid = *asid;
                self.pending_fetch = None;
            }
            Event::Map(map) => self.touched.remove(self.asid, map.span),
            Event::Unmap(span) | Event::Protect(span, _) | Event::Advise(span, _) => {
                self.touched.remove(self.asid, *span);
            }
            Event::Remap(Remap { from, to, .. }) => {
                self.touched.remove(self.asid, *from);
                self.touched.remove(self.asid, *to);
            }
            // After a fork, both processes touch the shared memory anew.
            Event::Fork { .. } | Event::Exec { .. } | Event::Exit => self.touched.clear(),
            Event::Phase(_) if self.beginning.ends_with(event) => self.remaining = 0,
            Event::Mark(Mark::WarmTlbs) if self.between_intervals => self.between = true,
            Event::Mark(Mark::Detailed) if self.between_intervals => self.between = false,
            Event::File { .. } | Event::Phase(_) | Event::Mark(_) | Event::SystemCall(_) => {}
        }
    }
}

impl<S: Source> Source for FastForwarded<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.measuring && !self.between_intervals {
            return self.source.fill(chunk);
        }
        chunk.clear();
        // An empty chunk would end the program, so input of which nothing stays is not given.
        while chunk.is_empty() {
            if !self.source.fill(&mut self.input)? {
                return self.end();
            }
            self.filter(chunk);
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

    fn ending(&mut self) -> Ending {
        self.source.ending()
    }
}

#[cfg(test)]
mod tests;
