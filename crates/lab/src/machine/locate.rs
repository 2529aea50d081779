//! Lines of keys in a machine file.

use super::error::Problem;
use toml::de::{DeTable, DeValue};

/// Returns the line of byte `at`, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// Returns the line of the key at `path`, or of the innermost table around it that exists. `None`: not even the section
/// exists.
fn line_of_path(text: &str, root: &DeTable<'_>, path: &str) -> Option<usize> {
    let mut table = root;
    let mut line = None;
    for part in path.split('.') {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
        line = Some(line_of(text, key.span().start));
        match value.get_ref() {
            DeValue::Table(next) => table = next,
            _ => break,
        }
    }
    line
}

/// Sets the line of each problem that has none to that of its key in `text`.
pub(super) fn locate(text: &str, problems: &mut [Problem]) {
    let Ok(root) = DeTable::parse(text) else { return };
    for problem in problems.iter_mut().filter(|problem| problem.line.is_none()) {
        problem.line = line_of_path(text, root.get_ref(), &problem.at);
    }
}
