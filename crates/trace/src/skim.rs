//! Fast-forward: of a program's beginning, only what an operating system would notice.
//!
//! What is measured is often how a program runs once it is under way, and that depends on the state that its beginning
//! left: what is mapped, what has been touched, what of its files is in memory. That state needs all events, and of the
//! references the first to each page and the first store to it. Results count from the end of what is skimmed.

use crate::{Progress, Source, TraceError};
use reach_core::{Asid, BlockId, BlockTable, Chunk, Event, Kind, Ref, Remap, Span};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Bytes in a page here: no simulated machine has smaller ones.
const PAGE: u32 = 12;

/// A program of whose first references only those stay that touch a page for the first time, or store to it for the
/// first time, since something last happened to it; with each the fetch of its block.
pub struct Skimmed<S> {
    source: S,
    /// How many references are skimmed in all.
    asked: u64,
    /// How many are still to be.
    left: u64,
    /// Whether it has been said that what comes counts.
    marked: bool,
    whole: Chunk,
    /// Pages that were touched, and whether for a store.
    touched: HashMap<(Asid, u64), bool>,
    asid: Asid,
    /// The page that each kind of reference was the last to touch: most touch it again, and nothing is new there.
    last: [Option<u64>; 3],
    /// The last fetch, unless it has been kept.
    fetch: Option<(BlockId, Ref)>,
}

impl<S: Source> Skimmed<S> {
    /// Skims the first `references` of `source`, of which nothing has been read.
    pub fn new(source: S, references: u64) -> Skimmed<S> {
        Skimmed {
            source,
            asked: references,
            left: references,
            marked: references == 0,
            whole: Chunk::default(),
            touched: HashMap::new(),
            asid: Asid(0),
            last: [None; 3],
            fetch: None,
        }
    }

    /// Puts into `chunk` what stays of the whole one, and all that lies behind what is skimmed.
    fn keep(&mut self, chunk: &mut Chunk) {
        let whole = std::mem::take(&mut self.whole);
        let (mut events, mut fetched) = (whole.events.iter().peekable(), whole.fetched.iter());
        for (at, &r) in whole.refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                self.forget(event);
                chunk.push_event(event.clone());
            }
            let block = (r.kind() == Kind::Fetch).then(|| *fetched.next().expect("a fetch has its block"));
            let skims = self.left > 0;
            if !skims && !std::mem::replace(&mut self.marked, true) {
                chunk.push_event(Event::Phase(Event::MEASURED.into()));
            }
            self.left -= u64::from(skims);
            match block {
                Some(block) => {
                    self.fetch = Some((block, r));
                    if !skims || self.is_new(r) {
                        self.keep_fetch(chunk);
                    }
                }
                None if !skims || self.is_new(r) => {
                    self.keep_fetch(chunk);
                    chunk.refs.push(r);
                }
                None => {}
            }
        }
        events.for_each(|(_, event)| {
            self.forget(event);
            chunk.push_event(event.clone());
        });
        self.whole = whole;
    }

    /// The program is over, which it should not be before anything was measured.
    fn end(&self) -> Result<bool, TraceError> {
        let skimmed = self.asked - self.left;
        match self.left {
            0 => Ok(false),
            _ => Err(TraceError::Unknown(format!(
                "{}: it ends after {skimmed} references, all of which were to be passed over; skim fewer",
                self.source.name()
            ))),
        }
    }

    /// Keeps the last fetch, which what comes next belongs to.
    fn keep_fetch(&mut self, chunk: &mut Chunk) {
        if let Some((block, fetch)) = self.fetch.take() {
            chunk.refs.push(fetch);
            chunk.fetched.push(block);
        }
    }

    /// Whether `r` touches a page as it was not touched before; from now on it was.
    #[inline]
    fn is_new(&mut self, r: Ref) -> bool {
        let (first, last) = (r.addr().0 >> PAGE, r.last().0 >> PAGE);
        let before = self.last[r.kind() as usize].replace(last);
        match first == last {
            true => before != Some(last) && self.touch(last, r.kind()),
            false => self.touch(first, r.kind()) | self.touch(last, r.kind()),
        }
    }

    fn touch(&mut self, page: u64, kind: Kind) -> bool {
        let store = kind == Kind::Store;
        match self.touched.entry((self.asid, page)) {
            Entry::Occupied(mut stored) => store && !stored.insert(store | *stored.get()),
            Entry::Vacant(empty) => {
                empty.insert(store);
                true
            }
        }
    }

    /// What `event` may have changed counts as untouched.
    fn forget(&mut self, event: &Event) {
        self.last = [None; 3];
        match event {
            Event::Switch { asid, .. } => {
                self.asid = *asid;
                self.fetch = None;
            }
            Event::Map(map) => self.forget_span(map.span),
            Event::Unmap(span) | Event::Protect(span, _) | Event::Advise(span, _) => self.forget_span(*span),
            Event::Remap(Remap { from, to, .. }) => {
                self.forget_span(*from);
                self.forget_span(*to);
            }
            // Memory that becomes common is touched anew by both.
            Event::Fork { .. } | Event::Exec { .. } | Event::Exit => self.touched.clear(),
            Event::File { .. } | Event::Phase(_) => {}
        }
    }

    fn forget_span(&mut self, span: Span) {
        let (first, end) = (span.start.0 >> PAGE, (span.start.0.saturating_add(span.len)).div_ceil(1 << PAGE));
        if end - first < self.touched.len() as u64 {
            for page in first..end {
                self.touched.remove(&(self.asid, page));
            }
        } else {
            let asid = self.asid;
            self.touched.retain(|&(owner, page), _| owner != asid || !(first..end).contains(&page));
        }
    }
}

impl<S: Source> Source for Skimmed<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.marked {
            return self.source.fill(chunk);
        }
        chunk.clear();
        // A piece of which nothing stays is no end.
        while chunk.is_empty() {
            if !self.source.fill(&mut self.whole)? {
                return self.end();
            }
            self.keep(chunk);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    /// Files that are mapped and unmapped, memory that comes and goes, processes that take turns.
    const PROGRAMS: [&str; 4] =
        ["web:requests=50", "cmp:bytes=2M", "tree:nodes=3000,operations=1K", "phases:sizes=64K/2M,dwell=1K,rounds=3"];

    fn whole(source: &mut dyn Source) -> Chunk {
        let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {
            all.append(&chunk);
        }
        all
    }

    #[test]
    fn all_events_stay_and_all_that_lies_behind() {
        for spec in PROGRAMS {
            let all = whole(&mut *synthetic::parse(spec).unwrap());
            let skim = all.refs.len() / 2;
            let mut source = synthetic::parse(spec).unwrap();
            let kept = whole(&mut Skimmed::new(&mut *source, skim as u64));
            let behind = &all.refs[skim..];
            assert!(kept.refs.ends_with(behind), "{spec}: what lies behind has changed");
            let mark = Event::Phase(Event::MEASURED.into());
            let (at, _) = kept.events.iter().find(|(_, event)| *event == mark).unwrap();
            // The fetch that the first reference behind belongs to may come with it.
            let more = kept.refs.len() - *at as usize - behind.len();
            assert!(more <= usize::from(behind[0].kind() != Kind::Fetch), "{spec}: the mark is where skimming ends");
            let events = |chunk: &Chunk| chunk.events.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>();
            let kept_events = events(&kept).into_iter().filter(|event| *event != mark).collect::<Vec<_>>();
            assert!(kept_events == events(&all), "{spec}: an event is lost");
            assert!(kept.refs.len() < all.refs.len(), "{spec}: nothing was skimmed");
        }
    }
}
