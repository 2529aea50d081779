//! The subcommands of `reach trace`: `info`, `check`, `dump`, `convert`.

use crate::Progress;

mod check;
mod convert;
mod dump;
mod info;

pub use check::{Checked, check};
pub use convert::{Converted, Target, convert};
pub use dump::dump;
pub use info::{Info, info};

/// A call-back for progress: the references read so far, and the progress in units of the source.
pub type Watch<'a> = &'a mut dyn FnMut(u64, Progress);
