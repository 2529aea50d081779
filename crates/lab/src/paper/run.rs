//! Runs a paper's experiments and judges what comes out.

use super::{Experiment, Item, Paper, Point, Source as Origin, series};
use crate::{Conditions, ExperimentError, Status};
use reach_trace::{FastForward, Multiprogram, Source, scenario, synthetic};
use serde::Serialize;
use std::path::Path;

/// One published number with ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The paper.
    pub paper: String,
    /// The experiment; empty where there is none.
    pub experiment: String,
    /// Where the number is published.
    pub section: String,
    /// What it is.
    pub item: String,
    /// What it is counted in.
    pub unit: String,
    /// As published.
    pub published: f64,
    /// As we find it.
    pub ours: Option<f64>,
    /// How far they may be apart; empty where nothing is measured.
    pub tolerance: String,
    /// Whether they are near enough.
    pub verdict: Verdict,
    /// Why the tolerance is what it is, or why nothing can be measured.
    pub reason: String,
    /// What was run in place of the paper's own program, and how it differs; empty where it is the paper's.
    pub replaces: String,
}

/// Whether a published number was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Ours is within the tolerance.
    #[serde(rename = "met")]
    Met,
    /// It is not.
    #[serde(rename = "missed")]
    Missed,
    /// There is none.
    #[serde(rename = "not measurable")]
    NotMeasurable,
}

impl Verdict {
    /// As rows say it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotMeasurable => "not measurable",
        }
    }
}

/// What came of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its published numbers, with ours.
    pub rows: Vec<Row>,
    /// What its systems say about memory over time, where they were asked to.
    pub series: Vec<Point>,
    /// What was simulated.
    pub(super) results: Vec<crate::Row>,
}

