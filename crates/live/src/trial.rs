//! Runs a program, or a server with a client, once under a remedy on this Linux.

use crate::backed::Backing;
use crate::native::{Running, Task, Thp, Usage};
use crate::remedy::Remedy;
use crate::settings::Guarded;
use crate::stops::Timing;
use crate::watch::{self, Watch, Watched};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The program to run, again and again.
#[derive(Debug)]
pub struct Trial {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The client, if the program is a server.
    pub client: Option<Client>,
    /// The executable of `reach`, for remedies that it applies itself.
    pub reach: PathBuf,
    /// A folder for output.
    pub scratch: PathBuf,
    /// The memory that it needs.
    pub backing: Backing,
}

/// The client of a server. The commands are for a shell.
#[derive(Debug)]
pub struct Client {
    /// Succeeds once the server is ready. `None`: it is at once.
    pub ready: Option<String>,
    /// Loads the server.
    pub load: String,
    /// The figure in its output that says how fast the server is. `None`: the load's time does.
    pub figure: Option<Figure>,
}

/// A number in the output of a load: the first one after the last occurrence of a text, in the same line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// More is better.
    Rate(String),
    /// Less is better.
    Latency(String),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's or the server's usage.
    pub usage: Usage,
    /// The client's observations.
    pub load: Option<Load>,
}

/// The observations of a server's client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// The time of the load.
    pub wall: Duration,
    /// The figure in its output.
    pub figure: Option<f64>,
}

/// The reason a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// A program cannot be run.
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
    /// The program or the client failed.
    #[error("{0} failed: {1}{shown}", shown = last(.2))]
    Failed(String, ExitStatus, String),
    /// A setting of the kernel cannot be changed or restored.
    #[error("{0}: {1}")]
    Settings(&'static str, #[source] io::Error),
    /// Memory cannot be broken up, or does not stay so.
    #[error("memory cannot be broken up: {0}")]
    Memory(#[source] io::Error),
    /// The server is not ready in time.
    #[error("{0}: does not succeed in {1} s, so the server is not ready{shown}", shown = last(.2))]
    NotReady(String, u64, String),
    /// The server ended before the load.
    #[error("the server ended before its client did: {0}{shown}", shown = last(.1))]
    Ended(ExitStatus, String),
    /// The load's output has no such figure.
    #[error("the load's output has no number after {0:?}{shown}", shown = last(.1))]
    NoFigure(String, String),
}

/// Returns the end of a sentence that shows the last lines of an output, if there are any.
fn last(lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("; its last lines are {lines:?}") }
}

/// How long a server may take to be ready, and to end: more than the databases take that read a small set of data.
const READY_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two attempts to reach a server.
const READY_PAUSE: Duration = Duration::from_millis(50);
/// The longest time in which a wish to end is not noticed.
const NOTICE: Duration = Duration::from_millis(100);
/// Bytes of output that an error shows, and that are searched for a figure.
const SHOWN: usize = 300;
const SEARCHED: u64 = 1 << 20;

impl Trial {
    /// Runs the program once, and returns also what the kernel showed of it if `watched`. `stop` says whether the user wants
    /// the end. Settings that the remedy needs are changed through `guarded` and restored.
    ///
    /// # Errors
    /// When the program or its client fails, or cannot be run, or `stop` said so.
    pub fn run(
        &self,
        remedy: Option<&Remedy>,
        watched: bool,
        guarded: Option<&mut Guarded>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Outcome, Watched), TrialError> {
        let Some(guarded) = guarded else { return self.seen(remedy, watched, stop) };
        let room = self.backing.room();
        for (setting, value) in remedy.map_or(&[][..], |remedy| remedy.settings) {
            guarded.set(*setting, &value(room)).map_err(|error| TrialError::Settings(setting.path(), error))?;
        }
        let outcome = self.seen(remedy, watched, stop);
        guarded.restore().map_err(|error| TrialError::Settings("the kernel's settings are not restored", error))?;
        outcome
    }

