//! `reach explain`: defines metrics.

use crate::args::catalog::ExplainArgs;
use crate::failure::VerbResult;
use crate::{output, tabulate};
use reach_lab::metrics::{self, Definition};

/// Prints the definitions of the metrics that were asked for, or a list of all.
pub fn explain(args: &ExplainArgs) -> VerbResult {
    let mut chosen: Vec<&Definition> = Vec::new();
    for definition in args.metrics.iter().flat_map(|selector| selector.definitions()) {
        if !chosen.contains(&definition) {
            chosen.push(definition);
        }
    }
    let text = match &chosen[..] {
        [] => list(),
        chosen => chosen.iter().map(|definition| define(definition)).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text)?;
    Ok(0)
}

fn define(definition: &Definition) -> String {
    let facts = [
        ("  unit", definition.unit.to_owned()),
        ("  from", plain(definition.source())),
        ("  given by", plain(definition.given_by())),
    ];
    let meaning = tabulate::paragraph("  ", &plain(definition.meaning));
    let facts = tabulate::definitions(facts.iter().map(|(name, text)| (*name, text.as_str())));
    tabulate::paragraph("", definition.name) + &meaning + &facts
}

/// Lists all metrics by group, each with the first sentence of its meaning.
fn list() -> String {
    let mut out = String::new();
    for group in metrics::groups() {
        out += &tabulate::paragraph("", group.title);
        let lines = group.definitions.iter().map(|definition| {
            let first = definition.meaning.split_once(". ").map_or(definition.meaning, |(first, _)| first);
            (format!("  {}", definition.name), plain(first.trim_end_matches('.')))
        });
        let lines: Vec<_> = lines.collect();
        out += &tabulate::definitions(lines.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        out.push('\n');
    }
    out + &tabulate::paragraph("", "reach explain METRIC defines one; docs/metrics.md has all definitions")
}

/// Removes the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
