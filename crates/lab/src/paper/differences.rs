//! Experiments as files state them: by their differences from the paper's defaults.

use super::columns::{Cell, Column};
use super::command::Command;
use super::experiment::PaperExperiment;
use super::item::PublishedItem;
use crate::{Conditions, Placement, Timing, machine};
use indexmap::IndexMap;
use reach_os::{Fragmentation, FreeBlocks, FreeMemory};
use reach_systems::Role;
use reach_trace::{Alignment, Between, FastForward, Sampling};
use serde::Deserialize;

/// The most copies of one recorded program.
const MAX_COPIES: u32 = 64;

/// The settings of experiments that do not say otherwise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    pub machine: String,
    pub memory_mb: u64,
    pub timing: Timing,
    pub seed: u64,
    pub warm: bool,
    pub align_code: Option<Alignment>,
    pub fragmentation: Option<Fragmented>,
    /// In a guest: the operating system of its host.
    pub host: Option<String>,
    pub systems: IndexMap<String, String>,
}

/// An experiment, by its differences from the defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Differences {
    pub name: String,
    pub about: String,
    pub replaces: Option<String>,
    /// An earlier experiment whose program this one has.
    pub like: Option<String>,
    #[serde(default)]
    pub programs: Vec<String>,
    pub scenario: Option<String>,
    pub command: Option<Command>,
    pub row: Option<String>,
    pub workload: Option<String>,
    #[serde(default)]
    pub columns: IndexMap<String, Cell>,
    pub machine: Option<String>,
    pub memory_mb: Option<u64>,
    pub timing: Option<Timing>,
    pub warm: Option<bool>,
    pub cores: Option<u32>,
    pub smt: Option<u32>,
    pub copies: Option<u32>,
    pub cut: Option<u64>,
    pub align_code: Option<Alignment>,
    pub host: Option<String>,
    /// Whether the kernel's own code is simulated.
    #[serde(default)]
    pub kernel: bool,
    pub fragmentation: Option<Fragmented>,
    pub fast_forward: Option<FastForward>,
    pub sample: Option<String>,
    /// The sample of the experiment that it is like.
    #[serde(skip)]
    inherited_sample: Option<Sampling>,
    pub limit: Option<u64>,
    /// Whether all its numbers are for checks only.
    #[serde(default)]
    pub kept_back: bool,
    #[serde(default)]
    pub systems: IndexMap<String, String>,
    #[serde(default)]
    pub item: Vec<PublishedItem>,
}

/// How memory is fragmented at boot: by shares from 0 to 1 ([`reach_os::Fragmentation`]), or in `blocks`, counted on a computer
/// ([`reach_os::FreeBlocks`]).
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fragmented {
    order: Option<u8>,
    scattered: Option<f64>,
    hold: Option<f64>,
    blocks: Option<Vec<u64>>,
}

impl Fragmented {
    fn resolve(self, seed: u64) -> Result<FreeMemory, String> {
        const KEYS: &str = "fragmentation has order, scattered and hold, or else blocks";
        let free = match (self.blocks, self.order, self.scattered, self.hold) {
            (None, Some(order), Some(scattered), Some(hold)) => {
                FreeMemory::Broken(Fragmentation { order, scattered, hold, grain: 0, first: false, stay: None, seed })
            }
            (Some(blocks), None, None, None) => FreeMemory::Counted(FreeBlocks::of(blocks)?),
            _ => return Err(KEYS.into()),
        };
        Ok(free.with_seed(seed))
    }
}

impl Differences {
    /// Takes over the program of `other`, and what belongs to it.
    pub fn inherit(&mut self, other: &PaperExperiment) {
        self.programs.extend(other.programs.iter().cloned());
        self.scenario = self.scenario.take().or_else(|| other.scenario.clone());
        self.command = self.command.take().or_else(|| other.command.clone());
        self.replaces = self.replaces.take().or_else(|| other.replaces.clone());
        self.row = self.row.take().or_else(|| other.row.clone());
        self.fast_forward = self.fast_forward.take().or_else(|| Some(other.fast_forward.clone()));
        self.limit = self.limit.or(other.limit);
        self.inherited_sample = other.sample;
    }

