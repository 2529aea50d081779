//! Numbers over all rows of a table, such as the greatest loss.

use super::experiment::PaperExperiment;
use super::item::PublishedItem;
use super::measure::Measure;
use crate::results::Row;
use serde::Deserialize;

/// A published number over the rows of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overall {
    /// How the number follows from those of the rows.
    pub over: Aggregate,
    /// The number. Ours is found in each row whose experiment has the systems.
    #[serde(rename = "value")]
    pub item: PublishedItem,
}

/// How a number follows from those of rows.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// The greatest.
    Greatest,
    /// The least.
    Least,
    /// The arithmetic mean.
    Mean,
    /// How many are greater than this.
    Above(f64),
}

impl Overall {
    /// Returns the number, and which rows it is of, where `value` finds that of a row. Fails where no row gives one.
    pub(super) fn compute<'a>(
        &self,
        results: impl Iterator<Item = (&'a PaperExperiment, &'a [Row])>,
        value: impl Fn(&PaperExperiment, &Measure, &[Row]) -> Option<f64>,
    ) -> Result<(f64, String), String> {
        let mut values = Vec::new();
        for (experiment, rows) in results {
            let Some(row) = &experiment.row else { continue };
            if let Some(value) = value(experiment, &self.item.ours, rows) {
                values.push((value, row));
            }
        }
        let count = values.len();
        if values.is_empty() {
            return Err("none of its programs was run".into());
        }
        let order = |a: &&(f64, &String), b: &&(f64, &String)| a.0.total_cmp(&b.0);
        let (which, found) = match self.over {
            Aggregate::Greatest => ("the greatest", values.iter().max_by(order)),
            Aggregate::Least => ("the least", values.iter().min_by(order)),
            Aggregate::Mean => {
                let sum: f64 = values.iter().map(|(value, _)| value).sum();
                return Ok((sum / count as f64, format!("the mean of {count} programs")));
            }
            Aggregate::Above(bound) => {
                let above: Vec<&str> =
                    values.iter().filter(|(value, _)| *value > bound).map(|(_, row)| row.as_str()).collect();
                return Ok((above.len() as f64, format!("of {count} programs: {}", above.join("; "))));
            }
        };
        let (value, row) = found.ok_or("none of its programs was run")?;
        Ok((*value, format!("{which} of {count} programs, {row}")))
    }
}
