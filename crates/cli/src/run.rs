//! `reach run`: one machine, one system, every counter.

use crate::args::simulate::RunArgs;
use crate::compare::finish;
use crate::experiment::Besides;
use crate::failure::VerbResult;
use crate::output::{self, Output};
use crate::page::{self, HtmlFile};
use crate::{experiment, report, selected};

/// Runs the simulation and prints its report.
pub fn run(args: RunArgs, quiet: bool) -> VerbResult {
    let RunArgs { machine, system, curve, common } = args;
    let machine = match machine {
        Some(machine) => machine,
        None => experiment::nearest_machine(quiet)?,
    };
    let besides = Besides { curve, ..Besides::default() };
    let out = Output::open(&common.output)?;
    let html = HtmlFile::open(&common.output.html, common.output.force)?;
    let finished = experiment::run(vec![machine.clone()], vec![system], besides, &common, quiet)?;
    let report = |finished: &_| report::report(&machine, finished);
    out.write(&output::render(&finished, &common.output, report, selected::report))?;
    html.map(|html| html.write(&page::simulation(&finished))).transpose()?;
    output::remark_on_missing(&finished, &common.output, quiet);
    finish(finished, true)
}
