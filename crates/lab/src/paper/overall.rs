//! Numbers over all rows of a table, such as the greatest loss.

use super::experiment::PaperExperiment;
use super::interval::{self, Interval};
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
    /// Labels of systems without which an experiment is no row of it, beside those of the number.
    #[serde(default)]
    pub needs: Vec<String>,
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

/// A number over rows.
pub(super) struct OverRows {
    pub value: f64,
    /// Which rows it is of.
    pub of: String,
    /// Its 95 % confidence interval; `None` for an extreme, and where one row is all.
    pub interval: Option<Interval>,
}

impl Overall {
    /// Returns whether `experiment` has the systems that a row needs.
    pub(super) fn has_row(&self, experiment: &PaperExperiment) -> bool {
        self.needs.iter().all(|label| experiment.systems.contains_key(label))
    }

    /// Returns the number over rows, where `value` finds that of a row. Fails where no row gives one.
    pub(super) fn compute<'a>(
        &self,
        results: impl Iterator<Item = (&'a PaperExperiment, &'a [Row])>,
        value: impl Fn(&PaperExperiment, &Measure, &[Row]) -> Option<f64>,
    ) -> Result<OverRows, String> {
        let mut values = Vec::new();
        for (experiment, rows) in results {
            let Some(row) = experiment.row.as_ref().filter(|_| self.has_row(experiment)) else { continue };
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
                let values: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
                let mean = values.iter().sum::<f64>() / count as f64;
                let of = format!("the mean of {count} programs");
                return Ok(OverRows { value: mean, of, interval: interval::of_mean(&values) });
            }
            Aggregate::Above(bound) => {
                let above: Vec<&str> =
                    values.iter().filter(|(value, _)| *value > bound).map(|(_, row)| row.as_str()).collect();
                let of = format!("of {count} programs: {}", above.join("; "));
                let interval = interval::of_count(above.len(), count);
                return Ok(OverRows { value: above.len() as f64, of, interval });
            }
        };
        let (value, row) = found.ok_or("none of its programs was run")?;
        Ok(OverRows { value: *value, of: format!("{which} of {count} programs, {row}"), interval: None })
    }
}
