//! Measures a processor by patterns of dependent loads and fetches, and describes it as a machine file.

mod bench;
pub mod file;
pub mod infer;
mod native;
mod pass;
mod pattern;
mod simulated;
pub mod stability;

pub use bench::{Bench, BenchError};
pub use native::Native;
pub use pass::{Curve, Pass};
pub use pattern::{Access, FILLER, LINE, PAIR, Page, Pattern};
pub use simulated::Simulated;
