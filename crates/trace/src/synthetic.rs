//! Programs that are made up: kernels whose every reference follows from a few parameters.
//!
//! ```
//! use reach_core::Chunk;
//! use reach_trace::{Source, synthetic};
//!
//! let mut program = synthetic::parse("gups:bytes=1G,updates=1000,seed=3")?;
//! let mut chunk = Chunk::default();
//! let mut references = 0;
//! while program.fill(&mut chunk)? {
//!     references += chunk.refs.len();
//! }
//! assert_eq!(references, 3 * 1000); // one fetch, one load, one store an update
//! # Ok::<(), reach_trace::TraceError>(())
//! ```
//!
//! Memory that a program maps costs nothing here: footprints of 1 TiB are fine. Programs emit what their loops do and
//! nothing else: no start-up code, no loop overhead outside the innermost body.

mod chase;
mod cmp;
mod code;
mod daemons;
mod dirty;
mod fang_micro;
mod fft3;
mod first_fit;
mod graph;
mod gups;
mod kv;
mod malloc;
mod matrix;
mod mix;
mod parameter;
mod permutation;
mod phases;
mod process;
mod pulse;
mod red_black;
mod stream;
mod stride;
mod touch;
mod tree;
mod web;
mod writing;
mod zipf;

pub use parameter::{Kind, Parameter};

use crate::{Progress, Source, TraceError};
use parameter::{Values, suggestion};
use process::Process;
use reach_core::{BlockTable, Chunk, Event};

/// References in a chunk: enough to make its overhead vanish, few enough (1 MiB) to stay in a cache.
const CHUNK_REFS: usize = 128 << 10;

/// A synthetic program, as help texts show it.
#[derive(Debug)]
pub struct Description {
    /// Its name, before the `:`.
    pub name: &'static str,
    /// What it is for, on one line.
    pub purpose: &'static str,
    /// What it may be told.
    pub parameters: &'static [Parameter],
    build: Build,
}

type Build = fn(&Values, &mut Process) -> Result<Box<dyn Program>, String>;

/// The loops of a program.
trait Program: Send {
    /// Appends what comes next, until `chunk` holds `until` references or a little more, or the program ends: it has
    /// ended when it leaves fewer. Where the cuts fall must not change what is appended.
    fn run(&mut self, chunk: &mut Chunk, until: usize);

    /// How far the program has come.
    fn progress(&self) -> Progress;
}

static PROGRAMS: &[Description] = &[
    touch::ABOUT,
    stream::ABOUT,
    stride::ABOUT,
    chase::ABOUT,
    gups::ABOUT,
    graph::bfs::ABOUT,
    graph::bc::ABOUT,
    graph::pr::ABOUT,
    graph::tc::ABOUT,
    kv::ABOUT,
    mix::ABOUT,
    phases::ABOUT,
    matrix::ABOUT,
    fang_micro::ABOUT,
    tree::ABOUT,
    cmp::ABOUT,
    code::ABOUT,
    daemons::ABOUT,
    dirty::ABOUT,
    fft3::ABOUT,
    pulse::ABOUT,
    web::ABOUT,
];

/// All synthetic programs: from here the command line, its help and the documentation take them.
pub fn list() -> &'static [Description] {
    PROGRAMS
}

/// Makes the program that `spec` describes: `NAME` or `NAME:key=value,key=value`. See [`list`] for what there is.
///
/// Fails with [`TraceError::Invalid`], which names what is near, when the program, a parameter or a value is not known.
pub fn parse(spec: &str) -> Result<Box<dyn Source>, TraceError> {
    generator(spec, CHUNK_REFS).map(|generator| Box::new(generator) as Box<dyn Source>)
}

pub(crate) fn generator(spec: &str, chunk_refs: usize) -> Result<Generator, TraceError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let about = PROGRAMS.iter().find(|about| about.name == name).ok_or_else(|| {
        let near = suggestion(name, PROGRAMS.iter().map(|about| about.name));
        TraceError::Invalid(format!("there is no synthetic program `{name}`; {near}"))
    })?;
    let wrong = |what| TraceError::Invalid(format!("synthetic program {name}: {what}"));
    let values = Values::read(about.parameters, rest).map_err(wrong)?;
    let mut process = Process::new(name);
    let program = (about.build)(&values, &mut process).map_err(wrong)?;
    let canonical = values.canonical();
    let name = if canonical.is_empty() { name.to_owned() } else { format!("{name}:{canonical}") };
    let Process { blocks, events, .. } = process;
    Ok(Generator { name, blocks, start: events, program, chunk_refs, ended: false })
}

/// Any synthetic program as a [`Source`].
pub(crate) struct Generator {
    name: String,
    blocks: BlockTable,
    /// Events before the first reference; empty once they are out.
    start: Vec<Event>,
    program: Box<dyn Program>,
    chunk_refs: usize,
    ended: bool,
}

impl Source for Generator {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        if self.ended {
            return Ok(false);
        }
        for event in self.start.drain(..) {
            chunk.push_event(event);
        }
        self.program.run(chunk, self.chunk_refs);
        if chunk.refs.len() < self.chunk_refs {
            self.ended = true;
            chunk.push_event(Event::Exit);
        }
        Ok(true)
    }

    fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        self.program.progress()
    }
}

#[cfg(test)]
mod tests;
