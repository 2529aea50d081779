//! Programs: where references come from. A live process, a recorded trace, a foreign trace or a synthetic generator,
//! all behind [`Source`].

mod source;

pub use source::{Progress, Source, TraceError};
