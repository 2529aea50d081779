//! The program of a run: live, recorded, synthetic or a scenario.

use crate::args::simulate::ProgramArgs;
use crate::failure::Failure;
use crate::own_line;
use reach_trace::live::{self, Live};
use reach_trace::{Ending, Exit, Interruptible, Multiprogram, Source, Stop, TraceError, scenario, synthetic};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program whose references can be read.
pub enum Program {
    /// A process tree that is being captured.
    Live(Box<Live>),
    /// Traces, synthetic programs or a scenario.
    Stored(Box<Interruptible>),
}

impl Program {
    /// Opens the traces, synthetic programs or scenario of the command line. Several take turns of `quantum`
    /// instructions, or run one after another if it is `None`, in `guests` guests in turn. Returns `None` if the command line names a
    /// live program.
    pub fn stored(args: &ProgramArgs, quantum: Option<u64>, guests: u32) -> Result<Option<Program>, Failure> {
        let ProgramArgs { traces, programs, scenario, .. } = args;
        let source = match (&scenario, &traces[..], &programs[..]) {
            (Some(path), ..) => {
                scenario::open(path).map(|source| Box::new(source.in_guests(guests)) as Box<dyn Source>)
            }
            (_, [], []) => return Ok(None),
            (_, [path], []) => reach_trace::open(path),
            (_, [], [spec]) => synthetic::parse(spec),
            _ => several(traces, programs, quantum, guests),
        };
        source.map(|source| Some(Program::Stored(Box::new(Interruptible::new(source))))).map_err(Failure::failed)
    }

    /// Starts a program and captures it. Its addresses are random by the seed `aslr`, or the same in each run. With
    /// `aligns_shared`, shared memory is placed so that it can have huge pages.
    ///
    /// # Panics
    /// If `command` is empty.
    pub fn launch(command: &[OsString], aslr: Option<u32>, aligns_shared: bool) -> Result<Program, Failure> {
        let options = live::Options { layout_seed: aslr.unwrap_or(0), aligns_shared, ..options(command) };
        let live = Live::launch(options).map_err(Failure::failed)?;
        own_line::program_started();
        Ok(Program::Live(Box::new(live)))
    }

    /// Checks that the program exists and that the emulator to capture it is installed; starts nothing.
    pub fn find(command: &[OsString]) -> Result<(), Failure> {
        Live::find(&options(command)).map_err(Failure::failed)
    }

    /// Returns the source of its references.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Program::Live(live) => &mut **live,
            Program::Stored(source) => &mut **source,
        }
    }

    /// Returns the signal by which the user has asked to end the run, if one came. For a live program, this is a signal other
    /// than those from the terminal's keys: the program gets those itself.
    pub fn interrupted(&self) -> Option<i32> {
        match self {
            Program::Live(live) => live.interrupted(),
            Program::Stored(source) => source.interrupted(),
        }
    }

    /// Returns whether the results cover only the part of the program before an interruption. A live program gets the signal
    /// and is read to its end.
    pub fn was_cut(&self) -> bool {
        matches!(self, Program::Stored(source) if source.interrupted().is_some())
    }

    /// Returns the exit status for `reach`: that of an interruption, or else that of the program if it failed.
    pub fn exit_status(&self, ending: &Ending) -> u8 {
        self.interrupted().map_or_else(|| ending.exit_status(), interrupted_status)
    }

    /// Returns a remark on why not all of the program was read, on purpose; `None` if it was, or if this run's own options
    /// are the reason: `limit` is that of this run.
    pub fn remark(&self, ending: &Ending, limit: Option<u64>) -> Option<String> {
        match (self, ending.stopped?) {
            (Program::Live(live), _) => {
                let left = "interrupted: processes that outlive the program continue untraced";
                live.left_descendants().then(|| left.to_owned())
            }
            (Program::Stored(_), Stop::Limit(references)) if Some(references) == limit => None,
            (Program::Stored(source), _) if source.interrupted().is_some() => None,
            (Program::Stored(source), stopped) => {
                Some(format!("{}: the recording was stopped {stopped}", source.name()))
            }
        }
    }
}

/// Returns the exit status of a command that `signal` has interrupted, as a shell gives it.
pub fn interrupted_status(signal: i32) -> u8 {
    Exit::Signal(signal).shell_status()
}

/// Combines several programs into one source, for one machine with `guests` guests.
fn several(
    traces: &[PathBuf],
    programs: &[String],
    quantum: Option<u64>,
    guests: u32,
) -> Result<Box<dyn Source>, TraceError> {
    let mut members = Vec::new();
    for spec in programs {
        members.push(scenario::synthetic_member(spec)?);
    }
    for path in traces {
        members.push(scenario::trace_member(path)?);
    }
    let names = programs.iter().cloned().chain(traces.iter().map(|path| path.display().to_string()));
    let name = names.collect::<Vec<_>>().join(" + ");
    Ok(Box::new(Multiprogram::new(name, members, quantum).in_guests(guests)))
}

fn options(command: &[OsString]) -> live::Options {
    let (program, args) = command.split_first().expect("clap requires a program");
    live::Options { program: program.clone(), args: args.to_vec(), ..live::Options::default() }
}
