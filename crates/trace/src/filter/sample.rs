//! Systematic sampling: of a long program, intervals at equal distances are measured (Wunderlich et al. 2003, SMARTS).
//!
//! The whole program is given, with marks that say what is to be done with its references: those between the intervals are
//! followed, so that TLBs and the operating system are where the whole program would have them; those before each interval
//! warm up what is not followed, such as data caches; and intervals are measured.

use crate::filter::fast_forward::Beginning;
use crate::{FastForward, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event, Kind, Random};
use std::str::FromStr;

/// How a program is sampled, in references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// From the start of one interval to that of the next, at least `warm + measure`.
    pub every: u64,
    /// Length of an interval, at least 1.
    pub measure: u64,
    /// Before each interval, so many are simulated in full and not measured.
    pub warm: u64,
    /// What becomes of those between.
    pub between: Between,
}

/// What becomes of references between intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// TLBs and the operating system see them.
    Tlbs,
    /// And data caches.
    Caches,
    /// Only what the operating system would notice stays of them.
    FastForward,
}

impl Between {
    const ALL: [Between; 3] = [Between::Tlbs, Between::Caches, Between::FastForward];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Between::Tlbs => "tlbs",
            Between::Caches => "caches",
            Between::FastForward => "fast-forward",
        }
    }
}

impl Sampling {
    /// Unless asked otherwise.
    pub const USUAL: Sampling =
        Sampling { every: 10_000_000, measure: 100_000, warm: 200_000, between: Between::Caches };
}

const KEYS: &str = "give every=N, measure=N and warm=N, counts of references such as 10M, 100k or 0, and between=caches, tlbs or fast-forward";

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Sampling, String> {
        let mut sampling = Sampling::USUAL;
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("{pair:?} is not of the form key=value; {KEYS}"));
            };
            if key == "between" {
                let named = Between::ALL.into_iter().find(|between| between.name() == value);
                sampling.between = named.ok_or_else(|| match value {
                    "skim" => "between=skim is now called between=fast-forward".to_owned(),
                    "follow" => "between=follow is now called between=tlbs".to_owned(),
                    _ => format!("between {value:?}: expected caches, tlbs or fast-forward; {KEYS}"),
                })?;
                continue;
            }
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
            Sampling { every, measure, warm, .. } if warm.saturating_add(measure) > every => {
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
    Followed,
    Warming,
    Measured,
}

/// Whether `chunk` says that what it is the beginning of is a sample.
pub(crate) fn is_sample(chunk: &Chunk) -> bool {
    chunk.events.iter().any(|(_, event)| matches!(event, Event::Phase(name) if name.starts_with(Event::SAMPLED)))
}

/// A program of which intervals are measured. Intervals begin and end at fetches.
pub struct Sampled<S> {
    source: S,
    sampling: Sampling,
    /// What is followed before the first period.
    beginning: Beginning,
    /// Where the first period starts in the program, once that is known.
    fast_forwarded: Option<u64>,
    /// Where in each period the warm-up starts.
    offset: u64,
    /// References before the present piece.
    done: u64,
    /// Where the warm-up before the next interval begins, or this one did.
    start: u64,
    state: State,
    /// What the last mark but those of intervals says: that references are followed.
    followed: bool,
    begun: bool,
}

impl<S: Source> Sampled<S> {
    /// Samples `source`, of which nothing has been read, behind what `fast_forward` says. Where in each period its interval lies
    /// is drawn once, by `seed`.
    pub fn new(source: S, sampling: Sampling, fast_forward: FastForward, seed: u64) -> Sampled<S> {
        let room = sampling.every - sampling.warm - sampling.measure;
        let offset = if room == 0 { 0 } else { Random::new(seed ^ 0x5a4d_504c).below(room + 1) };
        let beginning = Beginning::new(fast_forward);
        let fast_forwarded = beginning.references();
        let start = fast_forwarded.map_or(u64::MAX, |fast_forwarded| fast_forwarded.saturating_add(offset));
        let state = State::Followed;
        Sampled {
            source,
            sampling,
            beginning,
            fast_forwarded,
            offset,
            done: 0,
            start,
            state,
            followed: false,
            begun: false,
        }
    }

    /// How many references lie before the first period. Fails where the phase that it starts with never came.
    pub fn fast_forwarded(&self) -> Result<u64, TraceError> {
        self.fast_forwarded.ok_or_else(|| self.beginning.never_ended(self.source.name(), self.done))
    }

