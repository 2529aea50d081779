//! An experiment: one pass over a program feeds every machine × system, on all processors.

mod fan_out;

use crate::conditions::Conditions;
use crate::curve::Curve;
use crate::machine;
use crate::prepare::{Batch, Preparer};
use crate::results::{self, Row};
use crate::simulation::{Outcome, Simulation, SimulationError};
use fan_out::fan_out;
use reach_core::{Chunk, Counts};
use reach_trace::{
    Aligned, Alignment, Between, FastForward, FastForwarded, Limited, Progress, Sampled, Sampling, Source, TraceError,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is to be compared.
pub struct Experiment {
    /// Machines.
    pub machines: Vec<machine::Resolved>,
    /// Systems; speedups are relative to the first.
    pub systems: Vec<reach_systems::Resolved>,
    /// What all simulations share.
    pub conditions: Conditions,
    /// Threads that simulate; 0: only the caller's.
    pub threads: usize,
    /// Of this beginning of the program only those references are simulated that change the operating system's state
    /// ([`FastForwarded`]).
    pub fast_forward: FastForward,
    /// Which files of code are moved to where superpages can begin ([`Aligned`]).
    pub align_code: Option<Alignment>,
    /// The program ends for the simulations after so many references.
    pub limit: Option<u64>,
    /// Also count what a TLB array would have missed at other sizes and numbers of ways.
    pub curve: Option<Curve>,
    /// Only a sample of the program is simulated and measured.
    pub sample: Option<Sampling>,
}

/// Why an experiment came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The program could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Told now and then how far things are.
pub struct Status {
    /// References so far.
    pub references: u64,
    /// The program's own measure.
    pub progress: Progress,
}

/// What came out.
pub struct Report {
    /// What the program was called.
    pub program: String,
    /// What the program did.
    pub counts: Counts,
    /// How many references were simulated, without those that are there although they were fast-forwarded: what a limit counts.
    pub limited: u64,
    /// One outcome for each machine and system: all systems of the first machine first.
    pub outcomes: Vec<Outcome>,
    /// How many systems there are.
    pub systems: usize,
    /// Wall time of the whole.
    pub elapsed: Duration,
    /// Wall time that reading the program took, waiting for a live one included.
    pub reading: Duration,
    /// Time that the simulations took, all of them together, on however many threads.
    pub simulating: Duration,
}

/// The first line of results: everything that they depend on.
#[derive(Serialize)]
pub struct Header {
    /// Of Reach.
    pub version: &'static str,
    /// Of everything random.
    pub seed: u64,
    /// How time passed.
    pub timing: &'static str,
    /// Simulated memory in bytes.
    pub memory: u64,
    /// How memory was broken up at boot, where it was.
    pub fragmentation: Option<serde_json::Value>,
    /// Whether files were in the page cache before the program started.
    pub warm: bool,
    /// How many cores the program ran on, where it was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// On how many hardware threads of each, where it was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<u32>,
    /// Which files of code were moved to where superpages can begin, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align_code: Option<Alignment>,
    /// How many references at the beginning were fast-forwarded, or up to which phase.
    pub fast_forward: FastForward,
    /// After how many references the program was cut off, where it was.
    pub limit: Option<u64>,
    /// How the program was sampled, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<serde_json::Value>,
    /// The machines' resolved configurations.
    pub machines: Vec<serde_json::Value>,
    /// The systems with all their options.
    pub systems: Vec<serde_json::Value>,
    /// SHA-256 over all of the above.
    pub hash: String,
}

impl Experiment {
    /// What the results depend on, resolved, with its hash.
    pub fn header(&self) -> Header {
        let machines = self.machines.iter().map(|m| {
            let configuration: serde_json::Value =
                serde_json::from_str(&m.configuration).expect("a resolved configuration is JSON");
            serde_json::json!({ "name": m.name, "hash": m.hash, "configuration": configuration })
        });
        let systems = self.systems.iter().map(|s| {
            let settings: std::collections::BTreeMap<_, _> =
                s.settings().iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            serde_json::json!({ "name": s.name(), "settings": settings })
        });
        let mut header = Header {
            version: env!("CARGO_PKG_VERSION"),
            seed: self.conditions.seed,
            timing: self.conditions.timing.name(),
            memory: self.conditions.memory,
            fragmentation: self.conditions.fragmentation.map(
                |f| serde_json::json!({ "order": f.order, "scattered": f.scattered, "hold": f.hold, "seed": f.seed }),
            ),
            warm: self.conditions.warm,
            cores: Some(self.conditions.placement.cores).filter(|&cores| cores > 1),
            smt: Some(self.conditions.placement.threads).filter(|&threads| threads > 1),
            align_code: self.align_code,
            fast_forward: self.fast_forward.clone(),
            limit: self.limit,
            sample: self.sample.map(|s| {
                let between = s.between.name();
                serde_json::json!({ "every": s.every, "measure": s.measure, "warm": s.warm, "between": between })
            }),
            machines: machines.collect(),
            systems: systems.collect(),
            hash: String::new(),
        };
        let text = serde_json::to_string(&header).expect("a header is JSON");
        header.hash = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        header
    }

    /// Runs `source`, which nothing has been read of yet, to its end. `watch` is told how far things are, and ends the
    /// experiment early by returning false: what has been simulated by then is reported.
    pub fn run(
        &self,
        source: &mut dyn Source,
        mut watch: impl FnMut(Status) -> bool,
    ) -> Result<Report, ExperimentError> {
        let started = Instant::now();
        let simulations = self.boot()?;
        // Outlines do where nothing needs single references, which almost nothing does that only counts.
        let untouched = self.limit.is_none()
            && self.fast_forward.is_nothing()
            && self.align_code.is_none()
            && self.sample.is_none();
        if untouched && simulations.iter().all(Simulation::takes_outlines) {
            source.outline(true)?;
        }
        match self.pass(simulations, source, |_, _| Ok(()), &mut watch, started) {
            Err(ExperimentError::Simulation(SimulationError::NeedsReferences)) if source.outline(false)? => {
                self.pass(self.boot()?, source, |_, _| Ok(()), watch, started)
            }
            outcome => outcome,
        }
    }

    /// The same beside `tee`, which sees every chunk before it is simulated (a recorder).
    pub fn run_beside(
        &self,
        tee: impl FnMut(&Chunk, &dyn Source) -> Result<(), TraceError>,
        source: &mut dyn Source,
        watch: impl FnMut(Status) -> bool,
    ) -> Result<Report, ExperimentError> {
        let started = Instant::now();
        self.pass(self.boot()?, source, tee, watch, started)
    }

    fn boot(&self) -> Result<Vec<Simulation>, SimulationError> {
        let pairs = self.machines.iter().flat_map(|machine| self.systems.iter().map(move |system| (machine, system)));
        let boot = |(machine, system)| {
            let mut simulation = Simulation::new(machine, system, &self.conditions)?;
            if let Some(curve) = &self.curve {
                simulation.observe(machine, curve, self.conditions.seed)?;
            }
            if self.sample.is_some() {
                simulation.sample()?;
            }
            Ok(simulation)
        };
        pairs.map(boot).collect()
    }

    fn pass(
        &self,
        simulations: Vec<Simulation>,
        source: &mut dyn Source,
        tee: impl FnMut(&Chunk, &dyn Source) -> Result<(), TraceError>,
        watch: impl FnMut(Status) -> bool,
        started: Instant,
    ) -> Result<Report, ExperimentError> {
        if let Some(sampling) = self.sample {
            let mut sampled = Sampled::new(source, sampling, self.fast_forward.clone(), self.conditions.seed);
            if sampling.between == Between::FastForward {
                return self.pass_on(simulations, &mut FastForwarded::between_intervals(sampled), tee, watch, started);
            }
            let mut report = self.pass_on(simulations, &mut sampled, tee, watch, started)?;
            report.sampled(report.counts.references().saturating_sub(sampled.fast_forwarded()?));
            return Ok(report);
        }
        if self.fast_forward.is_nothing() {
            return self.pass_on(simulations, source, tee, watch, started);
        }
        self.pass_on(simulations, &mut FastForwarded::new(source, self.fast_forward.clone()), tee, watch, started)
    }

    /// Runs all that `source` gives, up to the limit.
    fn pass_on(
        &self,
        simulations: Vec<Simulation>,
        source: &mut dyn Source,
        mut tee: impl FnMut(&Chunk, &dyn Source) -> Result<(), TraceError>,
        mut watch: impl FnMut(Status) -> bool,
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
        let (mut chunk, mut preparer) = (Chunk::default(), Preparer::sliced(self.conditions.timing, slices));
        let (mut counts, mut reading) = (Counts::default(), Duration::ZERO);
        let (mut over, mut ended) = (false, slices.is_none());
        let mut piece = || -> Result<Option<Batch>, ExperimentError> {
            if over {
                return Ok(None);
            }
            let before = Instant::now();
            let more = source.fill(&mut chunk)?;
            reading += before.elapsed();
            if !more {
                return Ok(None);
            }
            tee(&chunk, &source)?;
            let batch = preparer.prepare(std::mem::take(&mut chunk), source.blocks());
            for step in &batch.steps {
                counts.absorb(&step.counts);
            }
            let status = Status { references: counts.references(), progress: source.progress() };
            // What was counted is simulated too.
            over = !watch(status);
            Ok(Some(batch))
        };
        let produce = || {
            let batch = match piece()? {
                None if !std::mem::replace(&mut ended, true) => Some(Batch::end()),
                batch => batch,
            };
            Ok(batch.map(Arc::new))
        };
        let simulating = AtomicU64::new(0);
        let consume = |simulation: &mut Simulation, batch: &Arc<Batch>| -> Result<(), ExperimentError> {
            let before = Instant::now();
            let outcome = simulation.take(batch);
            simulating.fetch_add(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
            outcome.map_err(ExperimentError::from)
        };
        let simulations = fan_out(simulations, self.threads, 8, produce, consume)?;
        simulations.iter().try_for_each(Simulation::check_curve)?;
        Ok(Report {
            program: source.name().into(),
            counts,
            limited: source.counted(),
            outcomes: simulations.into_iter().map(Simulation::finish).collect(),
            systems: self.systems.len(),
            elapsed: started.elapsed(),
            reading,
            simulating: Duration::from_nanos(simulating.into_inner()),
        })
    }
}

impl Report {
    /// The outcomes of each machine, in the order of the systems.
    pub fn machines(&self) -> impl Iterator<Item = &[Outcome]> {
        self.outcomes.chunks(self.systems.max(1))
    }

    /// What was simulated is a sample of a program of so many references.
    fn sampled(&mut self, references: u64) {
        self.outcomes.iter_mut().filter_map(|outcome| outcome.sample.as_mut()).for_each(|s| s.references = references);
    }

    /// Returns all rows: those of the first machine first.
    pub fn rows(&self) -> Vec<Row> {
        self.machines().flat_map(|outcomes| results::rows(outcomes, &self.program)).collect()
    }
}
