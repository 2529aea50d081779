//! The laboratory: machine files, experiments, the run loop, accounting and results.

mod conditions;
mod curve;
mod experiment;
pub mod machine;
pub mod metrics;
pub mod paper;
mod prepare;
mod results;
mod simulation;

pub use conditions::{Conditions, Placement, Timing};
pub use curve::{Curve, Misses};
pub use experiment::{Experiment, ExperimentError, Header, Report, Status};
pub use metrics::LEAST;
pub use prepare::{Batch, Preparer};
pub use reach_core::{Counts, Step, TICK_INSTRUCTIONS};
pub use reach_hardware::Geometry;
pub use results::{ALL, Row, Value};
pub use simulation::{HardwareThread, Interval, Outcome, Sample, Simulation, SimulationError, Tally};
