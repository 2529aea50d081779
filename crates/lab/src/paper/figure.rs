//! Bars and curves that a paper prints without numbers: ours, row by row, to be drawn beside them.

use super::experiment::PaperExperiment;
use super::measure::Measure;
use crate::results::Row;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A figure. Every experiment that has a row and the systems that the figure needs gives a row of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its content, and where it is published.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// Labels of the systems that an experiment must have to be shown.
    pub needs: Vec<String>,
    /// The only machine whose experiments it shows; `None`: all machines.
    pub machine: Option<String>,
    /// The bars or points of a row by name, and how each is found.
    pub columns: IndexMap<String, Measure>,
}

/// One bar, or one point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureValue {
    /// The paper.
    pub paper: String,
    /// The figure.
    pub figure: String,
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// The unit of the value.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// A figure's values: a row for each experiment, with one value per column.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureTable {
    /// The figure's name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The rows that have any value; `None` where a row lacks the column.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Figure {
    /// Fails unless the columns can be computed where `known` holds the labels of systems.
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

    /// Returns the figure's values from the results of experiments.
    pub(super) fn table<'a>(&self, results: impl Iterator<Item = (&'a PaperExperiment, &'a [Row])>) -> FigureTable {
        FigureTable {
            name: self.name.clone(),
            unit: self.unit.clone(),
            columns: self.columns.keys().cloned().collect(),
            rows: results.filter_map(|(experiment, rows)| self.row(experiment, rows)).collect(),
        }
    }

    fn row(&self, experiment: &PaperExperiment, rows: &[Row]) -> Option<(String, Vec<Option<f64>>)> {
        if self.machine.as_ref().is_some_and(|machine| *machine != experiment.machine.name) {
            return None;
        }
        let known = |label: &String| experiment.systems.contains_key(label);
        let row = experiment.row.clone().filter(|_| self.needs.iter().all(known))?;
        let cells: Vec<_> = self.columns.values().map(|measure| experiment.measure_if_present(measure, rows)).collect();
        cells.iter().any(Option::is_some).then_some((row, cells))
    }
}

impl FigureTable {
    /// Returns the values one by one, row by row.
    pub fn values(&self, paper: &str) -> Vec<FigureValue> {
        let value = |row: &str, column: &str, value: f64| FigureValue {
            paper: paper.into(),
            figure: self.name.clone(),
            row: row.into(),
            column: column.into(),
            unit: self.unit.clone(),
            value,
        };
        let of_row = |(row, cells): &(String, Vec<Option<f64>>)| {
            let cells = self.columns.iter().zip(cells);
            cells.filter_map(|(column, cell)| Some(value(row, column, (*cell)?))).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of_row).collect()
    }
}
