//! An experiment: one pass over a program feeds every machine × system, on all processors.

mod fan_out;
mod header;
mod occupancy;
mod sampled;

pub use header::Header;
pub use occupancy::Occupancy;

use crate::conditions::Conditions;
use crate::curve::Curve;
use crate::findings::{self, Finding};
use crate::kernel_code::KernelCode;
use crate::machine;
use crate::prepare::{Batch, Lookahead, Preparer};
use crate::results::{self, Row};
use crate::simulation::{Outcome, Sample, Simulation, SimulationError};
use fan_out::fan_out;
use reach_core::{Chunk, Counts};
use reach_trace::{
    Aligned, Alignment, Ending, FastForward, FastForwarded, InMemory, Kept, Limited, Progress, Sampling, Source,
    TraceError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Called now and then; returns false to stop. This and [`Tee`] are no type parameters of what runs, so that it is compiled
/// here, once, and not again in each crate that uses it.
type Watch<'a> = dyn FnMut(Status) -> bool + 'a;

/// Sees every chunk before it is simulated.
type Tee<'a> = dyn FnMut(&Chunk, &dyn Source) -> Result<(), TraceError> + 'a;

/// Batches that may wait for a simulation before the source has to wait.
const QUEUE_DEPTH: usize = 8;

/// Machines and systems to compare, and the part of the program to simulate.
///
/// ```
/// use reach_lab::{ALL, Conditions, Experiment, machine};
/// use reach_trace::synthetic;
///
/// let machine = machine::resolve("skylake-e3-1240v5")?;
/// let systems = ["base", "hugetlb-2m"].map(|name| reach_systems::resolve(name).unwrap());
/// let experiment = Experiment::new(vec![machine], systems.into(), Conditions::new(256 << 20));
/// let mut program = synthetic::parse("gups:bytes=32M,updates=20K")?;
/// let report = experiment.run(&mut *program, |_| true)?;
/// let rows = report.rows();
/// let speedups: Vec<_> = rows.iter().filter(|row| row.metric == "speedup" && row.process == ALL).collect();
/// assert_eq!(speedups[0].value.as_f64(), 1.0);
/// assert!(speedups[1].value.as_f64() > 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Experiment {
    /// The machines.
    pub machines: Vec<machine::Resolved>,
    /// The systems; speedups are relative to the first.
    pub systems: Vec<reach_systems::Resolved>,
    /// The conditions that all simulations share.
    pub conditions: Conditions,
    /// Threads that simulate; 0: the caller's thread simulates too.
    pub threads: usize,
    /// The beginning of the program that is fast-forwarded: only references that change the operating system's state are
    /// simulated ([`FastForwarded`]).
    pub fast_forward: FastForward,
    /// Which files of code are moved to superpage boundaries ([`Aligned`]).
    pub align_code: Option<Alignment>,
    /// The simulations end the program after this many references, not counting fast-forwarded ones; `None`: at its end.
    pub limit: Option<u64>,
    /// The miss curve to count; `None`: no curve.
    pub curve: Option<Curve>,
    /// The systems under which costs of translation are attributed to instructions and mappings ([`crate::attribution`]).
    pub attribute: Attributed,
    /// How intervals of the program are measured; `None`: all of it is. All of a program that is too short for error bars
    /// is measured, too.
    pub sample: Option<Sampling>,
    /// Half the width of the 95 % confidence interval that every speedup may have, relative to the speedup. The program is
    /// sampled again, more densely, until it is reached, where the program can be read again or kept in memory; a program that is
    /// a sample already stays as it is. `None`: it is sampled once.
    pub precision: Option<f64>,
    /// Another thread sets it to end the experiment with [`ExperimentError::Stopped`], as soon as each simulation has taken the
    /// chunk that it is at. `None`: nobody does.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Systems under which costs are attributed, which takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attributed {
    /// None.
    #[default]
    Nothing,
    /// The first of each machine.
    First,
    /// All.
    All,
}

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The program could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// [`Experiment::stop`] was set.
    #[error("the experiment was stopped")]
    Stopped,
}

/// How far an experiment has come.
pub struct Status {
    /// References so far.
    pub references: u64,
    /// The source's own measure.
    pub progress: Progress,
}

/// The results of an experiment.
pub struct Report {
    /// The program's name.
    pub program: String,
    /// Instructions and references of the program.
    pub counts: Counts,
    /// References that count towards a limit: all but the fast-forwarded ones.
    pub limited: u64,
    /// How the program ended, and what is missing of it.
    pub ending: Ending,
    /// What readers of these results must know about the program; it holds for all simulations.
    pub findings: Vec<Finding>,
    /// One outcome for each machine and system: all systems of the first machine first.
    pub outcomes: Vec<Outcome>,
    /// The number of systems.
    pub systems: usize,
    /// Wall time of the experiment.
    pub elapsed: Duration,
    /// Where the time went.
    pub occupancy: Occupancy,
}

