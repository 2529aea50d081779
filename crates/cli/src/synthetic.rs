//! `reach program`: lists and shows synthetic programs.

use crate::args::catalog::ProgramVerb;
use crate::failure::VerbResult;
use crate::{output, tabulate};
use reach_trace::synthetic::{Description, list};

/// Runs one of the verbs of `reach program`.
pub fn program(verb: ProgramVerb) -> VerbResult {
    let text = match verb {
        ProgramVerb::List => tabulate::definitions(list().iter().map(|program| (program.name, program.summary))),
        ProgramVerb::Show { name } => show(name),
    };
    output::print(&tabulate::fitted(&text))?;
    Ok(0)
}

fn show(program: &Description) -> String {
    let mut out = tabulate::definitions([(program.name, program.summary)]) + "\n";
    let rows =
        program.parameters.iter().map(|p| [p.name.into(), p.default.into(), p.kind.to_string(), p.summary.into()]);
    out += &tabulate::columns(["parameter", "default", "accepts", "meaning"], rows);
    let first = program.parameters.first().map_or(String::new(), |p| format!(":{}={}", p.name, p.default));
    out + &format!("\nExample: reach compare --program {}{first}\n", program.name)
}
