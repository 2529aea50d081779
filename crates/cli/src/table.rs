//! Prints the table of `reach compare`, and the lines that `reach run` shares with it.

use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::{tabulate, units};
use reach_lab::{Finding, LEAST, Occupancy, Outcome, Report, Tally, Value, metrics};
use reach_systems::Role;
use std::time::Duration;

/// Greatest width of the names of machines and systems, in characters.
const NAME: usize = 20;

/// Returns the whole output: the program, a table for each machine, the legend, and the time it took.
pub fn comparison(finished: &Finished) -> String {
    let report = &finished.report;
    let mut out = heading(report);
    out += &program_findings(report);
    for outcomes in report.machines() {
        out.push('\n');
        out += &block(outcomes, finished.timing);
        out += &footnotes(outcomes);
        out += &overhead(finished, &outcomes[0].machine).map(|text| tabulate::paragraph("", &text)).unwrap_or_default();
    }
    out.push('\n');
    if finished.timing != Timing::Counts {
        out += &tabulate::paragraph("", "WCPI: walk cycles per instruction, of all page walks (reach explain wcpi)");
    }
    out + &legend(finished)
}

/// Returns what speedups are relative to, lines on the sample and the timing, and the time it took.
pub fn legend(finished: &Finished) -> String {
    let remarks: String = remarks(finished).iter().map(|(mark, text)| tabulate::paragraph(mark, text)).collect();
    remarks + &sampled(&finished.report) + &closing(finished)
}

/// Returns remarks on speedups and the timing: marks and sentences.
pub fn remarks(finished: &Finished) -> Vec<(String, String)> {
    let report = &finished.report;
    if finished.timing == Timing::Counts {
        let counts = "counts only: caches, cycles and speedups need --timing ooo, the default";
        return vec![(String::new(), counts.into())];
    }
    let mut remarks = vec![(String::new(), format!("speedup: relative to {}", report.outcomes[0].system))];
    if finished.timing == Timing::InOrder {
        let meaning =
            "inorder: every miss costs all of its latency, as on no fast processor; --timing ooo overlaps them";
        remarks.push((String::new(), meaning.into()));
    }
    let bound = report.outcomes.iter().find(|outcome| outcome.role == Role::Bound);
    if let Some(bound) = bound {
        let meaning = "the bound for translation alone; a system with fewer page faults can be faster";
        remarks.push((format!("{}: ", bound.system), meaning.into()));
    }
    remarks
}

/// Returns two lines: the program's name, and its size.
pub fn heading(report: &Report) -> String {
    tabulate::clipped(&report.program) + "\n" + &tabulate::line_of(&size(report))
}

/// Returns the size of the program.
pub fn size(report: &Report) -> [String; 4] {
    let first = &report.outcomes[0];
    let counts = &first.total.counts;
    [
        format!("{} instructions", units::short(counts.instructions as f64)),
        format!("{} data references", units::short((counts.loads + counts.stores) as f64)),
        format!("{} resident", units::memory(first.os.resident_bytes.peak)),
        units::plural(first.processes.len() as u64, "process", "processes"),
    ]
}

/// Returns a paragraph for each finding; empty if there is none.
pub fn findings(report: &Report) -> String {
    program_findings(report) + &footnotes(&report.outcomes)
}

/// Returns a paragraph for each finding about the program.
pub fn program_findings(report: &Report) -> String {
    report.findings.iter().map(|finding| tabulate::paragraph("", &finding.text)).collect()
}

/// Returns the marks of the findings about the simulation of `system`: each refers to a footnote.
fn marks(outcomes: &[Outcome], system: &Outcome) -> String {
    let marks = numbered(outcomes).filter(|(_, outcome, _)| std::ptr::eq(*outcome, system));
    marks.map(|(number, ..)| format!(" [{number}]")).collect()
}

/// Returns a paragraph for each finding about a simulation of `outcomes`, with its mark.
pub fn footnotes(outcomes: &[Outcome]) -> String {
    notes(outcomes).map(|(mark, text)| tabulate::paragraph(&mark, text)).collect()
}

/// Returns the findings about the simulations of `outcomes`, each with its mark.
pub fn notes(outcomes: &[Outcome]) -> impl Iterator<Item = (String, &str)> {
    numbered(outcomes).map(|(number, _, finding)| (format!("[{number}] "), finding.text.as_str()))
}