    /// Runs the program once, and watches it if asked to.
    fn seen(
        &self,
        remedy: Option<&Remedy>,
        watched: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Outcome, Watched), TrialError> {
        let begin =
            |held| Watch::begin(held).map_err(|error| TrialError::Io("a program cannot be watched".into(), error));
        match watched {
            false => self.under(remedy, None, stop),
            true => match self.under(remedy, Some(begin(true)?), stop) {
                // It may be the tracer: programs that trace themselves, or have more rights than their user, do without it.
                Err(TrialError::Failed(..) | TrialError::Ended(..)) => self.under(remedy, Some(begin(false)?), stop),
                outcome => outcome,
            },
        }
    }

    /// Runs the program once under the kernel's settings as they are.
    fn under(
        &self,
        remedy: Option<&Remedy>,
        watch: Option<Watch>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Outcome, Watched), TrialError> {
        let (program, args) = self.command(remedy);
        let output = self.scratch.join("output");
        let values = remedy.map(Remedy::variables).unwrap_or_default();
        let environment: Vec<_> = values.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
        let task = Task {
            program: &program,
            args: &args,
            folder: None,
            output: &output,
            environment: &environment,
            thp: remedy.map_or(Thp::Inherited, |remedy| remedy.thp),
            own_group: true,
        };
        let name = self.program.display().to_string();
        let failed = |error| TrialError::Io(name.clone(), error);
        let running = task.start_through(watch.as_ref().and_then(Watch::gate)).map_err(failed)?;
        // Where the kernel does not allow it, the rest is seen all the same.
        let timing = watch.as_ref().and_then(|_| Timing::begin(&running).ok());
        let load = match &self.client {
            None => {
                self.attend(&running, watch.as_ref(), stop)?;
                None
            }
            Some(client) => {
                let served = match self.await_ready(client, &running, &output, stop) {
                    Ok(true) => self.load(client, &running, stop),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error),
                };
                if matches!(served, Err(TrialError::Interrupted)) {
                    return Err(TrialError::Interrupted);
                }
                // Without its server, the client may have failed.
                if running.ends_within(Duration::ZERO).map_err(failed)? {
                    let usage = running.wait().map_err(failed)?;
                    return Err(TrialError::Ended(usage.status, last_lines(&output)));
                }
                let load = served?.unwrap_or_default();
                // The server keeps its memory after the load.
                watch.iter().for_each(|watch| watch.look(&running));
                running.terminate();
                let told = Instant::now();
                while !running.ends_within(NOTICE).map_err(failed)? {
                    if stop() {
                        return Err(TrialError::Interrupted);
                    }
                    // It is killed when it is dropped; what it used is lost then.
                    if told.elapsed() > END_WITHIN {
                        return Err(TrialError::Io(name, io::Error::other("does not end after SIGTERM")));
                    }
                }
                Some(load)
            }
        };
        let usage = running.wait().map_err(failed)?;
        self.backing.note(usage.peak);
        match load.is_some() || usage.status.success() {
            true => {
                let stops = timing.and_then(Timing::end);
                let seen = watch.map(Watch::end).unwrap_or_default();
                Ok((Outcome { usage, load }, Watched { faults: usage.faults, stops, ..seen }))
            }
            false => Err(TrialError::Failed(name, usage.status, last_lines(&output))),
        }
    }

    /// Returns the program to start, and its arguments.
    fn command(&self, remedy: Option<&Remedy>) -> (PathBuf, Vec<OsString>) {
        let (through, more) = remedy.map_or((&[][..], &[][..]), |remedy| (remedy.through, remedy.arguments));
        let own = self.args.iter().cloned().chain(more.iter().map(OsString::from));
        if through.is_empty() {
            return (self.program.clone(), own.collect());
        }
        let mut args: Vec<OsString> = through.iter().map(OsString::from).collect();
        args.extend(["--".into(), self.program.clone().into()]);
        args.extend(own);
        (self.reach.clone(), args)
    }

    /// Waits for a program's end, and watches it if asked to.
    fn attend(&self, running: &Running, watch: Option<&Watch>, stop: &dyn Fn() -> bool) -> Result<(), TrialError> {
        let failed = |error| TrialError::Io(self.program.display().to_string(), error);
        let pause = if watch.is_some() { watch::PAUSE } else { NOTICE };
        loop {
            watch.iter().for_each(|watch| watch.look(running));
            if running.ends_within(pause).map_err(failed)? {
                return Ok(());
            }
            if stop() {
                return Err(TrialError::Interrupted);
            }
        }
    }

    /// Waits until the client's command for that succeeds. Returns false if the server ends before.
    fn await_ready(
        &self,
        client: &Client,
        server: &Running,
        output: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, TrialError> {
        let Some(ready) = &client.ready else { return Ok(true) };
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let done = self.shell(ready, server, Some(deadline), stop)?;
            if done.is_some_and(|(_, usage)| usage.status.success()) {
                return Ok(true);
            }
            if server.ends_within(READY_PAUSE).map_err(|error| TrialError::Io(ready.clone(), error))? {
                return Ok(false);
            }
            if Instant::now() > deadline {
                return Err(TrialError::NotReady(ready.clone(), READY_WITHIN.as_secs(), last_lines(output)));
            }
        }
    }

    /// Loads the server. `None`: it has ended.
    fn load(&self, client: &Client, server: &Running, stop: &dyn Fn() -> bool) -> Result<Option<Load>, TrialError> {
        let Some((output, usage)) = self.shell(&client.load, server, None, stop)? else { return Ok(None) };
        if !usage.status.success() {
            return Err(TrialError::Failed(client.load.clone(), usage.status, last_lines(&output)));
        }
        let figure = client.figure.as_ref().map(|figure| figure.find(&output)).transpose()?;
        Ok(Some(Load { wall: usage.wall, figure }))
    }

    /// Runs a command of the client, and returns the file of its output. `None`: it is killed, because the server has ended or
    /// the deadline has passed.
    fn shell(
        &self,
        command: &str,
        server: &Running,
        deadline: Option<Instant>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(PathBuf, Usage)>, TrialError> {
        let output = self.scratch.join("client");
        let args = ["-c".into(), command.into()];
        let task = Task {
            program: Path::new("/bin/sh"),
            args: &args,
            folder: None,
            output: &output,
            environment: &[],
            thp: Thp::Inherited,
            own_group: true,
        };
        let failed = |error| TrialError::Io(command.to_owned(), error);
        let running = task.start().map_err(failed)?;
        loop {
            if stop() {
                return Err(TrialError::Interrupted);
            }
            if running.ends_within(NOTICE).map_err(failed)? {
                return Ok(Some((output, running.wait().map_err(failed)?)));
            }
            let late = deadline.is_some_and(|deadline| Instant::now() > deadline);
            if late || server.ends_within(Duration::ZERO).map_err(failed)? {
                return Ok(None);
            }
        }
    }
}

