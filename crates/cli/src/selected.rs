//! The metrics that `--metric` selects: in rows, and as the columns of a table.

use crate::experiment::Finished;
use crate::{table, tabulate, units};
use reach_lab::metrics::Selector;
use reach_lab::{ALL, FindingKind, Row, Value};

/// Returns the rows that are selected. All of them if `selectors` is empty. Findings are never left out.
pub fn rows(rows: Vec<Row>, selectors: &[Selector]) -> Vec<Row> {
    if selectors.is_empty() {
        return rows;
    }
    rows.into_iter().filter(|row| is_finding(&row.metric) || is_selected(&row.metric, selectors)).collect()
}

/// Returns the selectors that select none of `rows`.
pub fn without_rows<'a>(rows: &[Row], selectors: &'a [Selector]) -> Vec<&'a Selector> {
    selectors.iter().filter(|selector| !rows.iter().any(|row| selector.selects(&row.metric))).collect()
}

fn is_selected(metric: &str, selectors: &[Selector]) -> bool {
    selectors.iter().any(|selector| selector.selects(metric))
}

fn is_finding(metric: &str) -> bool {
    metric.strip_prefix("finding.").is_some_and(|name| FindingKind::ALL.iter().any(|kind| kind.name() == name))
}

/// Returns a table for each machine: a line for each system, a column for each metric, all processes together.
pub fn comparison(finished: &Finished, selectors: &[Selector]) -> String {
    let report = &finished.report;
    let mut out = table::heading(report);
    out += &table::program_findings(report);
    let rows = finished.rows();
    for outcomes in report.machines() {
        let machine = outcomes[0].machine.as_str();
        let selected = |row: &&Row| row.machine == machine && row.process == ALL && is_selected(&row.metric, selectors);
        let rows: Vec<&Row> = rows.iter().filter(selected).collect();
        let mut metrics: Vec<&str> = Vec::new();
        for row in &rows {
            if !metrics.contains(&row.metric.as_str()) {
                metrics.push(&row.metric);
            }
        }
        let cell = |system: &str, metric: &str| {
            let row = rows.iter().find(|row| row.system == system && row.metric == metric);
            row.map_or_else(|| "–".to_owned(), |row| value(row))
        };
        let line = |outcome: &reach_lab::Outcome| {
            let name = table::name(outcome, outcomes);
            [name].into_iter().chain(metrics.iter().map(|metric| cell(&outcome.system, metric))).collect()
        };
        let header = [machine].into_iter().chain(metrics.iter().copied()).map(str::to_owned).collect();
        out.push('\n');
        out += &tabulate::list_of_numbers(header, outcomes.iter().map(line).collect());
        out += &table::footnotes(outcomes);
    }
    out.push('\n');
    out + &table::legend(finished)
}

/// Returns a list of the metrics of one simulation, all processes together.
pub fn report(finished: &Finished, selectors: &[Selector]) -> String {
    let report = &finished.report;
    let outcome = &report.outcomes[0];
    let rows = finished.rows();
    let selected = rows.iter().filter(|row| row.process == ALL && is_selected(&row.metric, selectors));
    let lines = selected.map(|row| [row.metric.clone(), value(row), unit(row).to_owned()]);
    let mut out = table::heading(report) + &table::findings(report) + "\n";
    out += &tabulate::definitions([("machine", outcome.machine.as_str()), ("system", outcome.system.as_str())]);
    out.push('\n');
    out += &tabulate::numbers(["metric", "value", ""], lines);
    out.push('\n');
    out + &table::sampled(report) + &table::closing(finished)
}

/// Formats the value of a row.
pub fn value(row: &Row) -> String {
    match (row.unit, row.value) {
        ("bytes", Value::Count(bytes)) => units::memory(bytes),
        (_, Value::Count(n)) => units::grouped(n),
        ("share", Value::Ratio(share)) => units::percent_within(share, row.error),
        (_, Value::Ratio(x)) => units::decimal_within(x, row.error, if x.abs() < 10.0 { 4 } else { 1 }),
    }
}

/// Returns the unit if the value does not show it.
pub fn unit(row: &Row) -> &'static str {
    if matches!(row.unit, "bytes" | "share" | "count" | "ratio") { "" } else { row.unit }
}
