//! Bars and curves that a paper gives without numbers: ours, row by row, so that they can be drawn beside them.

use super::measure::Measure;
use super::run::Outcome;
use super::{Experiment, Paper};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A figure: each experiment that has a row and the systems that the figure needs gives a row of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it shows, and where it is published.
    pub name: String,
    /// What its values are counted in.
    pub unit: String,
    /// Labels of systems without which an experiment has nothing to do with it.
    pub needs: Vec<String>,
    /// The only machine whose experiments it shows.
    pub machine: Option<String>,
    /// Bars or points of a row by name, and how each is found.
    pub columns: IndexMap<String, Measure>,
}

/// One bar, or one point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The paper.
    pub paper: String,
    /// The figure.
    pub figure: String,
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// What the value is counted in.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// A figure's values: by row, one for each column that the row has.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// What it shows.
    pub name: String,
    /// What its values are counted in.
    pub unit: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The rows that have any value.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Figure {
    /// Whether its columns can be computed where there are systems of these labels.
    pub(super) fn check(&self, known: impl Fn(&str) -> bool) -> Result<(), String> {
        if self.columns.is_empty() {
            return Err("it has no columns; give some".into());
        }
        if let Some(label) = self.needs.iter().find(|label| !known(label)) {
            return Err(format!("it needs a system {label:?}, which no experiment has"));
        }
        self.columns
            .iter()
            .try_for_each(|(name, measure)| measure.check(&known).map_err(|what| format!("column {name}: {what}")))
    }

    fn row(&self, experiment: &Experiment, outcome: &Outcome) -> Option<(String, Vec<Option<f64>>)> {
        if self.machine.as_ref().is_some_and(|machine| *machine != experiment.machine.name) {
            return None;
        }
        let known = |label: &str| experiment.systems.contains_key(label);
        let row = experiment.row.clone().filter(|_| self.needs.iter().all(|label| known(label)))?;
        let cells: Vec<_> = self.columns.values().map(|measure| measure.of(experiment, &outcome.results)).collect();
        cells.iter().any(Option::is_some).then_some((row, cells))
    }
}

impl Drawn {
    /// Its values, one by one.
    pub fn marks(&self, paper: &str) -> Vec<Mark> {
        let mark = |row: &str, column: &str, value: f64| Mark {
            paper: paper.into(),
            figure: self.name.clone(),
            row: row.into(),
            column: column.into(),
            unit: self.unit.clone(),
            value,
        };
        let of_row = |(row, cells): &(String, Vec<Option<f64>>)| {
            let cells = self.columns.iter().zip(cells);
            cells.filter_map(|(column, cell)| cell.map(|value| mark(row, column, value))).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of_row).collect()
    }
}

impl Paper {
    /// What the figures show of these outcomes; those of which there is nothing are left out.
    pub fn draw(&self, outcomes: &[(&Experiment, Outcome)]) -> Vec<Drawn> {
        let draw = |figure: &Figure| {
            let rows = outcomes.iter().filter_map(|(experiment, outcome)| figure.row(experiment, outcome));
            Drawn {
                name: figure.name.clone(),
                unit: figure.unit.clone(),
                columns: figure.columns.keys().cloned().collect(),
                rows: rows.collect(),
            }
        };
        self.figures.iter().map(draw).filter(|drawn| !drawn.rows.is_empty()).collect()
    }
}
