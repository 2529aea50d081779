//! Machine files, experiments, the run loop and results.

pub mod machine;
