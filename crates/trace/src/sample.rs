//! Systematic sampling: of a long program, intervals at equal distances are measured (Wunderlich et al. 2003, SMARTS).
//!
//! What lies between the intervals is passed over as [`crate::Skimmed`] passes over a beginning: events stay, and of the
//! references the first to each page and the first store to it, so that the operating system's state is the program's
//! wherever it is looked at. Before each interval, references of a warm-up fill TLBs and caches and are not measured. Marks in
//! the program say where intervals begin and end, and how much was passed over.

use crate::touched::Touched;
use crate::{Progress, Source, TraceError};
use reach_core::{BlockId, BlockTable, Chunk, Event, Kind, Random, Ref, TICK};
use std::str::FromStr;

/// How a program is sampled, in references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// From the start of one interval to that of the next, at least `warm + measure`.
    pub every: u64,
    /// Length of an interval, at least 1.
    pub measure: u64,
    /// Before each interval, so many are simulated and not measured.
    pub warm: u64,
}

impl Sampling {
    /// Unless asked otherwise.
    pub const USUAL: Sampling = Sampling { every: 10_000_000, measure: 100_000, warm: 200_000 };
}

const KEYS: &str = "give every=N, measure=N and warm=N, counts of references such as 10M, 100k or 0";

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Sampling, String> {
        let mut sampling = Sampling::USUAL;
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("{pair:?} is not of the form key=value; {KEYS}"));
            };
            let field = match key {
                "every" => &mut sampling.every,
                "measure" => &mut sampling.measure,
                "warm" => &mut sampling.warm,
                _ => return Err(format!("there is no key {key:?}; {KEYS}")),
            };
            *field = number(value).ok_or_else(|| format!("{key} of {value:?} is no count; {KEYS}"))?;
        }
        match sampling {
            Sampling { measure: 0, .. } => Err(format!("nothing is measured in intervals of no length; {KEYS}")),
            Sampling { every, measure, warm } if warm.saturating_add(measure) > every => {
                Err(format!("{warm} references to warm up and {measure} to measure do not fit into {every}; {KEYS}"))
            }
            _ => Ok(sampling),
        }
    }
}

/// A count, in powers of 1000.
fn number(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'm' => (&text[..text.len() - 1], 1_000_000),
        b'g' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let whole = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| whole)?.checked_mul(unit)
}

/// What becomes of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Passing,
    Warming,
    Measuring,
}

/// A program of which intervals are measured. Intervals begin and end at fetches.
pub struct Sampled<S> {
    source: S,
    sampling: Sampling,
    /// References so far, and at how many the program ends.
    done: u64,
    limit: u64,
    /// Where the warm-up before the next interval begins, or this one did.
    start: u64,
    state: State,
    whole: Chunk,
    touched: Touched,
    /// Instructions of all blocks.
    lengths: Vec<u16>,
    /// Instructions that were passed over and not told of yet.
    passed: u64,
    /// The last fetch, unless it has been kept.
    fetch: Option<(BlockId, Ref)>,
    begun: bool,
}

impl<S: Source> Sampled<S> {
    /// Samples `source`, of which nothing has been read, behind its first `skim` references and up to the one with number
    /// `limit`. Where in each period its interval lies is drawn once, by `seed`.
    pub fn new(source: S, sampling: Sampling, skim: u64, limit: Option<u64>, seed: u64) -> Sampled<S> {
        let room = sampling.every - sampling.warm - sampling.measure;
        let offset = if room == 0 { 0 } else { Random::new(seed ^ 0x5a4d_504c).below(room + 1) };
        Sampled {
            source,
            sampling,
            done: 0,
            limit: limit.unwrap_or(u64::MAX),
            start: skim.saturating_add(offset),
            state: State::Passing,
            whole: Chunk::default(),
            touched: Touched::default(),
            lengths: Vec::new(),
            passed: 0,
            fetch: None,
            begun: false,
        }
    }

    /// How many references the program has had so far.
    pub fn references(&self) -> u64 {
        self.done
    }

