//! Fast-forward: of a program's beginning, only what an operating system would notice.
//!
//! What is measured is often how a program runs once it is under way, and that depends on the state that its beginning
//! left: what is mapped, what has been touched, what of its files is in memory. That state needs all events, and of the
//! references the first to each page and the first store to it. Results count from the end of what is fast-forwarded.

use crate::{Progress, Source, TraceError};
use reach_core::{Asid, BlockId, BlockTable, Chunk, Event, Kind, Ref, Remap, Span};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes in a page here: no simulated machine has smaller ones.
const PAGE: u32 = 12;

/// How much of a program's beginning is fast-forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FastForward {
    /// So many references.
    References(u64),
    /// All before this phase, which the program announces.
    Phase(String),
}

impl Default for FastForward {
    fn default() -> FastForward {
        FastForward::References(0)
    }
}

impl FastForward {
    /// Whether nothing is fast-forwarded.
    pub fn is_nothing(&self) -> bool {
        *self == FastForward::default()
    }
}

/// Phases that are named where the one that was asked for never came.
const PHASES: usize = 8;

/// Waits for the end of what is fast-forwarded.
pub(crate) struct Beginning {
    fast_forward: FastForward,
    /// What phases came, the first few.
    phases: Vec<String>,
}

impl Beginning {
    pub fn new(fast_forward: FastForward) -> Beginning {
        Beginning { fast_forward, phases: Vec::new() }
    }

    /// How many references it is, where that is known before.
    pub fn references(&self) -> Option<u64> {
        match self.fast_forward {
            FastForward::References(references) => Some(references),
            FastForward::Phase(_) => None,
        }
    }

    /// Whether this event ends it.
    pub fn ends_with(&mut self, event: &Event) -> bool {
        let (Event::Phase(name), FastForward::Phase(wanted)) = (event, &self.fast_forward) else { return false };
        if self.phases.len() < PHASES && !Event::is_mark(name) && !self.phases.contains(name) {
            self.phases.push(name.clone());
        }
        name == wanted
    }

    /// What is wrong where `program` was over after `references`, before its beginning was.
    pub fn never_ended(&self, program: &str, references: u64) -> TraceError {
        TraceError::Unknown(match &self.fast_forward {
            FastForward::References(_) => format!(
                "{program}: it ends after {references} references, all of which were to be passed over; fast_forward fewer"
            ),
            FastForward::Phase(name) if self.phases.is_empty() => {
                format!("{program}: it announces no phases, and none is {name:?}; fast_forward a number of references")
            }
            FastForward::Phase(name) => {
                format!("{program}: it has no phase {name:?}; fast_forward to one of {}", self.phases.join(", "))
            }
        })
    }
}

/// Pages that are kept account of together.
const REGION: u64 = 512;

/// Which of [`REGION`] pages were touched, and which for a store.
#[derive(Default)]
struct Region {
    touched: [u64; REGION as usize / 64],
    stored: [u64; REGION as usize / 64],
}

impl Region {
    /// Whether the page was not yet touched, or not yet stored to and now is.
    fn touch(&mut self, page: u64, store: bool) -> bool {
        let (word, bit) = ((page % REGION / 64) as usize, 1 << (page % 64));
        let old = self.touched[word] & bit != 0 && (!store || self.stored[word] & bit != 0);
        self.touched[word] |= bit;
        self.stored[word] |= if store { bit } else { 0 };
        !old
    }

    fn forget(&mut self, page: u64) {
        let (word, bit) = ((page % REGION / 64) as usize, 1 << (page % 64));
        self.touched[word] &= !bit;
        self.stored[word] &= !bit;
    }
}

/// Of an address space and the number of a region: most references ask for one.
#[derive(Default)]
struct RegionHasher(u64);

