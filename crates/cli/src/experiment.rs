//! From arguments to a report: what `compare` and `run` share.

use crate::args::simulate::{AlignCode, Common, ConditionArgs, Timing};
use crate::failure::{Failure, complain};
use crate::program::Program;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::units;
use reach_core::Chunk;
use reach_lab::{Conditions, Curve, Experiment, Header, Report, Status, machine};
use reach_os::Fragmentation;
use reach_systems::Resolved as System;
use reach_trace::{Alignment, FastForward, Source};

/// A finished experiment.
pub struct Finished {
    /// Everything that the results depend on.
    pub header: Header,
    /// The results.
    pub report: Report,
    /// Whether the program ran just now.
    pub live: bool,
    /// How time passed.
    pub timing: Timing,
    /// The exit status that follows from the program's own.
    pub status: u8,
    /// Recording beside the experiment failed.
    pub recording: Option<Failure>,
}

/// The preset nearest to this computer's processor, which is said on standard error.
pub fn nearest_machine(quiet: bool) -> Result<machine::Resolved, Failure> {
    let (name, why) = machine::nearest_host();
    if !quiet {
        eprintln!("reach: machine {name} ({why})");
    }
    machine::resolve(name).map_err(Failure::failed)
}

/// The conditions of all simulations.
pub fn conditions(args: &ConditionArgs) -> Conditions {
    Conditions {
        timing: match args.timing {
            Timing::Counts => reach_lab::Timing::Counts,
            Timing::InOrder => reach_lab::Timing::InOrder,
            Timing::Ooo => reach_lab::Timing::Ooo,
        },
        memory: args.memory,
        seed: args.seed,
        fragmentation: args.fragment.map(|recipe| Fragmentation { seed: args.seed, ..recipe }),
        warm: !args.cold,
        placement: reach_lab::Placement::of(args.cores, args.smt),
    }
}

/// Runs the program on all of `machines` under all of `systems`, and counts `curve` of each.
pub fn run(
    machines: Vec<machine::Resolved>,
    systems: Vec<System>,
    curve: Option<Curve>,
    common: &Common,
    quiet: bool,
) -> Result<Finished, Failure> {
    let mut experiment = Experiment {
        machines,
        systems,
        conditions: conditions(&common.conditions),
        threads: threads(common.conditions.threads),
        fast_forward: common.conditions.fast_forward.clone().unwrap_or_default(),
        align_code: common.conditions.align_code.map(|which| match which {
            AlignCode::Programs => Alignment::Programs,
            AlignCode::All => Alignment::All,
        }),
        limit: common.conditions.limit,
        curve,
        sample: common.conditions.sample,
    };
    let command = &common.program.command;
    let mut stored = Program::stored(&common.program, common.conditions.quantum)?;
    let live = stored.is_none();
    if live && let FastForward::Phase(name) = &experiment.fast_forward {
        let what = format!(
            "--fast-forward {name}: a program that is captured announces no phases; give a count of references"
        );
        return Err(Failure::Usage(what));
    }
    let mut recorder = match &common.output.record {
        Some(path) => {
            let name = stored.as_mut().map(|program| program.source().name().to_owned());
            Some(Recorder::create(path, common.output.force, name, command)?)
        }
        None => None,
    };
    let mut program = match stored {
        Some(program) => program,
        None => Program::launch(command)?,
    };
    let mut progress = Progress::new(live, quiet);
    let watch = |status: Status| {
        progress.show(status.references, status.progress);
        true
    };
    let run = match &mut recorder {
        None => experiment.run(program.source(), watch),
        Some(recorder) => {
            let record = |chunk: &Chunk, source: &dyn Source| {
                recorder.take(chunk, source);
                Ok(())
            };
            experiment.run_beside(record, program.source(), watch)
        }
    };
    progress.end();
    if run.is_err() && live && !quiet {
        eprintln!("reach: simulation has stopped; the program goes on to its end");
    }
    let recording = recorder.map(Recorder::finish);
    let interrupted = program.interrupted();
    let status = program.end(quiet);
    let report = run.map_err(Failure::failed)?;
    if interrupted {
        // These are the results of a run with that limit, and say so.
        experiment.limit = Some(report.limited);
        let (read, behind) = (
            units::grouped(report.limited),
            if experiment.fast_forward.is_nothing() { "" } else { " behind what is fast_forwarded" },
        );
        complain(format!("interrupted: the results are those of the program's first {read} references{behind}"));
    }
    let recording = match recording {
        Some(Ok(summary)) => {
            if !quiet {
                eprintln!("reach: {summary}");
            }
            None
        }
        Some(Err(failure)) => Some(failure),
        None => None,
    };
    Ok(Finished {
        header: experiment.header(),
        report,
        live,
        timing: common.conditions.timing,
        status: status?,
        recording,
    })
}

/// How many threads simulate beside the one that reads the program; one thread in all does both by itself.
pub fn threads(asked: Option<u16>) -> usize {
    let threads = asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    if threads == 1 { 0 } else { threads }
}