    /// Where the state is due to change, at the next fetch.
    fn due(&self) -> u64 {
        match self.state {
            State::Passing => self.start,
            State::Warming => self.start + self.sampling.warm,
            State::Measuring => self.start + self.sampling.warm + self.sampling.measure,
        }
    }

    /// Changes the state as often as is due.
    fn go_on(&mut self, chunk: &mut Chunk) {
        while self.done >= self.due() {
            let mark = |name: &str| Event::Phase(name.into());
            self.state = match self.state {
                State::Passing => {
                    self.tell_passed(chunk);
                    self.fetch = None;
                    State::Warming
                }
                State::Warming => {
                    chunk.push_event(mark(Event::INTERVAL));
                    State::Measuring
                }
                State::Measuring => {
                    chunk.push_event(mark(Event::INTERVAL_END));
                    self.start += self.sampling.every;
                    State::Passing
                }
            };
        }
    }

    fn tell_passed(&mut self, chunk: &mut Chunk) {
        if self.passed > 0 {
            chunk.push_event(Event::Phase(format!("{}{}", Event::PASSED, self.passed)));
            self.passed = 0;
        }
    }

    /// Puts into `chunk` what stays of the whole one.
    fn keep(&mut self, chunk: &mut Chunk) {
        let whole = std::mem::take(&mut self.whole);
        let known = self.lengths.len();
        self.lengths.extend(self.source.blocks().iter().skip(known).map(|block| block.instructions));
        if !std::mem::replace(&mut self.begun, true) && self.sampling.warm == 0 {
            // What starts at once starts before the first event.
            self.go_on(chunk);
        }
        let (mut events, mut fetched) = (whole.events.iter().peekable(), whole.fetched.iter());
        for (at, &r) in whole.refs.iter().enumerate() {
            if events.peek().is_some_and(|(before, _)| *before as usize <= at) {
                while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                    self.event(event, chunk);
                }
            }
            if self.done == self.limit {
                break;
            }
            if r.kind() == Kind::Fetch {
                let block = *fetched.next().expect("a fetch has its block");
                if self.done >= self.due() {
                    self.go_on(chunk);
                }
                if self.state == State::Passing {
                    self.pass_fetch(block, r, chunk);
                } else {
                    self.touched.is_new(r, false);
                    chunk.refs.push(r);
                    chunk.fetched.push(block);
                }
            } else {
                let new = self.touched.is_new(r, r.kind() == Kind::Store);
                if self.state != State::Passing {
                    chunk.refs.push(r);
                } else if new {
                    self.keep_fetch(chunk);
                    chunk.refs.push(r);
                }
            }
            self.done += 1;
        }
        if self.done < self.limit {
            events.for_each(|(_, event)| self.event(event, chunk));
        }
        self.whole = whole;
    }

    #[inline(always)]
    fn pass_fetch(&mut self, block: BlockId, r: Ref, chunk: &mut Chunk) {
        // Not what may turn out to be kept.
        if self.passed >= TICK {
            self.tell_passed(chunk);
        }
        self.passed += u64::from(self.lengths[block.0 as usize]);
        self.fetch = Some((block, r));
        if self.touched.is_new(r, false) {
            self.keep_fetch(chunk);
        }
    }

    fn event(&mut self, event: &Event, chunk: &mut Chunk) {
        if matches!(event, Event::Switch { .. }) {
            self.fetch = None;
        }
        self.touched.forget(event);
        chunk.push_event(event.clone());
    }

    /// Keeps the last fetch, which what comes next belongs to.
    fn keep_fetch(&mut self, chunk: &mut Chunk) {
        if let Some((block, fetch)) = self.fetch.take() {
            self.passed -= u64::from(self.lengths[block.0 as usize]);
            chunk.refs.push(fetch);
            chunk.fetched.push(block);
        }
    }
}

