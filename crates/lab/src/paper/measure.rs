//! How a number to compare with a published one follows from rows of results.

use crate::results::{ALL, Row};
use serde::Deserialize;

/// A metric of a system, by itself or compared with other systems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The metric's name in rows.
    pub metric: String,
    /// Another metric, to divide by.
    pub per: Option<String>,
    /// A factor; for comparisons, only with [`Comparator::Excess`].
    pub scale: Option<f64>,
    /// The label of the system.
    pub system: String,
    /// Labels of alternatives to `system`: the one with the least value counts.
    #[serde(default)]
    pub or: Vec<String>,
    /// An option of that system whose value is wanted, in place of the metric's.
    pub option: Option<String>,
    /// Labels of systems to compare with: the one with the least value counts.
    #[serde(default)]
    pub against: Vec<String>,
    /// How to compare.
    pub how: Option<Comparator>,
    /// The name of the processes to sum over; `None`: all processes together.
    pub process: Option<String>,
    /// A process whose value is subtracted: the same work without what is to be measured. Needs `process`.
    pub less: Option<String>,
    /// The processes whose values `against` means, if others than those of `system`.
    pub other: Option<Processes>,
    /// Which process of that name, in the order of their starts, from 0; `None`: all of them.
    pub run: Option<usize>,
}

/// Processes by name, summed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processes {
    /// The name.
    pub process: String,
    /// The name of processes whose value is subtracted.
    pub less: Option<String>,
}

/// Comparisons of a value with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparator {
    /// The value over the other.
    Ratio,
    /// The other over the value: fewer cycles are a greater speedup.
    Speedup,
    /// By how many percent of the other the value is less.
    Reduction,
    /// By how many percent of the other the value is more.
    Increase,
    /// The value less the other, in the metric itself. `per` of the system and `scale` apply to the difference.
    Excess,
}

impl Measure {
    /// Fails unless the number can be computed where `known` holds the labels of systems.
    pub(super) fn check(&self, known: impl Fn(&str) -> bool) -> Result<(), String> {
        if let Some(label) = self.against.iter().chain(&self.or).chain([&self.system]).find(|label| !known(label)) {
            return Err(format!("this experiment has no system {label:?}; name one of its systems"));
        }
        if self.option.is_some() && (self.how.is_some() || self.per.is_some() || self.scale.is_some()) {
            return Err("option takes neither how, per nor scale; leave them out".into());
        }
        match (self.how, self.against.is_empty()) {
            (Some(_), true) => Err("how needs against; name the systems to compare with".into()),
            (None, false) => Err("against needs how: ratio, speedup, reduction, increase or excess".into()),
            (Some(how), _) if self.scale.is_some() && how != Comparator::Excess => {
                Err("scale is for single values and how = \"excess\"; leave it out".into())
            }
            _ if self.less.is_some() && self.process.is_none() => Err("less needs process; name the process".into()),
            _ if self.other.is_some() && self.how.is_none() => Err("other needs how and against; give both".into()),
            _ if self.run.is_some() && self.process.is_none() => Err("run needs process; name the process".into()),
            _ => Ok(()),
        }
    }

    /// Returns whether it measures no other system than that with this label.
    pub(super) fn is_of(&self, label: &str) -> bool {
        self.against.iter().chain(&self.or).chain([&self.system]).all(|system| system == label)
    }

    /// Returns the number, from `rows`. For each label, `read` gives the system whose rows count, with its options, and `spec`
    /// the system itself, for [`Measure::option`]. Fails where a metric is missing, or would be divided by 0.
    pub(super) fn compute(
        &self,
        rows: &[Row],
        read: impl Fn(&str) -> String,
        spec: impl Fn(&str) -> String,
    ) -> Result<f64, String> {
        let value = |label: &String| self.single(rows, &read(label), self.own());
        let (ours, label) = least([&self.system].into_iter().chain(&self.or), value)?;
        if let Some(option) = &self.option {
            return option_value(&spec(label), option);
        }
        match self.how {
            None => Ok(ours * self.scale.unwrap_or(1.0)),
            Some(Comparator::Excess) => self.excess(rows, read),
            Some(how) => {
                let (other, _) = least(&self.against, |label| self.single(rows, &read(label), self.others()))?;
                let divisor = if how == Comparator::Speedup { ours } else { other };
                if divisor == 0.0 {
                    return Err(format!("{} is 0 and cannot be divided by", self.metric));
                }
                Ok(match how {
                    Comparator::Ratio => ours / other,
                    Comparator::Speedup => other / ours,
                    Comparator::Reduction => 100.0 * (1.0 - ours / other),
                    Comparator::Increase => 100.0 * (ours / other - 1.0),
                    Comparator::Excess => ours - other,
                })
            }
        }
    }

