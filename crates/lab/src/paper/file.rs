//! The form of a paper's file, and what must hold in it.

use super::columns::{Absent, Cell, Column};
use super::command::Command;
use super::figure::Figure;
use super::measure::Measure;
use super::overall::Overall;
use super::relation::Relation;
use super::sweep::Sweep;
use crate::{Placement, Timing, machine};
use indexmap::IndexMap;
use reach_os::Fragmentation;
use reach_trace::{Alignment, Between, FastForward, Sampling};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    citation: String,
    base: Base,
    /// Further files of the paper's folder, whose experiments come first; what one names may stand in those before.
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    experiment: Vec<Differences>,
    #[serde(default)]
    missing: Vec<Missing>,
}

/// A published table: a row is an experiment, a column is an item that each may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What all of its experiments have besides those of the base.
    #[serde(default)]
    systems: IndexMap<String, String>,
    #[serde(default)]
    column: Vec<Column>,
    #[serde(default)]
    experiment: Vec<Differences>,
    #[serde(default)]
    sweep: Vec<Sweep>,
    #[serde(default)]
    overall: Vec<Overall>,
    #[serde(default)]
    relation: Vec<Relation>,
    #[serde(default)]
    absent: Vec<Absent>,
    #[serde(default)]
    figure: Vec<Figure>,
}

/// Of one recorded program at once.
const MOST_COPIES: u32 = 64;

/// Instructions after which the next of several copies has its turn: few, so that all hardware threads have work.
pub const QUANTUM: u64 = 20_000;

/// How memory is broken up before the program starts, as shares from 0 to 1 ([`Fragmentation`]).
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    order: u8,
    scattered: f64,
    hold: f64,
}

/// What a paper's files hold.
#[derive(Default)]
pub(super) struct Content {
    pub citation: String,
    pub experiments: Vec<Experiment>,
    pub overall: Vec<Overall>,
    pub relations: Vec<Relation>,
    pub missing: Vec<Missing>,
    pub figures: Vec<Figure>,
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
    align_code: Option<Alignment>,
    systems: IndexMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differences {
    name: String,
    about: String,
    replaces: Option<String>,
    /// An experiment before this one, whose program it has.
    like: Option<String>,
    #[serde(default)]
    programs: Vec<String>,
    scenario: Option<String>,
    command: Option<Command>,
    row: Option<String>,
    /// Of which workload it is a point.
    workload: Option<String>,
    #[serde(default)]
    columns: IndexMap<String, Cell>,
    machine: Option<String>,
    memory_mb: Option<u64>,
    timing: Option<String>,
    warm: Option<bool>,
    cores: Option<u32>,
    smt: Option<u32>,
    copies: Option<u32>,
    cut: Option<u64>,
    align_code: Option<Alignment>,
    fragmentation: Option<Broken>,
    fast_forward: Option<FastForward>,
    sample: Option<String>,
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
    /// A real program instead, which is captured.
    pub command: Option<Command>,
    /// What its row in the paper's table is called, where it has one.
    pub row: Option<String>,
    /// Of which workload it is a point, where relations are asked for.
    pub workload: Option<String>,
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
    /// On how many hardware threads.
    pub placement: Placement,
    /// How many copies of its recorded program run, in turns of [`QUANTUM`] instructions.
    pub copies: u32,
    /// The recorded programs, all together, end after so many references.
    pub cut: Option<u64>,
    /// Which of its files of code are moved to where superpages can begin.
    pub align_code: Option<Alignment>,
    /// What state memory is in at boot.
    pub fragmentation: Option<Fragmentation>,
    /// Of this beginning of the program only those references stay that change the operating system's state.
    pub fast_forward: FastForward,
    /// Of the rest intervals are measured.
    pub sample: Option<Sampling>,
    /// The program ends after so many references, of those that are left.
    pub limit: Option<u64>,
    /// Systems by label; speedups are relative to the first.
    pub systems: IndexMap<String, reach_systems::Resolved>,
    /// The published numbers that it is about.
    pub items: Vec<Item>,
}

impl Experiment {
    /// Whether its program is recorded: one that is captured, and a sample of a synthetic one.
    pub(super) fn is_recorded(&self) -> bool {
        self.command.is_some() || (self.sample.is_some() && self.scenario.is_none())
    }

