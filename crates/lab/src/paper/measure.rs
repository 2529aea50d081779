//! How a number that can be compared with a published one follows from the rows of results.

use super::file::Experiment;
use crate::results::{ALL, Row};
use serde::Deserialize;

/// A metric of a system, by itself or against other systems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The metric's name in rows.
    pub metric: String,
    /// For each of this other metric.
    pub per: Option<String>,
    /// Times this.
    pub scale: Option<f64>,
    /// The label of the system.
    pub system: String,
    /// Labels of others, any of which may stand in its place: that which has the least does.
    #[serde(default)]
    pub or: Vec<String>,
    /// Not the metric is wanted but the value that this option has in the system that stands in that place.
    pub option: Option<String>,
    /// Labels of systems to compare with: that which has the least.
    #[serde(default)]
    pub against: Vec<String>,
    /// How to compare.
    pub how: Option<How>,
    /// Only of processes that are called so; of all otherwise.
    pub process: Option<String>,
    /// Which of the processes that are called so, in the order of their starts, from 0; all together otherwise.
    pub run: Option<usize>,
}

/// Comparisons of a value with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The value over the other.
    Ratio,
    /// The other over the value: what has fewer cycles has a greater speedup.
    Speedup,
    /// By how many percent of the other the value is less.
    Reduction,
    /// By how many percent of the other the value is more.
    Increase,
    /// By how much the value is more than the other, both in the metric itself; `per` and `scale` apply to that.
    Excess,
}

impl Measure {
    /// Whether this can be computed where there are these labels.
    pub(super) fn check(&self, known: impl Fn(&str) -> bool) -> Result<(), String> {
        if let Some(label) = self.against.iter().chain(&self.or).chain([&self.system]).find(|label| !known(label)) {
            return Err(format!("there is no system {label:?} in this experiment; name one of its systems"));
        }
        if self.option.is_some() && (self.how.is_some() || self.per.is_some() || self.scale.is_some()) {
            return Err("an option's value is compared with nothing; leave how, per and scale out".into());
        }
        match (self.how, self.against.is_empty()) {
            (Some(_), true) => Err("how compares with nothing; give against".into()),
            (None, false) => Err("against needs how: ratio, speedup, reduction or increase".into()),
            (Some(how), _) if self.scale.is_some() && how != How::Excess => {
                Err("a comparison has its own scale; leave scale out".into())
            }
            _ if self.run.is_some() && self.process.is_none() => Err("run picks one of nothing; give process".into()),
            _ => Ok(()),
        }
    }

    /// The number, from `rows`, in which `name` says what the system of a label is called. Fails where a metric is not
    /// there, or is compared with none.
    pub(super) fn compute(&self, rows: &[Row], name: impl Fn(&str) -> String) -> Result<f64, String> {
        let of = |label: &str| -> Result<f64, String> {
            let system = name(label);
            let value = self.sum(rows, &system, &self.metric)?;
            match &self.per {
                None => Ok(value),
                Some(per) => match self.sum(rows, &system, per)? {
                    0.0 => Err(format!("{system} counted no {per}")),
                    per => Ok(value / per),
                },
            }
        };
        let least = |labels: &mut dyn Iterator<Item = &String>| -> Result<(f64, String), String> {
            let mut best: Option<(f64, String)> = None;
            for label in labels {
                let value = of(label)?;
                if best.as_ref().is_none_or(|(least, _)| value < *least) {
                    best = Some((value, label.clone()));
                }
            }
            best.ok_or_else(|| "it is compared with nothing; give against".into())
        };
        let (value, best) = least(&mut [&self.system].into_iter().chain(&self.or))?;
        if let Some(option) = &self.option {
            let system = reach_systems::resolve(&name(&best)).map_err(|error| error.to_string())?;
            let set = system.settings().iter().find(|(name, _)| name == option);
            return set
                .and_then(|(_, value)| value.parse().ok())
                .ok_or_else(|| format!("{} has no option {option} that is a number", system.spec()));
        }
        if self.how == Some(How::Excess) {
            let mut other = f64::INFINITY;
            for label in &self.against {
                other = other.min(self.sum(rows, &name(label), &self.metric)?);
            }
            let excess = self.sum(rows, &name(&self.system), &self.metric)? - other;
            let per = match &self.per {
                Some(per) => self.sum(rows, &name(&self.system), per)?,
                None => 1.0,
            };
            return match per {
                0.0 => Err(format!("{} counted no {}", self.system, self.per.as_deref().unwrap_or_default())),
                per => Ok(excess / per * self.scale.unwrap_or(1.0)),
            };
        }
        let Some(how) = self.how else { return Ok(value * self.scale.unwrap_or(1.0)) };
        let (other, _) = least(&mut self.against.iter())?;
        let divisor = if how == How::Speedup { value } else { other };
        if divisor == 0.0 {
            return Err(format!("{} is 0 and nothing can be compared with it", self.metric));
        }
        Ok(match how {
            How::Ratio => value / other,
            How::Speedup => other / value,
            How::Reduction => 100.0 * (1.0 - value / other),
            How::Increase => 100.0 * (value / other - 1.0),
            How::Excess => value - other,
        })
    }

    /// The number in `experiment`, whose rows these are, if it has what is needed.
    pub(super) fn of(&self, experiment: &Experiment, rows: &[Row]) -> Option<f64> {
        self.check(|label| experiment.systems.contains_key(label)).ok()?;
        self.compute(rows, |label| experiment.spec(label)).ok()
    }

    fn sum(&self, rows: &[Row], system: &str, metric: &str) -> Result<f64, String> {
        let of_system = rows.iter().filter(|row| row.system == system && row.metric == metric);
        let mut values = of_system.filter(|row| match &self.process {
            None => row.process == ALL,
            // "3 fft3": the number of an address space, and what runs in it.
            Some(process) => row.process.split_once(' ').is_some_and(|(_, name)| name == process),
        });
        let values: Vec<f64> = match self.run {
            Some(run) => values.nth(run).into_iter().map(|row| row.value.as_f64()).collect(),
            None => values.map(|row| row.value.as_f64()).collect(),
        };
        if values.is_empty() {
            let whose = self.process.as_ref().map_or(String::new(), |process| format!(" of process {process}"));
            return Err(format!("{system} gives no metric {metric}{whose}"));
        }
        Ok(values.into_iter().sum())
    }
}
