//! What `paper` and `validate` share: running experiments, and formatting verdicts on their numbers.

use crate::failure::{Failure, remark};
use crate::output::{Output, refuse_same};
use crate::progress::Progress;
use crate::tabulate;
use crate::units;
use reach_lab::paper::{Comparison, Paper, PaperExperiment, PaperOutcome, Verdict};
use reach_page::Table;
use reach_trace::Interruption;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs the experiments `chosen`, in passes, and names each pass on standard error, and why an experiment gave no results. After
/// an interruption, returns the outcomes of those that have finished.
pub fn outcomes<'a>(
    paper: &Paper,
    chosen: &[&'a PaperExperiment],
    threads: usize,
    quiet: bool,
    interruption: &mut Interruption,
) -> Vec<(&'a PaperExperiment, PaperOutcome)> {
    let mut outcomes = Vec::new();
    for pass in paper.passes(chosen) {
        let names: Vec<&str> = pass.iter().map(|experiment| experiment.name.as_str()).collect();
        let number = outcomes.len() + pass.len();
        remark(quiet, format!("experiment {number} of {}: {}", chosen.len(), names.join(" and ")));
        let mut progress = Progress::new(false, quiet);
        let done = paper.run(&pass, threads, |status| {
            progress.show(status.references, status.progress);
            interruption.came().is_none()
        });
        progress.end();
        if interruption.came().is_some() {
            break;
        }
        for (experiment, outcome) in pass.iter().zip(&done) {
            // Faults of the program are said at the end.
            if let Some(why) = outcome.failure().filter(|_| outcome.faults.is_empty()) {
                remark(quiet, format!("experiment {} gave no results: {why}", experiment.name));
            }
        }
        outcomes.extend(pass.into_iter().zip(done));
    }
    outcomes
}

/// Returns whether no experiment of `outcomes` gave results.
pub fn all_failed(outcomes: &[(&PaperExperiment, PaperOutcome)]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|(_, outcome)| outcome.failure().is_some())
}

/// Returns why programs of `outcomes` were not read whole, or failed, each reason once.
pub fn faults<'a>(outcomes: &'a [(&PaperExperiment, PaperOutcome)]) -> Vec<&'a String> {
    let faults = outcomes.iter().flat_map(|(_, outcome)| &outcome.faults);
    let mut faults: Vec<_> = faults.map(|fault| &fault.text).collect();
    faults.dedup();
    faults
}

/// Refuses options on files that contradict each other.
pub fn check_files(output: &Option<PathBuf>, html: &Option<PathBuf>, force: bool) -> Result<(), Failure> {
    if force && output.is_none() && html.is_none() {
        return Err(Failure::Usage("--force replaces a file: give --output or --html too".into()));
    }
    refuse_same(&[("--output", output), ("--html", html)])
}

/// Opens the file for the rows, and creates its folder, so that an unwritable place fails before the experiments run.
pub fn create(path: &Path, force: bool) -> Result<Output, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, error))?;
    }
    Output::create(path, force)
}

/// Returns the configuration of experiments as JSON: their machines, systems and programs, and every machine's values once.
pub fn configuration<'a>(experiments: impl Iterator<Item = &'a PaperExperiment> + Clone) -> String {
    let experiment = |experiment: &PaperExperiment| {
        let systems: BTreeMap<_, _> = experiment.systems.iter().map(|(label, system)| (label, system.spec())).collect();
        let program = json!({ "synthetic": experiment.programs, "scenario": experiment.scenario });
        let conditions = &experiment.conditions;
        json!({
            "name": experiment.name, "about": experiment.about, "machine": experiment.machine.name,
            "systems": systems, "programs": program, "timing": conditions.timing.name(), "memory": conditions.memory,
            "seed": conditions.seed, "limit": experiment.limit,
        })
    };
    let machines: BTreeMap<_, _> = experiments
        .clone()
        .map(|experiment| {
            let machine = &experiment.machine;
            let values: Value = serde_json::from_str(&machine.configuration).expect("a resolved configuration is JSON");
            (&machine.name, json!({ "hash": machine.hash, "configuration": values }))
        })
        .collect();
    json!({ "experiments": experiments.map(experiment).collect::<Vec<_>>(), "machines": machines }).to_string()
}

