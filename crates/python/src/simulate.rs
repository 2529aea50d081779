//! The functions that simulate and draw.

use crate::error::{failed, of_trace, refused};
use crate::machine::machine;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::program::Program;
use crate::run::run;
use crate::watch::Watch;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use reach_lab::machine::Resolved as Machine;
use reach_lab::{Conditions, SimulationError};
use reach_page::{Page, Table};
use reach_systems::Resolved as System;
use std::sync::Arc;

/// Simulates a program on machines under systems. Without machines, takes the preset nearest to this computer's processor;
/// without systems, those that `reach compare` takes.
#[pyfunction]
pub fn simulate(
    py: Python<'_>,
    program: &Program,
    machines: Bound<'_, PyList>,
    systems: Bound<'_, PyList>,
    options: Bound<'_, PyDict>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let options = Options(options);
    let watch = Arc::new(Watch::default());
    let mut machines = machines.iter().map(|given| machine(&given)).collect::<PyResult<Vec<_>>>()?;
    if machines.is_empty() {
        let (name, _) = reach_lab::machine::nearest_host();
        machines.push(reach_lab::machine::resolve(name).map_err(failed)?);
    }
    let mut systems = systems.iter().map(|given| system(&given, &watch)).collect::<PyResult<Vec<_>>>()?;
    if systems.is_empty() {
        systems = default_systems(&machines, &options.conditions()?)?;
    }
    let experiment = options.experiment(machines, systems)?;
    let timing = experiment.conditions.timing;
    let source = program.source().map_err(of_trace)?;
    let (header, report) = run(py, experiment, source, progress, &watch)?;
    Outcome::new(&header, &report, timing)
}

/// Returns the name of a machine in results, and the hash of all that results under these systems depend on beside the program.
#[pyfunction]
pub fn configuration(
    given: Bound<'_, PyAny>,
    systems: Bound<'_, PyList>,
    options: Bound<'_, PyDict>,
) -> PyResult<(String, String)> {
    let (machine, watch) = (machine(&given)?, Arc::new(Watch::default()));
    let name = machine.name.clone();
    let systems = systems.iter().map(|given| system(&given, &watch)).collect::<PyResult<Vec<_>>>()?;
    let experiment = Options(options).experiment(vec![machine], systems)?;
    Ok((name, experiment.configuration().hash))
}

/// Reads a system.
fn system(given: &Bound<'_, PyAny>, watch: &Arc<Watch>) -> PyResult<System> {
    match given.cast::<PyString>() {
        Ok(spec) => reach_systems::resolve(&spec.to_cow()?).map_err(refused),
        Err(_) => crate::system::resolve(given, watch),
    }
}

/// Returns the systems of `reach compare`.
fn default_systems(machines: &[Machine], conditions: &Conditions) -> PyResult<Vec<System>> {
    let compared =
        reach_lab::compared(machines, conditions, |system| system.compared).map_err(|error| match error {
            SimulationError::Placement(what) => refused(what),
            error => failed(error),
        })?;
    Ok(compared.systems)
}

/// A table of a page: caption, header, rows and notes.
type Cells = (String, Vec<String>, Vec<Vec<String>>, Vec<String>);

/// Returns a page of figures and tables.
#[pyfunction]
pub fn page(
    title: String,
    lead: Vec<String>,
    tables: Vec<Cells>,
    rows: &str,
    configuration: &str,
    command: String,
) -> PyResult<String> {
    let table = |(caption, header, rows, notes)| Table { caption, header, rows, notes };
    let page = Page {
        title,
        lead,
        tables: tables.into_iter().map(table).collect(),
        rows,
        configuration: Some(configuration),
        command,
        version: env!("CARGO_PKG_VERSION"),
    };
    page.html().map_err(failed)
}