impl Figure {
    fn text(&self) -> &str {
        let (Figure::Rate(text) | Figure::Latency(text)) = self;
        text
    }

    fn find(&self, output: &Path) -> Result<f64, TrialError> {
        number_after(self.text(), &tail(output, SEARCHED))
            .ok_or_else(|| TrialError::NoFigure(self.text().into(), last_lines(output)))
    }
}

/// Returns the first number after the last occurrence of `text`, in the same line. Programs that show their progress end lines
/// with carriage returns. A number with separators of thousands is none.
fn number_after(text: &str, output: &str) -> Option<f64> {
    let rest = &output[output.rfind(text)? + text.len()..];
    let line = rest.split(['\n', '\r']).next()?;
    let begins = line.find(|c: char| c.is_ascii_digit())?;
    let is_negative = line[..begins].ends_with('-');
    let number = &line[begins..];
    let mut ends = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    if number[ends..].starts_with(',') && number[ends + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let exponent = number[ends..].strip_prefix(['e', 'E']);
    if let Some(digits) = exponent.map(|exponent| exponent.trim_start_matches(['+', '-']))
        && digits.starts_with(|c: char| c.is_ascii_digit())
    {
        let after = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        ends = number.len() - digits.len() + after;
    }
    let value: f64 = number[..ends].trim_end_matches('.').parse().ok()?;
    Some(if is_negative { -value } else { value })
}

/// Returns the end of a file as text; nothing if it cannot be read.
fn tail(path: &Path, bytes: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = fs::File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(bytes);
        file.seek(SeekFrom::Start(from))?;
        let mut all = Vec::new();
        file.take(bytes).read_to_end(&mut all)?;
        Ok(all)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn last_lines(path: &Path) -> String {
    tail(path, SHOWN as u64).trim().to_owned()
}

/// Returns `; its last lines are …` for the file `path`, or nothing if it has none.
pub fn last_words(path: &Path) -> String {
    last(&last_lines(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_first_number_after_the_last_occurrence_of_its_text() {
        let output = "GET: rps=100.0 (overall: 90.0)\rGET: 71942.45 requests per second, p50=0.343 msec\n";
        assert_eq!(number_after("GET:", output), Some(71942.45));
        assert_eq!(number_after("p50=", output), Some(0.343));
        assert_eq!(number_after("tps =", "tps = 12.\n"), Some(12.0));
        assert_eq!(number_after("tps =", "tps = none"), None);
        assert_eq!(number_after("SET:", output), None);
        assert_eq!(number_after("ops", "ops 1.2e+06/s"), Some(1.2e6));
        assert_eq!(number_after("change", "change: -5 %"), Some(-5.0));
        assert_eq!(number_after("ops", "ops 71,942"), None);
        assert_eq!(number_after("tps", "tps = nan\nlatency 3"), None);
    }

    fn trial(script: &str, client: Option<Client>, scratch: &Path) -> Trial {
        let args = vec!["-c".into(), script.into()];
        let (reach, scratch) = (PathBuf::from("reach"), scratch.to_owned());
        Trial { program: "sh".into(), args, client, reach, scratch, backing: Backing::default() }
    }

    #[test]
    fn a_server_is_loaded_once_it_is_ready_and_then_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let script = format!("sleep 0.2; touch {0}; while :; do sleep 0.01; done", path.display());
        let client = Client {
            ready: Some(format!("test -e {}", path.display())),
            load: "echo rate: 7 per second".into(),
            figure: Some(Figure::Rate("rate:".into())),
        };
        let (outcome, _) = trial(&script, Some(client), folder.path()).run(None, true, None, &|| false).unwrap();
        assert_eq!(outcome.load.unwrap().figure, Some(7.0));
        assert!(outcome.usage.wall >= Duration::from_millis(200));
    }

    #[test]
    fn a_program_that_fails_under_a_tracer_is_watched_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let alone = trial("sleep 0.2; grep -q '^TracerPid:.0$' /proc/$$/status", None, folder.path());
        let (outcome, seen) = alone.run(None, true, None, &|| false).unwrap();
        assert!(outcome.usage.status.success() && seen.looks > 1, "{seen:?}");
    }

    #[test]
    fn failures_say_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let run = |script: &str, client: Option<(&str, &str)>, stop: bool| {
            let client = client.map(|(ready, load)| Client {
                ready: Some(ready.into()),
                load: load.into(),
                figure: Some(Figure::Latency("ms".into())),
            });
            let error = trial(script, client, folder.path()).run(None, false, None, &move || stop).unwrap_err();
            error.to_string()
        };
        assert_eq!(run("exit 3", None, false), "sh failed: exit status: 3");
        assert_eq!(run("sleep 100", None, true), "interrupted");
        assert!(run("echo no port >&2; exit 1", Some(("false", "true")), false).contains("no port"));
        assert_eq!(run("sleep 100", Some(("true", "exit 9")), false), "exit 9 failed: exit status: 9");
        assert!(run("sleep 100", Some(("true", "echo slow")), false).contains("no number after \"ms\""));
    }
}