impl<S: Source> Source for Sampled<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        // A piece of which nothing stays is no end.
        while chunk.is_empty() {
            if self.done == self.limit || !self.source.fill(&mut self.whole)? {
                return Ok(false);
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

    const PROGRAM: &str = "web:requests=500";

    fn whole(source: &mut dyn Source) -> Chunk {
        let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {
            all.append(&chunk);
        }
        all
    }

    fn sampled(text: &str, limit: Option<u64>) -> Chunk {
        let mut source = synthetic::parse(PROGRAM).unwrap();
        whole(&mut Sampled::new(&mut *source, text.parse().unwrap(), 0, limit, 1))
    }

    fn is_mark(event: &Event) -> bool {
        let Event::Phase(name) = event else { return false };
        name == Event::INTERVAL || name == Event::INTERVAL_END || name.starts_with(Event::PASSED)
    }

    #[test]
    fn a_sample_of_everything_is_everything() {
        let (all, kept) =
            (whole(&mut *synthetic::parse(PROGRAM).unwrap()), sampled("every=5k,measure=5k,warm=0", None));
        assert!(kept.refs == all.refs && kept.fetched == all.fetched);
        let events = |chunk: &Chunk| chunk.events.iter().filter(|(_, e)| !is_mark(e)).cloned().collect::<Vec<_>>();
        assert!(events(&kept) == events(&all));
        let marks = kept.events.iter().filter(|(_, event)| is_mark(event)).count();
        let intervals = all.refs.len().div_ceil(5000);
        // The last may have begun at the program's very end, and has no end of its own.
        assert!((2 * intervals - 3..=2 * intervals - 1).contains(&marks), "{marks} for {intervals}");
        assert!(matches!(&kept.events[0].1, Event::Phase(name) if name == Event::INTERVAL));
    }

    #[test]
    fn intervals_have_their_length_and_distance_and_what_is_between_is_told() {
        let all = whole(&mut *synthetic::parse(PROGRAM).unwrap());
        let kept = sampled("every=2k,measure=200,warm=300", None);
        assert!(kept.refs.len() < all.refs.len() / 2, "{} of {}", kept.refs.len(), all.refs.len());
        let marks =
            |name| kept.events.iter().filter(move |(_, e)| *e == Event::Phase(String::from(name))).map(|(at, _)| *at);
        let lengths: Vec<u32> = marks(Event::INTERVAL).zip(marks(Event::INTERVAL_END)).map(|(a, b)| b - a).collect();
        assert!(lengths.len() >= 10 && lengths.len() + 1 >= all.refs.len() / 2000, "{}", lengths.len());
        // Blocks are not cut.
        assert!(lengths.iter().all(|length| (150..300).contains(length)), "{lengths:?}");
        let passed: u64 = kept
            .events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Phase(name) => name.strip_prefix(Event::PASSED)?.parse::<u64>().ok(),
                _ => None,
            })
            .sum();
        let source = synthetic::parse(PROGRAM).unwrap();
        let mut source = source;
        let instructions = |chunk: &Chunk, source: &dyn Source| -> u64 {
            chunk.fetched.iter().map(|&id| u64::from(source.blocks().get(id).instructions)).sum()
        };
        let again = whole(&mut *source);
        let (of_all, of_kept) = (instructions(&again, &*source), instructions(&kept, &*source));
        let untold = of_all - of_kept - passed;
        // What was passed over behind the last warm-up is told of as it grows.
        assert!(untold < 2 * TICK, "{untold} of {of_all}");
    }

    #[test]
    fn a_limit_is_one_of_the_program() {
        let all = whole(&mut *synthetic::parse(PROGRAM).unwrap());
        let kept = sampled("every=5k,measure=5k,warm=0", Some(12_345));
        assert!(kept.refs == all.refs[..12_345]);
    }

    #[test]
    fn texts_say_what_is_wrong() {
        assert_eq!("".parse(), Ok(Sampling::USUAL));
        assert_eq!("every=1M,warm=0".parse(), Ok(Sampling { every: 1_000_000, measure: 100_000, warm: 0 }));
        for (text, part) in [
            ("every", "key=value"),
            ("evry=1", "no key"),
            ("every=-1", "no count"),
            ("every=1x", "no count"),
            ("measure=0", "no length"),
            ("every=1k", "do not fit"),
        ] {
            assert!(text.parse::<Sampling>().unwrap_err().contains(part), "{text}");
        }
    }
}
