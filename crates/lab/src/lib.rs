//! The laboratory: machine files, experiments, the run loop, metrics, results, and papers.
//!
//! [`machine::resolve`] reads a machine, an [`Experiment`] runs a program on machines under systems, and its [`Report`]
//! gives [`Row`]s. [`paper`] compares rows with published numbers, [`validation`] with measured hardware.

pub mod attribution;
mod compared;
mod conditions;
mod curve;
mod experiment;
mod findings;
mod kernel_code;
pub mod machine;
pub mod metrics;
pub mod paper;
mod prepare;
mod results;
mod simulation;
pub mod validation;
pub mod values;

pub use compared::{Compared, compared};
pub use conditions::{Conditions, Placement, Timing};
pub use curve::{Curve, Misses};
pub use experiment::{Attributed, Experiment, ExperimentError, Header, Occupancy, Report, Status};
pub use findings::{Finding, FindingKind};
pub use kernel_code::KernelCode;
pub use prepare::{Batch, Lookahead, Preparer};
pub use reach_core::{Counts, Step, TICK_INSTRUCTIONS};
pub use reach_hardware::Geometry;
pub use results::{ALL, MemoryRow, Row, Value, memory_rows};
pub use simulation::{
    AlignedSuperpages, Cold, HardwareThread, Interval, KernelWork, LEAST, MemoryPoint, Outcome, Sample, Simulation,
    SimulationError, Stops, Tally,
};
