//! How a program ended, and whether all of it was read.

mod execution;
mod exit;

pub use execution::Execution;
pub(crate) use execution::nanoseconds;
pub use exit::{Cause, Exit, ProgramExit};

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a source knows about its program once no more of it will be read ([`Source::ending`](crate::Source::ending)).
///
/// Traces store it, so that a replay says what the capture said. The default is a program of which nothing is missing and
/// whose end is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The parts of the program that should have been read and were not; empty if all of it was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// How the program ended, or each of several programs; empty if that is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<ProgramExit>,
    /// Why the program was read, on purpose, only up to a point; `None` if it was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// Why the source cannot tell whether a part is missing; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<String>,
    /// When and as which processes the program ran; `None` if that is unknown, if several programs are one, or if it ran on no
    /// computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
}

/// A part of a program that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The file, or the program where there is no file.
    pub of: String,
    /// What happened, as a clause without capital and full stop.
    pub why: String,
    /// What to do about it, as a clause.
    pub todo: String,
    /// Which part it is.
    pub part: Part,
}

/// The place of a missing part in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Everything after the references that were read.
    Rest {
        /// The references that were read.
        read: u64,
        /// The references that the whole has; `None` if that is unknown.
        whole: Option<u64>,
    },
    /// References between those that were read.
    Gaps,
}

/// Why a program was read, on purpose, only up to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Only this many references were requested.
    Limit(u64),
    /// The user sent this signal.
    Signal(i32),
}

impl Ending {
    /// Returns an ending of which the source cannot tell whether it is that of the program, for this reason.
    pub fn uncertain(why: impl Into<String>) -> Ending {
        Ending { uncertain: Some(why.into()), ..Ending::default() }
    }

    /// Returns the ends of programs that failed.
    pub fn failures(&self) -> impl Iterator<Item = &ProgramExit> {
        self.exits.iter().filter(|ended| ended.exit.failed())
    }

    /// Returns the exit status of the first program that failed, as a shell gives it: 128 + n after signal n. Returns 0 if
    /// none is known to have failed.
    pub fn exit_status(&self) -> u8 {
        self.failures().next().map_or(0, |ended| ended.exit.shell_status())
    }

    /// Returns the ending of a program that was read only up to a point, on purpose. A missing rest no longer matters.
    pub fn stopped_by(mut self, stop: Stop) -> Ending {
        self.missing.retain(|missing| missing.part == Part::Gaps);
        self.stopped = Some(stop);
        self
    }

    /// Adds the ending of `program`, one of several.
    pub(crate) fn absorb(&mut self, program: &str, other: Ending) {
        for mut ended in other.exits {
            let name = match ended.program.as_str() {
                "" => program.to_owned(),
                inner => format!("{program}: {inner}"),
            };
            ended.program = name;
            if !self.exits.contains(&ended) {
                self.exits.push(ended);
            }
        }
        for missing in other.missing {
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
        }
        self.stopped = self.stopped.or(other.stopped);
        self.uncertain = self.uncertain.take().or(other.uncertain);
    }
}

impl Missing {
    /// Returns the sum of the bytes, for messages: `1 byte`, `63,123 bytes`.
    pub(crate) fn bytes(n: u64) -> String {
        format!("{} byte{}", grouped(n), if n == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { of, why, todo, part } = self;
        match part {
            Part::Rest { read, whole: Some(whole) } => {
                let (read, whole) = (short(*read), short(*whole));
                write!(f, "{of}: {read} of {whole} references can be read: {why}; {todo}")
            }
            Part::Rest { read, whole: None } => {
                let read = short(*read);
                write!(f, "{of}: {read} references can be read, of an unknown number: {why}; {todo}")
            }
            Part::Gaps => write!(f, "{of}: references are missing: {why}; {todo}"),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Stop::Limit(references) => write!(f, "after {} references, as requested", grouped(references)),
            Stop::Signal(signal) => write!(f, "by {}, sent to the recorder", exit::signal_name(signal)),
        }
    }
}

/// Formats a count with separators: `31,402`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count: all digits below 10,000, and else three significant ones with a prefix, such as `81.6 M`.
fn short(n: u64) -> String {
    if n < 10_000 {
        return grouped(n);
    }
    let (mut n, mut prefix) = (n as f64, "");
    for next in ["K", "M", "G", "T", "P", "E"] {
        if n < 999.5 {
            break;
        }
        (n, prefix) = (n / 1000.0, next);
    }
    let decimals = if n < 9.995 { 2 } else { usize::from(n < 99.95) };
    format!("{n:.decimals$} {prefix}")
}

#[cfg(test)]
mod tests;