    /// Periods start where the phase does that was fast-forwarded to. Fails where the program is a sample already.
    fn look(&mut self, chunk: &Chunk) -> Result<(), TraceError> {
        if is_sample(chunk) {
            let what = format!("{}: it is a sample already; leave --sample out", self.source.name());
            return Err(TraceError::Unknown(what));
        }
        if self.fast_forwarded.is_none()
            && let Some((at, _)) = chunk.events.iter().find(|(_, event)| self.beginning.ends_with(event))
        {
            let fast_forwarded = self.done + u64::from(*at);
            self.fast_forwarded = Some(fast_forwarded);
            self.start = fast_forwarded.saturating_add(self.offset);
        }
        Ok(())
    }

    /// Where the state is due to change, at the next fetch.
    fn due(&self) -> u64 {
        match self.state {
            State::Followed => self.start,
            State::Warming => self.start + self.sampling.warm,
            State::Measured => self.start + self.sampling.warm + self.sampling.measure,
        }
    }

    /// Changes the state before reference `at` of the piece as often as is due. Returns the marks.
    fn go_on(&mut self, at: usize) -> Vec<&'static str> {
        let mut marks = Vec::new();
        while self.done + at as u64 >= self.due() {
            self.state = match self.state {
                State::Followed => {
                    marks.extend(std::mem::take(&mut self.followed).then_some(Event::SIMULATED));
                    State::Warming
                }
                State::Warming => {
                    marks.push(Event::INTERVAL);
                    State::Measured
                }
                State::Measured => {
                    marks.push(Event::INTERVAL_END);
                    self.start = self.start.saturating_add(self.sampling.every);
                    State::Followed
                }
            };
        }
        if self.state == State::Followed && !std::mem::replace(&mut self.followed, true) {
            marks.push(match self.sampling.between {
                Between::Caches => Event::FOLLOWED_IN_CACHES,
                Between::Tlbs | Between::FastForward => Event::FOLLOWED,
            });
        }
        marks
    }

    /// Puts marks into a piece.
    fn mark(&mut self, chunk: &mut Chunk) {
        let mark = |name: &str| Event::Phase(name.into());
        if !std::mem::replace(&mut self.begun, true) {
            // What starts at once starts before the first event.
            let sampled = (0, Event::Phase(format!("{}{}", Event::SAMPLED, self.sampling.every)));
            let fast_forwards = (self.fast_forwarded != Some(0)).then_some(Event::SKIMMED);
            let marks = fast_forwards.into_iter().chain(self.go_on(0)).map(|name| (0, mark(name)));
            chunk.events.splice(0..0, [sampled].into_iter().chain(marks));
        }
        while let Some(from) =
            usize::try_from(self.due().saturating_sub(self.done)).ok().filter(|&n| n < chunk.refs.len())
        {
            let Some(fetch) = chunk.refs[from..].iter().position(|r| r.kind() == Kind::Fetch) else { break };
            let at = from + fetch;
            let behind = chunk.events.partition_point(|(before, _)| *before as usize <= at);
            let marks = self.go_on(at).into_iter().map(|name| (at as u32, mark(name)));
            chunk.events.splice(behind..behind, marks);
        }
        self.done += chunk.refs.len() as u64;
    }
}

