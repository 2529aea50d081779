//! `reach machine`: lists, shows, verifies and probes machines.

use crate::args::catalog::MachineVerb;
use crate::args::simulate::Timing;
use crate::failure::{Failure, VerbResult, print_error};
use crate::{output, probe, tabulate};
use reach_core::Shown;
use reach_lab::machine::{self, Tag};
use std::path::PathBuf;

/// Runs one of the verbs of `reach machine`.
pub fn machine(verb: MachineVerb, quiet: bool) -> VerbResult {
    match verb {
        MachineVerb::List => {
            let all: Vec<_> = machine::list().collect();
            output::print(&tabulate::definitions(all.iter().map(|machine| (machine.name, machine.about))))?;
            Ok(0)
        }
        MachineVerb::Show { machine } => {
            output::print(&tabulate::fitted(&show(&machine)?))?;
            Ok(0)
        }
        MachineVerb::Check { files, timing } => check(&files, timing, quiet),
        MachineVerb::Probe(args) => probe::probe(&args, quiet),
    }
}

/// Formats every value of a machine with its source.
fn show(spec: &str) -> Result<String, Failure> {
    let resolved = machine::resolve(spec).map_err(Failure::failed)?;
    let rows = machine::show(spec).map_err(Failure::failed)?;
    let mut out = tabulate::definitions([(resolved.name.as_str(), resolved.about.as_str())]) + "\n";
    let mut tags: Vec<Tag> = rows.iter().map(|row| row.tag).collect();
    let mut facts = Vec::new();
    let mut section = String::new();
    for row in rows {
        let (within, key) = row.path.rsplit_once('.').unwrap_or(("", &row.path));
        if within != section {
            section = within.to_owned();
            facts.push([section.clone(), String::new(), String::new(), String::new()]);
        }
        let value = row.value.replace('+', " + ");
        let unit = if value == "1" { row.unit.trim_end_matches('s') } else { row.unit };
        let value = if unit.is_empty() { value } else { format!("{value} {unit}") };
        facts.push([format!("  {key}"), value, row.tag.symbol().into(), row.reason]);
    }
    out += &tabulate::columns(["key", "value", "tag", "source"], facts);
    tags.sort();
    tags.dedup();
    out.push('\n');
    for tag in tags {
        out += &format!("{:<4}{}\n", tag.symbol(), tag.meaning());
    }
    Ok(out + &format!("\nconfiguration {}\n", resolved.hash))
}

/// Prints each problem of each file. Returns exit status 1 if there is one.
fn check(files: &[PathBuf], timing: Timing, quiet: bool) -> VerbResult {
    let mut status = 0;
    for path in files {
        match machine::check_path(path) {
            Ok(problems) if problems.is_empty() => {
                if timing == Timing::Ooo && !machine::has_ooo(path).map_err(Failure::failed)? {
                    print_error(format!("{}: has no section [ooo], which --timing ooo needs", path.shown()));
                    status = 1;
                } else if !quiet {
                    output::print(&format!("{}: valid\n", path.shown()))?;
                }
            }
            Ok(problems) => {
                problems.iter().for_each(|problem| print_error(format!("{}: {problem}", path.shown())));
                status = 1;
            }
            Err(error) => {
                print_error(error);
                status = 1;
            }
        }
    }
    Ok(status)
}
