//! Programs: where references come from. A live process, a recorded trace, a foreign trace or a synthetic generator,
//! all behind [`Source`].

mod aligned;
mod fast_forward;
mod interrupt;
mod limit;
pub mod live;
mod multiprogram;
mod sample;
pub mod scenario;
mod source;
pub mod synthetic;

pub use aligned::{Aligned, Alignment};
pub use fast_forward::{FastForward, FastForwarded};
pub use interrupt::{Interruptible, Interruption};
pub use limit::Limited;
pub use multiprogram::{Member, Multiprogram, Open, Start};
pub use sample::{Between, Sampled, Sampling};
pub use source::{Progress, Source, TraceError};

pub mod file;
pub mod foreign;
mod open;
pub mod verbs;

pub use open::{Format, open, recognise};

/// What a program read from `path` is called in results.
pub(crate) fn name_of(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().chars().filter(|c| !c.is_control()).collect()
}
