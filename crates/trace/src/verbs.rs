//! What `reach trace` does with files: `info`, `check`, `dump`, `convert`.

use crate::Progress;

mod check;
mod convert;
mod dump;
mod info;

pub use check::{Checked, check};
pub use convert::{Converted, convert};
pub use dump::dump;
pub use info::{Info, info};

/// Is told now and then how far a verb has come: references so far, and the trace's own measure.
pub type Watch<'a> = &'a mut dyn FnMut(u64, Progress);
