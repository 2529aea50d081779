//! Published numbers beside ours: a paper's file holds its numbers as reviewed data, each with the experiment that gives
//! ours, a tolerance, and the reason for it.
//!
//! An experiment is a base and its differences: programs, a scenario or a captured command, on a machine, under systems that
//! have labels. Tables say their columns once. What cannot be run says why. Nothing here decides what a system does; a number that is missed is shown as missed.

mod columns;
mod command;
mod figure;
mod file;
mod input;
mod measure;
mod overall;
mod recording;
mod relation;
mod run;
mod series;
mod sweep;

pub use command::Command;
pub use figure::{Drawn, Figure, Mark};
pub use file::{Experiment, Item, Missing, Tolerance};
pub use input::Input;
pub use measure::{How, Measure};
pub use overall::{Over, Overall};
pub use recording::Recording;
pub use relation::Relation;
pub use run::{Outcome, Row, Verdict};
pub use series::Point;

use input::Shared;
use std::path::{Path, PathBuf};

/// Files by name.
type Files = &'static [(&'static str, &'static str)];

/// A file of a paper's folder, with its name there.
macro_rules! file {
    ($paper:literal, $name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/", $paper, "/", $name)))
    };
}

/// The papers that come with the program: name, and files, of which the first says what there is.
const PAPERS: &[(&str, Files)] = &[
    (
        "fang-1999",
        &[
            file!("fang-1999", "paper.toml"),
            file!("fang-1999", "tables.toml"),
            file!("fang-1999", "programs.toml"),
            file!("fang-1999", "beyond.toml"),
            file!("fang-1999", "two.toml"),
            file!("fang-1999", "short.toml"),
            file!("fang-1999", "programs/cga.c"),
            file!("fang-1999", "programs/compress.c"),
            file!("fang-1999", "programs/filter.c"),
            file!("fang-1999", "programs/matmul.c"),
            file!("fang-1999", "programs/radix.c"),
            file!("fang-1999", "programs/raytrace.c"),
            file!("fang-1999", "programs/rotate.c"),
            file!("fang-1999", "programs/vortex.c"),
        ],
    ),
    (
        "karakostas-2015-rmm",
        &[
            file!("karakostas-2015-rmm", "paper.toml"),
            file!("karakostas-2015-rmm", "tables.toml"),
            file!("karakostas-2015-rmm", "programs.toml"),
            file!("karakostas-2015-rmm", "discussion.toml"),
            file!("karakostas-2015-rmm", "programs/astar.c"),
            file!("karakostas-2015-rmm", "programs/bfs.c"),
            file!("karakostas-2015-rmm", "programs/cache-client.c"),
            file!("karakostas-2015-rmm", "programs/canneal.c"),
            file!("karakostas-2015-rmm", "programs/cg.c"),
            file!("karakostas-2015-rmm", "programs/dna.c"),
            file!("karakostas-2015-rmm", "programs/gups.c"),
            file!("karakostas-2015-rmm", "programs/mcf.c"),
            file!("karakostas-2015-rmm", "programs/omnetpp.c"),
            file!("karakostas-2015-rmm", "programs/sbrk.c"),
            file!("karakostas-2015-rmm", "programs/soplex.c"),
            file!("karakostas-2015-rmm", "programs/stencil.c"),
            file!("karakostas-2015-rmm", "programs/streamcluster.c"),
            file!("karakostas-2015-rmm", "programs/tigr.c"),
        ],
    ),
    (
        "lindsay-2024",
        &[
            file!("lindsay-2024", "paper.toml"),
            file!("lindsay-2024", "graphs.toml"),
            file!("lindsay-2024", "programs.toml"),
            file!("lindsay-2024", "generators.toml"),
            file!("lindsay-2024", "tables.toml"),
            file!("lindsay-2024", "figures.toml"),
            file!("lindsay-2024", "programs/bc.c"),
            file!("lindsay-2024", "programs/bfs.c"),
            file!("lindsay-2024", "programs/cc.c"),
            file!("lindsay-2024", "programs/graph.c"),
            file!("lindsay-2024", "programs/graph.h"),
            file!("lindsay-2024", "programs/mcf.c"),
            file!("lindsay-2024", "programs/pr.c"),
            file!("lindsay-2024", "programs/streamcluster.c"),
            file!("lindsay-2024", "programs/tc.c"),
        ],
    ),
    (
        "navarro-2002",
        &[
            file!("navarro-2002", "paper.toml"),
            file!("navarro-2002", "tables.toml"),
            file!("navarro-2002", "programs.toml"),
            file!("navarro-2002", "spec.toml"),
            file!("navarro-2002", "sequence.toml"),
            file!("navarro-2002", "concurrent.toml"),
            file!("navarro-2002", "programs/c4.c"),
            file!("navarro-2002", "programs/fftw.c"),
            file!("navarro-2002", "programs/flow.c"),
            file!("navarro-2002", "programs/objects.c"),
            file!("navarro-2002", "programs/objects.sql"),
            file!("navarro-2002", "programs/picture.c"),
            file!("navarro-2002", "programs/place.c"),
            file!("navarro-2002", "programs/scene.pov"),
            file!("navarro-2002", "programs/sp.c"),
            file!("navarro-2002", "programs/swim.c"),
            file!("navarro-2002", "programs/text.c"),
            file!("navarro-2002", "programs/words.pl"),
        ],
    ),
    (
        "zhou-2023",
        &[
            file!("zhou-2023", "paper.toml"),
            file!("zhou-2023", "skylake.toml"),
            file!("zhou-2023", "zenplus.toml"),
            file!("zhou-2023", "build.toml"),
            file!("zhou-2023", "cores.toml"),
            file!("zhou-2023", "padding.toml"),
            file!("zhou-2023", "figures.toml"),
            file!("zhou-2023", "programs/guest-make.sh"),
            file!("zhou-2023", "programs/mariadb-make.sh"),
            file!("zhou-2023", "programs/Orders.java"),
            file!("zhou-2023", "programs/owner.c"),
            file!("zhou-2023", "programs/postgres-make.sh"),
            file!("zhou-2023", "programs/records.c"),
            file!("zhou-2023", "programs/sources.awk"),
            file!("zhou-2023", "programs/ssr.js"),
            file!("zhou-2023", "programs/unpack.sh"),
        ],
    ),
];

