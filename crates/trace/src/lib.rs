//! Programs: sources of references. A program is a live process, a recorded trace, a trace of another tool or a synthetic
//! generator, and all of them implement [`Source`].
//!
//! ```
//! use reach_core::Chunk;
//! use reach_trace::{Limited, Source, synthetic};
//!
//! let program = synthetic::parse("gups:bytes=1M,updates=1000")?;
//! let mut source = Limited::new(program, Some(500));
//! let (mut chunk, mut references) = (Chunk::default(), 0);
//! while source.fill(&mut chunk)? {
//!     references += chunk.refs.len();
//! }
//! assert_eq!(references, 500);
//! # Ok::<(), reach_trace::TraceError>(())
//! ```

mod ending;
mod error;
pub mod file;
mod filter;
pub mod foreign;
pub mod live;
mod multiprogram;
mod open;
pub mod scenario;
mod signals;
mod source;
pub mod synthetic;
pub mod text;
pub mod verbs;

pub use ending::{Cause, Ending, Execution, Exit, Missing, Part, ProgramExit, Stop};
pub use error::TraceError;
pub use filter::aligned::{Aligned, Alignment};
pub use filter::beginning::FastForward;
pub use filter::fast_forward::FastForwarded;
pub use filter::interruptible::Interruptible;
pub use filter::keep::{InMemory, Kept, KeptSize};
pub use filter::limit::Limited;
pub use filter::sample::{Between, Sampled, Sampling};
pub use multiprogram::{Member, Multiprogram, Open, Start};
pub use open::{Format, open, recognise};
pub use signals::Interruption;
pub use source::{Progress, Source};

/// Returns the name in results of a program that is read from `path`.
pub(crate) fn name_of(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().chars().filter(|c| !c.is_control()).collect()
}
