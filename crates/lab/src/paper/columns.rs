//! The columns of a published table, each said once: what is measured in every row, and how near ours must be.

use super::file::{Item, Missing, Tolerance};
use super::measure::Measure;
use indexmap::IndexMap;
use serde::Deserialize;

/// A column.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    /// What rows call it.
    name: String,
    /// The name of its items, with `{}` for the row.
    item: String,
    section: String,
    unit: String,
    tolerance: Tolerance,
    reason: String,
    ours: Measure,
}

/// A published number: with its column's tolerance, or its own.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or { published, tolerance, reason }")]
pub(super) enum Cell {
    Number(f64),
    Own { published: f64, tolerance: Tolerance, reason: String },
}

impl Cell {
    /// The item of this cell.
    pub fn expand(self, row: &str, column: &str, columns: &[Column]) -> Result<Item, String> {
        let Column { item, section, unit, tolerance, reason, ours, .. } = find(column, columns)?;
        let (published, tolerance, reason) = match self {
            Cell::Number(published) => (published, *tolerance, reason.clone()),
            Cell::Own { published, tolerance, reason } => (published, tolerance, reason),
        };
        Ok(Item {
            item: item.replace("{}", row),
            section: section.clone(),
            published,
            unit: unit.clone(),
            tolerance,
            reason,
            ours: ours.clone(),
        })
    }
}

/// Numbers of a column that nothing measures, all for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Absent {
    column: String,
    reason: String,
    rows: IndexMap<String, f64>,
}

impl Absent {
    pub fn expand(&self, columns: &[Column]) -> Result<Vec<Missing>, String> {
        let Column { item, section, unit, .. } = find(&self.column, columns)?;
        let missing = self.rows.iter().map(|(row, &published)| Missing {
            item: item.replace("{}", row),
            section: section.clone(),
            published,
            unit: unit.clone(),
            reason: self.reason.clone(),
        });
        Ok(missing.collect())
    }
}

fn find<'a>(name: &str, columns: &'a [Column]) -> Result<&'a Column, String> {
    let known = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    columns
        .iter()
        .find(|column| column.name == name)
        .ok_or_else(|| format!("there is no column {name:?}; there are {}", known()))
}