    /// What the system of this label is; nothing where there is none.
    pub(super) fn spec(&self, label: &str) -> String {
        self.systems.get(label).map_or(String::new(), |system| system.spec().to_owned())
    }

    /// Whether `other` differs in nothing that is run but the machine.
    pub(super) fn shares_pass(&self, other: &Experiment) -> bool {
        let program = |e: &Experiment| {
            (e.programs.clone(), e.scenario.clone(), e.command.clone(), e.fast_forward.clone(), e.sample, e.limit)
        };
        let copies = |e: &Experiment| (e.copies, e.cut, e.align_code);
        let conditions = |e: &Experiment| (e.memory, e.timing, e.seed, e.warm, e.placement, e.fragmentation);
        let specs = |e: &Experiment| e.systems.values().map(|s| s.spec().to_owned()).collect::<Vec<_>>();
        self.machine.name != other.machine.name
            && program(self) == program(other)
            && copies(self) == copies(other)
            && conditions(self) == conditions(other)
            && specs(self) == specs(other)
    }
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

/// What a paper's file, and those that it names, hold; `open` gives the text of another file of the paper.
pub(super) fn read(text: &str, open: impl Fn(&str) -> Result<String, String>) -> Result<Content, String> {
    let file: File = parse(text)?;
    let mut content = Content { citation: file.citation, ..Content::default() };
    let mut columns = Vec::new();
    for name in &file.tables {
        let wrong = |what: String| format!("{name}: {what}");
        let table: Table = parse(&open(name)?).map_err(wrong)?;
        columns.extend(table.column);
        let sweeps = table.sweep.iter().map(Sweep::expand).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        for mut differences in table.experiment.into_iter().chain(sweeps.into_iter().flatten()) {
            let own = std::mem::replace(&mut differences.systems, table.systems.clone());
            differences.systems.extend(own);
            add(&mut content.experiments, &file.base, differences, &columns).map_err(wrong)?;
        }
        for absent in &table.absent {
            content.missing.extend(absent.expand(&columns).map_err(wrong)?);
        }
        content.overall.extend(table.overall);
        content.relations.extend(table.relation);
        content.figures.extend(table.figure);
    }
    for differences in file.experiment {
        add(&mut content.experiments, &file.base, differences, &[])?;
    }
    content.missing.extend(file.missing);
    let system = |label: &str| content.experiments.iter().any(|e| e.systems.contains_key(label));
    let workload = |name: &str| content.experiments.iter().any(|e| e.workload.as_deref() == Some(name));
    for overall in &content.overall {
        check(&overall.item, system).map_err(|what| format!("{}: {what}", overall.item.item))?;
    }
    for relation in &content.relations {
        let sensible = relation.check(system, workload);
        sensible
            .and_then(|()| relation.items().try_for_each(|(_, item)| check(&item, system)))
            .map_err(|what| format!("{}: {what}", relation.name()))?;
    }
    for figure in &content.figures {
        figure.check(system).map_err(|what| format!("figure {}: {what}", figure.name))?;
    }
    let mut names = HashSet::new();
    let items = content.experiments.iter().flat_map(|e| &e.items).chain(content.overall.iter().map(|o| &o.item));
    let items = items.map(|item| item.item.clone()).chain(content.missing.iter().map(|missing| missing.item.clone()));
    let related = content.relations.iter().flat_map(|relation| relation.items().map(|(_, item)| item.item));
    for item in items.chain(related) {
        if !names.insert(item.clone()) {
            return Err(format!("{item}: there are two items of that name; rename one"));
        }
    }
    Ok(content)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message().trim_end().replace('\n', "; "))
    })
}

