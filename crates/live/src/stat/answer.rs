//! Derives walk cycles per instruction (WCPI) and its factors (Lindsay and Bhattacharjee 2024, section III.C) from counts, and
//! the outcomes of walks (their Table VI).
//!
//! `wcpi` is the cycles of all walks, as in simulations. Its factors, and the outcomes, are of loads and stores: processors
//! count no accesses of fetches.

use super::models::{Model, Role};
use super::read::{Count, EFFICIENCY_CORES};
use std::collections::BTreeMap;

/// A quotient of two counts. Kept as integers, so that the factors cancel exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Metric name, as in the results of `reach run`.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// The dividend.
    pub over: u64,
    /// The divisor.
    pub under: u64,
}

impl Factor {
    /// Returns the quotient. `None` if the divisor is 0.
    pub fn value(&self) -> Option<f64> {
        (self.under > 0).then(|| self.over as f64 / self.under as f64)
    }
}

/// One metric of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Metric name.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Value.
    pub value: f64,
}

/// Everything that follows from counts.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The processor model.
    pub model: &'static Model,
    /// Counts, and metrics derived from them.
    pub facts: Vec<Fact>,
    /// The factors of `wcpi_data`, in order: the divisor of each is the dividend of the one before. Incomplete if walk cycles
    /// were not counted.
    pub factors: Vec<Factor>,
    /// Missing metrics, each with the reason.
    pub missing: Vec<(String, String)>,
    /// Events of the model that were not counted.
    pub absent: Vec<&'static str>,
    /// Counts that nothing here uses, each with the reason.
    pub unused: Vec<(String, String)>,
    /// Least share of the time for which an event was counted, 0 to 1. Below 1, counts are scaled to the whole time.
    pub least_share: f64,
}

/// Sums the events of each role. Omits roles with an event that was not counted, and returns the names of such events.
fn sums(model: &Model, counts: &[Count]) -> (BTreeMap<Role, u64>, Vec<&'static str>) {
    let mut sums: BTreeMap<Role, Option<u64>> = BTreeMap::new();
    let mut absent = Vec::new();
    for event in model.events {
        let count = counts.iter().find(|count| count.name == event.name).and_then(|count| count.value);
        if count.is_none() {
            absent.push(event.name);
        }
        let sum = sums.entry(event.role).or_insert(Some(0));
        *sum = sum.zip(count).map(|(sum, count)| sum.saturating_add(count));
    }
    (sums.into_iter().filter_map(|(role, sum)| Some((role, sum?))).collect(), absent)
}

impl Answer {
    /// Derives the answer from `counts` of a processor of `model`.
    pub fn of(model: &'static Model, counts: &[Count]) -> Answer {
        let (sums, absent) = sums(model, counts);
        let of = |role: Role| sums.get(&role).copied();
        let mut facts = Vec::new();
        let mut fact = |name, unit, value: Option<f64>| {
            facts.extend(value.map(|value| Fact { name, unit, value }));
        };
        let count = |role| of(role).map(|count| count as f64);
        fact("instructions", "count", count(Role::Instructions));
        fact("cycles", "cycles", count(Role::Cycles));
        fact("accesses", "count", count(Role::Accesses));
        fact("l2_tlb_hits.data", "count", count(Role::SecondHits));
        let outcomes =
            Outcomes { initiated: of(Role::Initiated), completed: of(Role::Completed), retired: of(Role::Retired) };
        for (name, value) in outcomes.facts() {
            fact(name, "count", value.map(|value| value as f64));
        }
        fact("walk_accesses.data", "count", count(Role::WalkAccesses));
        let (data, fetch) = (of(Role::WalkCycles), of(Role::FetchWalkCycles));
        // Walks of all references: `reach run` counts the same under this name.
        let all = data.zip(fetch).map(|(data, fetch)| data.saturating_add(fetch));
        fact("walk_cycles", "cycles", all.map(|cycles| cycles as f64));
        fact("walk_cycles.data", "cycles", count(Role::WalkCycles));
        let share = |over: Option<u64>| {
            let cycles = of(Role::Cycles).filter(|&cycles| cycles > 0)?;
            Some(over? as f64 / cycles as f64)
        };
        fact("walk_cycles.share", "share of cycles", share(all.or(data)));
        fact("walk_cycles.host", "cycles", count(Role::HostCycles));
        fact("l2_tlb_hits.fetch", "count", count(Role::FetchSecondHits));
        fact("walks.fetch", "count", count(Role::FetchInitiated).or(count(Role::FetchCompleted)));
        let aborted = of(Role::FetchInitiated).zip(of(Role::FetchCompleted));
        fact("walks.fetch.aborted", "count", aborted.map(|(begun, ended)| begun as f64 - ended as f64));
        fact("walk_cycles.fetch", "cycles", count(Role::FetchWalkCycles));
        let stall = of(Role::FetchStall);
        fact("itlb_stall", "cycles", stall.map(|cycles| cycles as f64));
        // Zhou et al. 2023 (section 7.1) charge seven cycles for each hit in the second TLB level.
        if let (Some(all), Some(walk), Some(hits)) = (stall, of(Role::FetchWalkCycles), of(Role::FetchSecondHits)) {
            let hits = 7.0 * hits as f64;
            fact("itlb_stall.walk", "cycles", Some(walk as f64));
            fact("itlb_stall.l2_tlb_hit", "cycles", Some(hits));
            fact("itlb_stall.inclusion", "cycles", Some(all as f64 - walk as f64 - hits));
        }
        let factors = factors(&of);
        let per_instruction = |cycles: Option<u64>| {
            let (cycles, n) = cycles.zip(of(Role::Instructions)).filter(|(_, n)| *n > 0)?;
            Some(cycles as f64 / n as f64)
        };
        fact("wcpi", "cycles/instruction", per_instruction(all));
        fact("wcpi_data", "cycles/instruction", per_instruction(data));
        let mut missing: Vec<(String, String)> =
            model.missing.iter().map(|(metric, why)| (metric.to_string(), why.to_string())).collect();
        if let Some(why) = one_side(model, data, fetch) {
            missing.push(("wcpi and walk_cycles".to_owned(), why));
        }
        let least_share = counts.iter().filter(|count| count.value.is_some()).map(|count| count.share);
        let least_share = least_share.fold(1.0, f64::min);
        let unused = unused(model, counts, &absent);
        Answer { model, facts, factors, missing, absent, unused, least_share }
    }

