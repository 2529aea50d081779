//! Stratified sampling: measures one interval in each period of a long program, in the manner of Wunderlich et al. (2003,
//! SMARTS), whose intervals have equal distances.
//!
//! A sample has all references of its program, with marks that say how to simulate them. Between intervals, functional
//! warming keeps TLBs and the operating system in the state of a full run. A detailed warm-up before each interval
//! restores what functional warming leaves out. Intervals are measured. Code that runs for the first time, and code that touches
//! memory for the first time, is sampled apart from them, and more densely.

mod first_run;
mod novelty;
mod options;

pub use options::{Between, Sampling};

use first_run::{Code, FirstRun};
use std::time::Duration;

use super::beginning::{Beginning, FastForward};
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event, Kind, Mark, Random};

/// Returns whether `chunk`, the first of a program, marks the program as a sample.
pub(crate) fn is_sample(chunk: &Chunk) -> bool {
    chunk.events.iter().any(|(_, event)| matches!(event, Event::Mark(Mark::Sample { .. })))
}

/// The stages of a program: its beginning, and the three of each sampling period, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Beginning,
    FunctionalWarming,
    DetailedWarming,
    Measured,
}

/// How references are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Warming,
    /// In detail, without being measured.
    Detailed,
    /// In detail, as the interval of the period that ends with this reference.
    Interval(u64),
    /// In detail, as the measured segment of this number of code that runs for the first time.
    FirstRun(u64),
    /// As code that runs for the first time, without being measured.
    Unmeasured {
        detailed: bool,
    },
}

impl Detail {
    fn is_detailed(self) -> bool {
        !matches!(self, Detail::Warming | Detail::Unmeasured { detailed: false })
    }

    /// Returns the mark that begins a part of the program which ends with [`Mark::IntervalEnd`]; `None` for other parts.
    fn begin(self) -> Option<Mark> {
        match self {
            Detail::Warming | Detail::Detailed => None,
            Detail::Interval(_) => Some(Mark::IntervalBegin),
            Detail::FirstRun(_) => Some(Mark::FirstRunBegin),
            Detail::Unmeasured { .. } => Some(Mark::FirstRunUnmeasured),
        }
    }
}

/// A program with the marks of a sample. Intervals begin and end at fetches.
///
/// Measuring starts after the beginning of the program, which functional warming covers. The place of periods is drawn at
/// random once, and the place of the interval in its period each time. So every reference after the beginning is measured
/// with nearly the same probability, which estimates without bias need, and no loop of the program keeps step with the
/// intervals. The first period is cut by the beginning, the last by the end of the program. Code that runs for the first time
/// interrupts an interval, whether it is measured or not.
pub struct Sampled<S> {
    source: S,
    sampling: Sampling,
    beginning: Beginning,
    /// The length of the beginning in references; `None` until the phase comes that ends it.
    beginning_end: Option<u64>,
    /// The places of periods and intervals.
    random: Random,
    /// The reference that ends the present period.
    period_end: u64,
    /// References before the present chunk.
    done: u64,
    /// The reference that ends the present or next interval.
    end: u64,
    stage: Stage,
    first_run: FirstRun,
    /// What the marks so far say about the references that follow.
    detail: Detail,
    /// Whether [`Mark::Sample`] was given.
    announced: bool,
    /// Whether a program that is a sample already is given as it is.
    accepts_samples: bool,
    /// Whether the program turned out to be one.
    was_sampled: bool,
}

impl<S: Source> Sampled<S> {
    /// Samples `source`, which must be at its start, after the beginning that `fast_forward` describes. `seed` determines the
    /// places of periods and intervals.
    pub fn new(source: S, sampling: Sampling, fast_forward: FastForward, seed: u64) -> Sampled<S> {
        let beginning = Beginning::new(fast_forward);
        let beginning_end = beginning.references();
        Sampled {
            source,
            sampling,
            beginning,
            beginning_end,
            random: Random::new(seed ^ 0x5a4d_504c),
            period_end: 0,
            done: 0,
            end: 0,
            stage: Stage::Beginning,
            first_run: FirstRun::new(sampling.first_run_one_of(), sampling.most_new_memory(), seed),
            detail: Detail::Detailed,
            announced: false,
            accepts_samples: false,
            was_sampled: false,
        }
    }

