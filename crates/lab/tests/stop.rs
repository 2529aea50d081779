//! Stopping an experiment from another thread.

use crate::common::experiment;
use reach_lab::{Experiment, ExperimentError, Timing};
use reach_trace::synthetic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn an_experiment_that_is_stopped_ends_before_its_program_on_any_number_of_threads() {
    for threads in [0, 2] {
        let stop = Arc::new(AtomicBool::new(false));
        let experiment = Experiment {
            stop: Some(stop.clone()),
            threads,
            ..experiment(&["zen4"], &["base", "linux-thp"], Timing::InOrder)
        };
        let mut program = synthetic::parse("gups:bytes=64M,updates=100M").unwrap();
        let mut seen = 0;
        let watch = |status: reach_lab::Status| {
            seen = status.references;
            stop.store(true, Ordering::Relaxed);
            true
        };
        let outcome = experiment.run(&mut *program, watch);
        assert!(matches!(outcome, Err(ExperimentError::Stopped)), "{threads} threads");
        assert!(seen < 1_000_000, "{seen}");
    }
}
