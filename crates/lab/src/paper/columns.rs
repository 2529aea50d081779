//! Columns of a published table: what is measured in every row, and how near ours must be.

use super::item::{MissingItem, PublishedItem, Tolerance};
use super::measure::Measure;
use super::reason::Reason;
use indexmap::IndexMap;
use serde::Deserialize;

/// A column.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    /// The name that rows use for it.
    name: String,
    /// The name of its items, with `{}` for the row.
    item: String,
    section: String,
    unit: String,
    tolerance: Option<Tolerance>,
    reason: Reason,
    ours: Measure,
    null: Option<f64>,
    #[serde(default)]
    kept_back: bool,
}

/// A published number, with its column's tolerance or its own.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or { published, tolerance, reason }")]
pub(super) enum Cell {
    Number(f64),
    Own { published: f64, tolerance: Option<Tolerance>, reason: Reason },
}

impl Cell {
    /// Returns the item of this cell.
    pub fn expand(self, row: &str, column: &str, columns: &[Column]) -> Result<PublishedItem, String> {
        let Column { item, section, unit, tolerance, reason, ours, null, kept_back, .. } = find(column, columns)?;
        let (published, tolerance, reason) = match self {
            Cell::Number(published) => (published, *tolerance, reason.clone()),
            Cell::Own { published, tolerance, reason } => (published, tolerance, reason),
        };
        Ok(PublishedItem {
            item: item.replace("{}", row),
            section: section.clone(),
            published,
            unit: unit.clone(),
            tolerance,
            reason,
            ours: ours.clone(),
            null: *null,
            conclusion: None,
            kept_back: *kept_back,
        })
    }
}

/// Cells of a column that nothing measures, all for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AbsentCells {
    column: String,
    reason: String,
    /// Published numbers by row.
    rows: IndexMap<String, f64>,
}

impl AbsentCells {
    /// Returns the items of these cells.
    pub fn expand(&self, columns: &[Column]) -> Result<Vec<MissingItem>, String> {
        let Column { item, section, unit, .. } = find(&self.column, columns)?;
        let missing = self.rows.iter().map(|(row, &published)| MissingItem {
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
