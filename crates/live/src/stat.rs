//! Performance counters of address translation: walk cycles per instruction (WCPI) and its factors, for each processor model.

mod answer;
mod counters;
pub mod models;
mod read;

pub use answer::{Answer, Fact, Factor};
pub use counters::{CountError, Counters, run};
pub use models::{MODELS, Model};
pub use read::{Count, Identified, ReadError, counts, identify, rename_events};

#[cfg(test)]
mod tests;
