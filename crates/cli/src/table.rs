//! Prints the table of `reach compare`, and the lines that `reach run` shares with it.

use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::{tabulate, units};
use reach_lab::{Finding, LEAST, Outcome, Report, Tally, Value, metrics};

/// Greatest width of the names of machines and systems, in characters.
const NAME: usize = 20;

/// Returns the whole output: the program, a table for each machine, the legend, and the time it took.
pub fn comparison(finished: &Finished) -> String {
    let report = &finished.report;
    let mut out = heading(report);
    out += &program_findings(report);
    for outcomes in report.machines() {
        out.push('\n');
        out += &block(outcomes);
        out += &footnotes(outcomes);
        if let Some((overhead, error)) = overhead(report, &outcomes[0].machine) {
            out += &format!("relative overhead of base pages: {}\n", units::percent_within(overhead, error));
        }
    }
    out.push('\n');
    out += "WCPI: page-walk cycles per instruction; speedup: relative to the first system\n";
    out += &sampled(report);
    if finished.timing == Timing::Counts {
        out += "walk cycles are estimated: a fixed cost for each page-table entry read\n";
    }
    out + &closing(finished)
}

/// Returns two lines: the program's name, and its size.
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

/// Returns a paragraph for each finding; empty if there is none.
pub fn findings(report: &Report) -> String {
    program_findings(report) + &footnotes(&report.outcomes)
}

/// Returns a paragraph for each finding about the program.
fn program_findings(report: &Report) -> String {
    report.findings.iter().map(|finding| tabulate::paragraph("", &finding.text)).collect()
}

/// Returns the marks of the findings about the simulation of `system`: each refers to a footnote.
fn marks(outcomes: &[Outcome], system: &Outcome) -> String {
    let marks = numbered(outcomes).filter(|(_, outcome, _)| std::ptr::eq(*outcome, system));
    marks.map(|(number, ..)| format!(" [{number}]")).collect()
}

/// Returns a paragraph for each finding about a simulation of `outcomes`, with its mark.
fn footnotes(outcomes: &[Outcome]) -> String {
    let note =
        |(number, _, finding): (usize, &Outcome, &Finding)| tabulate::paragraph(&format!("[{number}] "), &finding.text);
    numbered(outcomes).map(note).collect()
}

/// Numbers the findings about the simulations of one machine.
fn numbered(outcomes: &[Outcome]) -> impl Iterator<Item = (usize, &Outcome, &Finding)> {
    let all = outcomes.iter().flat_map(|outcome| outcome.findings.iter().map(move |finding| (outcome, finding)));
    all.enumerate().map(|(at, (outcome, finding))| (at + 1, outcome, finding))
}

/// Returns the table of one machine: a line for each system.
fn block(outcomes: &[Outcome]) -> String {
    let machine = outcomes[0].machine.as_str();
    // A long name, as of a machine with changed values, gets a line of its own.
    let (line_above, corner) =
        if machine.len() > NAME { (format!("{machine}\n"), "") } else { (String::new(), machine) };
    let lines = outcomes.iter().map(|outcome| line(outcome, outcomes));
    let header = [
        corner,
        "L2 TLB misses\nper 1000 instr",
        "WCPI",
        "translation\n% of cycles",
        "speedup",
        "page\nfaults",
        "peak\nmemory",
    ];
    if outcomes[0].sample.is_none() {
        let [name, misses, wcpi, translation, speedup, faults, memory] = header;
        let lines = lines.map(|[name, misses, wcpi, translation, speedup, faults, memory]| {
            [name, misses, wcpi, translation, faults, memory, speedup]
        });
        return line_above + &tabulate::numbers([name, misses, wcpi, translation, faults, memory, speedup], lines);
    }
    // Error bars need the room of the last two columns, which are of the whole program and not sampled.
    let [name, misses, wcpi, translation, speedup, ..] = header;
    let lines = lines.map(|[name, misses, wcpi, translation, speedup, ..]| [name, misses, wcpi, translation, speedup]);
    line_above + &tabulate::numbers([name, misses, wcpi, translation, speedup], lines)
}

fn line(outcome: &Outcome, outcomes: &[Outcome]) -> [String; 7] {
    let first = &outcomes[0];
    let Tally { counts, hardware, .. } = &outcome.total;
    let instructions = counts.instructions.max(1) as f64;
    let walks = outcome.error(&|t| (t.hardware.walks(), t.counts.instructions));
    let wcpi = outcome.error(&metrics::WCPI.of);
    let speedup = cycles(first) as f64 / cycles(outcome).max(1) as f64;
    let within = outcome.speedup_error(first).filter(|_| !std::ptr::eq(outcome, first));
    [
        broken(&outcome.system) + &marks(outcomes, outcome),
        units::decimal_within(1000.0 * hardware.walks() as f64 / instructions, walks.map(|error| 1000.0 * error), 2),
        units::decimal_within(hardware.walk_cycles as f64 / instructions, wcpi, 3),
        units::percent_within(translation(&outcome.total), outcome.error(&|t| (t.translation(), t.cycles()))),
        units::decimal_within(speedup, within, 2),
        units::grouped(outcome.os.page_faults),
        units::memory(outcome.os.resident_bytes.peak),
    ]
}

/// Breaks a long system specification into lines, one for each option.
fn broken(system: &str) -> String {
    if system.len() <= NAME { system.to_owned() } else { system.replacen(':', ":\n  ", 1).replace(',', ",\n  ") }
}

fn cycles(outcome: &Outcome) -> u64 {
    outcome.total.ledger.total().0
}

/// Returns the share of cycles spent on address translation.
pub fn translation(tally: &Tally) -> f64 {
    tally.translation() as f64 / tally.cycles().max(1) as f64
}

/// Returns lines on the sample and its error bars; empty if the program was not sampled.
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
            "no error bars: {}, expected at least {LEAST}; sample with a smaller every=\n",
            units::plural(n as u64, "interval", "intervals")
        ),
        _ => "±: half-width of the 95 % confidence interval of the whole program's rate\n".into(),
    };
    counted + &bars
}

/// Returns the relative overhead of base pages on `machine` (Lindsay and Bhattacharjee 2024) with its error. `None` if
/// the compared systems do not define it.
fn overhead(report: &Report, machine: &str) -> Option<(f64, Option<f64>)> {
    let rows = report.rows();
    let row = rows.iter().find(|row| row.machine == machine && row.metric == "relative_overhead")?;
    Some((Value::as_f64(row.value), row.error))
}

/// Returns a line on the time it took.
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