impl Paper {
    /// `experiments` in their order, those together that follow each other and differ in nothing but the machine: one pass
    /// over their program does for all of them.
    pub fn passes<'a>(&self, experiments: &[&'a Experiment]) -> Vec<Vec<&'a Experiment>> {
        let mut passes: Vec<Vec<&Experiment>> = Vec::new();
        for &experiment in experiments {
            match passes.last_mut().filter(|pass| pass.iter().all(|other| other.shares_pass(experiment))) {
                Some(pass) => pass.push(experiment),
                None => passes.push(vec![experiment]),
            }
        }
        passes
    }

    /// Runs the experiments of one pass on `threads` beside the caller's; `watch` is told how far it is, and returns false
    /// to end it, of which nothing then comes. A simulation that fails makes its numbers not measurable.
    pub fn run(&self, pass: &[&Experiment], threads: usize, mut watch: impl FnMut(Status) -> bool) -> Vec<Outcome> {
        let mut stopped = false;
        let rows = self.simulate(pass, threads, |status| {
            stopped |= !watch(status);
            !stopped
        });
        if stopped {
            return pass.iter().map(|_| Outcome::default()).collect();
        }
        let outcome = |experiment: &&Experiment| {
            let of_machine = |rows: &Vec<crate::Row>| {
                rows.iter().filter(|row| row.machine == experiment.machine.name).cloned().collect::<Vec<_>>()
            };
            self.outcome(experiment, rows.as_ref().map(of_machine).map_err(Clone::clone))
        };
        pass.iter().map(outcome).collect()
    }

    fn outcome(&self, experiment: &Experiment, rows: Result<Vec<crate::Row>, String>) -> Outcome {
        let judge = |item: &Item| {
            let ours = match &rows {
                Ok(rows) => item.ours.compute(rows, |label| experiment.spec(label)),
                Err(why) => Err(why.clone()),
            };
            self.judged(Some(experiment), item, ours)
        };
        let judged = experiment.items.iter().map(judge).collect();
        let results = rows.unwrap_or_default();
        let series = series::points(&self.name, experiment, &results);
        Outcome { rows: judged, results, series }
    }

    /// The numbers over all rows of a table, from the outcomes of all experiments.
    pub fn overall(&self, outcomes: &[(&Experiment, Outcome)]) -> Vec<Row> {
        let judge = |overall: &super::Overall| {
            let found =
                overall.compute(outcomes.iter().map(|(experiment, outcome)| (*experiment, &outcome.results[..])));
            let mut item = overall.item.clone();
            let ours = found.map(|(ours, whose)| {
                item.reason = format!("{}; {whose}", item.reason);
                ours
            });
            self.judged(None, &item, ours)
        };
        let results = || outcomes.iter().map(|(experiment, outcome)| (*experiment, &outcome.results[..]));
        let related = self.relations.iter().flat_map(|relation| relation.compute(results()));
        let related = related.map(|(item, ours)| self.judged(None, &item, ours));
        self.overall.iter().map(judge).chain(related).collect()
    }

    /// The rows of numbers that nothing measures.
    pub fn missing(&self) -> Vec<Row> {
        let row = |missing: &super::Missing| Row {
            paper: self.name.clone(),
            experiment: String::new(),
            section: missing.section.clone(),
            item: missing.item.clone(),
            unit: missing.unit.clone(),
            published: missing.published,
            ours: None,
            tolerance: String::new(),
            verdict: Verdict::NotMeasurable,
            reason: missing.reason.clone(),
            replaces: String::new(),
        };
        self.missing.iter().map(row).collect()
    }

    fn judged(&self, experiment: Option<&Experiment>, item: &Item, ours: Result<f64, String>) -> Row {
        let (ours, verdict, reason) = match ours {
            Ok(ours) if item.tolerance.allows(item.published, ours) => (Some(ours), Verdict::Met, item.reason.clone()),
            Ok(ours) => (Some(ours), Verdict::Missed, item.reason.clone()),
            Err(why) => (None, Verdict::NotMeasurable, why),
        };
        Row {
            paper: self.name.clone(),
            experiment: experiment.map_or(String::new(), |experiment| experiment.name.clone()),
            section: item.section.clone(),
            item: item.item.clone(),
            unit: item.unit.clone(),
            published: item.published,
            ours,
            tolerance: item.tolerance.to_string(),
            verdict,
            reason,
            replaces: experiment.and_then(|experiment| experiment.replaces.clone()).unwrap_or_default(),
        }
    }

    fn simulate(
        &self,
        pass: &[&Experiment],
        threads: usize,
        watch: impl FnMut(Status) -> bool,
    ) -> Result<Vec<crate::Row>, String> {
        let Some(experiment) = pass.first() else { return Ok(Vec::new()) };
        let recorded = self.recorded(experiment)?;
        let whole = recorded.is_none();
        let mut program = recorded.map_or_else(|| self.program(experiment), Ok)?;
        let conditions = Conditions {
            timing: experiment.timing,
            memory: experiment.memory,
            seed: experiment.seed,
            fragmentation: experiment.fragmentation,
            warm: experiment.warm,
            placement: experiment.placement,
        };
        let run = crate::Experiment {
            machines: pass.iter().map(|experiment| experiment.machine.clone()).collect(),
            systems: experiment.systems.values().cloned().collect(),
            conditions,
            threads,
            // A recording holds only what the experiment wants.
            fast_forward: if whole { experiment.fast_forward.clone() } else { FastForward::default() },
            align_code: experiment.align_code,
            limit: if whole { experiment.limit } else { experiment.cut },
            curve: None,
            sample: experiment.sample.filter(|_| whole),
        };
        let report = run.run(&mut *program, watch).map_err(|e: ExperimentError| e.to_string())?;
        Ok(report.rows())
    }

    /// Whether the program of `experiment` can be understood; real ones are not started.
    pub(super) fn check_program(&self, experiment: &Experiment) -> Result<(), String> {
        match &experiment.command {
            Some(command) => command.files().try_for_each(|name| self.source.text(name).map(drop)),
            None => self.program(experiment).map(drop),
        }
    }

    /// The program of `experiment`, from its beginning.
    pub(super) fn program(&self, experiment: &Experiment) -> Result<Box<dyn Source>, String> {
        if let Some(command) = &experiment.command {
            return Ok(Box::new(command.launch(&self.shared, &|name| self.source.text(name))?));
        }
        let Some(name) = &experiment.scenario else {
            if let [spec] = &experiment.programs[..] {
                return synthetic::parse(spec).map_err(|e| e.to_string());
            }
            let members = experiment.programs.iter().map(|spec| scenario::synthetic_member(spec));
            let members = members.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
            return Ok(Box::new(Multiprogram::new(experiment.name.clone(), members, None)));
        };
        let together = match &self.source {
            Origin::Folder(folder) => scenario::open(&folder.join(name)),
            Origin::Built(_) => scenario::read(&self.source.text(name)?, name, Path::new("")),
        };
        together.map(|together| Box::new(together) as Box<dyn Source>).map_err(|e| e.to_string())
    }
}
