//! The input of real programs: files of the paper, and what commands make from them.

use reach_core::Shown;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// Files, and commands that make others from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Files of the paper's folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Commands to run before the program, one after the other. They are not captured.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
}

/// Returns the text of a file of the paper, by name.
pub(crate) type ReadText<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl Input {
    /// Makes the input in `folder`.
    pub(super) fn make(&self, folder: &Path, read_text: ReadText) -> Result<(), String> {
        for name in &self.files {
            let path = folder.join(Path::new(name).file_name().unwrap_or_default());
            fs::write(&path, read_text(name)?).map_err(|error| format!("{}: {error}", path.shown()))?;
        }
        self.prepare.iter().try_for_each(|words| run(words, folder))
    }
}

/// Returns the program to start: a name with a slash is relative to `folder`, others are found in `PATH`.
pub(super) fn program_path(program: &str, folder: &Path) -> PathBuf {
    if program.contains('/') { folder.join(program) } else { program.into() }
}

/// Runs one command in `folder`.
fn run(words: &[String], folder: &Path) -> Result<(), String> {
    let shown = || words.join(" ");
    let (program, args) = words.split_first().ok_or("there is no command")?;
    let mut command = std::process::Command::new(program_path(program, folder));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    let done = command.output().map_err(|error| format!("{}: {error}", shown()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}: {}", shown(), done.status, last_line(&done.stderr))),
    }
}

/// Returns the last line that is not blank, for messages.
pub(super) fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned()
}

/// The shared input of the last program, kept for the next: making it may take longer than running the program.
#[derive(Clone, Default)]
pub(crate) struct SharedInput(Arc<Mutex<Option<(Input, TempDir)>>>);

impl SharedInput {
    /// Links what `input` makes into `folder`, and makes it first unless it was the last.
    pub fn link_into(&self, input: &Input, folder: &Path, read_text: ReadText) -> Result<(), String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(of, _)| of != input) {
            // Free the disk space before the next input needs it.
            *last = None;
            let made = tempfile::tempdir().map_err(|error| format!("cannot make a folder for its input: {error}"))?;
            input.make(made.path(), read_text)?;
            *last = Some((input.clone(), made));
        }
        let Some((_, made)) = &*last else { return Ok(()) };
        let link = || {
            for file in fs::read_dir(made.path())? {
                let file = file?;
                fs::hard_link(file.path(), folder.join(file.file_name()))?;
            }
            Ok(())
        };
        link().map_err(|error: std::io::Error| format!("{}: {error}", folder.shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_input_is_made_once_for_programs_that_follow_each_other() {
        let input = |word: &str| Input {
            files: vec!["programs/a.txt".into()],
            prepare: vec![["sh", "-c", &format!("echo {word} $$ > made")].map(String::from).into()],
        };
        let read_text = |_: &str| Ok("text".to_owned());
        let shared = SharedInput::default();
        let made = |word: &str| {
            let folder = tempfile::tempdir().unwrap();
            shared.link_into(&input(word), folder.path(), &read_text).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "text");
            fs::read_to_string(folder.path().join("made")).unwrap()
        };
        let first = made("one");
        assert!(first.starts_with("one ") && made("one") == first);
        assert!(made("two").starts_with("two "));
        assert!(made("one") != first, "only the last input is kept");
    }
}
