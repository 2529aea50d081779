//! Runs a program of this computer once under the emulator, and simulates it, for predictions of what this computer would do.

use reach_core::{BlockTable, Chunk, Event};
use reach_lab::machine::{OsCosts, Resolved as Machine};
use reach_lab::{Experiment, FindingKind, Report, Status};
use reach_live::native::{Task, Thp};
use reach_live::scatter::{self, Frames};
use reach_live::trial::last_words;
use reach_os::Scatter;
use reach_trace::live::{Live, Options};
use reach_trace::{Ending, InMemory, Interruption, Progress, Source, TraceError};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Memory of the simulated machine, in bytes: more than any program here needs, even where few frames are free.
pub const MEMORY: u64 = 64 << 30;

/// Returns `machine` with free memory in which the frames of base pages lie as `scatter` says. If that is not known, `machine` as
/// it is.
pub fn with_frames(machine: Machine, scatter: Option<Scatter>) -> Machine {
    let scatter = scatter.or(machine.os.scatter);
    Machine { os: OsCosts { scatter, ..machine.os }, ..machine }
}

/// Returns how scattered the frames are that this computer gives to base pages; `None` if its kernel hides them from this user.
pub fn frames_here() -> Option<Scatter> {
    let Frames { groups_per_page, jumps_per_page } = scatter::new_frames().ok()??;
    Some(Scatter { groups: groups_per_page, jumps: Some(jumps_per_page) })
}

/// The client of a captured server. The commands are for a shell.
pub struct Client<'a> {
    /// Succeeds once the server is ready. `None`: it is at once.
    pub ready: Option<&'a str>,
    /// Loads the server.
    pub load: &'a str,
    /// The file for its output.
    pub output: PathBuf,
}

/// Why a client did not do its work.
enum Unserved {
    /// The server ended before the client did.
    ServerEnded,
    /// The client failed, as this sentence says.
    Failed(String),
}

/// How long an emulated server may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(900);
const READY_PAUSE: Duration = Duration::from_millis(100);
/// The longest time in which an end is not noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// A simulated program.
pub struct Captured {
    /// The results.
    pub report: Report,
    /// The paths of all files that the program mapped.
    pub files: BTreeSet<String>,
    /// The run, to be simulated again without another capture. `None` if it is too long to be kept, or not sampled.
    pub run: Option<InMemory>,
}

impl Captured {
    /// Returns whether the program mapped a file whose name begins with `library`.
    pub fn maps(&self, library: &str) -> bool {
        let name =
            |path: &String| Path::new(path).file_name().is_some_and(|n| n.to_string_lossy().starts_with(library));
        self.files.iter().any(name)
    }
}

/// Captures the program, with its client if it is a server, and runs `experiment` on it. `watch` sees the progress. Fails if the
/// program or the client fails, if anything is missing, and when the user interrupts.
///
/// # Errors
/// A sentence that says which.
pub fn simulate(
    options: Options,
    client: Option<&Client>,
    experiment: &Experiment,
    interruption: &mut Interruption,
    mut watch: impl FnMut(Status),
) -> Result<Captured, String> {
    let output = options.output.clone();
    let mut live = Live::launch(options).map_err(|error| error.to_string())?;
    let (pid, stop) = (live.id(), AtomicBool::new(false));
    let (simulated, served) = std::thread::scope(|scope| {
        let stop = &stop;
        let served = client.map(|client| scope.spawn(move || client.serve(pid, stop)));
        let mut listed = Listed { source: &mut live, files: BTreeSet::new() };
        let simulated = experiment.run_and_keep(&mut listed, |status| {
            watch(status);
            interruption.came().is_none()
        });
        let simulated = simulated.map(|(report, run)| Captured { report, files: listed.files, run });
        stop.store(true, Ordering::Relaxed);
        // A simulation that has failed leaves the server running, and its client waiting.
        if simulated.is_err() || interruption.came().is_some() {
            live.kill();
        }
        (simulated, served.map(|thread| thread.join().expect("the thread does not panic")))
    });
    if interruption.came().is_some() {
        return Err("interrupted".into());
    }
    let captured = simulated.map_err(|error| error.to_string())?;
    let status = live.wait().map_err(|error| error.to_string())?;
    match served {
        None if !status.success() => return Err(format!("{status} while it was captured")),
        Some(Err(unserved)) => {
            let shown = output.map(|output| last_words(&output)).unwrap_or_default();
            return Err(match unserved {
                Unserved::ServerEnded => format!("the server ended before its client did: {status}{shown}"),
                // A server that ends well, or by the signal that it gets after its client, is not the reason.
                Unserved::Failed(why) if status.success() || status.signal() == Some(libc::SIGTERM) => why,
                Unserved::Failed(why) => format!("{why}; the server ended with {status}{shown}"),
            });
        }
        _ => {}
    }
    let lost = |kind| kind == FindingKind::Incomplete || kind == FindingKind::ProgramFailed && client.is_none();
    match captured.report.findings.iter().find(|finding| lost(finding.kind)) {
        Some(finding) => Err(finding.text.clone()),
        None => Ok(captured),
    }
}

