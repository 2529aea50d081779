//! The guardian: a small process that knows the settings as they were, and restores them when the process that changes
//! them ends, in whatever way.

use super::Setting;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
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
}

impl Guarded {
    /// Starts the guardian: `command` runs [`guard`].
    ///
    /// # Errors
    /// When it cannot be started, or another guardian holds settings.
    pub fn start(mut command: Command) -> io::Result<Guarded> {
        let mut guardian = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let requests = guardian.stdin.take();
        let answers = guardian.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        let mut guarded = Guarded { guardian, requests, answers, held: Vec::new() };
        match guarded.answer()?.as_str() {
            READY => Ok(guarded),
            why => Err(io::Error::other(why.to_owned())),
        }
    }

    /// Reads the guardian's next answer.
    fn answer(&mut self) -> io::Result<String> {
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::Error::other("the guardian of the old settings has ended")),
            _ => Ok(answer.trim_end().to_owned()),
        }
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
            match self.answer()?.as_str() {
                HELD => self.held.push((setting, old)),
                why => return Err(io::Error::other(why.to_owned())),
            }
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

/// The guardian's answers: when it has started, and to a request.
const READY: &str = "ready";
const HELD: &str = "held";

/// Only root writes there. Locked while a guardian holds settings, so that nobody takes a changed value for the old one.
const LOCK: &str = "/run/reach-settings.lock";

fn restore(held: &[(Setting, String)]) -> io::Result<()> {
    let results: Vec<_> = held.iter().rev().map(|(setting, old)| setting.restore(old)).collect();
    results.into_iter().collect()
}

/// Holds the settings that lines of the standard input name, and restores them at its end. The guardian is in a session of its
/// own and ignores the signals that end other processes, so that Ctrl-C and a closed terminal do not end it first.
///
/// # Errors
/// When another guardian holds settings, which it also answers, or a setting cannot be restored.
pub fn guard() -> io::Result<()> {
    // Fails only for the leader of a group, which has no other process's terminal to leave.
    let _ = rustix::process::setsid();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: no handler is installed: the signal is ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Without a reader of an answer, the next read finds the end of the input.
    let answer = |text: &str| writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush());
    let _lock = match lock() {
        Ok(lock) => lock,
        Err(error) => {
            let _ = answer(&format!("{LOCK}: {error}"));
            return Err(error);
        }
    };
    let _ = answer(READY);
    let mut held = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((path, old)) = line.split_once(' ') else { continue };
        let Some(setting) = Setting::of_path(path) else { continue };
        held.push((setting, old.to_owned()));
        let _ = answer(HELD);
    }
    restore(&held)
}

/// Locks the file of guardians, which is root's alone.
fn lock() -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(LOCK)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other("another `reach try --change-system` runs; wait for its end")),
        Err(error) => Err(error.into()),
    }
}
