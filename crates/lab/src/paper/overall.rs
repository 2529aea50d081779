//! Numbers over all rows of a table: the greatest loss, the least gain.

use super::file::{Experiment, Item};
use crate::results::Row;
use serde::Deserialize;

/// A published number that one of a table's rows decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overall {
    /// Which row.
    pub over: Over,
    /// The number; ours is found in each row whose experiment has its systems.
    #[serde(rename = "value")]
    pub item: Item,
}

/// Which of a table's rows decides.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// That with the greatest value.
    Greatest,
    /// That with the least value.
    Least,
    /// All of them: their mean.
    Mean,
    /// How many have more than this.
    Above(f64),
}

impl Overall {
    /// The number, and which of how many rows it is of. Fails where no row gives one.
    pub(super) fn compute<'a>(
        &self,
        outcomes: impl Iterator<Item = (&'a Experiment, &'a [Row])>,
    ) -> Result<(f64, String), String> {
        let mut values = Vec::new();
        for (experiment, rows) in outcomes {
            let Some(row) = &experiment.row else { continue };
            if let Some(value) = self.item.ours.of(experiment, rows) {
                values.push((value, row));
            }
        }
        let count = values.len();
        if values.is_empty() {
            return Err("none of its programs was run".into());
        }
        let order = |a: &&(f64, &String), b: &&(f64, &String)| a.0.total_cmp(&b.0);
        let (which, decides) = match self.over {
            Over::Greatest => ("the greatest", values.iter().max_by(order)),
            Over::Least => ("the least", values.iter().min_by(order)),
            Over::Mean => {
                let sum: f64 = values.iter().map(|(value, _)| value).sum();
                return Ok((sum / count as f64, format!("the mean of {count} programs")));
            }
            Over::Above(bound) => {
                let above: Vec<&str> =
                    values.iter().filter(|(value, _)| *value > bound).map(|(_, row)| row.as_str()).collect();
                return Ok((above.len() as f64, format!("of {count} programs: {}", above.join("; "))));
            }
        };
        let (value, row) = decides.ok_or("none of its programs was run")?;
        Ok((*value, format!("{which} of {count} programs, {row}")))
    }
}
