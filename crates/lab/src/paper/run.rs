//! Runs a paper's experiments and judges what comes out.

use super::{Experiment, Item, Paper, Source as Origin};
use crate::{Conditions, ExperimentError, Status};
use reach_trace::{Source, Together, scenario, synthetic};
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

impl Paper {
    /// Runs `experiment` on `threads` beside the caller's; `watch` is told how far it is, and returns false to end it, of
    /// which nothing then comes. A simulation that fails makes its numbers not measurable.
    pub fn run(&self, experiment: &Experiment, threads: usize, mut watch: impl FnMut(Status) -> bool) -> Vec<Row> {
        let mut stopped = false;
        let rows = self.simulate(experiment, threads, |status| {
            stopped |= !watch(status);
            !stopped
        });
        if stopped {
            return Vec::new();
        }
        let judge = |item: &Item| {
            let name = |label: &str| experiment.systems.get(label).map_or(String::new(), |s| s.spec().to_owned());
            let ours = match &rows {
                Ok(rows) => item.ours.compute(rows, name),
                Err(why) => Err(why.clone()),
            };
            self.judged(experiment, item, ours)
        };
        experiment.items.iter().map(judge).collect()
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

    fn judged(&self, experiment: &Experiment, item: &Item, ours: Result<f64, String>) -> Row {
        let (ours, verdict, reason) = match ours {
            Ok(ours) if item.tolerance.allows(item.published, ours) => (Some(ours), Verdict::Met, item.reason.clone()),
            Ok(ours) => (Some(ours), Verdict::Missed, item.reason.clone()),
            Err(why) => (None, Verdict::NotMeasurable, why),
        };
        Row {
            paper: self.name.clone(),
            experiment: experiment.name.clone(),
            section: item.section.clone(),
            item: item.item.clone(),
            unit: item.unit.clone(),
            published: item.published,
            ours,
            tolerance: item.tolerance.to_string(),
            verdict,
            reason,
            replaces: experiment.replaces.clone().unwrap_or_default(),
        }
    }

    fn simulate(
        &self,
        experiment: &Experiment,
        threads: usize,
        watch: impl FnMut(Status) -> bool,
    ) -> Result<Vec<crate::Row>, String> {
        let mut program = self.program(experiment)?;
        let conditions = Conditions {
            timing: experiment.timing,
            memory: experiment.memory,
            seed: experiment.seed,
            fragmentation: None,
            warm: experiment.warm,
        };
        let run = crate::Experiment {
            machines: vec![experiment.machine.clone()],
            systems: experiment.systems.values().cloned().collect(),
            conditions,
            threads,
            limit: experiment.limit,
        };
        let report = run.run(&mut *program, |_, _| Ok(()), watch).map_err(|e: ExperimentError| e.to_string())?;
        Ok(report.rows())
    }

    /// The program of `experiment`, from its beginning.
    pub(super) fn program(&self, experiment: &Experiment) -> Result<Box<dyn Source>, String> {
        let Some(name) = &experiment.scenario else {
            if let [spec] = &experiment.programs[..] {
                return synthetic::parse(spec).map_err(|e| e.to_string());
            }
            let members = experiment.programs.iter().map(|spec| scenario::synthetic_member(spec));
            let members = members.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
            return Ok(Box::new(Together::new(experiment.name.clone(), members, None)));
        };
        let together = match &self.source {
            Origin::Folder(folder) => scenario::open(&folder.join(name)),
            Origin::Built(files) => match files.iter().find(|(file, _)| file == name) {
                Some((name, text)) => scenario::read(text, name, Path::new("")),
                None => return Err(format!("there is no scenario {name:?}; name a file that comes with the paper")),
            },
        };
        together.map(|together| Box::new(together) as Box<dyn Source>).map_err(|e| e.to_string())
    }
}
