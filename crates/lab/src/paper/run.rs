//! Runs a paper's experiments and compares their results with published numbers.

use super::comparison::Comparison;
use super::experiment::PaperExperiment;
use super::figure::FigureTable;
use super::files::PaperFiles;
use super::interval::Interval;
use super::item::PublishedItem;
use super::series::{self, SeriesPoint};
use super::{Overall, Paper};
use crate::findings::{Finding, FindingKind};
use crate::results::Row;
use crate::{Experiment, ExperimentError, Report, Status};
use reach_trace::{FastForward, Multiprogram, Source, scenario, synthetic};
use std::path::Path;

/// The results of one experiment of a paper.
#[derive(Clone, Debug, Default)]
pub struct PaperOutcome {
    /// Its published numbers beside ours.
    pub comparisons: Vec<Comparison>,
    /// Memory over time, for systems that record it.
    pub series: Vec<SeriesPoint>,
    /// Why its program was not read whole, or failed: then its numbers are not measurable.
    pub faults: Vec<Finding>,
    /// Why there are no rows, if that is so.
    pub(super) failed: Option<String>,
    /// The rows of its simulations.
    pub(super) rows: Vec<Row>,
}

impl PaperOutcome {
    /// Returns why the experiment has no results; `None` if it has some, and after an interruption.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

/// Returns the rows of each experiment.
fn rows<'a>(
    outcomes: &'a [(&'a PaperExperiment, PaperOutcome)],
) -> impl Iterator<Item = (&'a PaperExperiment, &'a [Row])> {
    outcomes.iter().map(|(experiment, outcome)| (*experiment, &outcome.rows[..]))
}

/// Returns whether a finding of this kind makes numbers of a program those of another one.
fn is_fault(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::Incomplete | FindingKind::ProgramFailed)
}

