//! What can be wrong with a machine. Every message says what, where, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// One thing that is wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which part, as a path through the file: `tlb.l2.ways`.
    pub at: String,
    /// Line in the file, counted from 1, where that is known.
    pub line: Option<usize>,
    /// What is wrong and what would be right.
    pub what: String,
}

impl Problem {
    /// A problem whose line is not known yet.
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

/// Why a machine could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No preset has this name.
    #[error("no machine {name:?}; {todo}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Near names, or where to find them all.
        todo: String,
    },
    /// A machine file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An override is not `path=value`, or its path leads nowhere.
    #[error("{spec}: {what}")]
    Override {
        /// The override as it was given.
        spec: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// The file does not follow the schema, or describes a machine that cannot be built.
    #[error("{machine}: {}", list(problems))]
    Impossible {
        /// The preset's name, or the path of the file.
        machine: String,
        /// All that is wrong, at least one.
        problems: Vec<Problem>,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n  ")
}

/// The names among `known` that `name` may have been meant for, nearest first.
pub(super) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|candidate| {
            let alike = strsim::jaro_winkler(name, candidate);
            // "zen" and "skylake" are how people shorten names.
            let part = if name.len() >= 3 && candidate.contains(name) { 1.0 } else { 0.0 };
            (alike.max(part), candidate)
        })
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// "did you mean a or b?" or, when nothing is near, `otherwise`.
pub(super) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    match near(name, known)[..] {
        [] => otherwise.to_owned(),
        ref names => format!("did you mean {}?", names.join(" or ")),
    }
}