    /// Returns the value of a fact or factor by metric name. `None` if it is missing.
    pub fn value(&self, name: &str) -> Option<f64> {
        let fact = self.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value);
        fact.or_else(|| self.factors.iter().find(|factor| factor.name == name)?.value())
    }
}

/// Returns the counts that no metric uses: events that `model` does not have, and those that mean nothing without an `absent` one.
fn unused(model: &Model, counts: &[Count], absent: &[&str]) -> Vec<(String, String)> {
    let reason = |count: &Count| {
        let Some(event) = model.events.iter().find(|event| event.name == count.name) else {
            return Some(match count.name.starts_with(EFFICIENCY_CORES) {
                true => "efficiency cores have events of another meaning".to_owned(),
                false => format!("no metric of {} uses it", model.name),
            });
        };
        let same_role = model.events.iter().filter(|other| other.role == event.role);
        let lacking: Vec<&str> = same_role.map(|other| other.name).filter(|name| absent.contains(name)).collect();
        (!lacking.is_empty()).then(|| format!("means nothing without {}", lacking.join(", ")))
    };
    let counted = counts.iter().filter(|count| count.value.is_some());
    counted.filter_map(|count| Some((count.name.clone(), reason(count)?))).collect()
}

/// Says which side is missing where walk cycles of only one side, fetches or data, were counted. `None` if both or neither were.
fn one_side(model: &Model, data: Option<u64>, fetch: Option<u64>) -> Option<String> {
    let (role, side, instead) = match (data, fetch) {
        (Some(_), None) => (Role::FetchWalkCycles, "fetches", "; wcpi_data covers loads and stores"),
        (None, Some(_)) => (Role::WalkCycles, "loads and stores", ""),
        _ => return None,
    };
    let events: Vec<&str> = model.events.iter().filter(|event| event.role == role).map(|event| event.name).collect();
    Some(match &events[..] {
        [] => format!("this processor does not count walk cycles of {side}{instead}"),
        events => format!("walk cycles of {side} were not counted ({}){instead}", events.join(", ")),
    })
}

/// Returns the factors of `wcpi_data`: accesses per instruction, misses per access, page-table reads per miss, and cycles per read. If reads
/// are not counted, the last two become cycles per miss. If started walks are not counted, completed walks count as misses.
/// Processors count no accesses of fetches, so `wcpi` has no factors here.
fn factors(of: &impl Fn(Role) -> Option<u64>) -> Vec<Factor> {
    let mut factors = Vec::new();
    let (Some(instructions), Some(accesses)) = (of(Role::Instructions), of(Role::Accesses)) else { return factors };
    let mut factor = |name, unit, over, under| factors.push(Factor { name, unit, over, under });
    factor("wcpi_data.accesses_per_instruction", "ratio", accesses, instructions);
    let Some(misses) = of(Role::Initiated).or(of(Role::Completed)) else { return factors };
    factor("wcpi_data.misses_per_access", "ratio", misses, accesses);
    match (of(Role::WalkAccesses), of(Role::WalkCycles)) {
        (Some(reads), cycles) => {
            factor("wcpi_data.walk_accesses_per_miss", "ratio", reads, misses);
            if let Some(cycles) = cycles {
                factor("wcpi_data.cycles_per_walk_access", "cycles", cycles, reads);
            }
        }
        (None, Some(cycles)) => factor("wcpi_data.cycles_per_miss", "cycles", cycles, misses),
        (None, None) => {}
    }
    factors
}

/// Numbers of walks by outcome. `None` if not counted.
struct Outcomes {
    initiated: Option<u64>,
    completed: Option<u64>,
    retired: Option<u64>,
}

impl Outcomes {
    /// Derives the metrics of Table VI. Differences of counts may be negative.
    fn facts(&self) -> [(&'static str, Option<i128>); 5] {
        let wide = |count: Option<u64>| count.map(i128::from);
        let (initiated, completed, retired) = (wide(self.initiated), wide(self.completed), wide(self.retired));
        [
            ("walks.initiated", initiated),
            ("walks.completed", completed),
            ("walks.retired", retired),
            ("walks.aborted", initiated.zip(completed).map(|(begun, ended)| begun - ended)),
            ("walks.wrong_path", completed.zip(retired).map(|(ended, retired)| ended - retired)),
        ]
    }
}
