//! Errors of machine files, of their names and of overrides. Each message says what is wrong, where, and what to do.

use reach_core::Shown;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error in one part of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part, as a path through the file: `tlb.l2.ways`. Empty where the file cannot be parsed.
    pub at: String,
    /// The line of the file, counted from 1. `None` for a machine that was not read from a file.
    pub line: Option<usize>,
    /// The error, and what is expected.
    pub what: String,
}

impl Problem {
    /// A problem without a line; [`locate`](super::locate::locate) adds it.
    pub(super) fn new(at: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem { at: at.into(), line: None, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.what)
    }
}

/// An error that keeps a machine from being used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No preset has this name.
    #[error("no machine {name:?}; {todo}")]
    Unknown {
        /// The name as the user wrote it.
        name: String,
        /// Near names, or the command that lists all.
        todo: String,
    },
    /// A machine file could not be read.
    #[error("{path}: {source}", path = path.shown())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An override is not `path=value`, or the machine has no such key.
    #[error("{spec}: {what}")]
    Override {
        /// The override as the user wrote it.
        spec: String,
        /// The error, and what is expected.
        what: String,
    },
    /// The file does not follow the schema, or describes a machine that cannot be built.
    #[error("{machine}: {}", list(problems))]
    Impossible {
        /// The preset's name, or the path of the file.
        machine: String,
        /// All errors found, at least one.
        problems: Vec<Problem>,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n  ")
}

/// Returns up to three of the `known` names that resemble `name`, nearest first.
pub(super) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|candidate| {
            let likeness = strsim::jaro_winkler(name, candidate);
            // People shorten names: "zen", "skylake".
            let part = if name.len() >= 3 && candidate.contains(name) { 1.0 } else { 0.0 };
            (likeness.max(part), candidate)
        })
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Returns "did you mean a or b?", or `otherwise` where no known name is near.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    match near(name, known)[..] {
        [] => otherwise.to_owned(),
        ref names => format!("did you mean {}?", names.join(" or ")),
    }
}
