//! Recordings of captured programs and of samples of synthetic ones: made once, so that every run of the paper reads the
//! same references.

use super::Paper;
use super::experiment::{PaperExperiment, QUANTUM};
use super::files::PaperFiles;
use reach_core::{Chunk, Shown};
use reach_trace::file::{Metadata, Reader, Writer};
use reach_trace::{FastForwarded, Limited, Multiprogram, Sampled, Source, TraceError, scenario};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The key of the recipe in a recording's metadata.
const RECIPE: &str = "recipe";

/// A program of a paper, and the place of its recording.
pub struct Recording<'a> {
    /// The first experiment with this program. It names the file.
    pub experiment: &'a PaperExperiment,
    /// The file.
    pub path: PathBuf,
    /// A hash of everything that decides what is recorded.
    recipe: String,
}

impl Paper {
    /// Returns the recordings that `experiments` read, each once, grouped by shared input.
    ///
    /// # Errors
    /// When a file of the paper cannot be read.
    pub fn recordings<'a>(&'a self, experiments: &[&PaperExperiment]) -> Result<Vec<Recording<'a>>, String> {
        let mut recordings: Vec<Recording> = Vec::new();
        for experiment in experiments {
            if let Some(recording) = self.recording(experiment)?
                && recordings.iter().all(|other| other.path != recording.path)
            {
                recordings.push(recording);
            }
        }
        // Recordings with the same shared input follow each other, so that it is made once.
        let shared = |r: &Recording| r.experiment.command.as_ref().and_then(|command| command.shared.clone());
        let all: Vec<_> = recordings.iter().map(|r| (r.experiment.name.clone(), shared(r))).collect();
        recordings.sort_by_cached_key(|r| match shared(r) {
            None => all.iter().position(|(name, _)| *name == r.experiment.name),
            input => all.iter().position(|(_, other)| *other == input),
        });
        Ok(recordings)
    }

    fn recording<'a>(&'a self, experiment: &PaperExperiment) -> Result<Option<Recording<'a>>, String> {
        if !experiment.is_recorded() {
            return Ok(None);
        }
        let Some(first) = self.experiments.iter().find(|other| other.same_program(experiment)) else {
            return Ok(None);
        };
        let sample = first.sample.map(|s| (s.every, s.measure, s.warm, first.conditions.seed));
        let recipe = match (&first.command, sample) {
            (None, sample) => serde_json::to_string(&(&first.programs, &first.fast_forward, first.limit, sample)),
            (Some(command), sample) => {
                let files = command.files().map(|name| self.files.text(name)).collect::<Result<Vec<_>, _>>()?;
                match sample {
                    None => serde_json::to_string(&(command, files, &first.fast_forward, first.limit)),
                    Some(sample) => serde_json::to_string(&(command, files, &first.fast_forward, first.limit, sample)),
                }
            }
        };
        let recipe = recipe.map_err(|error| error.to_string())?;
        let recipe = Sha256::digest(recipe).iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.recordings.join(format!("{}.reach", first.name));
        Ok(Some(Recording { experiment: first, path, recipe }))
    }

    /// Returns the recorded program of `experiment`; `None` if it was not recorded and can be run instead.
    pub(super) fn recorded(&self, experiment: &PaperExperiment) -> Result<Option<Box<dyn Source>>, String> {
        let Some(recording) = self.recording(experiment)? else { return Ok(None) };
        if !recording.path.exists() {
            return match experiment.copies == 1 && experiment.cut.is_none() {
                true => Ok(None),
                false => Err(format!("it needs a recording; make it with `{}`", self.record_command(experiment))),
            };
        }
        if !recording.is_made()? {
            let path = recording.path.shown();
            return Err(format!(
                "{path} was made from another recipe; record it again with `{}`",
                self.record_command(experiment)
            ));
        }
        let path = &recording.path;
        let source = match experiment.copies {
            1 => reach_trace::open(path),
            copies => (0..copies).map(|_| scenario::trace_member(path)).collect::<Result<_, _>>().map(|members| {
                Box::new(Multiprogram::new(experiment.name.clone(), members, Some(QUANTUM))) as Box<dyn Source>
            }),
        };
        source.map(Some).map_err(|error| error.to_string())
    }

    fn record_command(&self, experiment: &PaperExperiment) -> String {
        let paper = match &self.files {
            PaperFiles::Folder(folder) => folder.display().to_string(),
            PaperFiles::Embedded(_) => self.name.clone(),
        };
        format!("reach paper record {paper} {}", experiment.name)
    }

    /// Records the program of `recording` and returns the number of references kept. `watch` is called with that number now
    /// and then; it returns false to give up, and then the result is `None` and no file remains.
    ///
    /// # Errors
    /// When the program cannot be run or the file cannot be written.
    pub fn record(&self, recording: &Recording, mut watch: impl FnMut(u64) -> bool) -> Result<Option<u64>, String> {
        let Recording { experiment, path, recipe } = recording;
        let failed = |error: std::io::Error| format!("{}: {error}", path.shown());
        fs::create_dir_all(&self.recordings).map_err(failed)?;
        let program = self.program(experiment)?;
        let fast_forward = experiment.fast_forward.clone();
        let source: Box<dyn Source> = match experiment.sample {
            None => Box::new(FastForwarded::new(program, fast_forward)),
            Some(sampling) => Box::new(FastForwarded::between_intervals(Sampled::new(
                program,
                sampling,
                fast_forward,
                experiment.conditions.seed,
            ))),
        };
        let mut source = Limited::new(source, experiment.limit);
        let metadata = Metadata {
            program: format!("{}, {}", self.name, experiment.name),
            command: experiment.command.as_ref().map_or_else(Vec::new, |command| command.run.clone()),
            tool: concat!("reach ", env!("CARGO_PKG_VERSION")).into(),
            other: [(RECIPE.to_owned(), recipe.clone())].into(),
            ..Metadata::default()
        };
        // The file gets its own name when it is complete.
        let part = path.with_extension("part");
        let unfinished = Unfinished(&part);
        let mut writer = Writer::create(&part, &metadata).map_err(write_error)?;
        let mut chunk = Chunk::default();
        while source.fill(&mut chunk).map_err(|error| error.to_string())? {
            writer.write(&chunk, source.blocks()).map_err(write_error)?;
            if !watch(writer.refs()) {
                return Ok(None);
            }
        }
        let (references, ending) = (writer.refs(), source.ending());
        if let Some(missing) = ending.missing.first() {
            return Err(missing.to_string());
        }
        writer.finish(&ending).map_err(write_error)?;
        fs::rename(&part, path).map_err(failed)?;
        drop(unfinished);
        Ok(Some(references))
    }
}

impl Recording<'_> {
    /// Returns whether the file exists and was made from the same recipe as it would be now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_made(&self) -> Result<bool, String> {
        if !self.path.exists() {
            return Ok(false);
        }
        let reader = Reader::open(&self.path).map_err(|error| error.to_string())?;
        Ok(reader.metadata().other.get(RECIPE) == Some(&self.recipe))
    }
}

/// Returns why a recording could not be written.
fn write_error(error: TraceError) -> String {
    match &error {
        TraceError::Io { path, source } if source.kind() == ErrorKind::StorageFull => {
            format!("{}: the disk is full; make room", path.shown())
        }
        _ => error.to_string(),
    }
}

/// A file that is removed on drop, if it still exists.
struct Unfinished<'a>(&'a PathBuf);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}
