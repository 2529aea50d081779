//! The laboratory: machine files, experiments, the run loop, accounting and results.

mod curve;
mod experiment;
mod fan_out;
pub mod machine;
pub mod paper;
mod prepare;
mod results;
mod sample;
mod simulation;
mod traffic;

pub use curve::{Curve, Misses};
pub use experiment::{Experiment, ExperimentError, Header, Report, Status};
pub use prepare::{Batch, Preparer};
pub use reach_core::{Counts, Step, TICK};
pub use reach_hardware::Geometry;
pub use results::{ALL, Row, Value};
pub use sample::LEAST;
pub use simulation::{
    Conditions, HardwareThread, Interval, Outcome, Placement, Sample, Simulation, SimulationError, Tally, Timing,
};