/// Runs `experiment` on the same run of the program again, without the emulator.
///
/// # Errors
/// A sentence.
pub fn again(
    run: &InMemory,
    experiment: &Experiment,
    interruption: &mut Interruption,
    mut watch: impl FnMut(Status),
) -> Result<Report, String> {
    let mut run = run.read().map_err(|error| error.to_string())?;
    let report = experiment.run(&mut run, |status| {
        watch(status);
        interruption.came().is_none()
    });
    if interruption.came().is_some() {
        return Err("interrupted".into());
    }
    report.map_err(|error| error.to_string())
}

impl Client<'_> {
    /// Waits until the server is ready, runs the load, and asks the server to end. Gives up when `ended` says that the server has.
    fn serve(&self, server: u32, ended: &AtomicBool) -> Result<(), Unserved> {
        let deadline = Instant::now() + READY_WITHIN;
        while let Some(ready) = self.ready {
            if self.shell(ready, ended)? {
                break;
            }
            if ended.load(Ordering::Relaxed) {
                return Err(Unserved::ServerEnded);
            }
            if Instant::now() > deadline {
                return Err(Unserved::Failed(format!(
                    "{ready}: does not succeed in {} s, so the server is not ready",
                    READY_WITHIN.as_secs()
                )));
            }
            std::thread::sleep(READY_PAUSE);
        }
        let succeeded = self.shell(self.load, ended);
        if !ended.load(Ordering::Relaxed)
            && let Some(pid) = Pid::from_raw(server as i32)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let failed = || Unserved::Failed(format!("{}: failed while the server was captured", self.load));
        succeeded?.then_some(()).ok_or_else(failed)
    }

    /// Runs a command, and returns whether it succeeded.
    fn shell(&self, command: &str, ended: &AtomicBool) -> Result<bool, Unserved> {
        let args = ["-c".into(), command.into()];
        let task = Task {
            program: Path::new("/bin/sh"),
            args: &args,
            folder: None,
            output: &self.output,
            environment: &[],
            thp: Thp::Inherited,
            own_group: true,
        };
        let failed = |error: io::Error| Unserved::Failed(format!("{command}: {error}"));
        let running = task.start().map_err(failed)?;
        while !running.ends_within(NOTICE).map_err(failed)? {
            if ended.load(Ordering::Relaxed) {
                return Err(Unserved::ServerEnded);
            }
        }
        Ok(running.wait().map_err(failed)?.status.success())
    }
}

/// A live program, and the files that it has mapped so far.
struct Listed<'a> {
    source: &'a mut Live,
    files: BTreeSet<String>,
}

impl Source for Listed<'_> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.fill(chunk)?;
        for (_, event) in &chunk.events {
            if let Event::File { path, .. } = event {
                self.files.insert(path.clone());
            }
        }
        Ok(more)
    }

    fn blocks(&self) -> &BlockTable {
        self.source.blocks()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn ending(&mut self) -> Ending {
        self.source.ending()
    }
}
