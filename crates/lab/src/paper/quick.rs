//! The quick form of a paper: the experiments that decide its conclusions, with fewer rows and systems.

use super::Paper;
use super::experiment::PaperExperiment;
use super::item::{PublishedItem, Tolerance};
use super::measure::Measure;
use super::overall::{Aggregate, Overall};
use serde::Deserialize;

/// What the quick form runs: `[quick]` of `paper.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    /// The experiments that it runs.
    experiments: Vec<String>,
    /// Labels of systems that it leaves out, where others stand for them: thresholds between other thresholds.
    #[serde(default)]
    without: Vec<String>,
}

impl Quick {
    /// Fails unless all experiments and labels exist.
    pub(super) fn check(&self, experiments: &[PaperExperiment]) -> Result<(), String> {
        if let Some(name) = self.experiments.iter().find(|name| experiments.iter().all(|e| e.name != **name)) {
            return Err(format!("quick: there is no experiment {name:?}"));
        }
        let is_unknown = |label: &&String| experiments.iter().all(|e| !e.systems.contains_key(*label));
        match self.without.iter().find(is_unknown) {
            Some(label) => Err(format!("quick: no experiment has a system {label:?}")),
            None => Ok(()),
        }
    }
}

impl Paper {
    /// Leaves only what decides the conclusions: the experiments, rows and systems of `[quick]`. A number of rows and its
    /// tolerance shrink with the rows.
    ///
    /// # Errors
    /// When the paper has no quick form.
    pub fn quick(mut self) -> Result<Paper, String> {
        let quick = self
            .quick
            .take()
            .ok_or_else(|| format!("{} has no quick form; run it whole, or name experiments", self.name))?;
        let whole = self.overall.iter().map(|overall| rows(overall, &self.experiments)).collect::<Vec<_>>();
        self.experiments.retain(|experiment| quick.experiments.contains(&experiment.name));
        for experiment in &mut self.experiments {
            experiment.systems.retain(|label, _| !quick.without.contains(label));
            experiment.items.retain(|item| item.conclusion.is_some());
            experiment.items.iter_mut().for_each(|item| leave_out(&mut item.ours, &quick.without));
        }
        for overall in &mut self.overall {
            leave_out(&mut overall.item.ours, &quick.without);
            overall.needs.retain(|label| !quick.without.contains(label));
        }
        for (overall, whole) in self.overall.iter_mut().zip(whole) {
            if let Aggregate::Above(_) = overall.over {
                let left = rows(overall, &self.experiments);
                shrink(&mut overall.item, left, whole);
            }
        }
        self.overall.retain(|overall| overall.item.conclusion.is_some());
        self.relations.retain(|relation| relation.is_conclusion());
        self.missing.clear();
        self.figures.clear();
        Ok(self)
    }
}

/// Returns how many of `experiments` are rows that have the systems of `overall`.
fn rows(overall: &Overall, experiments: &[PaperExperiment]) -> usize {
    let has_systems = |e: &PaperExperiment| overall.item.ours.check(|label| e.systems.contains_key(label)).is_ok();
    let is_row = |e: &&PaperExperiment| e.row.is_some() && overall.has_row(e) && has_systems(e);
    experiments.iter().filter(is_row).count()
}

/// Leaves the systems of these labels out of `measure`, where others stand for them.
fn leave_out(measure: &mut Measure, without: &[String]) {
    measure.or.retain(|label| !without.contains(label));
    if without.contains(&measure.system) && !measure.or.is_empty() {
        measure.system = measure.or.remove(0);
    }
    measure.against.retain(|label| !without.contains(label));
}

/// Makes a number of `whole` rows one of `left` rows.
fn shrink(item: &mut PublishedItem, left: usize, whole: usize) {
    // To hundredths, for people.
    let of = |rows: f64| (100.0 * rows * left as f64 / whole.max(1) as f64).round() / 100.0;
    item.published = of(item.published);
    item.tolerance = item.tolerance.map(|tolerance| match tolerance {
        Tolerance::Factor(factor) => Tolerance::Factor(factor),
        Tolerance::Within(distance) => Tolerance::Within(of(distance)),
        Tolerance::Above(bound) => Tolerance::Above(of(bound)),
        Tolerance::Below(bound) => Tolerance::Below(of(bound)),
    });
    item.unit = item.unit.replace(&whole.to_string(), &left.to_string());
    item.reason.text += &format!("; a number of {whole} rows, as a share of {left}");
}