/// Formats verdicts for people: the paper's conclusions, a line for each number, the reasons of those not measurable,
/// `remarks`, and totals. The numbers that are not ours have the heading `theirs`.
pub fn table(rows: &[Comparison], theirs: &str, remarks: &str) -> String {
    let mut out = conclusions(rows);
    out += &tabulate::numbers(header(theirs), lines(rows));
    let unmeasured: Vec<_> = rows.iter().filter(|row| row.verdict == Verdict::NotMeasurable).collect();
    if !unmeasured.is_empty() {
        out += "\nnot measurable\n";
        let lines = unmeasured.iter().map(|row| (format!("  {}", row.item), row.reason.as_str()));
        for (item, reason) in lines {
            out += &tabulate::paragraph("", &item);
            out += &tabulate::paragraph("     ", reason);
        }
    }
    out += remarks;
    out + "\n" + &tabulate::paragraph("", &totals(rows))
}

/// Returns the columns of a table of verdicts.
fn header(theirs: &str) -> [&str; 6] {
    ["item", theirs, "ours", "tolerance", "no effect", "verdict"]
}

/// Returns the lines of a table of verdicts.
fn lines(rows: &[Comparison]) -> impl Iterator<Item = [String; 6]> {
    let measured = rows.iter().filter(|row| row.verdict != Verdict::NotMeasurable);
    measured.map(|row| {
        [
            row.item.clone(),
            row.published.map_or("-".into(), |published| format!("{} {}", number(published), row.unit)),
            row.ours.map_or(String::new(), number),
            row.tolerance.clone(),
            row.null.map_or("-".into(), number),
            row.verdict.name().to_owned(),
        ]
    })
}

/// Returns a table of verdicts for a page, with `caption`: conclusions, numbers, reasons of those not measurable, and totals.
pub fn page_table(caption: &str, rows: &[Comparison], theirs: &str) -> Table {
    let unmeasured = rows.iter().filter(|row| row.verdict == Verdict::NotMeasurable);
    let reasons = unmeasured.map(|row| format!("{}: {}: {}", row.verdict.name(), row.item, row.reason));
    let concluded = rows.iter().filter(|row| !row.conclusion.is_empty()).map(conclusion);
    Table {
        caption: caption.into(),
        header: header(theirs).map(str::to_owned).into(),
        rows: lines(rows).map(Vec::from).collect(),
        notes: [totals(rows)].into_iter().chain(concluded).chain(reasons).collect(),
    }
}

/// Formats the paper's conclusions, each with its number and verdict.
fn conclusions(rows: &[Comparison]) -> String {
    let line = |row: &Comparison| tabulate::paragraph("  ", &conclusion(row));
    let lines: String = rows.iter().filter(|row| !row.conclusion.is_empty()).map(line).collect();
    if lines.is_empty() { lines } else { format!("conclusions\n{lines}\n") }
}

/// Returns a conclusion with its number and verdict.
fn conclusion(row: &Comparison) -> String {
    let ours = row.ours.map_or("none".into(), |ours| format!("{} {}", number(ours), row.unit));
    let interval = row.low.zip(row.high).map(|(low, high)| format!(", {} to {}", number(low), number(high)));
    let bound = if row.tolerance.is_empty() { String::new() } else { format!(" ({})", row.tolerance) };
    let published = row.published.map_or("nothing".into(), number);
    format!(
        "{}: {}; ours {ours}{}, published {published}{bound}",
        row.verdict.name(),
        row.conclusion,
        interval.unwrap_or_default()
    )
}

fn number(x: f64) -> String {
    units::decimal(x, if x.abs() < 10.0 { 3 } else { 1 })
}

/// Formats how many numbers have each verdict.
fn totals(rows: &[Comparison]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut totals = vec![
        format!("decisive: {} met, {} missed", count(Verdict::Met), count(Verdict::Missed)),
        format!("not decisive: {}", count(Verdict::NotDecisive)),
    ];
    for verdict in [Verdict::NotJudged, Verdict::NotMeasurable] {
        totals.extend((count(verdict) > 0).then(|| format!("{}: {}", verdict.name(), count(verdict))));
    }
    totals.join("; ")
}
