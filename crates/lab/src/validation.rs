//! Measured hardware beside ours. A set holds measurements of real processors as reviewed data, with their source, and the
//! experiments that give our numbers.
//!
//! A set has the form of a paper ([`crate::paper`]), and three rules more: it names its source, every tolerance is two-sided,
//! and numbers with which no part of the model was built are marked as kept back.
//!
//! ```
//! use reach_lab::validation::Set;
//!
//! let set = Set::open("random-reads").unwrap();
//! assert!(!set.source.licence.is_empty());
//! assert!(set.paper.experiments.iter().flat_map(|e| &e.items).any(|item| item.kept_back));
//! ```

mod embedded;
pub mod here;
mod row;

pub use row::Row;

use crate::paper::files::PaperFiles;
use crate::paper::{Paper, PaperError};
use embedded::SETS;
use serde::Deserialize;
use std::path::Path;

/// Where measurements come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// What was measured.
    pub title: String,
    /// The address and the version of what published them.
    pub address: String,
    /// The licence under which they are published.
    pub licence: String,
    /// When they were measured.
    pub measured: String,
    /// When they were collected.
    pub collected: String,
    /// What readers of the numbers must know.
    pub notes: String,
}

/// Measurements of real processors, with the experiments that give ours.
#[derive(Clone)]
pub struct Set {
    /// Where the measurements come from.
    pub source: Source,
    /// The experiments and numbers; a published number is a measured one.
    pub paper: Paper,
}

/// Returns the names of the sets that come with the program.
pub fn list() -> impl Iterator<Item = &'static str> {
    SETS.iter().map(|(name, _)| *name)
}

impl Set {
    /// Opens the set of this name, or in this folder.
    ///
    /// # Errors
    /// When there is no such set, and when its files cannot be read or are wrong.
    pub fn open(name: &str) -> Result<Set, PaperError> {
        let folder = Path::new(name);
        let (short, files) = match SETS.iter().find(|(known, _)| *known == name) {
            Some((name, files)) => ((*name).to_owned(), PaperFiles::Embedded(files)),
            None if folder.is_dir() => {
                let short = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
                (short, PaperFiles::Folder(folder.to_owned()))
            }
            None => {
                let known = list().collect::<Vec<_>>().join(", ");
                return Err(PaperError::NoSet { name: name.into(), known });
            }
        };
        let wrong = |file: &str, what| PaperError::File { paper: format!("{short}/{file}"), what };
        let source = files.text("source.toml").and_then(|text| read_source(&text));
        let source = source.map_err(|what| wrong("source.toml", what))?;
        let text = files.text("set.toml").map_err(|what| wrong("set.toml", what))?;
        let paper = Paper::of_set(&short, &text, files)?;
        for item in paper.experiments.iter().flat_map(|e| &e.items) {
            if let Some(tolerance) = item.tolerance.filter(|tolerance| !tolerance.is_two_sided()) {
                let what = format!("{}: tolerance {tolerance}: expected within or factor", item.item);
                return Err(wrong("set.toml", what));
            }
        }
        Ok(Set { source, paper })
    }
}

/// Reads `source.toml`.
fn read_source(text: &str) -> Result<Source, String> {
    let source: Source = toml::from_str(text).map_err(|error| error.message().replace('\n', "; "))?;
    let Source { title, address, licence, measured, collected, notes: _ } = &source;
    let needed = [("title", title), ("address", address), ("licence", licence), ("measured", measured)];
    let mut needed = needed.into_iter().chain([("collected", collected)]);
    let empty = needed.find(|(_, value)| value.trim().is_empty()).map(|(key, _)| key);
    empty.map_or(Ok(source.clone()), |key| Err(format!("{key} is empty; name the source")))
}

#[cfg(test)]
mod tests;
