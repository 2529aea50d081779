//! What valgrind says about the processes that it runs: lines that begin with `==PID==`.

use crate::Exit;
use std::collections::BTreeSet;

/// The most processes that run at once. Traces have a few.
const MAX_PROCESSES: usize = 1 << 12;

/// The processes that valgrind named.
#[derive(Default)]
pub(super) struct Messages {
    /// The process that began first.
    first: Option<String>,
    /// The processes that have begun and not ended. Forked processes end without having begun.
    running: BTreeSet<String>,
    /// The signal that ended the first process.
    signal: Option<i32>,
}

impl Messages {
    /// Reads a line, without its line feed.
    pub(super) fn read(&mut self, line: &[u8]) {
        let Some((process, text)) = split(line) else { return };
        if text.starts_with("Lackey, an example Valgrind tool") {
            self.first.get_or_insert_with(|| process.to_owned());
            self.running.insert(process.to_owned());
        } else if text.starts_with("Exit code:") {
            self.running.remove(process);
        } else if let Some((_, rest)) = text.split_once("terminating with default action of signal ")
            && self.first.as_deref() == Some(process)
        {
            self.signal = rest.split(' ').next().and_then(|number| number.parse().ok());
        }
    }

    /// Returns whether more processes run than a trace may have.
    pub(super) fn are_too_many(&self) -> bool {
        self.running.len() > MAX_PROCESSES
    }

    /// Returns whether any process has begun.
    pub(super) fn any_began(&self) -> bool {
        self.first.is_some()
    }

    /// Returns whether all processes that have begun have ended.
    pub(super) fn all_ended(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns how the first process ended; `None` where that is unknown.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.signal.map(Exit::Signal)
    }
}

/// Splits a line into the number of the process and the text. With `--time-stamp=yes`, a time precedes the number.
fn split(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).ok()?;
    let (process, text) = line.strip_prefix("==")?.split_once("== ")?;
    Some((process.rsplit(' ').next()?, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_begin_end_and_die_of_signals() {
        let mut messages = Messages::default();
        let mut read = |lines: &[&str]| {
            lines.iter().for_each(|line| messages.read(line.as_bytes()));
            (messages.any_began(), messages.all_ended(), messages.exit())
        };
        assert_eq!(read(&["==1== ", "I  04001090,3"]), (false, true, None));
        assert_eq!(read(&["==1== Lackey, an example Valgrind tool"]), (true, false, None));
        // A forked process, which never announced itself, and one that was executed.
        assert_eq!(read(&["==2== Exit code:       0"]), (true, false, None));
        assert_eq!(read(&["==00:00:00:00.002 3== Lackey, an example Valgrind tool"]), (true, false, None));
        let died = "==3== Process terminating with default action of signal 9 (SIGKILL)";
        assert_eq!(read(&[died, "==1== Exit code:       0"]), (true, false, None));
        let died = "==1== Process terminating with default action of signal 11 (SIGSEGV)";
        assert_eq!(read(&["==00:00:00:00.002 3== Exit code:       0\r", died]), (true, true, Some(Exit::Signal(11))));
    }
}
