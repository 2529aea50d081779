//! `reach machine`: presets and machine files.

use crate::args::catalog::MachineVerb;
use crate::args::simulate::Timing;
use crate::failure::{Done, Failure, complain};
use crate::{output, tabulate};
use reach_lab::machine::{self, Tag};
use std::path::PathBuf;

/// Lists, shows or checks.
pub fn machine(verb: MachineVerb, quiet: bool) -> Done {
    match verb {
        MachineVerb::List => {
            let all: Vec<_> = machine::list().collect();
            output::print(&tabulate::definitions(all.iter().map(|machine| (machine.name, machine.about))))?;
            Ok(0)
        }
        MachineVerb::Show { machine } => {
            output::print(&show(&machine)?)?;
            Ok(0)
        }
        MachineVerb::Check { files, timing } => check(&files, timing, quiet),
    }
}

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
        facts.push([format!("  {key}"), value, row.tag.symbol().into(), row.why]);
    }
    out += &tabulate::columns(["key", "value", "tag", "why"], facts);
    tags.sort();
    tags.dedup();
    out.push('\n');
    for tag in tags {
        out += &format!("{:<4}{}\n", tag.symbol(), tag.meaning());
    }
    Ok(out + &format!("\nconfiguration {}\n", resolved.hash))
}

/// Says of each file what is wrong with it.
fn check(files: &[PathBuf], timing: Timing, quiet: bool) -> Done {
    let mut status = 0;
    for path in files {
        match machine::check_path(path) {
            Ok(problems) if problems.is_empty() => {
                if timing == Timing::Ooo && !machine::has_ooo(path).map_err(Failure::failed)? {
                    complain(format!("{}: ooo: missing, and --timing ooo needs it", path.display()));
                    status = 1;
                } else if !quiet {
                    output::print(&format!("{}: good\n", path.display()))?;
                }
            }
            Ok(problems) => {
                problems.iter().for_each(|problem| complain(format!("{}: {problem}", path.display())));
                status = 1;
            }
            Err(error) => {
                complain(error);
                status = 1;
            }
        }
    }
    Ok(status)
}
