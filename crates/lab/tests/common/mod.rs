//! What the laboratory's tests share: running a program on a machine under a system, and programs of their own.

// Not every test needs all of it.
#![allow(dead_code)]

pub mod script;

use reach_core::{BlockTable, Chunk, Event, Kind};
use reach_lab::{Conditions, Experiment, Outcome, Placement, Report, Row, Timing, machine};
use reach_trace::{FastForward, Progress, Source, TraceError, synthetic};

/// Enough for the largest program of these tests.
const MEMORY: u64 = 8 << 30;

/// Plain conditions: memory in order, files in the page cache.
pub fn conditions(timing: Timing) -> Conditions {
    Conditions { timing, memory: MEMORY, seed: 1, fragmentation: None, warm: true, placement: Placement::ONE }
}

/// Every one of `machines` under every one of `systems`, on this thread alone.
pub fn experiment(machines: &[&str], systems: &[&str], timing: Timing) -> Experiment {
    Experiment {
        machines: machines.iter().map(|spec| machine::resolve(spec).unwrap()).collect(),
        systems: systems.iter().map(|spec| reach_systems::resolve(spec).unwrap()).collect(),
        conditions: conditions(timing),
        threads: 0,
        fast_forward: FastForward::default(),
        align_code: None,
        limit: None,
        curve: None,
        sample: None,
    }
}

/// Runs `source` to its end.
pub fn run(experiment: &Experiment, source: &mut dyn Source) -> Report {
    experiment.run(source, |_| true).unwrap()
}

/// One synthetic program on one machine under one system.
pub fn simulate(machine: &str, system: &str, program: &str, timing: Timing) -> Outcome {
    let mut source = synthetic::parse(program).unwrap();
    run(&experiment(&[machine], &[system], timing), &mut *source).outcomes.remove(0)
}

/// The count that the rows of all processes give under this name.
pub fn count(rows: &[Row], process: &str, metric: &str) -> u64 {
    let row = rows.iter().find(|row| row.process == process && row.metric == metric);
    match row.unwrap_or_else(|| panic!("no row {process} {metric}")).value {
        reach_lab::Value::Count(n) => n,
        value => panic!("{metric} is no count: {value:?}"),
    }
}

/// A whole program in memory, handed out in pieces of given lengths.
pub struct Pieces {
    name: String,
    blocks: BlockTable,
    whole: Chunk,
    lengths: Box<dyn Iterator<Item = usize> + Send>,
    /// References, fetches and events handed out so far.
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

    /// A program that is all there: one piece until [`Pieces::cut`].
    pub fn new(name: &str, blocks: BlockTable, whole: Chunk) -> Pieces {
        Pieces { name: name.into(), blocks, whole, lengths: Box::new(std::iter::repeat(usize::MAX)), at: (0, 0, 0) }
    }

    /// The same program from its start, in pieces of these many references, over and over.
    pub fn cut(&self, lengths: Vec<usize>) -> Pieces {
        let lengths = Box::new(lengths.into_iter().cycle());
        Pieces { lengths, ..Pieces::new(&self.name, self.blocks.clone(), self.whole.clone()) }
    }

    /// The same program, which is cut off behind its last reference.
    pub fn without_end(mut self) -> Pieces {
        let end = self.len();
        self.whole.events.retain(|(at, _)| (*at as usize) < end);
        self
    }

    /// The same program without the events of which `is_doomed` says so.
    pub fn without(mut self, is_doomed: impl Fn(&Event) -> bool) -> Pieces {
        self.whole.events.retain(|(_, event)| !is_doomed(event));
        self
    }

    /// How many references there are.
    pub fn len(&self) -> usize {
        self.whole.refs.len()
    }

    /// How many events there are.
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
        // Events at a cut close the earlier piece: the other place where they may stand is at the start of the next.
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
}
