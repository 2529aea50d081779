//! Real programs: prepared in a folder of their own, then captured while they run.

use super::input::{Input, Shared, Texts, found, last_line};
use indexmap::IndexMap;
use reach_core::{BlockTable, Chunk};
use reach_trace::live::{Live, Options};
use reach_trace::{Progress, Source, TraceError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A program that is captured, and what must be there before.
///
/// It runs in a folder of its own, which goes away with it; a relative path names a file of that folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Files of the paper's folder to put there first.
    #[serde(default)]
    pub files: Vec<String>,
    /// Commands that make its input, one after the other; they are not captured.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// What it shares with others and is in its folder before: made once for programs that follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Input>,
    /// What is needed, a program of `PATH` or a file with its whole path, and the package (of Debian) that has it.
    #[serde(default)]
    pub needs: IndexMap<String, String>,
}

/// The file in which the program's output ends.
const OUTPUT: &str = "output.txt";

impl Command {
    /// Whether all commands have words.
    pub(super) fn check(&self) -> Result<(), String> {
        let shared = self.shared.iter().flat_map(|input| &input.prepare);
        match shared.chain(&self.prepare).chain([&self.run]).any(Vec::is_empty) {
            true => Err("there is a command without words; give the program and its arguments".into()),
            false => Ok(()),
        }
    }

    /// The paper's files that it takes, by name.
    pub(super) fn files(&self) -> impl Iterator<Item = &String> {
        self.shared.iter().flat_map(|input| &input.files).chain(&self.files)
    }

    /// Prepares and starts it; `texts` gives the paper's files.
    pub(super) fn launch(&self, shared: &Shared, texts: Texts) -> Result<Captured, String> {
        let missing: Vec<_> = self.needs.iter().filter(|(what, _)| !there(what)).collect();
        if !missing.is_empty() {
            let mut packages: Vec<_> = missing.iter().map(|(_, package)| package.as_str()).collect();
            packages.dedup();
            let names: Vec<_> = missing.iter().map(|(what, _)| what.as_str()).collect();
            return Err(format!("install {} (there is no {})", packages.join(" "), names.join(", ")));
        }
        let folder = tempfile::tempdir().map_err(|error| format!("making a folder for the program: {error}"))?;
        if let Some(input) = &self.shared {
            shared.put(input, folder.path(), texts)?;
        }
        Input { files: self.files.clone(), prepare: self.prepare.clone() }.make(folder.path(), texts)?;
        let (program, args) = self.run.split_first().ok_or("there is no command")?;
        let options = Options {
            program: found(program, folder.path()).into(),
            args: args.iter().map(Into::into).collect(),
            folder: Some(folder.path().to_owned()),
            output: Some(folder.path().join(OUTPUT)),
            own: true,
            ..Options::default()
        };
        let live = Live::launch(options).map_err(|error| error.to_string())?;
        Ok(Captured { live, program: program.clone(), over: false, folder })
    }
}

/// Whether this file exists, or a program of this name is in `PATH`.
fn there(what: &str) -> bool {
    if what.contains('/') {
        return Path::new(what).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(what).is_file())
}

/// A captured program with its folder. Fails at its end where the program failed.
pub(super) struct Captured {
    live: Live,
    program: String,
    over: bool,
    folder: TempDir,
}

impl Source for Captured {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.live.fill(chunk)? {
            return Ok(true);
        }
        if !std::mem::replace(&mut self.over, true) {
            let status = self.live.wait()?;
            if !status.success() {
                let said = fs::read(self.folder.path().join(OUTPUT)).unwrap_or_default();
                return Err(TraceError::Capture(format!("{}: {status}: {}", self.program, last_line(&said))));
            }
            if let Some(notice) = self.live.notices().first() {
                return Err(TraceError::Capture(format!("{}: {notice}", self.program)));
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
}

impl Drop for Captured {
    /// Who asked for no more of it has no use for the rest.
    fn drop(&mut self) {
        if !self.over {
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
        command.launch(&Shared::default(), &files).err().unwrap()
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let error = fails("run = ['true']\nneeds = { no-such-9 = 'one', sh = 'dash', '/no/file.h' = 'two' }");
        assert_eq!(error, "install one two (there is no no-such-9, /no/file.h)");
        assert_eq!(fails("run = ['true']\nfiles = ['b']"), "there is no b");
    }

    #[test]
    fn what_fails_while_it_is_prepared_says_so() {
        let error = fails(
            "run = ['true']\nfiles = ['programs/a.txt']\nprepare = [['grep', '-c', 'word', 'a.txt'], ['ls', 'b.txt']]",
        );
        assert!(error.starts_with("ls b.txt: exit status: 2: ") && error.contains("b.txt"), "{error}");
        assert!(fails("run = ['true']\nprepare = [['./no-such']]").starts_with("./no-such: "));
    }
}