impl Paper {
    /// Groups `experiments`, in their order, into passes: neighbours that differ only in the machine share a pass over
    /// their program.
    pub fn passes<'a>(&self, experiments: &[&'a PaperExperiment]) -> Vec<Vec<&'a PaperExperiment>> {
        let mut passes: Vec<Vec<&PaperExperiment>> = Vec::new();
        for &experiment in experiments {
            match passes.last_mut().filter(|pass| pass.iter().all(|other| other.shares_pass(experiment))) {
                Some(pass) => pass.push(experiment),
                None => passes.push(vec![experiment]),
            }
        }
        passes
    }

    /// Runs the experiments of one pass on `threads` threads beside the caller's. `watch` is called now and then; it
    /// returns false to stop, and then all outcomes are empty. If a simulation fails, its numbers are not measurable.
    pub fn run(
        &self,
        pass: &[&PaperExperiment],
        threads: usize,
        mut watch: impl FnMut(Status) -> bool,
    ) -> Vec<PaperOutcome> {
        let mut stopped = false;
        let report = self.simulate(pass, threads, |status| {
            stopped |= !watch(status);
            !stopped
        });
        if stopped {
            return pass.iter().map(|_| PaperOutcome::default()).collect();
        }
        let faults = report.iter().flat_map(|report| &report.findings).filter(|finding| is_fault(finding.kind));
        let faults: Vec<Finding> = faults.cloned().collect();
        let rows = report.and_then(|report| match faults.first() {
            Some(fault) => Err(fault.text.clone()),
            None => Ok(report.rows()),
        });
        let outcome = |experiment: &&PaperExperiment| {
            let of_machine = |rows: &Vec<Row>| {
                rows.iter().filter(|row| row.machine == experiment.machine.name).cloned().collect::<Vec<_>>()
            };
            let outcome = self.outcome(experiment, rows.as_ref().map(of_machine).map_err(Clone::clone));
            PaperOutcome { faults: faults.clone(), ..outcome }
        };
        pass.iter().map(outcome).collect()
    }

    pub(super) fn outcome(&self, experiment: &PaperExperiment, rows: Result<Vec<Row>, String>) -> PaperOutcome {
        let compare = |item: &PublishedItem| {
            let ours = match &rows {
                Ok(rows) => experiment.measure(&item.ours, rows),
                Err(why) => Err(why.clone()),
            };
            let null = rows.as_ref().ok().and_then(|rows| experiment.without_effect(&item.ours, rows).ok());
            Comparison::judge(&self.name, Some(experiment), item, ours, null)
        };
        let comparisons = experiment.items.iter().map(compare).collect();
        let failed = rows.as_ref().err().cloned();
        let rows = rows.unwrap_or_default();
        let series = series::points(&self.name, experiment, &rows);
        PaperOutcome { comparisons, series, faults: Vec::new(), failed, rows }
    }

    /// Returns the numbers over many experiments beside ours: those over the rows of tables, then relations.
    pub fn overall(&self, outcomes: &[(&PaperExperiment, PaperOutcome)]) -> Vec<Comparison> {
        let judge = |item: &PublishedItem, ours, null, interval: Option<Interval>| {
            let judged = Comparison::judge(&self.name, None, item, ours, null);
            let [low, high] = interval.map_or([None, None], |ends| ends.map(Some));
            Comparison { low, high, ..judged }
        };
        let compare = |overall: &Overall| {
            let mut item = overall.item.clone();
            let null = overall.compute(rows(outcomes), PaperExperiment::without_effect_if_present);
            let null = null.ok().map(|null| null.value);
            match overall.compute(rows(outcomes), PaperExperiment::measure_if_present) {
                Ok(ours) => {
                    item.reason.text += &format!("; {}", ours.of);
                    judge(&item, Ok(ours.value), null, ours.interval)
                }
                Err(why) => judge(&item, Err(why), null, None),
            }
        };
        let related = self.relations.iter().flat_map(|relation| relation.compute(rows(outcomes)));
        let related = related.map(|(item, ours, interval)| judge(&item, ours, None, interval));
        self.overall.iter().map(compare).chain(related).collect()
    }

    /// Returns the numbers that nothing measures.
    pub fn missing(&self) -> Vec<Comparison> {
        self.missing.iter().map(|missing| Comparison::missing(&self.name, missing)).collect()
    }

    /// Returns the values of each figure. Figures without values are left out.
    pub fn draw(&self, outcomes: &[(&PaperExperiment, PaperOutcome)]) -> Vec<FigureTable> {
        let tables = self.figures.iter().map(|figure| figure.table(rows(outcomes)));
        tables.filter(|table| !table.rows.is_empty()).collect()
    }

    fn simulate(
        &self,
        pass: &[&PaperExperiment],
        threads: usize,
        watch: impl FnMut(Status) -> bool,
    ) -> Result<Report, String> {
        let experiment = pass.first().ok_or("there is no experiment to run")?;
        let recorded = self.recorded(experiment)?;
        // A recording holds only what the experiment simulates, so nothing is left to fast-forward or to sample.
        let whole = recorded.is_none();
        let mut program = recorded.map_or_else(|| self.program(experiment), Ok)?;
        let run = Experiment {
            threads,
            fast_forward: if whole { experiment.fast_forward.clone() } else { FastForward::default() },
            align_code: experiment.align_code,
            limit: if whole { experiment.limit } else { experiment.cut },
            sample: experiment.sample.filter(|_| whole),
            ..Experiment::new(
                pass.iter().map(|experiment| experiment.machine.clone()).collect(),
                experiment.simulated(),
                experiment.conditions.clone(),
            )
        };
        run.run(&mut *program, watch).map_err(|error: ExperimentError| error.to_string())
    }

    /// Fails if the program of `experiment` cannot be read. Real programs are not started.
    pub(super) fn check_program(&self, experiment: &PaperExperiment) -> Result<(), String> {
        match &experiment.command {
            Some(command) => command.files().try_for_each(|name| self.files.text(name).map(drop)),
            None => self.program(experiment).map(drop),
        }
    }

    /// Returns the program of `experiment`, from its beginning.
    pub(super) fn program(&self, experiment: &PaperExperiment) -> Result<Box<dyn Source>, String> {
        if let Some(command) = &experiment.command {
            return Ok(Box::new(command.launch(&self.shared_input, &|name| self.files.text(name))?));
        }
        let Some(name) = &experiment.scenario else {
            if let [spec] = &experiment.programs[..] {
                return synthetic::parse(spec).map_err(|e| e.to_string());
            }
            let members = experiment.programs.iter().map(|spec| scenario::synthetic_member(spec));
            let members = members.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
            return Ok(Box::new(Multiprogram::new(experiment.name.clone(), members, None)));
        };
        let program = match &self.files {
            PaperFiles::Folder(folder) => scenario::open(&folder.join(name)),
            PaperFiles::Embedded(_) => scenario::read(&self.files.text(name)?, name, Path::new("")),
        };
        program.map(|program| Box::new(program) as Box<dyn Source>).map_err(|e| e.to_string())
    }
}
