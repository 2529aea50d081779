//! Programs: where references come from. A live process, a recorded trace, a foreign trace or a synthetic generator,
//! all behind [`Source`].

mod filter;
pub mod live;
mod multiprogram;
pub mod scenario;
mod signals;
mod source;
pub mod synthetic;

pub use filter::aligned::{Aligned, Alignment};
pub use filter::fast_forward::{FastForward, FastForwarded};
pub use filter::interruptible::Interruptible;
pub use filter::limit::Limited;
pub use filter::sample::{Between, Sampled, Sampling};
pub use multiprogram::{Member, Multiprogram, Open, Start};
pub use signals::Interruption;
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