    /// Returns the length of the beginning, in references.
    ///
    /// Fails with [`TraceError::Invalid`] where the phase that ends the beginning has not come.
    pub fn fast_forwarded(&self) -> Result<u64, TraceError> {
        self.beginning_end.ok_or_else(|| self.beginning.never_ended(self.source.name(), self.done))
    }

    /// Gives a program as it is if it is a sample already, which is an error otherwise.
    pub fn accepting_samples(self) -> Sampled<S> {
        Sampled { accepts_samples: true, ..self }
    }

    /// Returns whether the program was a sample already, and is given as it is.
    pub fn was_sampled(&self) -> bool {
        self.was_sampled
    }

    /// Looks for the end of the beginning in `chunk`.
    fn find_end_of_beginning(&mut self, chunk: &Chunk) {
        if self.beginning_end.is_none()
            && let Some((at, _)) = chunk.events.iter().find(|(_, event)| self.beginning.ends_with(event))
        {
            self.beginning_end = Some(self.done + u64::from(*at));
        }
    }

    /// Returns the reference at which the present stage ends; it ends at the next fetch from there on. `u64::MAX` where that
    /// is unknown.
    fn stage_end(&self) -> u64 {
        let Some(beginning_end) = self.beginning_end else { return u64::MAX };
        let start = self.end.saturating_sub(self.sampling.measure).max(beginning_end);
        match self.stage {
            Stage::Beginning => beginning_end,
            Stage::FunctionalWarming => start.saturating_sub(self.sampling.warm).max(beginning_end),
            Stage::DetailedWarming => start,
            Stage::Measured => self.end,
        }
    }

    /// Draws the place of the first period, which the beginning cuts at `start`, and of its interval.
    fn enter_first_period(&mut self, start: u64) {
        self.period_end = start.saturating_add(1 + self.random.below(self.sampling.every));
        self.draw_interval();
        if self.end <= start {
            self.enter_next_period();
        }
    }

    fn enter_next_period(&mut self) {
        self.period_end = self.period_end.saturating_add(self.sampling.every);
        self.draw_interval();
    }

    /// Draws the place of the interval in the present period.
    fn draw_interval(&mut self) {
        let slack = self.sampling.every - self.sampling.measure;
        self.end = self.period_end.saturating_sub(self.random.below(slack + 1));
    }

    /// Enters the stage of reference `at` of the program. Returns whether measuring begins there.
    fn enter_stage(&mut self, at: u64) -> bool {
        let mut begins = false;
        while at >= self.stage_end() {
            self.stage = match self.stage {
                Stage::Beginning => {
                    let start = self.beginning_end.unwrap_or(u64::MAX);
                    begins = start > 0;
                    self.enter_first_period(start);
                    Stage::FunctionalWarming
                }
                Stage::FunctionalWarming => Stage::DetailedWarming,
                Stage::DetailedWarming => Stage::Measured,
                Stage::Measured => {
                    self.enter_next_period();
                    Stage::FunctionalWarming
                }
            };
        }
        begins
    }

    /// Returns how to simulate the references that follow a fetch of `code`.
    fn wanted(&self, code: Code) -> Detail {
        match (self.stage, code) {
            (Stage::Beginning, _) => Detail::Warming,
            (_, Code::New(segment)) => Detail::FirstRun(segment),
            // What warms an interval up goes on.
            (stage, Code::Unmeasured { leads }) => {
                Detail::Unmeasured { detailed: leads || stage != Stage::FunctionalWarming }
            }
            (Stage::Measured, _) => Detail::Interval(self.period_end),
            (Stage::DetailedWarming, _) | (_, Code::Leads) => Detail::Detailed,
            (Stage::FunctionalWarming, Code::Known) => Detail::Warming,
        }
    }

