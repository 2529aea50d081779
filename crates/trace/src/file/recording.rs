//! Whether a file holds all that its recorder was given.

use super::error::Damage;
use super::state::State;
use super::version::Version;
use crate::{Missing, Part};
use reach_core::Shown;
use std::fmt;
use std::path::Path;

/// How the recording of a `.reach` file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// The recorder finished the file.
    Finished,
    /// The recorder never finished the file: it was killed, or it still records.
    Unfinished,
    /// The recorder could not write the file to its end, as on a full disk.
    Failed,
    /// The file does not say. Files before version 4 and files that were written to a pipe do not if they have no index.
    Unknown,
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Recording::Finished => "finished",
            Recording::Unfinished => "never finished",
            Recording::Failed => "could not be written to its end",
            Recording::Unknown => "unknown whether finished",
        })
    }
}

/// The facts about the frame of a file that decide whether it is whole.
pub(super) struct Facts<'a> {
    /// The path in messages.
    pub path: &'a Path,
    /// The tool that recorded.
    pub tool: &'a str,
    pub version: Version,
    /// `None` where the version has no state.
    pub state: Option<Result<State, Damage>>,
    /// The place of the state in bytes.
    pub state_at: u64,
    /// Whether index, ending and trailer are good.
    pub has_end: bool,
    /// References in whole segments.
    pub refs: u64,
    /// The length of the file in bytes.
    pub len: u64,
    /// The end of the last whole segment in bytes.
    pub end: u64,
}

impl Facts<'_> {
    /// Returns how the recording ended, and the part that the file lacks.
    pub fn judge(&self) -> (Recording, Option<Missing>) {
        let tool = if self.tool.is_empty() { String::new() } else { format!(" ({})", self.tool) };
        let again = "record it again";
        let fetch = "fetch it again or record it again";
        let (recording, whole, why, todo) = match &self.state {
            Some(Ok(State::Finished { refs, bytes })) => {
                let why = if self.len < *bytes {
                    format!("the file was cut after it was finished, and {} are lost", Missing::bytes(bytes - self.end))
                } else if self.len > *bytes {
                    format!("damaged: {} follow the end of the file", Missing::bytes(self.len - bytes))
                } else if !self.has_end || self.refs != *refs {
                    format!("damaged: no whole segment and no good index at byte {}", self.end)
                } else {
                    return (Recording::Finished, None);
                };
                (Recording::Finished, Some(*refs), why, fetch)
            }
            Some(Ok(State::Failed { refs })) => {
                let why = format!("the recorder{tool} could not write the rest");
                (Recording::Failed, *refs, why, again)
            }
            Some(Err(Damage(what))) => {
                let whole = self.has_end.then_some(self.refs);
                (Recording::Unknown, whole, format!("damaged: {what} at byte {}", self.state_at), fetch)
            }
            // The state of an open file is rewritten after its trailer, so a good trailer suffices.
            _ if self.has_end => return (Recording::Finished, None),
            Some(Ok(State::Open)) => {
                let why = format!("the recorder{tool} never finished{}", self.tail());
                (Recording::Unfinished, None, why, again)
            }
            Some(Ok(State::Streamed)) | None => {
                let what = match self.version {
                    Version::V2 | Version::V3 => format!("version {}", self.version as u32),
                    Version::V4 | Version::V5 => "a file written to a pipe".to_owned(),
                };
                let why = format!(
                    "it has no good index, so it was cut, damaged or never finished, which {what} does not tell{}",
                    self.tail()
                );
                (Recording::Unknown, None, why, again)
            }
        };
        let (of, part) = (self.path.shown().into_owned(), Part::Rest { read: self.refs, whole });
        (recording, Some(Missing { of, why, todo: todo.to_owned(), part }))
    }

    /// Returns a clause on the bytes after the last whole segment; empty if there are none.
    fn tail(&self) -> String {
        match self.len - self.end {
            0 => String::new(),
            bytes => format!("; {} after the last whole segment are lost", Missing::bytes(bytes)),
        }
    }
}
