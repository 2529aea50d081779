//! What `paper` and `validate` share: running experiments, and formatting verdicts on their numbers.

use crate::failure::{Failure, remark};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::tabulate;
use crate::units;
use reach_lab::paper::{Comparison, Paper, PaperExperiment, PaperOutcome, Verdict};
use reach_trace::Interruption;
use std::path::Path;

/// Runs the experiments `chosen`, in passes, and names each pass on standard error. After an interruption, returns the
/// outcomes of those that have finished.
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
        outcomes.extend(pass.into_iter().zip(done));
    }
    outcomes
}

/// Returns why programs of `outcomes` were not read whole, or failed, each reason once.
pub fn faults<'a>(outcomes: &'a [(&PaperExperiment, PaperOutcome)]) -> Vec<&'a String> {
    let faults = outcomes.iter().flat_map(|(_, outcome)| &outcome.faults);
    let mut faults: Vec<_> = faults.map(|fault| &fault.text).collect();
    faults.dedup();
    faults
}

/// Opens the file for the rows, and creates its folder, so that an unwritable place fails before the experiments run.
pub fn create(path: &Path, force: bool) -> Result<Output, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, error))?;
    }
    Output::create(path, force)
}

/// Formats rows as JSON lines.
pub fn jsonl<T: serde::Serialize>(rows: &[T]) -> String {
    rows.iter().map(|row| output::json(row) + "\n").collect()
}

/// Formats verdicts for people: a line for each number, the reasons of those not measurable, `remarks`, and totals. The
/// numbers that are not ours have the heading `theirs`.
pub fn table(rows: &[Comparison], theirs: &str, remarks: &str) -> String {
    let number = |x: f64| units::decimal(x, if x.abs() < 10.0 { 3 } else { 1 });
    let measured = rows.iter().filter(|row| row.verdict != Verdict::NotMeasurable);
    let lines = measured.map(|row| {
        [
            row.item.clone(),
            format!("{} {}", number(row.published), row.unit),
            row.ours.map_or(String::new(), number),
            row.tolerance.clone(),
            row.verdict.name().to_owned(),
        ]
    });
    let mut out = tabulate::numbers(["item", theirs, "ours", "tolerance", "verdict"], lines);
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
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let of = |verdict: Verdict| format!("{} {}", count(verdict), verdict.name());
    let mut totals = vec![of(Verdict::Met), of(Verdict::Missed)];
    totals.extend((count(Verdict::NotDecisive) > 0).then(|| of(Verdict::NotDecisive)));
    totals.push(of(Verdict::NotMeasurable));
    out + &format!("\n{}\n", totals.join(", "))
}
