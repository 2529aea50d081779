//! `reach compare`: one program under several systems, side by side.

use crate::args::simulate::CompareArgs;
use crate::experiment::Besides;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::output::{self, Output};
use crate::page::{self, HtmlFile};
use crate::{emulator, experiment, selected, table};
use reach_lab::machine::Resolved as Machine;
use reach_lab::{Conditions, FindingKind, SimulationError};
use reach_systems::{Description, Resolved as System};

/// Runs the comparison and prints its table.
pub fn compare(args: CompareArgs, quiet: bool) -> VerbResult {
    let CompareArgs { mut machines, mut systems, all_systems, common } = args;
    if machines.is_empty() {
        machines.push(experiment::nearest_machine(quiet)?);
    }
    let named = !systems.is_empty();
    if !named {
        let conditions = experiment::conditions(&common.conditions, false);
        systems = unnamed_systems(&machines, &conditions, all_systems, quiet)?;
    }
    let out = Output::open(&common.output)?;
    let html = HtmlFile::open(&common.output.html, common.output.force)?;
    let finished = experiment::run(machines, systems, Besides::default(), &common, quiet)?;
    out.write(&output::render(&finished, &common.output, table::comparison, selected::comparison))?;
    html.map(|html| html.write(&page::comparison(&finished))).transpose()?;
    output::remark_on_missing(&finished, &common.output, quiet);
    finish(finished, named)
}

/// Reports a failure of `--record`, offers a newer emulator if the program needed one, and returns the exit status. Call
/// after the results are printed. `named`: the user chose the systems.
pub fn finish(finished: experiment::Finished, named: bool) -> VerbResult {
    if finished.live {
        emulator::offer_newer(&finished.report.ending);
    }
    if let Some(Failure::Failed(message)) = finished.recording {
        print_error(message);
        return Ok(1);
    }
    let fails = |kind: FindingKind| kind.fails() || named && kind.fails_if_named();
    let fails = finished.report.all_findings().any(|(_, finding)| fails(finding.kind));
    Ok(if finished.status == 0 { fails.into() } else { finished.status })
}

/// Returns the default systems, or `all`, with a remark on each that is left out unless `quiet`.
fn unnamed_systems(
    machines: &[Machine],
    conditions: &Conditions,
    all: bool,
    quiet: bool,
) -> Result<Vec<System>, Failure> {
    let wanted = |system: &Description| all || system.compared;
    let compared = reach_lab::compared(machines, conditions, wanted).map_err(|error| match error {
        SimulationError::Placement(what) => Failure::Usage(what),
        error => Failure::failed(error),
    })?;
    for error in compared.left_out {
        remark(quiet, format!("system left out: {error}"));
    }
    Ok(compared.systems)
}