    /// Returns the processes that `system` means.
    fn own(&self) -> Selection<'_> {
        Selection { process: self.process.as_deref(), less: self.less.as_deref() }
    }

    /// Returns the processes that `against` means.
    fn others(&self) -> Selection<'_> {
        let named = self.other.as_ref();
        named.map_or(self.own(), |other| Selection { process: Some(&other.process), less: other.less.as_deref() })
    }

    /// Returns the metric of `system`, divided by `per`.
    fn single(&self, rows: &[Row], system: &str, of: Selection) -> Result<f64, String> {
        let value = self.sum(rows, system, &self.metric, of)?;
        match &self.per {
            None => Ok(value),
            Some(per) => match self.sum(rows, system, per, of)? {
                0.0 => Err(format!("{system} counted no {per}")),
                per => Ok(value / per),
            },
        }
    }

    fn excess(&self, rows: &[Row], read: impl Fn(&str) -> String) -> Result<f64, String> {
        let mut other = f64::INFINITY;
        for label in &self.against {
            other = other.min(self.sum(rows, &read(label), &self.metric, self.others())?);
        }
        let excess = self.sum(rows, &read(&self.system), &self.metric, self.own())? - other;
        let per = match &self.per {
            Some(per) => self.sum(rows, &read(&self.system), per, self.own())?,
            None => 1.0,
        };
        match per {
            0.0 => Err(format!("{} counted no {}", self.system, self.per.as_deref().unwrap_or_default())),
            per => Ok(excess / per * self.scale.unwrap_or(1.0)),
        }
    }

    /// Returns a metric of the processes `of`, less that of the processes to subtract.
    fn sum(&self, rows: &[Row], system: &str, metric: &str, of: Selection) -> Result<f64, String> {
        let value = self.total(rows, system, metric, of.process)?;
        let less = of.less.map_or(Ok(0.0), |less| self.total(rows, system, metric, Some(less)))?;
        Ok(value - less)
    }

    /// Returns the sum of a metric over the rows of `system` and of the processes named.
    fn total(&self, rows: &[Row], system: &str, metric: &str, process: Option<&str>) -> Result<f64, String> {
        let of_system = rows.iter().filter(|row| row.system == system && row.metric == metric);
        let mut values = of_system.filter(|row| match process {
            None => row.process == ALL,
            // "3 fft3": the number of an address space, and the name of what it executed.
            Some(process) => row.process.split_once(' ').is_some_and(|(_, name)| name == process),
        });
        let values: Vec<f64> = match self.run {
            Some(run) => values.nth(run).into_iter().map(|row| row.value.as_f64()).collect(),
            None => values.map(|row| row.value.as_f64()).collect(),
        };
        if values.is_empty() {
            let whose = process.map_or(String::new(), |process| format!(" of process {process}"));
            return Err(format!("{system} gives no metric {metric}{whose}"));
        }
        Ok(values.into_iter().sum())
    }
}

/// The processes that one side of a comparison means; `None` is all processes together.
#[derive(Clone, Copy)]
struct Selection<'a> {
    process: Option<&'a str>,
    less: Option<&'a str>,
}

/// Returns the least value of `labels`, and the first label that has it.
fn least<'a>(
    labels: impl IntoIterator<Item = &'a String>,
    value: impl Fn(&String) -> Result<f64, String>,
) -> Result<(f64, &'a String), String> {
    let mut best: Option<(f64, &String)> = None;
    for label in labels {
        let value = value(label)?;
        if best.is_none_or(|(least, _)| value < least) {
            best = Some((value, label));
        }
    }
    best.ok_or_else(|| "there is no system to compare with; give against".into())
}

/// Returns the value of a numeric option of the system `spec`.
fn option_value(spec: &str, option: &str) -> Result<f64, String> {
    let system = reach_systems::resolve(spec).map_err(|error| error.to_string())?;
    let value = system.settings().iter().find(|(name, _)| *name == option).map(|(_, value)| value);
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| format!("{} has no option {option} that is a number", system.spec()))
}
