//! Programs: where references come from. A live process, a recorded trace, a foreign trace or a synthetic generator,
//! all behind [`Source`].

pub mod live;
mod source;
pub mod synthetic;

pub use source::{Progress, Source, TraceError};
