//! Published numbers beside ours. A paper's files hold its numbers as reviewed data, each with the experiment that gives
//! ours, a tolerance, and the reason for the tolerance.
//!
//! An experiment is a base and its differences: programs, a scenario or a captured command, on a machine, under systems
//! that have labels. A table states its columns once. A number that cannot be measured says why, and a missed number is
//! shown as missed. A number that would be met where nothing has an effect is not decisive. Nothing here decides what a
//! system does.
//!
//! `file` reads the form, `differences` makes experiments from it, `run` runs them; the other files hold one part of the form
//! each.
//!
//! ```
//! use reach_lab::paper::Paper;
//!
//! let paper = Paper::open("navarro-2002").unwrap();
//! let experiment = &paper.experiments[0];
//! assert!(experiment.items.iter().all(|item| item.reason.kind.is_some()));
//! ```

mod columns;
mod command;
mod comparison;
mod differences;
mod embedded;
mod experiment;
mod figure;
mod file;
pub(crate) mod files;
mod input;
mod interval;
mod item;
mod measure;
mod overall;
mod quick;
mod reason;
mod recording;
mod relation;
mod run;
mod saved;
mod series;
mod sweep;
mod syntax;

pub use command::Command;
pub use comparison::{Comparison, Verdict};
pub use experiment::{PaperExperiment, QUANTUM};
pub use figure::{Figure, FigureTable, FigureValue};
pub use input::Input;
pub use interval::Interval;
pub use item::{MissingItem, PublishedItem, Tolerance};
pub use measure::{Comparator, Measure, Processes};
pub use overall::{Aggregate, Overall};
pub use reason::{Reason, ReasonKind};
pub use recording::Recording;
pub use relation::Relation;
pub use run::PaperOutcome;
pub use saved::save;
pub use series::SeriesPoint;

use embedded::PAPERS;
use files::PaperFiles;
pub(crate) use input::SharedInput;
use quick::Quick;
use reach_core::Shown;
use reach_trace::text;
use std::path::{Path, PathBuf};

/// A paper with its experiments, checked.
#[derive(Clone)]
pub struct Paper {
    /// Its name, which rows carry.
    pub name: String,
    /// Authors, title, place and year.
    pub citation: String,
    /// Its experiments, with the numbers that each reproduces.
    pub experiments: Vec<PaperExperiment>,
    /// Numbers over all rows of a table.
    pub overall: Vec<Overall>,
    /// Numbers about many experiments together: lines through points, correlations.
    pub relations: Vec<Relation>,
    /// Numbers that nothing measures yet.
    pub missing: Vec<MissingItem>,
    /// Bars and curves that the paper prints without numbers.
    pub figures: Vec<Figure>,
    /// The folder of recorded programs.
    pub recordings: PathBuf,
    /// What the quick form runs; `None` if there is none.
    quick: Option<Quick>,
    files: PaperFiles,
    /// Input that programs share.
    shared_input: SharedInput,
}

/// Why a paper cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// There is no such paper.
    #[error("there is no paper {name:?}; there are {known}, and folders with a paper.toml")]
    Unknown {
        /// The name as given.
        name: String,
        /// The names of all papers.
        known: String,
    },
    /// There is no such set of measurements.
    #[error("there is no set {name:?}; there are {known}, and folders with a set.toml")]
    NoSet {
        /// The name as given.
        name: String,
        /// The names of all sets.
        known: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.shown())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of the paper is wrong.
    #[error("{paper}: {what}")]
    File {
        /// The paper's name, and the file.
        paper: String,
        /// The mistake, its place, and what was expected.
        what: String,
    },
    /// The paper has no such experiment.
    #[error("{paper} has no experiment {name:?}; it has {known}")]
    NoExperiment {
        /// The paper.
        paper: String,
        /// The name as given.
        name: String,
        /// The names of all experiments.
        known: String,
    },
}

/// Returns the names of all papers that come with the program.
pub fn list() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|(name, _)| *name)
}

