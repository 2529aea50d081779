//! Helpers of the laboratory's tests: running a program on a machine under a system, and programs in memory.

// Not every test uses every helper.
#![allow(dead_code)]

pub mod script;

use reach_core::{BlockTable, Chunk, Event, Kind};
use reach_lab::{Conditions, Experiment, Outcome, Report, Row, Timing, machine};
use reach_trace::{Ending, Progress, Source, TraceError, synthetic};

/// Simulated memory in bytes: enough for the largest program of these tests.
const MEMORY: u64 = 8 << 30;

/// Returns plain conditions: contiguous memory, files in the page cache.
pub fn conditions(timing: Timing) -> Conditions {
    Conditions { timing, ..Conditions::new(MEMORY) }
}

/// Returns an experiment with every one of `machines` under every one of `systems`, on this thread.
pub fn experiment(machines: &[&str], systems: &[&str], timing: Timing) -> Experiment {
    let machines = machines.iter().map(|spec| machine::resolve(spec).unwrap());
    let systems = systems.iter().map(|spec| reach_systems::resolve(spec).unwrap());
    Experiment::new(machines.collect(), systems.collect(), conditions(timing))
}

/// Runs `source` to its end.
pub fn run(experiment: &Experiment, source: &mut dyn Source) -> Report {
    experiment.run(source, |_| true).unwrap()
}

/// Simulates one synthetic program on one machine under one system.
pub fn simulate(machine: &str, system: &str, program: &str, timing: Timing) -> Outcome {
    let mut source = synthetic::parse(program).unwrap();
    run(&experiment(&[machine], &[system], timing), &mut *source).outcomes.remove(0)
}

/// Returns the count of a metric in the rows of `process`.
pub fn count(rows: &[Row], process: &str, metric: &str) -> u64 {
    let row = rows.iter().find(|row| row.process == process && row.metric == metric);
    match row.unwrap_or_else(|| panic!("no row {process} {metric}")).value {
        reach_lab::Value::Count(n) => n,
        value => panic!("{metric} is no count: {value:?}"),
    }
}

/// A whole program in memory, given in pieces of chosen lengths.
pub struct Pieces {
    name: String,
    blocks: BlockTable,
    whole: Chunk,
    lengths: Box<dyn Iterator<Item = usize> + Send>,
    /// References, fetches and events given so far.
    at: (usize, usize, usize),
}

impl Pieces {
    /// Reads `source` to its end.
    pub fn of(source: &mut dyn Source) -> Pieces {
        let (mut whole, mut chunk) = (Chunk::default(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {
            let first = whole.refs.len() as u32;
            whole.events.extend(chunk.events.drain(..).map(|(at, event)| (first + at, event)));
            whole.refs.append(&mut chunk.refs);
            whole.fetched.append(&mut chunk.fetched);
        }
        Pieces::new(source.name(), source.blocks().clone(), whole)
    }

    /// Makes a program of one chunk: one piece until [`Pieces::cut`].
    pub fn new(name: &str, blocks: BlockTable, whole: Chunk) -> Pieces {
        Pieces { name: name.into(), blocks, whole, lengths: Box::new(std::iter::repeat(usize::MAX)), at: (0, 0, 0) }
    }

    /// Returns the same program from its start, in pieces of these numbers of references, repeated in turn.
    pub fn cut(&self, lengths: Vec<usize>) -> Pieces {
        let lengths = Box::new(lengths.into_iter().cycle());
        Pieces { lengths, ..Pieces::new(&self.name, self.blocks.clone(), self.whole.clone()) }
    }

    /// Returns the same program without the events after its last reference.
    pub fn without_end(mut self) -> Pieces {
        let end = self.len();
        self.whole.events.retain(|(at, _)| (*at as usize) < end);
        self
    }

    /// Returns the same program without the events that `is_excluded` selects.
    pub fn without(mut self, is_excluded: impl Fn(&Event) -> bool) -> Pieces {
        self.whole.events.retain(|(_, event)| !is_excluded(event));
        self
    }

    /// Returns the same program with more events, each before the reference of a number.
    pub fn with(mut self, events: impl Iterator<Item = (usize, Event)>) -> Pieces {
        self.whole.events.extend(events.map(|(at, event)| (at as u32, event)));
        self.whole.events.sort_by_key(|(at, _)| *at);
        self
    }

    /// Returns the number of references.
    pub fn len(&self) -> usize {
        self.whole.refs.len()
    }

    /// Returns the events in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.whole.events.iter().map(|(_, event)| event)
    }
}

impl Source for Pieces {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let (from, fetch, event) = self.at;
        let to = from.saturating_add(self.lengths.next().unwrap_or(1)).min(self.whole.refs.len());
        chunk.refs.extend_from_slice(&self.whole.refs[from..to]);
        let fetches = chunk.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
        chunk.fetched.extend_from_slice(&self.whole.fetched[fetch..fetch + fetches]);
        // Events at a cut end the earlier piece; they could as well begin the next.
        let events = self.whole.events[event..].iter().take_while(|(at, _)| *at as usize <= to);
        chunk.events.extend(events.map(|(at, event)| (*at - from as u32, event.clone())));
        self.at = (to, fetch + fetches, event + chunk.events.len());
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        Progress { done: self.at.0 as u64, total: Some(self.whole.refs.len() as u64) }
    }

    fn ending(&mut self) -> Ending {
        Ending::default()
    }
}