impl Hasher for RegionHasher {
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// A program of whose first references only those stay that touch a page for the first time, or store to it for the
/// first time, since something last happened to it; with each the fetch of its block.
pub struct FastForwarded<S> {
    source: S,
    beginning: Beginning,
    /// How many references are still to be fast-forwarded at most.
    left: u64,
    /// How many have been.
    fast_forwarded: u64,
    /// Whether it has been said that what comes is fast-forwarded.
    begun: bool,
    /// Whether it has been said that what comes counts.
    marked: bool,
    /// What is between the intervals of a sample is fast-forwarded too.
    between: bool,
    /// It is between two now.
    follows: bool,
    whole: Chunk,
    touched: HashMap<(Asid, u64), Region, BuildHasherDefault<RegionHasher>>,
    asid: Asid,
    /// The page that each kind of reference was the last to touch: most touch it again, and nothing is new there.
    last: [Option<u64>; 3],
    /// The last fetch, unless it has been kept.
    fetch: Option<(BlockId, Ref)>,
}

impl<S: Source> FastForwarded<S> {
    /// Skims the beginning of `source`, of which nothing has been read.
    pub fn new(source: S, fast_forward: FastForward) -> FastForwarded<S> {
        let (marked, beginning) = (fast_forward.is_nothing(), Beginning::new(fast_forward));
        FastForwarded {
            source,
            left: beginning.references().unwrap_or(u64::MAX),
            beginning,
            fast_forwarded: 0,
            begun: marked,
            marked,
            between: false,
            follows: false,
            whole: Chunk::default(),
            touched: HashMap::default(),
            asid: Asid(0),
            last: [None; 3],
            fetch: None,
        }
    }

    /// Skims what lies between the intervals of a sample ([`crate::Sampled`]), and before the first.
    pub fn between(sampled: S) -> FastForwarded<S> {
        FastForwarded { between: true, ..FastForwarded::new(sampled, FastForward::default()) }
    }

    /// Puts into `chunk` what stays of the whole one, and all that lies behind what is fast-forwarded.
    fn keep(&mut self, chunk: &mut Chunk) {
        let whole = std::mem::take(&mut self.whole);
        if !std::mem::replace(&mut self.begun, true) {
            chunk.push_event(Event::Phase(Event::SKIMMED.into()));
        }
        let (mut events, mut fetched) = (whole.events.iter().peekable(), whole.fetched.iter());
        for (at, &r) in whole.refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                self.pass_on(event, chunk);
            }
            let block = (r.kind() == Kind::Fetch).then(|| *fetched.next().expect("a fetch has its block"));
            let fast_forwards = self.left > 0 || self.follows;
            if !fast_forwards && !std::mem::replace(&mut self.marked, true) {
                chunk.push_event(Event::Phase(Event::MEASURED.into()));
            }
            self.left -= u64::from(self.left > 0);
            self.fast_forwarded += u64::from(fast_forwards);
            match block {
                Some(block) => {
                    self.fetch = Some((block, r));
                    if !fast_forwards || self.is_new(r) {
                        self.keep_fetch(chunk);
                    }
                }
                None if !fast_forwards || self.is_new(r) => {
                    self.keep_fetch(chunk);
                    chunk.refs.push(r);
                }
                None => {}
            }
        }
        events.for_each(|(_, event)| self.pass_on(event, chunk));
        self.whole = whole;
    }

    /// Keeps `event`, and says so where fast-forwarding begins with it.
    fn pass_on(&mut self, event: &Event, chunk: &mut Chunk) {
        let followed = self.follows;
        self.pass(event);
        chunk.push_event(event.clone());
        if self.follows && !followed {
            chunk.push_event(Event::Phase(Event::SKIMMED.into()));
        }
    }

    /// The program is over, which it should not be before anything was to be measured.
    fn end(&self) -> Result<bool, TraceError> {
        match self.left {
            0 => Ok(false),
            _ => Err(self.beginning.never_ended(self.source.name(), self.fast_forwarded)),
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
        self.touched.entry((self.asid, page / REGION)).or_default().touch(page, kind == Kind::Store)
    }

    /// What `event` may have changed counts as untouched.
    fn pass(&mut self, event: &Event) {
        self.last = [None; 3];
        match event {
            Event::Switch { asid, .. } => {
                self.asid = *asid;
                self.fetch = None;
            }
            Event::Map(map) => self.forget(map.span),
            Event::Unmap(span) | Event::Protect(span, _) | Event::Advise(span, _) => self.forget(*span),
            Event::Remap(Remap { from, to, .. }) => {
                self.forget(*from);
                self.forget(*to);
            }
            // Memory that becomes common is touched anew by both.
            Event::Fork { .. } | Event::Exec { .. } | Event::Exit => self.touched.clear(),
            Event::Phase(_) if self.beginning.ends_with(event) => self.left = 0,
            Event::Phase(name) if self.between && [Event::FOLLOWED, Event::SIMULATED].contains(&&**name) => {
                self.follows = name == Event::FOLLOWED;
            }
            Event::File { .. } | Event::Phase(_) => {}
        }
    }

    fn forget(&mut self, span: Span) {
        let (first, end) = (span.start.0 >> PAGE, (span.start.0.saturating_add(span.len)).div_ceil(1 << PAGE));
        let (asid, regions) = (self.asid, first / REGION..end.div_ceil(REGION));
        // Whether anything stays.
        let clear = |number: u64, region: &mut Region| {
            let pages = (number * REGION).max(first)..((number + 1) * REGION).min(end);
            let whole = pages.end - pages.start == REGION;
            if !whole {
                pages.for_each(|page| region.forget(page));
            }
            !whole
        };
        if regions.end - regions.start < self.touched.len() as u64 {
            for number in regions {
                if let Entry::Occupied(mut region) = self.touched.entry((asid, number))
                    && !clear(number, region.get_mut())
                {
                    region.remove();
                }
            }
        } else {
            self.touched.retain(|&(owner, number), region| {
                owner != asid || !regions.contains(&number) || clear(number, region)
            });
        }
    }
}

