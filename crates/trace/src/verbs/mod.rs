//! What `reach trace` does with files: `info`, `check`, `dump`, `convert`.

mod check;
mod convert;
mod dump;
mod info;

pub use check::{Checked, check};
pub use convert::{Converted, convert};
pub use dump::dump;
pub use info::{Info, info};
