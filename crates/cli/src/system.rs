//! `reach system`: lists and shows systems.

use crate::args::catalog::SystemVerb;
use crate::failure::VerbResult;
use crate::{output, tabulate};
use reach_systems::{Resolved, list};

/// Runs one of the verbs of `reach system`.
pub fn system(verb: SystemVerb) -> VerbResult {
    let text = match verb {
        SystemVerb::List => tabulate::definitions(list().iter().map(|system| (system.name, system.summary))),
        SystemVerb::Show { system } => show(&system),
    };
    output::print(&tabulate::fitted(&text))?;
    Ok(0)
}

fn show(system: &Resolved) -> String {
    let Some(description) = list().iter().find(|description| description.name == system.name()) else {
        return String::new();
    };
    let published = description.published.map(|citation| ("published", citation));
    let about = [(description.name, description.summary)].into_iter().chain(published);
    let mut out = tabulate::definitions(about) + "\n";
    let value = |name: &str| system.settings().iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    let rows = description.options().into_iter().map(|setting| {
        [setting.name.into(), value(setting.name).into(), setting.accepts.to_string(), setting.summary.into()]
    });
    out += &tabulate::columns(["option", "value", "accepts", "meaning"], rows);
    out
}
