//! The table of `reach compare`.

use crate::args::Timing;
use crate::experiment::Finished;
use crate::{text, units};
use reach_core::Label;
use reach_lab::{Outcome, Report, Tally, Value};

/// The room for names beside the numbers.
const NAME: usize = 20;

/// Labels of cycles that are address translation.
const TRANSLATION: [Label; 6] =
    [Label::L2TlbHit, Label::Walk, Label::Handler, Label::ItlbStall, Label::ItlbWalk, Label::ItlbL2TlbHit];

/// What was compared, a table for each machine, and how long it took.
pub fn comparison(finished: &Finished) -> String {
    let report = &finished.report;
    let mut out = heading(report);
    for outcomes in report.machines() {
        out.push('\n');
        out += &block(outcomes);
        if let Some(overhead) = overhead(report, &outcomes[0].machine) {
            out += &format!("relative overhead of base pages: {}\n", units::percent(overhead));
        }
    }
    out.push('\n');
    if finished.timing == Timing::Counts {
        out += "walk cycles are estimated, at a fixed cost for each page-table entry read\n";
    }
    out + &closing(finished)
}

/// What the program is and did.
pub fn heading(report: &Report) -> String {
    let first = &report.outcomes[0];
    let counts = &first.total.counts;
    let facts = [
        format!("{} instructions", units::short(counts.instructions as f64)),
        format!("{} data references", units::short((counts.loads + counts.stores) as f64)),
        format!("{} resident", units::memory(first.os.resident_bytes.peak)),
        units::plural(first.processes.len() as u64, "process", "processes"),
    ];
    format!("{}\n{}\n", text::clipped(&report.program), facts.join("  "))
}

/// One machine: a line for each system.
fn block(outcomes: &[Outcome]) -> String {
    let machine = outcomes[0].machine.as_str();
    // A machine with many differences gets a line of its own.
    let (line_above, corner) =
        if machine.len() > NAME { (format!("{machine}\n"), "") } else { (String::new(), machine) };
    let header =
        [corner, "L2 TLB misses\nper 1000 instr", "WCPI", "translation\n% of cycles", "faults", "memory", "speedup"];
    line_above + &text::numbers(header, outcomes.iter().map(|outcome| line(outcome, &outcomes[0])))
}

fn line(outcome: &Outcome, first: &Outcome) -> [String; 7] {
    let Tally { counts, hardware, .. } = &outcome.total;
    let instructions = counts.instructions.max(1) as f64;
    [
        broken(&outcome.system),
        units::decimal(1000.0 * hardware.walks() as f64 / instructions, 2),
        units::decimal(hardware.walk_cycles as f64 / instructions, 3),
        units::percent(translation(&outcome.total)),
        units::grouped(outcome.os.page_faults),
        units::memory(outcome.os.resident_bytes.peak),
        format!("{:.2}", cycles(first) as f64 / cycles(outcome).max(1) as f64),
    ]
}

/// A long system, over several lines: an option on each.
fn broken(system: &str) -> String {
    if system.len() <= NAME { system.to_owned() } else { system.replacen(':', ":\n  ", 1).replace(',', ",\n  ") }
}

fn cycles(outcome: &Outcome) -> u64 {
    outcome.total.ledger.total().0
}

/// The share of cycles that address translation took.
pub fn translation(tally: &Tally) -> f64 {
    let cycles: u64 = TRANSLATION.iter().map(|&label| tally.ledger.of(label).0).sum();
    cycles as f64 / tally.ledger.total().0.max(1) as f64
}

/// Lindsay's relative overhead on `machine`, where it was to be had.
fn overhead(report: &Report, machine: &str) -> Option<f64> {
    let rows = report.rows();
    let row = rows.iter().find(|row| row.machine == machine && row.metric == "relative_overhead")?;
    Some(Value::as_f64(row.value))
}

/// How long it took.
pub fn closing(finished: &Finished) -> String {
    let report = &finished.report;
    let (verb, spent) = if finished.live { ("captured", report.elapsed) } else { ("read", report.reading) };
    let simulations = report.outcomes.len().max(1) as u32;
    let each = report.simulating / simulations;
    format!(
        "{verb} in {}; {}, {} and {} references/s{}\n",
        units::time(spent),
        units::plural(simulations.into(), "simulation", "simulations"),
        units::time(each),
        units::short(report.counts.references() as f64 / each.as_secs_f64().max(1e-9)),
        if simulations > 1 { " each" } else { "" },
    )
}