impl Experiment {
    /// Returns an experiment with the whole program of every machine under every system, on the caller's thread.
    pub fn new(
        machines: Vec<machine::Resolved>,
        systems: Vec<reach_systems::Resolved>,
        conditions: Conditions,
    ) -> Experiment {
        Experiment {
            machines,
            systems,
            conditions,
            threads: 0,
            fast_forward: FastForward::default(),
            align_code: None,
            limit: None,
            curve: None,
            attribute: Attributed::default(),
            sample: None,
            precision: None,
            stop: None,
        }
    }

    /// Returns [`Experiment::threads`] for `total` threads, the one that reads the program among them; `None`: one for each
    /// processor of this computer.
    pub fn threads_of(total: Option<usize>) -> usize {
        match total.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)) {
            1 => 0,
            threads => threads,
        }
    }

    /// Returns what the results depend on, resolved, with its hash.
    pub fn configuration(&self) -> Header {
        Header::of(self)
    }

    /// Returns what the results depend on, resolved, with its hash, and the findings of `report`.
    pub fn header(&self, report: &Report) -> Header {
        self.configuration().with_findings(report)
    }

    /// Runs `source`, of which nothing was read yet, to its end. `watch` is called now and then; it returns false to stop,
    /// and then the results cover the references read so far.
    ///
    /// # Errors
    /// When the program cannot be read and when a simulation fails.
    pub fn run(
        &self,
        source: &mut dyn Source,
        mut watch: impl FnMut(Status) -> bool,
    ) -> Result<Report, ExperimentError> {
        let started = Instant::now();
        if let Some(sampling) = self.sample {
            return Ok(self.run_sampled(sampling, source, false, &mut watch, started)?.0);
        }
        let simulations = self.boot(false)?;
        // Outlines suffice where nothing needs single references, which holds for most simulations that only count.
        let unchanged = self.limit.is_none() && self.fast_forward.is_nothing() && self.align_code.is_none();
        if unchanged && simulations.iter().all(Simulation::takes_outlines) {
            source.outline(true)?;
        }
        match self.pass(simulations, source, &mut |_, _| Ok(()), &mut watch, started) {
            Err(ExperimentError::Simulation(SimulationError::NeedsReferences)) if source.outline(false)? => {
                self.pass(self.boot(false)?, source, &mut |_, _| Ok(()), &mut watch, started)
            }
            outcome => outcome,
        }
    }

    /// Does the same, and returns the program too, as far as it was read, if it was kept in memory. That is a program of at most
    /// 2^30 references and 256 MB of trace; where it is sampled without a precision, a few intervals. `None` for a longer one.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn run_and_keep(
        &self,
        source: &mut dyn Source,
        mut watch: impl FnMut(Status) -> bool,
    ) -> Result<(Report, Option<InMemory>), ExperimentError> {
        if let Some(sampling) = self.sample {
            return self.run_sampled(sampling, source, true, &mut watch, Instant::now());
        }
        let mut kept = Kept::new(source, sampled::MOST_KEPT)?;
        let report = self.run(&mut kept, watch)?;
        Ok((report, kept.into_program()?))
    }

    /// Does the same as [`run`](Experiment::run), and shows every chunk to `tee` before it is simulated: a recorder, for example.
    ///
    /// # Errors
    /// As [`Experiment::run`], and when `tee` fails.
    pub fn run_with_tee(
        &self,
        mut tee: impl FnMut(&Chunk, &dyn Source) -> Result<(), TraceError>,
        source: &mut dyn Source,
        mut watch: impl FnMut(Status) -> bool,
    ) -> Result<Report, ExperimentError> {
        let started = Instant::now();
        self.pass(self.boot(false)?, source, &mut tee, &mut watch, started)
    }

    /// Boots every system on every machine, to measure intervals only if `sampled`.
    fn boot(&self, sampled: bool) -> Result<Vec<Simulation>, SimulationError> {
        let systems = || self.systems.iter().enumerate();
        let pairs = self.machines.iter().flat_map(|machine| systems().map(move |(at, system)| (machine, at, system)));
        let boot = |(machine, at, system)| {
            let attributed = match self.attribute {
                Attributed::Nothing => false,
                Attributed::First => at == 0,
                Attributed::All => true,
            };
            let mut simulation = Simulation::new(machine, system, &self.conditions)?;
            if let Some(curve) = &self.curve {
                simulation.observe(machine, curve, self.conditions.seed)?;
            }
            if sampled {
                simulation.sample()?;
            }
            if attributed {
                simulation.attribute()?;
            }
            Ok(simulation)
        };
        pairs.map(boot).collect()
    }

    /// Runs `source`, fast-forwarded as requested.
    fn pass(
        &self,
        simulations: Vec<Simulation>,
        source: &mut dyn Source,
        tee: &mut Tee<'_>,
        watch: &mut Watch<'_>,
        started: Instant,
    ) -> Result<Report, ExperimentError> {
        if self.fast_forward.is_nothing() {
            return self.run_all(simulations, source, tee, watch, started);
        }
        self.run_all(simulations, &mut FastForwarded::new(source, self.fast_forward.clone()), tee, watch, started)
    }

    /// Runs all of `source`, up to the limit.
    fn run_all(
        &self,
        simulations: Vec<Simulation>,
        source: &mut dyn Source,
        tee: &mut Tee<'_>,
        watch: &mut Watch<'_>,
        started: Instant,
    ) -> Result<Report, ExperimentError> {
        let mut aligned;
        let source: &mut dyn Source = match self.align_code {
            None => source,
            Some(alignment) => {
                aligned = Aligned::new(source, alignment);
                &mut aligned
            }
        };
        let mut source = Limited::new(source, self.limit);
        let slices = self.conditions.placement.slices();
        let predictors = simulations.iter().filter_map(Simulation::trained_predictor);
        let mut preparer = Preparer::new(self.conditions.timing).sliced(slices).training(predictors);
        if simulations.iter().any(Simulation::reads_branches) {
            preparer = preparer.decoding();
        }
        if self.conditions.kernel {
            preparer = preparer.with_kernel(KernelCode::recorded().code());
        }
        if self.attribute != Attributed::Nothing {
            preparer = preparer.with_calls();
        }
        let mut chunk = Chunk::default();
        let (mut counts, mut filling, already_waited) = (Counts::default(), Duration::ZERO, source.waited());
        // Only several hardware threads need to know the end of the program.
        let (mut stopped, mut ended) = (false, slices.is_none());
        let is_stopped = || self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let check_stop = || if is_stopped() { Err(ExperimentError::Stopped) } else { Ok(()) };
        let mut next_batch = || -> Result<Option<Batch>, ExperimentError> {
            check_stop()?;
            if stopped {
                return Ok(None);
            }
            let before = Instant::now();
            let more = source.fill(&mut chunk)?;
            filling += before.elapsed();
            if !more {
                return Ok(None);
            }
            tee(&chunk, &source)?;
            let batch = preparer.prepare(std::mem::take(&mut chunk), source.blocks());
            for step in &batch.steps {
                counts.absorb(&step.counts);
            }
            let status = Status { references: counts.references(), progress: source.progress() };
            // The batch was counted, so it is simulated even if this ends the experiment.
            stopped = !watch(status);
            Ok(Some(batch))
        };
        let mut lookahead = Lookahead::new(self.conditions.timing);
        let (begun, mut producing, mut produced) = (Instant::now(), Duration::ZERO, Duration::ZERO);
        let produce = || {
            let before = Instant::now();
            while !lookahead.is_ready() {
                match next_batch()? {
                    Some(batch) => lookahead.push(batch),
                    None if !std::mem::replace(&mut ended, true) => lookahead.push(Batch::end()),
                    None => lookahead.end(),
                }
            }
            producing += before.elapsed();
            produced = begun.elapsed();
            Ok(lookahead.pop().map(Arc::new))
        };
        let simulating = AtomicU64::new(0);
        let consume = |simulation: &mut Simulation, batch: &Arc<Batch>| -> Result<(), ExperimentError> {
            check_stop()?;
            let before = Instant::now();
            let outcome = simulation.take(batch);
            simulating.fetch_add(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
            outcome.map_err(ExperimentError::from)
        };
        let simulations = fan_out(simulations, self.threads, QUEUE_DEPTH, produce, consume)?;
        simulations.iter().try_for_each(Simulation::check_curve)?;
        let ending = source.ending();
        let mut outcomes: Vec<_> = simulations.into_iter().map(Simulation::finish).collect();
        let attributions = outcomes.iter_mut().filter_map(|outcome| outcome.attribution.as_mut());
        attributions.for_each(|attribution| attribution.locate(source.blocks()));
        let waiting_for_program = source.waited() - already_waited;
        let sample = outcomes.first().and_then(|outcome| outcome.sample.as_ref());
        Ok(Report {
            program: source.name().into(),
            counts,
            limited: source.counted(),
            findings: findings::of_ending(&ending).chain(sample.and_then(Sample::finding)).collect(),
            ending,
            outcomes,
            systems: self.systems.len(),
            elapsed: started.elapsed(),
            occupancy: Occupancy {
                waiting_for_program,
                reading: filling.saturating_sub(waiting_for_program),
                preparing: producing.saturating_sub(filling),
                waiting_for_simulations: if self.threads == 0 { Duration::ZERO } else { produced - producing },
                simulating: Duration::from_nanos(simulating.into_inner()),
                threads: self.threads.max(1),
            },
        })
    }
}

impl Report {
    /// Returns the outcomes of each machine, in the order of the systems.
    pub fn machines(&self) -> impl Iterator<Item = &[Outcome]> {
        self.outcomes.chunks(self.systems.max(1))
    }

    /// Returns all findings: those of the program without a simulation, then those of each simulation.
    pub fn all_findings(&self) -> impl Iterator<Item = (Option<&Outcome>, &Finding)> {
        let of_program = self.findings.iter().map(|finding| (None, finding));
        let of_simulations = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.findings.iter().map(move |finding| (Some(outcome), finding)));
        of_program.chain(of_simulations)
    }

    /// Returns all rows: those of the first machine first.
    pub fn rows(&self) -> Vec<Row> {
        self.machines().flat_map(|outcomes| results::rows(outcomes, &self.program, &self.findings)).collect()
    }
}
