//! The form of a paper's file, and what must hold in it.

use super::value::Measure;
use crate::{Timing, machine};
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::HashSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    citation: String,
    base: Base,
    #[serde(default)]
    experiment: Vec<Differences>,
    #[serde(default)]
    missing: Vec<Missing>,
}

/// What experiments have unless they say otherwise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    machine: String,
    memory_mb: u64,
    timing: String,
    seed: u64,
    warm: bool,
    systems: IndexMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differences {
    name: String,
    about: String,
    replaces: Option<String>,
    #[serde(default)]
    programs: Vec<String>,
    scenario: Option<String>,
    machine: Option<String>,
    memory_mb: Option<u64>,
    timing: Option<String>,
    warm: Option<bool>,
    limit: Option<u64>,
    #[serde(default)]
    systems: IndexMap<String, String>,
    #[serde(default)]
    item: Vec<Item>,
}

/// One experiment, whole.
#[derive(Clone)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// What it is, on one line.
    pub about: String,
    /// In place of what, and how it differs, where the paper's own program cannot be had.
    pub replaces: Option<String>,
    /// Synthetic programs, one after the other in one machine.
    pub programs: Vec<String>,
    /// A scenario file of the paper's folder instead.
    pub scenario: Option<String>,
    /// The machine.
    pub machine: machine::Resolved,
    /// Physical memory in bytes.
    pub memory: u64,
    /// How time passes.
    pub timing: Timing,
    /// Of everything random.
    pub seed: u64,
    /// Files are in the page cache before.
    pub warm: bool,
    /// The program ends after so many references.
    pub limit: Option<u64>,
    /// Systems by label; speedups are relative to the first.
    pub systems: IndexMap<String, reach_systems::Resolved>,
    /// The published numbers that it is about.
    pub items: Vec<Item>,
}

/// A published number, and how ours is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it is.
    pub item: String,
    /// Where it is published: section, table.
    pub section: String,
    /// The number.
    pub published: f64,
    /// What it is counted in.
    pub unit: String,
    /// How far ours may be from it.
    pub tolerance: Tolerance,
    /// Why so far.
    pub reason: String,
    /// Ours.
    pub ours: Measure,
}

/// A published number that nothing measures yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What it is.
    pub item: String,
    /// Where it is published.
    pub section: String,
    /// The number.
    pub published: f64,
    /// What it is counted in.
    pub unit: String,
    /// Why it cannot be measured.
    pub reason: String,
}

/// How far our number may be from the published one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// The greater over the smaller is at most this.
    Factor(f64),
    /// The difference is at most this.
    Within(f64),
    /// Ours is no less than this.
    AtLeast(f64),
    /// Ours is no more than this.
    AtMost(f64),
}

impl Tolerance {
    /// Whether `ours` is near enough to `published`.
    pub fn allows(self, published: f64, ours: f64) -> bool {
        match self {
            Tolerance::Factor(factor) => {
                let (low, high) = (published.min(ours), published.max(ours));
                low > 0.0 && high / low <= factor
            }
            Tolerance::Within(distance) => (published - ours).abs() <= distance,
            Tolerance::AtLeast(least) => ours >= least,
            Tolerance::AtMost(most) => ours <= most,
        }
    }

    fn sensible(self) -> bool {
        match self {
            Tolerance::Factor(factor) => factor >= 1.0 && factor.is_finite(),
            Tolerance::Within(distance) => distance >= 0.0 && distance.is_finite(),
            Tolerance::AtLeast(bound) | Tolerance::AtMost(bound) => bound.is_finite(),
        }
    }
}

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tolerance::Factor(factor) => write!(f, "factor {factor}"),
            Tolerance::Within(distance) => write!(f, "±{distance}"),
            Tolerance::AtLeast(least) => write!(f, "≥ {least}"),
            Tolerance::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// Citation, experiments and missing numbers of a paper's file.
pub(super) fn read(text: &str) -> Result<(String, Vec<Experiment>, Vec<Missing>), String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message().trim_end().replace('\n', "; "))
    })?;
    let mut experiments: Vec<Experiment> = Vec::new();
    let mut items = HashSet::new();
    for differences in file.experiment {
        let name = differences.name.clone();
        let wrong = |what: String| format!("experiment {name}: {what}");
        if experiments.iter().any(|e| e.name == name) {
            return Err(wrong("there are two of that name; rename one".into()));
        }
        let experiment = resolve(&file.base, differences).map_err(wrong)?;
        for item in &experiment.items {
            let wrong = |what: String| format!("{}, {}: {what}", experiment.name, item.item);
            check(item, &experiment).map_err(wrong)?;
            if !items.insert(item.item.clone()) {
                return Err(wrong("there are two items of that name; rename one".into()));
            }
        }
        experiments.push(experiment);
    }
    if let Some(missing) = file.missing.iter().find(|missing| !items.insert(missing.item.clone())) {
        return Err(format!("{}: there are two items of that name; rename one", missing.item));
    }
    Ok((file.citation, experiments, file.missing))
}

fn resolve(base: &Base, own: Differences) -> Result<Experiment, String> {
    if own.programs.is_empty() == own.scenario.is_none() {
        return Err("give either programs or a scenario".into());
    }
    let timing = match own.timing.as_ref().unwrap_or(&base.timing).as_str() {
        "counts" => Timing::Counts,
        "inorder" => Timing::InOrder,
        other => return Err(format!("there is no timing {other:?}; give counts or inorder")),
    };
    let memory = own.memory_mb.unwrap_or(base.memory_mb);
    let mut systems = base.systems.clone();
    systems.extend(own.systems);
    let resolved = systems.into_iter().map(|(label, spec)| match reach_systems::resolve(&spec) {
        Ok(system) => Ok((label, system)),
        Err(error) => Err(format!("system {label}: {error}")),
    });
    let systems: IndexMap<String, reach_systems::Resolved> = resolved.collect::<Result<_, _>>()?;
    for (at, (label, system)) in systems.iter().enumerate() {
        if let Some((other, _)) = systems.iter().take(at).find(|(_, other)| other.spec() == system.spec()) {
            return Err(format!("systems {other} and {label} are the same; keep one"));
        }
    }
    Ok(Experiment {
        name: own.name,
        about: own.about,
        replaces: own.replaces,
        programs: own.programs,
        scenario: own.scenario,
        machine: machine::resolve(own.machine.as_ref().unwrap_or(&base.machine)).map_err(|e| e.to_string())?,
        memory: memory.checked_mul(1 << 20).ok_or("so much memory cannot be counted; give less")?,
        timing,
        seed: base.seed,
        warm: own.warm.unwrap_or(base.warm),
        limit: own.limit,
        systems,
        items: own.item,
    })
}

fn check(item: &Item, experiment: &Experiment) -> Result<(), String> {
    if item.reason.trim().is_empty() {
        return Err("the tolerance has no reason; give one".into());
    }
    if !item.tolerance.sensible() {
        return Err(format!("a tolerance of {} allows nothing; give another", item.tolerance));
    }
    if !item.published.is_finite() {
        return Err("the published value is no number; give one".into());
    }
    item.ours.check(|label| experiment.systems.contains_key(label))
}
