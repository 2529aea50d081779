//! Stratified sampling: measures one interval in each period of a long program, in the manner of Wunderlich et al. (2003,
//! SMARTS), whose intervals have equal distances.
//!
//! A sample has all references of its program, with marks that say how to simulate them. Between intervals, functional
//! warming keeps TLBs and the operating system in the state of a full run. A detailed warm-up before each interval
//! restores what functional warming leaves out. Intervals are measured.

mod options;

pub use options::{Between, Sampling};

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

/// A program with the marks of a sample. Intervals begin and end at fetches.
///
/// Measuring starts after the beginning of the program, which functional warming covers. The place of periods is drawn at
/// random once, and the place of the interval in its period each time. So every reference after the beginning is measured
/// with nearly the same probability, which estimates without bias need, and no loop of the program keeps step with the
/// intervals. The first period is cut by the beginning, the last by the end of the program.
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
    /// Whether the last mark about detail said functional warming.
    warming: bool,
    /// Whether [`Mark::Sample`] was given.
    announced: bool,
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
            warming: false,
            announced: false,
        }
    }

    /// Returns the length of the beginning, in references.
    ///
    /// Fails with [`TraceError::Invalid`] where the phase that ends the beginning has not come.
    pub fn fast_forwarded(&self) -> Result<u64, TraceError> {
        self.beginning_end.ok_or_else(|| self.beginning.never_ended(self.source.name(), self.done))
    }

    /// Looks for the end of the beginning in `chunk`. Fails where the program is a sample already.
    fn find_end_of_beginning(&mut self, chunk: &Chunk) -> Result<(), TraceError> {
        if is_sample(chunk) {
            let message = format!("{}: is a sample already; leave --sample out", self.source.name());
            return Err(TraceError::Invalid(message));
        }
        if self.beginning_end.is_none()
            && let Some((at, _)) = chunk.events.iter().find(|(_, event)| self.beginning.ends_with(event))
        {
            self.beginning_end = Some(self.done + u64::from(*at));
        }
        Ok(())
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

    /// Enters the stage of reference `at` of the present chunk. Returns the marks to put before that reference.
    fn enter_stage(&mut self, at: usize) -> Vec<Mark> {
        let mut marks = Vec::new();
        while self.done + at as u64 >= self.stage_end() {
            self.stage = match self.stage {
                Stage::Beginning => {
                    let start = self.beginning_end.unwrap_or(u64::MAX);
                    marks.extend((start > 0).then_some(Mark::Measure));
                    self.enter_first_period(start);
                    Stage::FunctionalWarming
                }
                Stage::FunctionalWarming => {
                    marks.extend(std::mem::take(&mut self.warming).then_some(Mark::Detailed));
                    Stage::DetailedWarming
                }
                Stage::DetailedWarming => {
                    marks.push(Mark::IntervalBegin);
                    Stage::Measured
                }
                Stage::Measured => {
                    marks.push(Mark::IntervalEnd);
                    self.enter_next_period();
                    Stage::FunctionalWarming
                }
            };
        }
        // Intervals without a gap between them go from one interval to the next without functional warming.
        let warms = matches!(self.stage, Stage::Beginning | Stage::FunctionalWarming);
        if warms && !std::mem::replace(&mut self.warming, true) {
            marks.push(match self.sampling.between {
                Between::Caches => Mark::WarmCaches,
                Between::Tlbs | Between::FastForward => Mark::WarmTlbs,
            });
        }
        marks
    }

    /// Puts the marks into `chunk`.
    fn insert_marks(&mut self, chunk: &mut Chunk) {
        if !std::mem::replace(&mut self.announced, true) {
            // A stage that starts with the program starts before its first event.
            let mut marks = vec![Mark::Sample { every: self.sampling.every }];
            marks.extend((self.beginning_end != Some(0)).then_some(Mark::FastForward));
            marks.extend(self.enter_stage(0));
            chunk.events.splice(0..0, marks.into_iter().map(|mark| (0, Event::Mark(mark))));
        }
        while let Some(from) =
            usize::try_from(self.stage_end().saturating_sub(self.done)).ok().filter(|&n| n < chunk.refs.len())
        {
            let Some(fetch) = chunk.refs[from..].iter().position(|r| r.kind() == Kind::Fetch) else { break };
            let at = from + fetch;
            let place = chunk.events.partition_point(|(before, _)| *before as usize <= at);
            let marks = self.enter_stage(at).into_iter().map(|mark| (at as u32, Event::Mark(mark)));
            chunk.events.splice(place..place, marks);
        }
        self.done += chunk.refs.len() as u64;
    }
}

impl<S: Source> Source for Sampled<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.source.fill(chunk)? {
            return self.fast_forwarded().map(|_| false);
        }
        self.find_end_of_beginning(chunk)?;
        self.insert_marks(chunk);
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

    fn ending(&mut self) -> Ending {
        self.source.ending()
    }
}

#[cfg(test)]
mod tests;