/// Numbers the findings about the simulations of one machine.
fn numbered(outcomes: &[Outcome]) -> impl Iterator<Item = (usize, &Outcome, &Finding)> {
    let all = outcomes.iter().flat_map(|outcome| outcome.findings.iter().map(move |finding| (outcome, finding)));
    all.enumerate().map(|(at, (outcome, finding))| (at + 1, outcome, finding))
}

/// A column: its header, and the cell of a simulation beside the first of its machine.
type Column = (&'static str, fn(&Outcome, &Outcome) -> String);

const MISSES: Column = ("L2 TLB misses\nper 1000 instr", |outcome, _| {
    thousandths(outcome, |t| t.hardware.walks() + t.hardware.assist_hits)
});
const FAULTS: Column = ("page\nfaults", |outcome, _| units::grouped(outcome.os.page_faults));
const MEMORY: Column = ("peak\nmemory", |outcome, _| units::memory(outcome.os.resident_bytes.peak));

const TIMED: [Column; 6] =
    [MISSES, ("WCPI", wcpi), ("translation\n% of cycles", share), FAULTS, MEMORY, ("speedup", speedup)];
const COUNTED: [Column; 5] = [
    ("L1 DTLB misses\nper 1000 instr", |outcome, _| thousandths(outcome, |t| t.hardware.l1d_tlb_misses)),
    MISSES,
    ("entries read\nper 1000 instr", |outcome, _| thousandths(outcome, |t| t.hardware.walk_accesses)),
    FAULTS,
    MEMORY,
];

fn columns(timing: Timing) -> &'static [Column] {
    if timing == Timing::Counts { &COUNTED } else { &TIMED }
}

/// Returns the cells of one machine's table, without regard to its width: its header, and a line for each system.
pub fn all_cells(outcomes: &[Outcome], timing: Timing) -> (Vec<String>, Vec<Vec<String>>) {
    cells(outcomes, "system", columns(timing))
}

/// Returns the header, under `corner`, and the lines of a table with these columns.
fn cells(outcomes: &[Outcome], corner: &str, columns: &[Column]) -> (Vec<String>, Vec<Vec<String>>) {
    let header = std::iter::once(corner.to_owned()).chain(columns.iter().map(|(title, _)| (*title).to_owned()));
    let line = |outcome: &Outcome| {
        let cells = columns.iter().map(|(_, cell)| cell(outcome, &outcomes[0]));
        std::iter::once(name(outcome, outcomes)).chain(cells).collect()
    };
    (header.collect(), outcomes.iter().map(line).collect())
}

/// Returns the table of one machine: a line for each system.
fn block(outcomes: &[Outcome], timing: Timing) -> String {
    let columns = columns(timing);
    // A narrow table does without what the operating system counts.
    let fewer: Vec<Column> =
        columns.iter().copied().filter(|(title, _)| ![FAULTS.0, MEMORY.0].contains(title)).collect();
    let machine = outcomes[0].machine.as_str();
    // A long name, as of a machine with changed values, gets a line of its own.
    let (line_above, corner) =
        if machine.len() > NAME { (tabulate::paragraph("", machine), "") } else { (String::new(), machine) };
    let table = |columns| cells(outcomes, corner, columns);
    let ((header, lines), (some, few)) = (table(columns), table(&fewer));
    if tabulate::numbers_fit(&header, &lines) || !tabulate::numbers_fit(&some, &few) {
        return line_above + &tabulate::list_of_numbers(header, lines);
    }
    let remark = tabulate::paragraph("", "page faults and peak memory need a wider terminal (or COLUMNS)");
    line_above + &tabulate::list_of_numbers(some, few) + &remark
}

/// Formats a count for each thousand instructions.
fn thousandths(outcome: &Outcome, of: fn(&Tally) -> u64) -> String {
    let instructions = outcome.total.counts.instructions.max(1) as f64;
    let error = outcome.error(&|t| (of(t), t.counts.instructions)).map(|error| 1000.0 * error);
    units::decimal_within(1000.0 * of(&outcome.total) as f64 / instructions, error, 2)
}