    /// Returns the experiment; `columns` are those that its row may have.
    pub fn resolve(self, base: &Defaults, columns: &[Column]) -> Result<PaperExperiment, String> {
        let differences = self;
        check_program(&differences)?;
        let placement = placement(&differences)?;
        let sample = sample(&differences)?;
        let Differences { memory_mb, fragmentation, row, .. } = differences;
        let mut items = differences.item;
        for (column, cell) in differences.columns {
            let row = row.as_ref().ok_or("columns need the name of a row; give row")?;
            items.push(cell.expand(row, &column, columns)?);
        }
        items.iter_mut().for_each(|item| item.kept_back |= differences.kept_back);
        let memory_mb = memory_mb.unwrap_or(base.memory_mb);
        let mut systems = systems(base.systems.iter().map(clone_pair).chain(differences.systems))?;
        add_free_translation(&mut systems, &items)?;
        let machine =
            machine::resolve(differences.machine.as_ref().unwrap_or(&base.machine)).map_err(|e| e.to_string())?;
        let memory = memory_mb.checked_mul(1 << 20);
        let conditions = Conditions {
            timing: differences.timing.unwrap_or(base.timing),
            memory: memory.ok_or_else(|| format!("memory_mb = {memory_mb}: expected less than 2^44"))?,
            aslr: None,
            seed: base.seed,
            fragmentation: fragmentation
                .or_else(|| base.fragmentation.clone())
                .map(|fragmented| fragmented.resolve(base.seed))
                .transpose()?,
            warm: differences.warm.unwrap_or(base.warm),
            placement,
            kernel: differences.kernel,
            host: differences.host.or_else(|| base.host.clone()),
            guests: 1,
        };
        Ok(PaperExperiment {
            name: differences.name,
            about: differences.about,
            replaces: differences.replaces,
            programs: differences.programs,
            scenario: differences.scenario,
            command: differences.command,
            row,
            workload: differences.workload,
            machine,
            conditions,
            copies: differences.copies.unwrap_or(1),
            cut: differences.cut,
            align_code: differences.align_code.or(base.align_code),
            fast_forward: differences.fast_forward.unwrap_or_default(),
            sample,
            limit: differences.limit,
            systems,
            items,
            inert: false,
        })
    }
}

fn clone_pair((label, spec): (&String, &String)) -> (String, String) {
    (label.clone(), spec.clone())
}

/// Adds a system whose translation costs nothing, unless there is one, where an item needs it: its measure is of the baseline
/// alone, which nothing but translation can have an effect on.
fn add_free_translation(
    systems: &mut IndexMap<String, reach_systems::Resolved>,
    items: &[PublishedItem],
) -> Result<(), String> {
    let Some((label, baseline)) = systems.first() else { return Ok(()) };
    let needs = |item: &PublishedItem| item.is_judged() && item.null.is_none() && item.ours.is_of(label);
    if !items.iter().any(needs) || systems.values().any(|system| system.role() == Role::Bound) {
        return Ok(());
    }
    let zero_page = baseline.settings().iter().find(|(name, _)| *name == "zero_page");
    let spec = zero_page.map_or("ideal".into(), |(name, value)| format!("ideal:{name}={value}"));
    let ideal = reach_systems::resolve(&spec).map_err(|error| error.to_string())?;
    systems.insert("free translation".into(), ideal);
    Ok(())
}

/// Fails unless there is exactly one kind of program, and only recorded ones have copies.
fn check_program(differences: &Differences) -> Result<(), String> {
    let Differences { programs, scenario, command, copies, cut, .. } = differences;
    let kinds = [!programs.is_empty(), scenario.is_some(), command.is_some()];
    if kinds.iter().filter(|given| **given).count() != 1 {
        return Err("give either programs, a scenario or a command".into());
    }
    if let Some(command) = command {
        command.check()?;
    }
    if command.is_none() && (copies.is_some() || cut.is_some()) {
        return Err("copies and cut are for recorded programs; give a command, or leave them out".into());
    }
    match copies {
        Some(copies) if !(1..=MAX_COPIES).contains(copies) => {
            Err(format!("copies = {copies}: expected 1 to {MAX_COPIES}"))
        }
        _ => Ok(()),
    }
}

fn placement(differences: &Differences) -> Result<Placement, String> {
    let (cores, smt) = (differences.cores.unwrap_or(1), differences.smt.unwrap_or(1));
    let most = Placement::MOST;
    if !(1..=most).contains(&cores) || !(1..=most).contains(&smt) {
        return Err(format!("cores = {cores}, smt = {smt}: expected 1 to {most} of each"));
    }
    Ok(Placement::of(cores, smt))
}

fn sample(differences: &Differences) -> Result<Option<Sampling>, String> {
    let own: Option<Sampling> = differences.sample.as_ref().map(|text| text.parse()).transpose()?;
    let sample = own.or(differences.inherited_sample);
    if differences.scenario.is_none() && sample.is_some_and(|sample| sample.between != Between::FastForward) {
        return Err("samples are recorded without the references between intervals; write between=fast-forward".into());
    }
    Ok(sample)
}

/// Resolves systems by label; a later one replaces an earlier one of the same label in its place.
fn systems(specs: impl Iterator<Item = (String, String)>) -> Result<IndexMap<String, reach_systems::Resolved>, String> {
    let specs: IndexMap<String, String> = specs.collect();
    let resolved = specs.into_iter().map(|(label, spec)| match reach_systems::resolve(&spec) {
        Ok(system) => Ok((label, system)),
        Err(error) => Err(format!("system {label}: {error}")),
    });
    let systems: IndexMap<String, reach_systems::Resolved> = resolved.collect::<Result<_, _>>()?;
    for (at, (label, system)) in systems.iter().enumerate() {
        if let Some((other, _)) = systems.iter().take(at).find(|(_, other)| other.spec() == system.spec()) {
            return Err(format!("systems {other} and {label} are the same; keep one"));
        }
    }
    Ok(systems)
}
