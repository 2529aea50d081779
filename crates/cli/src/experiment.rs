//! Runs an experiment from its arguments to its report, for `compare` and `run`.

use crate::args::simulate::{AlignCode, Common, ConditionArgs, Timing};
use crate::failure::{Failure, print_error, remark};
use crate::program::Program;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::{own_line, units};
use reach_core::Chunk;
use reach_lab::{Conditions, Curve, Experiment, Finding, FindingKind, Header, Report, Status, machine};
use reach_os::Fragmentation;
use reach_systems::Resolved as System;
use reach_trace::{Alignment, FastForward, Source};

/// A finished experiment.
pub struct Finished {
    /// All settings that the results depend on.
    pub header: Header,
    /// The results.
    pub report: Report,
    /// Whether the program was captured during the experiment, rather than read or generated.
    pub live: bool,
    /// The model of time.
    pub timing: Timing,
    /// The exit status for `reach`: the traced program's if that failed, or that of an interruption.
    pub status: u8,
    /// Why `--record` failed; `None` if it succeeded or was not requested.
    pub recording: Option<Failure>,
}

/// Returns the preset nearest to this computer's processor, and names it on standard error.
pub fn nearest_machine(quiet: bool) -> Result<machine::Resolved, Failure> {
    let (name, why) = machine::nearest_host();
    remark(quiet, format!("machine {name} ({why})"));
    machine::resolve(name).map_err(Failure::failed)
}

/// Translates the arguments to the conditions of all simulations.
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
        aslr: args.aslr,
    }
}

/// Refuses cores and hardware threads that a machine lacks, and notes that a machine does not tell its cores.
fn check_placement(machines: &[machine::Resolved], args: &ConditionArgs, quiet: bool) -> Result<(), Failure> {
    let placement = reach_lab::Placement::of(args.cores, args.smt);
    for machine in machines {
        machine.check_placement(&placement).map_err(Failure::Usage)?;
        if machine.cores.is_none() && placement.cores > 1 {
            let (name, cores) = (&machine.name, placement.cores);
            let unknown = "does not tell its number of cores (processor.cores)";
            remark(quiet, format!("machine {name} {unknown}; {cores} are simulated"));
        }
    }
    Ok(())
}

/// Simulates the program on each of `machines` under each of `systems`. `curve` is the miss curve to count, if any.
pub fn run(
    machines: Vec<machine::Resolved>,
    systems: Vec<System>,
    curve: Option<Curve>,
    common: &Common,
    quiet: bool,
) -> Result<Finished, Failure> {
    check_placement(&machines, &common.conditions, quiet)?;
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
        let message = format!(
            "--fast-forward {name}: a captured program announces no phases; give a count of references, such as 10M"
        );
        return Err(Failure::Usage(message));
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
        None => Program::launch(command, common.conditions.aslr)?,
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
            experiment.run_with_tee(record, program.source(), watch)
        }
    };
    progress.end();
    let report = match run {
        Ok(report) => report,
        Err(error) => {
            if live {
                remark(quiet, "the simulation has stopped; waiting for the program to end");
            }
            program.source().ending();
            own_line::program_ended();
            return Err(match recorder {
                Some(recorder) => recorder.give_up(error),
                None => Failure::failed(error),
            });
        }
    };
    own_line::program_ended();
    let recording = recorder.map(|recorder| recorder.finish(&report.ending));
    if program.was_cut() {
        // The results equal those of a run with this limit, and their header says so.
        experiment.limit = Some(report.limited);
        let read = units::grouped(report.limited);
        let after = if experiment.fast_forward.is_nothing() { "" } else { " after the fast-forwarded part" };
        print_error(format!("interrupted: the results cover the program's first {read} references{after}"));
    }
    // How the program failed is a remark on it; what is missing concerns the results.
    let told = |finding: &&Finding| !quiet || finding.kind != FindingKind::ProgramFailed;
    report.findings.iter().filter(told).for_each(|finding| print_error(&finding.text));
    if !quiet {
        program.remark(&report.ending, experiment.limit).iter().for_each(print_error);
    }
    let recording = match recording {
        Some(Ok(summary)) => {
            remark(quiet, summary);
            None
        }
        Some(Err(failure)) => Some(failure),
        None => None,
    };
    Ok(Finished {
        header: experiment.header(&report),
        status: program.exit_status(&report.ending),
        report,
        live,
        timing: common.conditions.timing,
        recording,
    })
}

/// Returns the number of threads that simulate, beside the one that reads the program. 0 means that one thread does both.
/// `requested` is the total; `None` stands for the number of processors.
pub fn threads(requested: Option<u16>) -> usize {
    let threads = requested.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    if threads == 1 { 0 } else { threads }
}