impl<S: Source> Source for FastForwarded<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.marked && !self.between {
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
    use reach_core::VirtAddr;

    /// Files that are mapped and unmapped, memory that comes and goes, processes that take turns.
    const PROGRAMS: [&str; 4] =
        ["web:requests=50", "cmp:bytes=2M", "tree:nodes=3000,operations=1K", "phases:sizes=64K/2M,dwell=1K,rounds=3"];

    #[test]
    fn what_is_before_a_phase_is_skimmed() {
        const PROGRAM: &str = "gups:bytes=16M,init=yes,updates=1000";
        let all = whole(&mut *synthetic::parse(PROGRAM).unwrap());
        let kept =
            |fast_forward| whole(&mut FastForwarded::new(&mut *synthetic::parse(PROGRAM).unwrap(), fast_forward));
        let phase = kept(FastForward::Phase("updates".into()));
        let (updates, _) = all.events.iter().find(|(_, event)| *event == Event::Phase("updates".into())).unwrap();
        let counted = kept(FastForward::References(u64::from(*updates)));
        assert!(phase.refs == counted.refs && phase.events == counted.events && phase.fetched == counted.fetched);
        // A page is touched once, of its 512 words.
        assert!(phase.refs.len() < all.refs.len() / 8, "{} of {}", phase.refs.len(), all.refs.len());
        let mut source = synthetic::parse(PROGRAM).unwrap();
        let (mut never, mut chunk) =
            (FastForwarded::new(&mut *source, FastForward::Phase("update".into())), Chunk::default());
        let error = std::iter::repeat_with(|| never.fill(&mut chunk)).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("no phase \"update\"; fast_forward to one of init, updates"), "{error}");
    }

    #[test]
    fn what_is_unmapped_is_forgotten_and_nothing_else() {
        let mut source = synthetic::parse("touch").unwrap();
        let mut fast_forwarded = FastForwarded::new(&mut *source, FastForward::References(u64::MAX));
        let pages = [0u64, 511, 512, 1023, 1024, 5000];
        for unmapped in [1..2, 511..513, 512..1024, 0..6000, 500..4000] {
            for page in pages {
                fast_forwarded.touch(page, Kind::Store);
            }
            let span = Span { start: VirtAddr(unmapped.start << PAGE), len: (unmapped.end - unmapped.start) << PAGE };
            fast_forwarded.forget(span);
            for page in pages {
                assert_eq!(fast_forwarded.touch(page, Kind::Load), unmapped.contains(&page), "{page} in {unmapped:?}");
            }
        }
    }

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
            let fast_forward = all.refs.len() / 2;
            let mut source = synthetic::parse(spec).unwrap();
            let kept = whole(&mut FastForwarded::new(&mut *source, FastForward::References(fast_forward as u64)));
            let behind = &all.refs[fast_forward..];
            assert!(kept.refs.ends_with(behind), "{spec}: what lies behind has changed");
            let mark = Event::Phase(Event::MEASURED.into());
            let (at, _) = kept.events.iter().find(|(_, event)| *event == mark).unwrap();
            // The fetch that the first reference behind belongs to may come with it.
            let more = kept.refs.len() - *at as usize - behind.len();
            assert!(
                more <= usize::from(behind[0].kind() != Kind::Fetch),
                "{spec}: the mark is where fast_forwarding ends"
            );
            let events = |chunk: &Chunk| chunk.events.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>();
            let is_mark = |event: &Event| matches!(event, Event::Phase(name) if Event::is_mark(name));
            let kept_events = events(&kept).into_iter().filter(|event| !is_mark(event)).collect::<Vec<_>>();
            assert!(kept_events == events(&all), "{spec}: an event is lost");
            assert!(kept.refs.len() < all.refs.len(), "{spec}: nothing was fast_forwarded");
        }
    }
}
