//! Rows of results: one metric a row. Other programs rely on the names.

mod contiguity;
mod hardware;
mod os;
mod over_time;
mod tally;

pub use over_time::{MemoryRow, memory_rows};

use crate::findings::{Finding, FindingKind};
use crate::metrics::{self, Estimate, Rate};
use crate::simulation::{Outcome, Tally};
use reach_core::Asid;
use serde::{Deserialize, Serialize};

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A ratio, share or rate.
    Ratio(f64),
}

impl Value {
    /// Returns the value as a number; counts above 2^53 are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Count(n) => n as f64,
            Value::Ratio(x) => x,
        }
    }
}

/// One metric of one simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The machine, as the user named it.
    pub machine: String,
    /// The system, as the user named it.
    pub system: String,
    /// The program.
    pub program: String,
    /// [`ALL`], or the number of an address space and the name of what it executed.
    pub process: String,
    /// The metric's name.
    pub metric: String,
    /// The unit of the value.
    pub unit: &'static str,
    /// The value.
    pub value: Value,
    /// Half the width of the 95 % confidence interval of a sampled rate; `None` for counts and whole programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// The value of [`Row::process`] for all processes together.
pub const ALL: &str = "all";

/// Returns all metrics of `outcomes`, the simulations of `program` on one machine, and the findings about the program.
/// Speedups are relative to the first outcome.
pub(crate) fn rows(outcomes: &[Outcome], program: &str, findings: &[Finding]) -> Vec<Row> {
    let mut all = Vec::new();
    for outcome in outcomes {
        all.extend(of_outcome(outcome, program, findings, &outcomes[0]));
    }
    let comparison = |outcome, metric, estimate| {
        let mut rows = Rows::new(outcome, program);
        rows.estimate(metric, "ratio", estimate);
        rows.rows
    };
    if let Some((base, overhead)) = metrics::relative_overhead(outcomes) {
        all.extend(comparison(base, "relative_overhead", overhead));
    }
    for (outcome, overhead) in metrics::linear_model(outcomes) {
        all.extend(comparison(outcome, "model.overhead", overhead));
    }
    all
}

/// Returns the metrics of `outcome`: of all processes together, then of each process if there are several.
fn of_outcome(outcome: &Outcome, program: &str, findings: &[Finding], baseline: &Outcome) -> Vec<Row> {
    let mut rows = Rows::new(outcome, program);
    rows.findings(findings);
    rows.tally(&outcome.total);
    rows.operating_system(&outcome.os, &outcome.sizes);
    if let Some(host) = &outcome.host {
        rows.host(host, &outcome.sizes);
        rows.host_by_guest(&outcome.host_by_guest, &outcome.sizes);
        rows.alignment(&outcome.aligned_superpages.unwrap_or_default());
    }
    rows.stops(&outcome.stops);
    rows.caches();
    rows.ratio("contiguity", "share", outcome.contiguity);
    rows.range_tlbs();
    rows.curve();
    rows.census();
    rows.cores();
    rows.code();
    rows.estimate("speedup", "ratio", metrics::speedup(outcome, baseline));
    if outcome.processes.len() > 1 {
        for (asid, tally) in &outcome.processes {
            (rows.process, rows.asid) = (process_name(outcome, *asid), Some(*asid));
            rows.tally(tally);
            if let Some(counters) = outcome.os_processes.get(asid) {
                rows.operating_system(counters, &outcome.sizes);
            }
        }
    }
    rows.rows
}

fn process_name(outcome: &Outcome, asid: Asid) -> String {
    match outcome.names.get(&asid) {
        Some(name) => format!("{} {name}", asid.0),
        None => asid.0.to_string(),
    }
}

/// The rows of one simulation, while they are collected.
struct Rows<'a> {
    outcome: &'a Outcome,
    program: &'a str,
    process: String,
    /// The process whose rows are being added; `None` for all together.
    asid: Option<Asid>,
    rows: Vec<Row>,
}

impl<'a> Rows<'a> {
    /// Starts with no rows, at those of all processes together.
    fn new(outcome: &'a Outcome, program: &'a str) -> Rows<'a> {
        Rows { outcome, program, process: ALL.into(), asid: None, rows: Vec::new() }
    }

    fn push(&mut self, metric: &str, unit: &'static str, value: Value, error: Option<f64>) {
        debug_assert_eq!(
            metrics::definition(metric).map(|definition| definition.unit),
            Some(unit),
            "{metric}: the row and its definition in metrics/definitions have different units, or there is no definition"
        );
        self.rows.push(Row {
            machine: self.outcome.machine.clone(),
            system: self.outcome.system.clone(),
            program: self.program.into(),
            process: self.process.clone(),
            metric: metric.into(),
            unit,
            value,
            error,
        });
    }

    /// Adds a row for each kind of finding about the program and about this simulation.
    fn findings(&mut self, of_program: &[Finding]) {
        for kind in FindingKind::ALL {
            let found = of_program.iter().chain(&self.outcome.findings).filter(|finding| finding.kind == kind).count();
            if found > 0 {
                self.count(&format!("finding.{}", kind.name()), "count", found as u64);
            }
        }
    }

    fn count(&mut self, metric: &str, unit: &'static str, value: u64) {
        self.push(metric, unit, Value::Count(value), None);
    }

    fn ratio(&mut self, metric: &str, unit: &'static str, value: f64) {
        self.push(metric, unit, Value::Ratio(value), None);
    }

    fn estimate(&mut self, metric: &str, unit: &'static str, Estimate { value, error }: Estimate) {
        self.push(metric, unit, Value::Ratio(value), error);
    }

    /// Adds a sum of counts of `tally`.
    fn sum(&mut self, tally: &Tally, sum: &metrics::Sum) {
        self.count(sum.name, sum.unit, (sum.of)(tally));
    }

    /// Adds a rate of `tally`, which is the one that rows are being added for, with its error.
    fn rate(&mut self, tally: &Tally, rate: &Rate) {
        let error = match self.asid {
            None => self.outcome.error(&rate.of),
            Some(process) => self.outcome.process_error(process, &rate.of),
        };
        self.estimate(rate.name, rate.unit, Estimate { value: rate.value(tally), error });
    }
}
