//! `reach compare`: one program, every remedy, side by side.

use crate::args::simulate::CompareArgs;
use crate::failure::{Done, Failure, complain};
use crate::output::{self, Output};
use crate::{experiment, table};
use reach_lab::machine::Resolved as Machine;
use reach_lab::{Conditions, Simulation};
use reach_systems::Resolved as System;

/// Compares.
pub fn compare(args: CompareArgs, quiet: bool) -> Done {
    let CompareArgs { mut machines, mut systems, common } = args;
    if machines.is_empty() {
        machines.push(experiment::nearest_machine(quiet)?);
    }
    if systems.is_empty() {
        systems = default_systems(&machines, &experiment::conditions(&common.conditions), quiet)?;
    }
    let out = Output::open(&common.output)?;
    let finished = experiment::run(machines, systems, None, &common, quiet)?;
    out.write(&output::render(&finished, common.output.format, table::comparison))?;
    finish(finished)
}

/// The exit status, once results are out.
pub fn finish(finished: experiment::Finished) -> Done {
    match finished.recording {
        Some(Failure::Failed(what)) => {
            complain(what);
            Ok(1)
        }
        _ => Ok(finished.status),
    }
}

/// Returns what is compared unless systems are named: stock Linux, every published system and the bound, less those that
/// one of the machines cannot run.
fn default_systems(machines: &[Machine], conditions: &Conditions, quiet: bool) -> Result<Vec<System>, Failure> {
    let mut systems = Vec::new();
    for description in reach_systems::list().iter().filter(|description| description.compared) {
        let system = reach_systems::resolve(description.name).map_err(Failure::failed)?;
        // Designs for software-managed TLBs cannot run on most machines, which needs no warning.
        if machines.iter().any(|machine| Simulation::lacks_handler(machine, &system)) {
            continue;
        }
        let refusal = machines.iter().find_map(|machine| Simulation::new(machine, &system, conditions).err());
        match refusal {
            // Without this one there is nothing to compare to.
            Some(error) if systems.is_empty() => return Err(Failure::failed(error)),
            Some(error) if !quiet => eprintln!("reach: left out: {error}"),
            Some(_) => {}
            None => systems.push(system),
        }
    }
    Ok(systems)
}
