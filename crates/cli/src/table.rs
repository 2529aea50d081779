//! The table of `reach compare`.

use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::{tabulate, units};
use reach_lab::{LEAST, Outcome, Report, Tally, Value};

/// The room for names beside the numbers.
const NAME: usize = 20;

/// What was compared, a table for each machine, and how long it took.
pub fn comparison(finished: &Finished) -> String {
    let report = &finished.report;
    let mut out = heading(report);
    for outcomes in report.machines() {
        out.push('\n');
        out += &block(outcomes);
        if let Some((overhead, error)) = overhead(report, &outcomes[0].machine) {
            out += &format!("relative overhead of base pages: {}\n", units::percent_within(overhead, error));
        }
    }
    out.push('\n');
    out += &sampled(report);
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
    format!("{}\n{}\n", tabulate::clipped(&report.program), facts.join("  "))
}

/// One machine: a line for each system.
fn block(outcomes: &[Outcome]) -> String {
    let machine = outcomes[0].machine.as_str();
    // A machine with many differences gets a line of its own.
    let (line_above, corner) =
        if machine.len() > NAME { (format!("{machine}\n"), "") } else { (String::new(), machine) };
    let lines = outcomes.iter().map(|outcome| line(outcome, &outcomes[0]));
    let header =
        [corner, "L2 TLB misses\nper 1000 instr", "WCPI", "translation\n% of cycles", "speedup", "faults", "memory"];
    if outcomes[0].sample.is_none() {
        let [name, misses, wcpi, translation, speedup, faults, memory] = header;
        let lines = lines.map(|[name, misses, wcpi, translation, speedup, faults, memory]| {
            [name, misses, wcpi, translation, faults, memory, speedup]
        });
        return line_above + &tabulate::numbers([name, misses, wcpi, translation, faults, memory, speedup], lines);
    }
    // Errors take the room of what is of the whole program.
    let [name, misses, wcpi, translation, speedup, ..] = header;
    let lines = lines.map(|[name, misses, wcpi, translation, speedup, ..]| [name, misses, wcpi, translation, speedup]);
    line_above + &tabulate::numbers([name, misses, wcpi, translation, speedup], lines)
}

fn line(outcome: &Outcome, first: &Outcome) -> [String; 7] {
    let Tally { counts, hardware, .. } = &outcome.total;
    let instructions = counts.instructions.max(1) as f64;
    let walks = outcome.error(&|t| (t.hardware.walks(), t.counts.instructions));
    let wcpi = outcome.error(&|t| (t.hardware.walk_cycles, t.counts.instructions));
    let speedup = cycles(first) as f64 / cycles(outcome).max(1) as f64;
    let within = outcome.speedup_error(first).filter(|_| !std::ptr::eq(outcome, first));
    [
        broken(&outcome.system),
        units::decimal_within(1000.0 * hardware.walks() as f64 / instructions, walks.map(|error| 1000.0 * error), 2),
        units::decimal_within(hardware.walk_cycles as f64 / instructions, wcpi, 3),
        units::percent_within(translation(&outcome.total), outcome.error(&|t| (t.translation(), t.cycles()))),
        units::decimal_within(speedup, within, 2),
        units::grouped(outcome.os.page_faults),
        units::memory(outcome.os.resident_bytes.peak),
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
    tally.translation() as f64 / tally.cycles().max(1) as f64
}

/// What was sampled, where anything was, and whether it suffices for error bars.
pub fn sampled(report: &Report) -> String {
    let Some(sample) = report.outcomes.first().and_then(|outcome| outcome.sample.as_ref()) else {
        return String::new();
    };
    let intervals = sample.intervals.len();
    let counted = format!(
        "sampled: {} with {} of {} references\n",
        units::plural(intervals as u64, "interval", "intervals"),
        units::short(sample.measured() as f64),
        units::short(sample.program() as f64)
    );
    let bars = match intervals {
        n if n < LEAST => format!(
            "no error bars: {} too few, {LEAST} are the least; take a smaller every=\n",
            units::plural(n as u64, "interval is", "intervals are")
        ),
        _ => "±: the whole program's rate lies within with 95 % confidence\n".into(),
    };
    counted + &bars
}

/// Lindsay's relative overhead on `machine`, where it was to be had.
fn overhead(report: &Report, machine: &str) -> Option<(f64, Option<f64>)> {
    let rows = report.rows();
    let row = rows.iter().find(|row| row.machine == machine && row.metric == "relative_overhead")?;
    Some((Value::as_f64(row.value), row.error))
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