    /// Changes the detail to `wanted`. Returns the marks that say so, of which there are none without a change.
    fn change_detail(&mut self, wanted: Detail) -> impl Iterator<Item = Mark> + use<S> {
        let now = std::mem::replace(&mut self.detail, wanted);
        let continues = matches!((now, wanted), (Detail::Unmeasured { .. }, Detail::Unmeasured { .. }));
        let warm = match self.sampling.between {
            Between::Caches => Mark::WarmCaches,
            Between::Tlbs | Between::FastForward => Mark::WarmTlbs,
        };
        let marks = [
            (now.begin().is_some() && !continues).then_some(Mark::IntervalEnd),
            match (now.is_detailed(), wanted.is_detailed()) {
                (false, true) => Some(Mark::Detailed),
                (true, false) => Some(warm),
                _ => None,
            },
            wanted.begin().filter(|_| !continues),
        ];
        marks.into_iter().filter(move |_| now != wanted).flatten()
    }

    /// Puts the marks into `chunk`.
    fn insert_marks(&mut self, chunk: &mut Chunk) {
        let mut marks: Vec<(u32, Mark)> = Vec::new();
        if !std::mem::replace(&mut self.announced, true) {
            // What starts with the program starts before its first event.
            marks.push((0, Mark::Sample { every: self.sampling.every }));
            marks.extend((self.beginning_end != Some(0)).then_some((0, Mark::FastForward)));
            self.enter_stage(0);
            if self.stage != Stage::Beginning {
                self.first_run.start();
            }
            let wanted = self.wanted(Code::Known);
            marks.extend(self.change_detail(wanted).map(|mark| (0, mark)));
            chunk.events.splice(0..0, marks.drain(..).map(|(at, mark)| (at, Event::Mark(mark))));
        }
        let end = self.done + chunk.refs.len() as u64;
        // Where references are left out, all of the program that is given would be new.
        let has_new = self.sampling.between != Between::FastForward && self.first_run.look(chunk, self.done);
        let mut stage_end = self.stage_end();
        if stage_end < end || has_new {
            for (at, _) in chunk.refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch) {
                let place = self.done + at as u64;
                if place >= stage_end {
                    let measures = self.enter_stage(place).then_some((at as u32, Mark::Measure));
                    measures.iter().for_each(|_| self.first_run.start());
                    marks.extend(measures);
                    stage_end = self.stage_end();
                }
                let code = if has_new { self.first_run.fetch(place) } else { Code::Known };
                let wanted = self.wanted(code);
                marks.extend(self.change_detail(wanted).map(|mark| (at as u32, mark)));
            }
            insert(&mut chunk.events, marks);
        }
        self.done = end;
    }
}

/// Inserts `marks` into `events`, each after the events at its place. Both are in order.
fn insert(events: &mut Vec<(u32, Event)>, marks: Vec<(u32, Mark)>) {
    if marks.is_empty() {
        return;
    }
    let mut before = std::mem::take(events).into_iter().peekable();
    for (at, mark) in marks {
        while let Some(event) = before.next_if(|(place, _)| *place <= at) {
            events.push(event);
        }
        events.push((at, Event::Mark(mark)));
    }
    events.extend(before);
}

impl<S: Source> Source for Sampled<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.source.fill(chunk)? {
            return if self.was_sampled { Ok(false) } else { self.fast_forwarded().map(|_| false) };
        }
        if !self.announced && is_sample(chunk) {
            if !self.accepts_samples {
                let message = format!("{}: is a sample already; leave --sample out", self.source.name());
                return Err(TraceError::Invalid(message));
            }
            self.was_sampled = true;
        }
        if !self.was_sampled {
            self.find_end_of_beginning(chunk);
            self.insert_marks(chunk);
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
