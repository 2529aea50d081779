//! What real programs find in their folders: files of the paper, and what commands make of them.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// Files, and commands that make others of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Files of the paper's folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Commands, one after the other; they are not captured.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
}

/// Gives the text of a file of the paper by its name.
pub(super) type Texts<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl Input {
    /// Makes all of it in `folder`.
    pub(super) fn make(&self, folder: &Path, texts: Texts) -> Result<(), String> {
        for name in &self.files {
            let path = folder.join(Path::new(name).file_name().unwrap_or_default());
            fs::write(&path, texts(name)?).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.prepare.iter().try_for_each(|words| run(words, folder))
    }
}

/// A program's name, or its whole path if it is one of `folder`.
pub(super) fn found(program: &str, folder: &Path) -> PathBuf {
    if program.contains('/') { folder.join(program) } else { program.into() }
}

/// Runs one command in `folder`.
fn run(words: &[String], folder: &Path) -> Result<(), String> {
    let shown = || words.join(" ");
    let (program, args) = words.split_first().ok_or("there is no command")?;
    let mut command = std::process::Command::new(found(program, folder));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    let done = command.output().map_err(|error| format!("{}: {error}", shown()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}: {}", shown(), done.status, last_line(&done.stderr))),
    }
}

/// The last line that says something.
pub(super) fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned()
}

/// What the last program shared with others, for the next: the input of a program may take longer to make than the program.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<(Input, TempDir)>>>);

impl Shared {
    /// Puts what `input` makes into `folder`, too.
    pub fn put(&self, input: &Input, folder: &Path, texts: Texts) -> Result<(), String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(of, _)| of != input) {
            // What is there goes before its successor takes as much room.
            *last = None;
            let made = tempfile::tempdir().map_err(|error| format!("making a folder for its input: {error}"))?;
            input.make(made.path(), texts)?;
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
        link().map_err(|error: std::io::Error| format!("{}: {error}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_made_once_while_it_is_asked_for() {
        let input = |word: &str| Input {
            files: vec!["programs/a.txt".into()],
            prepare: vec![["sh", "-c", &format!("echo {word} $$ > made")].map(String::from).into()],
        };
        let texts = |_: &str| Ok("text".to_owned());
        let shared = Shared::default();
        let made = |word: &str| {
            let folder = tempfile::tempdir().unwrap();
            shared.put(&input(word), folder.path(), &texts).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "text");
            fs::read_to_string(folder.path().join("made")).unwrap()
        };
        let first = made("one");
        assert!(first.starts_with("one ") && made("one") == first);
        assert!(made("two").starts_with("two "));
        assert!(made("one") != first, "only the last is kept");
    }
}