/// A paper with its experiments, checked.
#[derive(Clone)]
pub struct Paper {
    /// Its name, which rows carry.
    pub name: String,
    /// Authors, title, where and when.
    pub citation: String,
    /// What is run, and which numbers come of it.
    pub experiments: Vec<Experiment>,
    /// Numbers over all rows of a table.
    pub overall: Vec<Overall>,
    /// Numbers about many experiments together: lines through points, correlations.
    pub relations: Vec<Relation>,
    /// Numbers that nothing measures yet.
    pub missing: Vec<Missing>,
    /// Numbers of ours that the paper gives as bars or curves.
    pub figures: Vec<Figure>,
    /// Where recordings of captured programs are looked for before they are captured anew.
    pub recordings: PathBuf,
    source: Source,
    /// What programs share with each other.
    shared: Shared,
}

/// Where a paper's other files are.
#[derive(Clone, Debug)]
enum Source {
    Built(Files),
    Folder(PathBuf),
}

impl Source {
    /// The text of the file `name`.
    fn text(&self, name: &str) -> Result<String, String> {
        match self {
            Source::Folder(folder) => {
                let path = folder.join(name);
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
            Source::Built(files) => match files.iter().find(|(file, _)| *file == name) {
                Some((_, text)) => Ok((*text).to_owned()),
                None => Err(format!("there is no file {name:?}; name one that comes with the paper")),
            },
        }
    }
}

/// Why a paper could not be had, or run.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// There is no such paper.
    #[error("there is no paper {name:?}; there are {known}, and folders with a paper.toml")]
    Unknown {
        /// As given.
        name: String,
        /// All there are.
        known: String,
    },
    /// A file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The paper's file is wrong.
    #[error("{paper}: {what}")]
    File {
        /// Name or path.
        paper: String,
        /// What is wrong, where, and what would be right.
        what: String,
    },
    /// The paper has no such experiment.
    #[error("{paper} has no experiment {name:?}; it has {known}")]
    NoExperiment {
        /// Which paper.
        paper: String,
        /// As given.
        name: String,
        /// All there are.
        known: String,
    },
}

/// The names of all papers that come with the program.
pub fn list() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|(name, _)| *name)
}

impl Paper {
    /// The paper of this name, or in this folder.
    pub fn open(name: &str) -> Result<Paper, PaperError> {
        if let Some((name, files)) = PAPERS.iter().find(|(known, _)| *known == name) {
            return Paper::read(name, files[0].1, Source::Built(files));
        }
        let folder = Path::new(name);
        if !folder.is_dir() {
            let known = list().collect::<Vec<_>>().join(", ");
            return Err(PaperError::Unknown { name: name.into(), known });
        }
        let path = folder.join("paper.toml");
        let text = std::fs::read_to_string(&path).map_err(|source| PaperError::Io { path, source })?;
        let short = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        Paper::read(&short, &text, Source::Folder(folder.to_owned()))
    }

    fn read(name: &str, text: &str, source: Source) -> Result<Paper, PaperError> {
        let wrong = |what| PaperError::File { paper: format!("{name}/paper.toml"), what };
        let file::Content { citation, experiments, overall, relations, missing, figures } =
            file::read(text, |name| source.text(name)).map_err(wrong)?;
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
            source,
            shared: Shared::default(),
        };
        for experiment in &paper.experiments {
            paper.check_program(experiment).map_err(|what| wrong(format!("experiment {}: {what}", experiment.name)))?;
        }
        Ok(paper)
    }

    /// The experiments of these names, in the paper's order, or all.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&Experiment>, PaperError> {
        if let Some(name) = names.iter().find(|&name| self.experiments.iter().all(|e| e.name != *name)) {
            let known = self.experiments.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(PaperError::NoExperiment { paper: self.name.clone(), name: name.clone(), known });
        }
        Ok(self.experiments.iter().filter(|e| names.is_empty() || names.contains(&e.name)).collect())
    }
}

#[cfg(test)]
mod tests;