fn wcpi(outcome: &Outcome, _: &Outcome) -> String {
    let metrics::Estimate { value, error } = outcome.rate(&metrics::WCPI);
    units::decimal_within(value, error, 3)
}

fn share(outcome: &Outcome, _: &Outcome) -> String {
    units::percent_within(translation(&outcome.total), outcome.error(&|t| (t.translation(), t.cycles())))
}

/// Formats the speedup over `first`, with as many digits as are known.
fn speedup(outcome: &Outcome, first: &Outcome) -> String {
    let speedup = cycles(first) as f64 / cycles(outcome).max(1) as f64;
    match outcome.speedup_error(first).filter(|_| !std::ptr::eq(outcome, first)) {
        Some(error) => units::decimal_within(speedup, Some(error), if error < 0.01 { 3 } else { 2 }),
        None => units::decimal(speedup, 2),
    }
}

/// Returns the name of a system in tables, with the marks of its findings.
pub fn name(outcome: &Outcome, outcomes: &[Outcome]) -> String {
    broken(&outcome.system) + &marks(outcomes, outcome)
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
    sample(report).iter().map(|line| tabulate::paragraph("", line)).collect()
}

/// Returns sentences on the sample and its error bars; none if the program was not sampled.
pub fn sample(report: &Report) -> Vec<String> {
    let Some(sample) = report.outcomes.first().and_then(|outcome| outcome.sample.as_ref()) else {
        return Vec::new();
    };
    let intervals = sample.intervals.len();
    let counted = format!(
        "sampled: {} with {} of {} references",
        units::plural(intervals as u64, "interval", "intervals"),
        units::short(sample.measured() as f64),
        units::short(sample.program() as f64)
    );
    // Where there are no error bars, a finding says why.
    let bars = sample.cold.is_none() && intervals >= LEAST;
    let meaning = || "±: half-width of the 95 % confidence interval of the whole program's rate".to_owned();
    [counted].into_iter().chain(bars.then(meaning)).collect()
}

/// Returns a sentence with the relative overhead of base pages on `machine` (Lindsay and Bhattacharjee 2024). `None` if the
/// compared systems do not define it.
pub fn overhead(finished: &Finished, machine: &str) -> Option<String> {
    let rows = finished.rows();
    let row = rows.iter().find(|row| row.machine == machine && row.metric == "relative_overhead")?;
    let overhead = units::percent_within(Value::as_f64(row.value), row.error);
    Some(format!("relative overhead of base pages: {overhead}"))
}

/// Returns a line on the time it took.
pub fn closing(finished: &Finished) -> String {
    let report = &finished.report;
    let (verb, spent) = if finished.live { ("captured", report.elapsed) } else { ("read", report.occupancy.reading) };
    let simulations = report.outcomes.len().max(1) as u32;
    let each = report.occupancy.simulating / simulations;
    let line = format!(
        "{verb} in {}; {}, {} and {} references/s{}",
        units::time(spent),
        units::plural(simulations.into(), "simulation", "simulations"),
        units::time(each),
        units::short(report.counts.references() as f64 / each.as_secs_f64().max(1e-9)),
        if simulations > 1 { " each" } else { "" },
    );
    tabulate::paragraph("", &line)
}

/// Returns a sentence on where the time went: who waited for whom.
pub fn occupancy(report: &Report) -> String {
    let Occupancy { waiting_for_program, reading, preparing, waiting_for_simulations, simulating, threads } =
        report.occupancy;
    let share = |time: Duration, of: f64| format!("{:.0} %", 100.0 * time.as_secs_f64() / of.max(1e-9));
    let elapsed = report.elapsed.as_secs_f64();
    let parts = [
        ("waiting for the program", waiting_for_program),
        ("reading it", reading),
        ("preparing", preparing),
        ("waiting for simulations", waiting_for_simulations),
    ];
    let parts = parts.map(|(what, time)| format!("{what} {}", share(time, elapsed))).join(", ");
    format!(
        "time: {}, of which {parts}; simulating {} on {}, {} of their time",
        units::time(report.elapsed),
        units::time(simulating),
        units::plural(threads as u64, "thread", "threads"),
        share(simulating, elapsed * threads as f64)
    )
}
