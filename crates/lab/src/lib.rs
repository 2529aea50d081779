//! The laboratory: machine files, experiments, the run loop, accounting and results.

mod fan_out;
mod prepare;

pub use prepare::{Counts, Preparer, Step, TICK};