fn add(
    experiments: &mut Vec<Experiment>,
    base: &Base,
    mut differences: Differences,
    columns: &[Column],
) -> Result<(), String> {
    let name = differences.name.clone();
    let wrong = |what: String| format!("experiment {name}: {what}");
    if experiments.iter().any(|e| e.name == name) {
        return Err(wrong("there are two of that name; rename one".into()));
    }
    if let Some(like) = differences.like.take() {
        let other = experiments.iter().find(|e| e.name == like);
        let other = other.ok_or_else(|| wrong(format!("there is no experiment {like:?} before it; name one")))?;
        differences.programs.extend(other.programs.iter().cloned());
        differences.scenario = differences.scenario.or_else(|| other.scenario.clone());
        differences.command = differences.command.or_else(|| other.command.clone());
        differences.replaces = differences.replaces.or_else(|| other.replaces.clone());
        differences.row = differences.row.or_else(|| other.row.clone());
        differences.fast_forward = differences.fast_forward.or_else(|| Some(other.fast_forward.clone()));
        differences.limit = differences.limit.or(other.limit);
    }
    let experiment = resolve(base, differences, columns).map_err(wrong)?;
    for item in &experiment.items {
        let wrong = |what: String| format!("{name}, {}: {what}", item.item);
        check(item, |label| experiment.systems.contains_key(label)).map_err(wrong)?;
    }
    experiments.push(experiment);
    Ok(())
}

fn resolve(base: &Base, own: Differences, columns: &[Column]) -> Result<Experiment, String> {
    let ways = [!own.programs.is_empty(), own.scenario.is_some(), own.command.is_some()];
    if ways.iter().filter(|given| **given).count() != 1 {
        return Err("give either programs, a scenario or a command".into());
    }
    if let Some(command) = &own.command {
        command.check()?;
    }
    if own.command.is_none() && (own.copies.is_some() || own.cut.is_some()) {
        return Err("only recorded programs have copies, and are cut; give a command, or leave them out".into());
    }
    if own.copies.is_some_and(|copies| !(1..=MOST_COPIES).contains(&copies)) {
        return Err(format!("copies is 1 to {MOST_COPIES}; give a number between"));
    }
    let mut items = own.item;
    for (column, cell) in own.columns {
        let row = own.row.as_ref().ok_or("columns need the name of a row; give row")?;
        items.push(cell.expand(row, &column, columns)?);
    }
    let timing = match own.timing.as_ref().unwrap_or(&base.timing).as_str() {
        "counts" => Timing::Counts,
        "inorder" => Timing::InOrder,
        "ooo" => Timing::Ooo,
        other => return Err(format!("there is no timing {other:?}; give counts, inorder or ooo")),
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
    let sample: Option<Sampling> = own.sample.map(|text| text.parse()).transpose()?;
    if own.scenario.is_none() && sample.is_some_and(|sample| sample.between != Between::FastForward) {
        return Err("a sample is recorded without what is between its intervals; write between=fast-forward".into());
    }
    Ok(Experiment {
        name: own.name,
        about: own.about,
        replaces: own.replaces,
        programs: own.programs,
        scenario: own.scenario,
        command: own.command,
        row: own.row,
        workload: own.workload,
        machine: machine::resolve(own.machine.as_ref().unwrap_or(&base.machine)).map_err(|e| e.to_string())?,
        memory: memory.checked_mul(1 << 20).ok_or("so much memory cannot be counted; give less")?,
        timing,
        seed: base.seed,
        warm: own.warm.unwrap_or(base.warm),
        copies: own.copies.unwrap_or(1),
        cut: own.cut,
        align_code: own.align_code.or(base.align_code),
        placement: placement(own.cores.unwrap_or(1), own.smt.unwrap_or(1))?,
        fragmentation: own.fragmentation.map(|Broken { order, scattered, hold }| Fragmentation {
            order,
            scattered,
            hold,
            grain: 0,
            seed: base.seed,
        }),
        fast_forward: own.fast_forward.unwrap_or_default(),
        sample,
        limit: own.limit,
        systems,
        items,
    })
}

/// So many cores with so many hardware threads each.
fn placement(cores: u32, smt: u32) -> Result<Placement, String> {
    let most = Placement::MOST;
    if !(1..=most).contains(&cores) || !(1..=most).contains(&smt) {
        return Err(format!("{cores} cores with {smt} hardware threads each; use 1 to {most} of either"));
    }
    Ok(Placement::of(cores, smt))
}

/// Whether `item` can be judged where there are systems of these labels.
fn check(item: &Item, known: impl Fn(&str) -> bool) -> Result<(), String> {
    if item.reason.trim().is_empty() {
        return Err("the tolerance has no reason; give one".into());
    }
    if !item.tolerance.sensible() {
        return Err(format!("a tolerance of {} allows nothing; give another", item.tolerance));
    }
    if !item.published.is_finite() {
        return Err("the published value is no number; give one".into());
    }
    item.ours.check(known)
}
