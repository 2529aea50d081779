//! Synthetic programs: kernels whose references follow from a few parameters.
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
//! assert_eq!(references, 3 * 1000); // one fetch, one load and one store per update
//! # Ok::<(), reach_trace::TraceError>(())
//! ```
//!
//! Mapped memory costs nothing here, so footprints of 1 TB are fine. Programs emit what the bodies of their innermost
//! loops do: no start-up code, no overhead of outer loops.
//!
//! Each program has a file with its definition (`ABOUT`), from which the parser, error messages, help and documentation
//! take its parameters. To add a program, write its file and add it to [`list`]; the tests for all programs then run it
//! once `tests` names small parameters for it.
//!
//! Models that several programs use:
//!
//! | module | contents |
//! |---|---|
//! | `process` | address-space layout; blocks and loop bodies |
//! | `first_writes` | initialisation of arrays |
//! | `malloc`, `first_fit` | the brk heap; addresses of mappings made at run time |
//! | `red_black` | a tree that reports every field that it accesses |
//! | `permutation`, `zipf` | random orders without tables; popularity |

mod cg;
mod chase;
mod cmp;
mod code;
mod daemons;
mod dirty;
mod fang_micro;
mod fft3;
mod first_fit;
mod first_writes;
mod generator;
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
mod program;
mod pulse;
mod random_reads;
mod red_black;
mod stream;
mod stride;
mod touch;
mod tree;
mod web;
mod zipf;

pub use parameter::{Parameter, ValueKind};
pub use program::Description;

use crate::{Source, TraceError};
use generator::{CHUNK_REFS, Generator};
use parameter::{Values, suggestion};
use process::Process;

static PROGRAMS: &[Description] = &[
    touch::ABOUT,
    stream::ABOUT,
    stride::ABOUT,
    chase::ABOUT,
    gups::ABOUT,
    random_reads::ABOUT,
    graph::bfs::ABOUT,
    graph::bc::ABOUT,
    graph::pr::ABOUT,
    graph::tc::ABOUT,
    cg::ABOUT,
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

/// Returns all synthetic programs, in the order of help texts and documentation.
pub fn list() -> &'static [Description] {
    PROGRAMS
}

/// Makes the program that `spec` describes: `NAME` or `NAME:key=value,key=value`. [`list`] returns all programs.
///
/// # Errors
/// [`TraceError::Invalid`] when the program, a parameter or a value is unknown. The message suggests what is similar.
pub fn parse(spec: &str) -> Result<Box<dyn Source>, TraceError> {
    generator(spec, CHUNK_REFS).map(|generator| Box::new(generator) as Box<dyn Source>)
}

/// Does the same as [`parse`], with chunks of `chunk_refs` references.
pub(crate) fn generator(spec: &str, chunk_refs: usize) -> Result<Generator, TraceError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let about = PROGRAMS.iter().find(|about| about.name == name).ok_or_else(|| {
        let similar = suggestion(name, PROGRAMS.iter().map(|about| about.name));
        TraceError::Invalid(format!("there is no synthetic program `{name}`; {similar}"))
    })?;
    let error = |message| TraceError::Invalid(format!("synthetic program {name}: {message}"));
    let values = Values::read(about.parameters, rest).map_err(error)?;
    let mut process = Process::new(name);
    let program = (about.build)(&values, &mut process).map_err(error)?;
    let canonical = values.canonical();
    let name = if canonical.is_empty() { name.to_owned() } else { format!("{name}:{canonical}") };
    Ok(Generator::new(name, process, program, chunk_refs))
}

#[cfg(test)]
mod tests;
