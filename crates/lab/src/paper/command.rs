//! Real programs: prepared in a folder of their own, then captured as they run.

use super::input::{Input, ReadText, SharedInput, last_line, program_path};
use indexmap::IndexMap;
use reach_core::{BlockTable, Chunk};
use reach_trace::live::{Live, Options};
use reach_trace::{Ending, Progress, Source, TraceError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A program to capture, and what it needs.
///
/// It runs in a temporary folder of its own; relative paths are relative to that folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Files of the paper's folder to copy there first.
    #[serde(default)]
    pub files: Vec<String>,
    /// Commands that make its input, one after the other. They are not captured.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// Input that it shares with other programs: made once for programs that follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Input>,
    /// Programs of `PATH`, or files by absolute path, that must exist, each with the Debian package that has it.
    #[serde(default)]
    pub needs: IndexMap<String, String>,
}

/// The file that takes the program's output.
const OUTPUT: &str = "output.txt";
/// The bytes of the output that are searched for its last line.
const LAST_BYTES: u64 = 1 << 16;

impl Command {
    /// Fails if a command has no words.
    pub(super) fn check(&self) -> Result<(), String> {
        let shared = self.shared.iter().flat_map(|input| &input.prepare);
        match shared.chain(&self.prepare).chain([&self.run]).any(Vec::is_empty) {
            true => Err("a command is empty; give the program and its arguments".into()),
            false => Ok(()),
        }
    }

    /// Returns the names of the paper's files that it needs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &String> {
        self.shared.iter().flat_map(|input| &input.files).chain(&self.files)
    }

    /// Makes the program's input in a folder, which it returns; `read_text` returns the paper's files. Fails where something that
    /// the program needs is not installed.
    pub(crate) fn prepared(&self, shared: &SharedInput, read_text: ReadText) -> Result<TempDir, String> {
        let missing: Vec<_> = self.needs.iter().filter(|(what, _)| !is_installed(what)).collect();
        if !missing.is_empty() {
            let mut packages: Vec<_> = missing.iter().map(|(_, package)| package.as_str()).collect();
            packages.dedup();
            let names: Vec<_> = missing.iter().map(|(what, _)| what.as_str()).collect();
            return Err(format!("install {} (there is no {})", packages.join(" "), names.join(", ")));
        }
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder for the program: {error}"))?;
        if let Some(input) = &self.shared {
            shared.link_into(input, folder.path(), read_text)?;
        }
        Input { files: self.files.clone(), prepare: self.prepare.clone() }.make(folder.path(), read_text)?;
        Ok(folder)
    }

    /// Returns the program to start in `folder`, and its arguments.
    pub(crate) fn program(&self, folder: &Path) -> Result<(PathBuf, Vec<OsString>), String> {
        let (program, args) = self.run.split_first().ok_or("there is no command")?;
        Ok((program_path(program, folder), args.iter().map(Into::into).collect()))
    }

    /// Prepares and starts the program; `read_text` returns the paper's files.
    pub(super) fn launch(&self, shared: &SharedInput, read_text: ReadText) -> Result<CapturedProgram, String> {
        let folder = self.prepared(shared, read_text)?;
        let (program, args) = self.program(folder.path())?;
        let name = self.run.first().cloned().unwrap_or_default();
        let options = Options {
            program: program.into(),
            args,
            folder: Some(folder.path().to_owned()),
            output: Some(folder.path().join(OUTPUT)),
            own_group: true,
            ..Options::default()
        };
        let live = Live::launch(options).map_err(|error| error.to_string())?;
        Ok(CapturedProgram { live, program: name, ended: false, folder })
    }
}

/// Returns whether the file exists, or a program of this name is in `PATH`.
fn is_installed(what: &str) -> bool {
    if what.contains('/') {
        return Path::new(what).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(what).is_file())
}

/// Returns the last bytes of a file, enough for its last line.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(LAST_BYTES)))?;
    let mut end = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

/// A captured program with its folder. At the program's end it fails if the program failed.
pub(super) struct CapturedProgram {
    live: Live,
    program: String,
    ended: bool,
    folder: TempDir,
}

impl Source for CapturedProgram {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.live.fill(chunk)? {
            return Ok(true);
        }
        if !std::mem::replace(&mut self.ended, true) {
            let status = self.live.wait()?;
            if !status.success() {
                let output = end_of(&self.folder.path().join(OUTPUT)).unwrap_or_default();
                return Err(TraceError::Capture(format!("{}: {status}: {}", self.program, last_line(&output))));
            }
            if let Some(loss) = self.live.losses().first() {
                return Err(TraceError::Capture(format!("{}: {loss}", self.program)));
            }
        }
        Ok(false)
    }

    fn blocks(&self) -> &BlockTable {
        self.live.blocks()
    }

    fn name(&self) -> &str {
        self.live.name()
    }

    fn progress(&self) -> Progress {
        self.live.progress()
    }

    /// Kills the program if it was not read to its end: then how it ended means nothing.
    fn ending(&mut self) -> Ending {
        if std::mem::replace(&mut self.ended, true) {
            return self.live.ending();
        }
        self.live.kill();
        Ending { exits: Vec::new(), ..self.live.ending() }
    }
}

impl Drop for CapturedProgram {
    /// Kills the program if it was not read to its end.
    fn drop(&mut self) {
        if !self.ended {
            self.live.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> String {
        let command: Command = toml::from_str(text).unwrap();
        let files = |name: &str| match name {
            "programs/a.txt" => Ok("word\n".to_owned()),
            other => Err(format!("there is no {other}")),
        };
        command.launch(&SharedInput::default(), &files).err().unwrap()
    }

    #[test]
    fn missing_programs_and_files_are_named_with_their_packages() {
        let error = fails("run = ['true']\nneeds = { no-such-9 = 'one', sh = 'dash', '/no/file.h' = 'two' }");
        assert_eq!(error, "install one two (there is no no-such-9, /no/file.h)");
        assert_eq!(fails("run = ['true']\nfiles = ['b']"), "there is no b");
    }

    #[test]
    fn a_failing_preparation_is_reported_with_its_output() {
        let error = fails(
            "run = ['true']\nfiles = ['programs/a.txt']\nprepare = [['grep', '-c', 'word', 'a.txt'], ['ls', 'b.txt']]",
        );
        assert!(error.starts_with("ls b.txt: exit status: 2: ") && error.contains("b.txt"), "{error}");
        assert!(fails("run = ['true']\nprepare = [['./no-such']]").starts_with("./no-such: "));
    }
}
