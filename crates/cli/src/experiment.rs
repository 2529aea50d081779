//! Runs an experiment from its arguments to its report, for `compare` and `run`.

use crate::args::simulate::{AlignCode, Common, ConditionArgs, Timing};
use crate::failure::{Failure, print_error, remark};
use crate::program::Program;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::{own_line, probe, table, units};
use reach_core::{Chunk, Shown};
use reach_lab::metrics::{self, Definition};
use reach_lab::{
    Attributed, Conditions, Curve, Experiment, Finding, FindingKind, Header, Report, Row, Status, machine,
};
use reach_systems::Resolved as System;
use reach_trace::{Alignment, FastForward, Sampling, Source};

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

impl Finished {
    /// Returns all rows; where the timing only counts, those of counts.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.report.rows();
        if self.timing == Timing::Counts {
            let takes_time = |row: &Row| metrics::definition(&row.metric).is_some_and(Definition::takes_time);
            rows.retain(|row| !takes_time(row));
        }
        rows
    }
}

/// Returns the machine that was probed on this processor, or else the preset nearest to it, and names it on standard error.
pub fn nearest_machine(quiet: bool) -> Result<machine::Resolved, Failure> {
    if let Some((path, machine)) = probe::probed() {
        remark(quiet, format!("machine {} ({})", path.shown(), machine.about));
        return Ok(machine);
    }
    let (name, why) = machine::nearest_host();
    remark(quiet, format!("machine {name} ({why})"));
    machine::resolve(name).map_err(Failure::failed)
}

/// Translates the arguments to the conditions of all simulations. `has_curve`: a miss curve is counted.
pub fn conditions(args: &ConditionArgs, has_curve: bool) -> Conditions {
    Conditions {
        timing: match timing(args, has_curve) {
            Timing::Counts => reach_lab::Timing::Counts,
            Timing::InOrder => reach_lab::Timing::InOrder,
            Timing::Ooo => reach_lab::Timing::Ooo,
        },
        memory: args.memory,
        seed: args.seed,
        fragmentation: args.fragment.clone().map(|free| free.with_seed(args.seed)),
        warm: !args.cold,
        placement: reach_lab::Placement::of(args.cores, args.smt),
        aslr: args.aslr,
        kernel: args.kernel,
        host: args.host.clone(),
        guests: args.guests,
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

/// Returns the model of time: as given, or else the one whose speedups are held against clocks. Miss curves are counts.
fn timing(args: &ConditionArgs, has_curve: bool) -> Timing {
    args.timing.unwrap_or(if has_curve { Timing::Counts } else { Timing::Ooo })
}

/// Returns the precision that speedups must have; `None` where the program is not sampled, or once.
fn precision(common: &Common, has_curve: bool) -> Option<f64> {
    let args @ ConditionArgs { precision, whole, sample, .. } = &common.conditions;
    let suits = conditions(args, has_curve).suit_precision();
    let samples = suits && !has_curve && !whole && sample.is_none() && common.output.record.is_none();
    samples.then(|| precision.unwrap_or(Conditions::PRECISION))
}

/// Returns how the program is sampled; `None` if all of it is simulated.
fn sampling(common: &Common, has_curve: bool) -> Option<Sampling> {
    common.conditions.sample.or_else(|| precision(common, has_curve).map(|_| Sampling::default()))
}

/// Refuses `--precision` where nothing is sampled.
fn check_precision(common: &Common, has_curve: bool) -> Result<(), Failure> {
    if common.conditions.precision.is_some() && precision(common, has_curve).is_none() {
        let needs = "--precision is for samples, which need --timing ooo and one core with one hardware thread, and no --curve \
                     or --record; leave it out";
        return Err(Failure::Usage(needs.into()));
    }
    Ok(())
}

/// What is found out besides the rows of results.
#[derive(Default)]
pub struct Besides {
    /// A miss curve.
    pub curve: Option<Curve>,
    /// The cost of translation by owner.
    pub attribution: bool,
}

/// Simulates the program on each of `machines` under each of `systems`.
pub fn run(
    machines: Vec<machine::Resolved>,
    systems: Vec<System>,
    Besides { curve, attribution }: Besides,
    common: &Common,
    quiet: bool,
) -> Result<Finished, Failure> {
    check_placement(&machines, &common.conditions, quiet)?;
    let has_curve = curve.is_some();
    check_precision(common, has_curve)?;
    let page_table = common.conditions.page_table.unwrap_or_default();
    let systems = systems.into_iter().map(|system| system.on_page_table(page_table)).collect();
    let mut experiment = Experiment {
        machines,
        systems,
        conditions: conditions(&common.conditions, has_curve),
        threads: threads(common.conditions.threads),
        fast_forward: common.conditions.fast_forward.clone().unwrap_or_default(),
        align_code: common.conditions.align_code.map(|which| match which {
            AlignCode::Programs => Alignment::Programs,
            AlignCode::All => Alignment::All,
        }),
        limit: common.conditions.limit,
        sample: sampling(common, has_curve),
        precision: precision(common, has_curve),
        stop: None,
        attribute: if attribution { Attributed::All } else { Attributed::Nothing },
        curve,
    };
    let command = &common.program.command;
    let mut stored = Program::stored(&common.program, common.conditions.quantum, common.conditions.guests)?;
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
        None => {
            let aligns_shared = experiment.systems.iter().any(reach_systems::Resolved::aligns_shared_memory);
            Program::launch(command, common.conditions.aslr, aligns_shared)?
        }
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
    if common.output.verbose {
        remark(quiet, table::occupancy(&report));
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
        timing: timing(&common.conditions, has_curve),
        recording,
    })
}

/// Returns the number of threads that simulate, beside the one that reads the program. 0 means that one thread does both.
/// `requested` is the total; `None` stands for the number of processors.
pub fn threads(requested: Option<u16>) -> usize {
    Experiment::threads_of(requested.map(usize::from))
}
