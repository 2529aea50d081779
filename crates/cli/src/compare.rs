//! `reach compare`: one program, every remedy, side by side.

use crate::args::CompareArgs;
use crate::failure::{Done, Failure, complain};
use crate::output::{self, Output};
use crate::{experiment, table};

/// Compares.
pub fn compare(args: CompareArgs, quiet: bool) -> Done {
    let CompareArgs { mut machines, mut systems, common } = args;
    if machines.is_empty() {
        machines.push(experiment::nearest_machine(quiet)?);
    }
    if systems.is_empty() {
        systems = default_systems()?;
    }
    let out = Output::open(&common.output)?;
    let finished = experiment::run(machines, systems, &common, quiet)?;
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

/// What is compared unless asked otherwise: stock Linux, then every published system, then the bound.
fn default_systems() -> Result<Vec<reach_systems::Resolved>, Failure> {
    let is_published =
        |name: &str| name.split('-').any(|word| word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit()));
    let stock = ["base", "linux-thp", "hugetlb-2m"];
    let names = || reach_systems::list().iter().map(|system| system.name);
    let known = |wanted: &&str| names().any(|name| name == *wanted);
    let chosen = stock.into_iter().filter(known).chain(names().filter(|name| is_published(name))).chain(["ideal"]);
    chosen.map(|name| reach_systems::resolve(name).map_err(Failure::failed)).collect()
}
