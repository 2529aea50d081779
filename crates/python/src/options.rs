//! Options of experiments, under their names on the command line.

use crate::error::refused;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use reach_lab::{Conditions, Experiment, Placement, Timing, machine, values};
use reach_systems::Resolved as System;
use reach_trace::{Alignment, FastForward, Sampling};

/// Named values, each a text or a number as on the command line. `None` and what is absent stand for the default.
pub struct Options<'py>(pub Bound<'py, PyDict>);

impl Options<'_> {
    /// Returns an option, read by `parse`.
    pub fn get<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> PyResult<Option<T>> {
        let Some(value) = self.0.get_item(name)?.filter(|value| !value.is_none()) else { return Ok(None) };
        let text = value.str()?;
        let text = text.to_cow()?;
        parse(&text).map(Some).map_err(|what| refused(format!("{name}={text:?}: {what}")))
    }

    /// Returns a number in a range.
    pub fn number(&self, name: &str, least: u64, most: u64) -> PyResult<Option<u64>> {
        let parse = |text: &str| {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
        };
        self.get(name, parse)
    }

    /// Returns whether an option is on.
    fn is_on(&self, name: &str) -> PyResult<bool> {
        match self.0.get_item(name)?.filter(|value| !value.is_none()) {
            None => Ok(false),
            Some(value) => match value.cast::<PyBool>() {
                Ok(value) => Ok(value.is_true()),
                Err(_) => Err(refused(format!("{name}={}: expected True or False", value.repr()?))),
            },
        }
    }

    /// Returns the sampling that was asked for: a text, or True for the default one.
    fn sample(&self) -> PyResult<Option<Sampling>> {
        let given = self.0.get_item("sample")?.filter(|value| !value.is_none());
        match given.as_ref().and_then(|value| value.cast::<PyBool>().ok()) {
            Some(on) => Ok(on.is_true().then(Sampling::default)),
            None => self.get("sample", |text| text.parse::<Sampling>().map_err(|error| error.to_string())),
        }
    }

    /// Returns the conditions that all simulations share.
    pub fn conditions(&self) -> PyResult<Conditions> {
        let seed = self.number("seed", 0, u64::MAX)?.unwrap_or(1);
        let fragmentation = self.get("fragment", values::fragmentation)?;
        let hardware = |name| Ok::<_, PyErr>(self.number(name, 1, u64::from(Placement::MOST))?.unwrap_or(1) as u32);
        Ok(Conditions {
            timing: self.get("timing", str::parse)?.unwrap_or(Timing::Ooo),
            seed,
            fragmentation: fragmentation.map(|free| free.with_seed(seed)),
            warm: !self.is_on("cold")?,
            placement: Placement::of(hardware("cores")?, hardware("smt")?),
            kernel: self.is_on("kernel")?,
            ..Conditions::new(self.get("memory", values::bytes)?.unwrap_or(16 << 30))
        })
    }

    /// Returns the experiment on these machines and systems.
    pub fn experiment(&self, machines: Vec<machine::Resolved>, systems: Vec<System>) -> PyResult<Experiment> {
        let conditions = self.conditions()?;
        for machine in &machines {
            machine.check_placement(&conditions.placement).map_err(refused)?;
        }
        let (given, whole, sample) = (self.get("precision", values::precision)?, self.is_on("whole")?, self.sample()?);
        if [given.is_some(), whole, sample.is_some()].into_iter().filter(|&one| one).count() > 1 {
            return Err(refused("precision, whole and sample exclude each other; give one of them"));
        }
        let samples = conditions.suit_precision() && !whole && sample.is_none();
        let precision = samples.then(|| given.unwrap_or(Conditions::PRECISION));
        if given.is_some() && precision.is_none() {
            return Err(refused(
                "precision is for samples, which need timing=\"ooo\" and one core with one hardware thread; leave it out",
            ));
        }
        let threads = self.number("threads", 1, 1024)?.map(|threads| threads as usize);
        let align_code = self.get("align_code", |text| match text {
            "programs" => Ok(Alignment::Programs),
            "all" => Ok(Alignment::All),
            _ => Err("expected programs or all".into()),
        })?;
        Ok(Experiment {
            threads: Experiment::threads_of(threads),
            fast_forward: self.get("fast_forward", values::fast_forward)?.unwrap_or_else(FastForward::default),
            align_code,
            limit: self.get("limit", values::count)?,
            sample: sample.or(precision.map(|_| Sampling::default())),
            precision,
            ..Experiment::new(machines, systems, conditions)
        })
    }
}
