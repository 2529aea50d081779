//! A program that is cut off after so many references.

use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event, Kind};

/// The first references of a program. What is fast-forwarded ([`crate::FastForwarded`], [`crate::Sampled`]) does not count: it says so,
/// in recordings too.
pub struct Limited<S> {
    source: S,
    limit: u64,
    given: u64,
    fast_forwards: bool,
}

impl<S: Source> Limited<S> {
    /// The first `limit` references of `source`, of which nothing has been read; all of them where there is no limit.
    pub fn new(source: S, limit: Option<u64>) -> Limited<S> {
        Limited { source, limit: limit.unwrap_or(u64::MAX), given: 0, fast_forwards: false }
    }

    /// How many references were given that count.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Counts what is in `chunk`. Returns the place of the first reference that is too many.
    fn count(&mut self, chunk: &Chunk) -> Option<usize> {
        let mut from = 0;
        for (at, event) in &chunk.events {
            let end = self.advance(from, *at as usize);
            if end.is_some() {
                return end;
            }
            from = *at as usize;
            self.pass(event);
        }
        self.advance(from, chunk.refs.len())
    }

    fn advance(&mut self, from: usize, to: usize) -> Option<usize> {
        let (more, room) = (if self.fast_forwards { 0 } else { (to - from) as u64 }, self.limit - self.given);
        self.given += more.min(room);
        (more > room).then(|| from + room as usize)
    }

    fn pass(&mut self, event: &Event) {
        match event {
            Event::Phase(name) if name == Event::SKIMMED => self.fast_forwards = true,
            Event::Phase(name) if name == Event::MEASURED || name == Event::SIMULATED => self.fast_forwards = false,
            _ => {}
        }
    }

    /// The same of an outline, which has no references to cut off: who limits asks for none.
    fn count_outline(&mut self, chunk: &Chunk) {
        for step in &chunk.outline {
            chunk.events[step.events.clone()].iter().for_each(|(_, event)| self.pass(event));
            self.given += if self.fast_forwards { 0 } else { step.counts.references() };
        }
    }
}

/// Drops all references of `chunk` from number `end` on.
fn cut(chunk: &mut Chunk, end: usize) {
    chunk.refs.truncate(end);
    chunk.folded = chunk.folded.min(end);
    chunk.page_refs.retain(|page_ref| page_ref.index() < end);
    chunk.events.retain(|(at, _)| *at as usize <= end);
    let fetches = chunk.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
    chunk.fetched.truncate(fetches);
}

impl<S: Source> Source for Limited<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.given == self.limit || !self.source.fill(chunk)? {
            return Ok(false);
        }
        if chunk.is_outline() {
            self.count_outline(chunk);
        } else if let Some(end) = self.count(chunk) {
            cut(chunk, end);
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
    use crate::file::{Metadata, Reader, Writer};
    use crate::{FastForward, FastForwarded, Sampled, synthetic};

    const PROGRAM: &str = "gups:bytes=16M,init=yes,updates=20K";

    fn whole(source: &mut dyn Source) -> Chunk {
        let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {
            all.append(&chunk);
        }
        all
    }

    fn marked(chunk: &Chunk, mark: &str) -> Vec<usize> {
        let is = |event: &Event| matches!(event, Event::Phase(name) if name == mark);
        chunk.events.iter().filter(|(_, event)| is(event)).map(|(at, _)| *at as usize).collect()
    }

    #[test]
    fn a_limit_is_exact_wherever_chunks_end() {
        let all = whole(&mut *synthetic::parse(PROGRAM).unwrap());
        for limit in [1, 100, 30_001, all.refs.len() as u64, u64::MAX] {
            let mut limited = Limited::new(synthetic::parse(PROGRAM).unwrap(), Some(limit));
            let kept = whole(&mut limited);
            let end = all.refs.len().min(usize::try_from(limit).unwrap());
            assert!(kept.refs == all.refs[..end] && limited.given() == end as u64, "{limit}");
            let fetches = kept.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
            assert!(kept.fetched == all.fetched[..fetches], "{limit}");
        }
    }

    #[test]
    fn an_outline_counts_as_what_it_outlines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fast_forwarded =
            || FastForwarded::new(synthetic::parse(PROGRAM).unwrap(), FastForward::Phase("updates".into()));
        let (mut source, mut chunk) = (fast_forwarded(), Chunk::default());
        let mut writer = Writer::create(file.path(), &Metadata::default()).unwrap();
        while source.fill(&mut chunk).unwrap() {
            writer.write(&chunk, source.blocks()).unwrap();
        }
        writer.finish().unwrap();
        let given = |outline: bool| {
            let mut reader = Reader::open(file.path()).unwrap();
            assert!(reader.outline(outline).unwrap(), "it goes back to the start");
            let (mut limited, mut chunk) = (Limited::new(reader, None), Chunk::default());
            while limited.fill(&mut chunk).unwrap() {}
            limited.given()
        };
        assert!(given(true) > 10_000 && given(true) == given(false), "{} {}", given(true), given(false));
    }

    #[test]
    fn what_is_skimmed_does_not_count() {
        let fast_forward = || FastForward::Phase("updates".into());
        let fast_forwarded = |limit| {
            whole(&mut Limited::new(
                FastForwarded::new(synthetic::parse(PROGRAM).unwrap(), fast_forward()),
                Some(limit),
            ))
        };
        let (some, more) = (fast_forwarded(1), fast_forwarded(5000));
        assert_eq!(marked(&more, Event::SKIMMED), [0]);
        let [from] = marked(&more, Event::MEASURED)[..] else { panic!("it is measured from one place on") };
        assert!(from > 1000, "a store to each page of 16 MB");
        assert_eq!((some.refs.len(), more.refs.len()), (from + 1, from + 5000));
    }

    #[test]
    fn of_a_sample_only_what_is_not_skimmed_counts() {
        let sample = |between: &str, limit| {
            let sampling = format!("every=4k,measure=100,warm=100,between={between}").parse().unwrap();
            let fast_forward = FastForward::Phase("updates".into());
            let sampled = Sampled::new(synthetic::parse(PROGRAM).unwrap(), sampling, fast_forward, 1);
            match between {
                "fast_forward" => whole(&mut Limited::new(FastForwarded::between(sampled), limit)),
                _ => whole(&mut Limited::new(sampled, limit)),
            }
        };
        // Two intervals and a half, of 200 to 210 references, as blocks are not cut.
        let kept = sample("fast_forward", Some(500));
        let (begins, ends) = (marked(&kept, Event::SIMULATED), marked(&kept, Event::FOLLOWED));
        let intervals: usize = begins.iter().zip(&ends[1..]).map(|(from, to)| to - from).sum();
        assert_eq!((begins.len(), ends.len()), (3, 3));
        assert_eq!(intervals + kept.refs.len() - begins[2], 500);
        let (all, kept) = (sample("follow", None), sample("follow", Some(500)));
        let from = marked(&all, Event::SIMULATED)[0];
        assert_eq!(kept.refs.len(), from + 500, "what is followed counts, but for what is before all");
    }
}
