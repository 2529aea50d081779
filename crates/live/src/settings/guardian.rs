//! The guardian: a small process that knows the settings as they were, and restores them when the process that changes
//! them ends, in whatever way.

use super::Setting;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Settings that can be changed, because a guardian holds their old values. Dropping it restores them.
#[derive(Debug)]
pub struct Guarded {
    guardian: Child,
    /// `None` once the guardian was told to restore.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The settings that the guardian holds, with their old values.
    held: Vec<(Setting, String)>,
    /// Locked, so that two processes do not take each other's changes for the old values.
    _lock: File,
}

impl Guarded {
    /// Starts the guardian: `command` runs [`guard`].
    ///
    /// # Errors
    /// When it cannot be started, or another process changes settings.
    pub fn start(mut command: Command) -> io::Result<Guarded> {
        let lock = File::open(Setting::Thp.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let mut guardian = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let requests = guardian.stdin.take();
        let answers = guardian.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Guarded { guardian, requests, answers, held: Vec::new(), _lock: lock })
    }

    /// Changes a setting, once the guardian holds its old value.
    ///
    /// # Errors
    /// When the kernel lacks the setting or refuses the value, or the guardian is gone.
    pub fn set(&mut self, setting: Setting, value: &str) -> io::Result<()> {
        if self.held.iter().all(|(held, _)| *held != setting) {
            let old = setting.read()?;
            let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            writeln!(requests, "{} {old}", setting.path())?;
            let mut answer = String::new();
            self.answers.read_line(&mut answer)?;
            if answer.trim_end() != HELD {
                return Err(io::Error::other("the guardian of the old settings has ended"));
            }
            self.held.push((setting, old));
        }
        setting.write(value)
    }

    /// Restores all settings for now. The guardian goes on holding their old values.
    ///
    /// # Errors
    /// When the kernel refuses an old value; the others are restored all the same.
    pub fn restore(&self) -> io::Result<()> {
        restore(&self.held)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // At the end of its input the guardian restores.
        self.requests = None;
        let _ = self.guardian.wait();
    }
}

/// The guardian's answer to a request.
const HELD: &str = "held";

fn restore(held: &[(Setting, String)]) -> io::Result<()> {
    let results: Vec<_> = held.iter().rev().map(|(setting, old)| setting.write(old)).collect();
    results.into_iter().collect()
}

/// Holds the settings that lines of the standard input name, and restores them at its end. The guardian is in a session of its
/// own and ignores the signals that end other processes, so that Ctrl-C and a closed terminal do not end it first.
///
/// # Errors
/// When a setting cannot be restored.
pub fn guard() -> io::Result<()> {
    // Fails only for the leader of a group, which has no other process's terminal to leave.
    let _ = rustix::process::setsid();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: no handler is installed: the signal is ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let mut held = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((path, old)) = line.split_once(' ') else { continue };
        let Some(setting) = Setting::of_path(path) else { continue };
        held.push((setting, old.to_owned()));
        // Without a reader, the next read finds the end of the input.
        let _ = writeln!(io::stdout(), "{HELD}").and_then(|()| io::stdout().flush());
    }
    restore(&held)
}