impl Paper {
    /// Opens the paper of this name, or in this folder.
    ///
    /// # Errors
    /// When there is no such paper, and when its files cannot be read or are wrong.
    pub fn open(name: &str) -> Result<Paper, PaperError> {
        if let Some((name, files)) = PAPERS.iter().find(|(known, _)| *known == name) {
            return Paper::read(name, files[0].1, PaperFiles::Embedded(files))?.with_reasons();
        }
        let folder = Path::new(name);
        if !folder.is_dir() {
            let known = list().collect::<Vec<_>>().join(", ");
            return Err(PaperError::Unknown { name: name.into(), known });
        }
        let path = folder.join("paper.toml");
        let text = text::read(&path, text::MAX_BYTES).map_err(|source| PaperError::Io { path, source })?;
        let short = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        Paper::read(&short, &text, PaperFiles::Folder(folder.to_owned()))?.with_reasons()
    }

    /// Fails unless every reason has a kind.
    fn with_reasons(self) -> Result<Paper, PaperError> {
        let of_experiments = self.experiments.iter().flat_map(|e| e.items.iter().cloned());
        let over_rows = self.overall.iter().map(|overall| overall.item.clone());
        let related = self.relations.iter().flat_map(|relation| relation.items().map(|(_, item)| item));
        for item in of_experiments.chain(over_rows).chain(related) {
            let wrong = |what| PaperError::File { paper: self.name.clone(), what: format!("{}: {what}", item.item) };
            item.reason.check().map_err(wrong)?;
        }
        Ok(self)
    }

    /// Replaces every system by the baseline, and the baseline, where it is measured alone, by one whose translation costs
    /// nothing. A number that such a simulator meets proves nothing: no verdict may be [`Verdict::Met`].
    pub fn without_effect(mut self) -> Paper {
        self.experiments.iter_mut().for_each(|experiment| experiment.inert = true);
        self
    }

    /// Reads a set of measurements, which has the form of a paper, from the text of its main file and its other files.
    pub(crate) fn of_set(name: &str, text: &str, files: PaperFiles) -> Result<Paper, PaperError> {
        let paper = Paper::read(name, text, files)?;
        Ok(Paper { recordings: Path::new("target/validation").join(name), ..paper })
    }

    /// Reads a paper from the text of its `paper.toml`, without the other files of its folder.
    ///
    /// # Errors
    /// When the text is wrong, or names another file.
    pub fn from_text(text: &str) -> Result<Paper, PaperError> {
        Paper::read("text", text, PaperFiles::Embedded(&[]))
    }

    fn read(name: &str, text: &str, files: PaperFiles) -> Result<Paper, PaperError> {
        let wrong = |what| PaperError::File { paper: format!("{name}/paper.toml"), what };
        let file::Content { citation, experiments, overall, relations, missing, figures, quick } =
            file::read(text, |name| files.text(name)).map_err(wrong)?;
        let recordings = Path::new("target/papers").join(name);
        let paper = Paper {
            name: name.into(),
            citation,
            experiments,
            overall,
            relations,
            missing,
            figures,
            recordings,
            quick,
            files,
            shared_input: SharedInput::default(),
        };
        for experiment in &paper.experiments {
            paper.check_program(experiment).map_err(|what| wrong(format!("experiment {}: {what}", experiment.name)))?;
        }
        Ok(paper)
    }

    /// Returns the experiments of these names, in the paper's order; all of them if `names` is empty.
    ///
    /// # Errors
    /// When the paper has no experiment of a name.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&PaperExperiment>, PaperError> {
        if let Some(name) = names.iter().find(|&name| self.experiments.iter().all(|e| e.name != *name)) {
            let known = self.experiments.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(PaperError::NoExperiment { paper: self.name.clone(), name: name.clone(), known });
        }
        Ok(self.experiments.iter().filter(|e| names.is_empty() || names.contains(&e.name)).collect())
    }
}

#[cfg(test)]
mod tests;
