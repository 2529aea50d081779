//! Predictions of `reach advise`, and what `reach try` has measured of them: `reach/history.jsonl` in the user's folder for state,
//! `$XDG_STATE_HOME` or `~/.local/state`.

use reach_core::Shown;
use serde::{Deserialize, Serialize};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A speedup with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The speedup.
    pub value: f64,
    /// The lower end of its 95 % confidence interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The command line of the program.
    pub program: String,
    /// The remedy.
    pub remedy: String,
    /// What was predicted.
    pub predicted: Interval,
    /// What was measured. `None`: nothing was yet.
    pub measured: Option<Interval>,
}

/// A prediction is right within this share of what was measured.
const RIGHT: f64 = 0.05;

impl Line {
    /// Returns whether the prediction lies in the measured interval or within 5 % of its median. `None`: nothing was measured.
    fn was_right(&self) -> Option<bool> {
        let measured = self.measured?;
        let value = self.predicted.value;
        Some((measured.low..=measured.high).contains(&value) || (value / measured.value - 1.0).abs() <= RIGHT)
    }
}

/// Returns a command on one line, by which the history knows it.
pub fn command_line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").shown().into_owned()
}

/// The longest history that is read, in bytes: ten thousand lines and more.
const MOST: u64 = 4 << 20;

/// The user's history.
pub struct History {
    path: PathBuf,
    lines: Vec<Line>,
}

impl History {
    /// Reads the history. Lines of another version are left out. `None`: there is no folder for it.
    pub fn read() -> Option<History> {
        let folder = env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/state")))?;
        Some(History::read_from(folder.join("reach/history.jsonl")))
    }

    fn read_from(path: PathBuf) -> History {
        let is_short = fs::metadata(&path).is_ok_and(|about| about.is_file() && about.len() <= MOST);
        let file = is_short.then(|| File::open(&path).ok()).flatten();
        let lines = file.map(|file| BufReader::new(file).lines().map_while(Result::ok).collect::<Vec<_>>());
        let read = |text: &String| serde_json::from_str(text).ok();
        History { path, lines: lines.unwrap_or_default().iter().filter_map(read).collect() }
    }

    /// Returns the last prediction for this program and remedy.
    pub fn predicted(&self, program: &str, remedy: &str) -> Option<Interval> {
        let of = |line: &&Line| line.program == program && line.remedy == remedy;
        self.lines.iter().rev().find(of).map(|line| line.predicted)
    }

    /// Returns how many predictions were measured, and how many of them were right. The last measurement of a program and remedy
    /// counts.
    pub fn score(&self) -> (usize, usize) {
        let mut last: Vec<&Line> = Vec::new();
        for line in self.lines.iter().rev().filter(|line| line.measured.is_some()) {
            if last.iter().all(|other| (&other.program, &other.remedy) != (&line.program, &line.remedy)) {
                last.push(line);
            }
        }
        (last.len(), last.iter().filter(|line| line.was_right() == Some(true)).count())
    }

    /// Adds lines to the file. A history that is too long to be read begins anew.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, lines: impl IntoIterator<Item = Line>) -> io::Result<()> {
        let new: Vec<Line> = lines.into_iter().collect();
        if new.is_empty() {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let is_long = fs::metadata(&self.path).is_ok_and(|about| about.len() > MOST);
        let mut file = OpenOptions::new()
            .create(true)
            .append(!is_long)
            .write(true)
            .truncate(is_long)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.path)?;
        let text: String = new.iter().map(|line| crate::output::json(line) + "\n").collect();
        file.write_all(text.as_bytes())?;
        self.lines.extend(new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(remedy: &str, predicted: f64, measured: Option<(f64, f64, f64)>) -> Line {
        let measured = measured.map(|(low, value, high)| Interval { value, low, high });
        let predicted = Interval { value: predicted, low: predicted, high: predicted };
        Line { program: "prog -x".into(), remedy: remedy.into(), predicted, measured }
    }

    #[test]
    fn the_last_prediction_is_found_and_measured_ones_are_scored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reach/history.jsonl");
        let mut history = History::read_from(path.clone());
        assert_eq!((history.predicted("prog -x", "a"), history.score()), (None, (0, 0)));
        history.add([line("a", 1.5, None), line("a", 1.2, None)]).unwrap();
        history.add([line("a", 1.2, Some((1.0, 1.1, 1.25))), line("b", 1.3, Some((1.0, 1.01, 1.02)))]).unwrap();
        history.add([line("c", 1.04, Some((1.0, 1.0, 1.0)))]).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"not a line\n").unwrap();
        let history = History::read_from(path);
        assert_eq!(history.predicted("prog -x", "a").unwrap().value, 1.2);
        assert_eq!(history.predicted("prog", "a"), None);
        assert_eq!(history.score(), (3, 2));
    }

    #[test]
    fn a_history_that_is_too_long_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        fs::write(&path, vec![b'x'; MOST as usize + 1]).unwrap();
        let mut history = History::read_from(path.clone());
        history.add([line("a", 1.5, None)]).unwrap();
        assert_eq!(History::read_from(path).predicted("prog -x", "a").unwrap().value, 1.5);
    }
}