impl<S: Source> Source for Sampled<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.source.fill(chunk)? {
            return self.fast_forwarded().map(|_| false);
        }
        self.look(chunk)?;
        self.mark(chunk);
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

    /// The sample, without the word that it is one.
    fn sampled(text: &str) -> Chunk {
        let mut source = synthetic::parse(PROGRAM).unwrap();
        let mut kept = whole(&mut Sampled::new(&mut *source, text.parse().unwrap(), FastForward::default(), 1));
        let (at, Event::Phase(word)) = kept.events.remove(0) else { panic!("it says nothing") };
        assert!(at == 0 && word.starts_with(Event::SAMPLED), "{word}");
        kept
    }

    const MARKS: [&str; 4] = [Event::INTERVAL, Event::INTERVAL_END, Event::FOLLOWED_IN_CACHES, Event::SIMULATED];

    fn marks(chunk: &Chunk) -> Vec<(u32, &'static str)> {
        let name = |event: &Event| MARKS.into_iter().find(|mark| *event == Event::Phase(String::from(*mark)));
        chunk.events.iter().filter_map(|(at, event)| Some((*at, name(event)?))).collect()
    }

    #[test]
    fn nothing_changes_but_for_marks() {
        let all = whole(&mut *synthetic::parse(PROGRAM).unwrap());
        for text in ["every=5k,measure=5k,warm=0", "every=2k,measure=200,warm=300"] {
            let mut kept = sampled(text);
            assert!(kept.refs == all.refs && kept.fetched == all.fetched, "{text}");
            assert!(kept.events.is_sorted_by_key(|(at, _)| *at), "{text}");
            kept.events.retain(|(_, event)| !MARKS.iter().any(|mark| *event == Event::Phase(String::from(*mark))));
            assert!(kept.events == all.events, "{text}");
        }
    }

    #[test]
    fn a_sample_of_everything_leaves_nothing_between_intervals() {
        let kept = sampled("every=5k,measure=5k,warm=0");
        assert!(matches!(&kept.events[0].1, Event::Phase(name) if name == Event::INTERVAL));
        let marks = marks(&kept);
        assert!(marks.iter().all(|(_, name)| [Event::INTERVAL, Event::INTERVAL_END].contains(name)));
        let (ends, begins) = (marks.iter().skip(1).step_by(2), marks.iter().skip(2).step_by(2));
        assert!(ends.clone().all(|(_, name)| *name == Event::INTERVAL_END));
        assert!(ends.zip(begins).all(|(end, begin)| end.0 == begin.0 && begin.1 == Event::INTERVAL));
        let intervals = kept.refs.len() / 5000;
        assert!((2 * intervals - 1..=2 * intervals + 1).contains(&marks.len()), "{} for {intervals}", marks.len());
    }

    #[test]
    fn intervals_have_their_length_and_distance() {
        let kept = sampled("every=2k,measure=200,warm=300");
        let marks = marks(&kept);
        assert_eq!(marks[0], (0, Event::FOLLOWED_IN_CACHES));
        let turns = marks[1..].chunks_exact(4);
        assert!(turns.len() >= 10 && turns.len() + 1 >= kept.refs.len() / 2000, "{}", turns.len());
        let mut last = None;
        for turn in turns {
            let [warm, begin, end, follow] = [0, 1, 2, 3].map(|n| turn[n]);
            assert_eq!(
                [warm.1, begin.1, end.1, follow.1],
                [Event::SIMULATED, Event::INTERVAL, Event::INTERVAL_END, Event::FOLLOWED_IN_CACHES]
            );
            // Blocks are not cut.
            assert!((250..400).contains(&(begin.0 - warm.0)) && (150..300).contains(&(end.0 - begin.0)), "{turn:?}");
            assert_eq!(end.0, follow.0);
            assert!(kept.refs[begin.0 as usize].kind() == Kind::Fetch);
            let distance = last.replace(begin.0).map_or(2000, |last| begin.0 - last);
            assert!((1900..2100).contains(&distance), "{turn:?}");
        }
    }

    #[test]
    fn a_sample_starts_behind_a_phase() {
        const PROGRAM: &str = "gups:bytes=1M,init=yes,updates=20K";
        let fast_forward = |phase: &str| FastForward::Phase(phase.into());
        let (mut source, sampling) = (synthetic::parse(PROGRAM).unwrap(), "every=1k,measure=100,warm=100");
        let kept = whole(&mut Sampled::new(&mut *source, sampling.parse().unwrap(), fast_forward("updates"), 1));
        let (updates, _) = kept.events.iter().find(|(_, event)| *event == Event::Phase("updates".into())).unwrap();
        let first = marks(&kept)[1];
        assert!(first.1 == Event::SIMULATED && (*updates..updates + 1000).contains(&first.0), "{first:?} at {updates}");
        let mut never = Sampled::new(&mut *source, sampling.parse().unwrap(), fast_forward("update"), 1);
        let mut chunk = Chunk::default();
        let error = std::iter::repeat_with(|| never.fill(&mut chunk)).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("no phase"), "{error}");
    }

    #[test]
    fn texts_say_what_is_wrong() {
        assert_eq!("".parse(), Ok(Sampling::USUAL));
        assert_eq!(
            "every=1M,warm=0".parse(),
            Ok(Sampling { every: 1_000_000, measure: 100_000, warm: 0, between: Between::Caches })
        );
        for (text, part) in [
            ("every", "key=value"),
            ("evry=1", "no key"),
            ("every=-1", "no count"),
            ("every=1x", "no count"),
            ("measure=0", "no length"),
            ("every=1k", "do not fit"),
            ("between=cache", "nothing to do"),
        ] {
            assert!(text.parse::<Sampling>().unwrap_err().contains(part), "{text}");
        }
    }
}
