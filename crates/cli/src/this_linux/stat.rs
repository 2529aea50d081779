//! `reach stat`: counts WCPI and its factors with performance counters.

use crate::args::results::Format;
use crate::args::this_linux::StatArgs;
use crate::args::{Cli, Verb};
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{decimal, grouped, message, percent};
use crate::{output, own_line, run, tabulate};
use clap::Parser;
use reach_live::stat::{self, Answer, Count, CountError, Counters, Model};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

/// Counts a program or process, reads counts of perf, or simulates, and prints WCPI.
pub fn stat(args: StatArgs, quiet: bool) -> VerbResult {
    if let Some(path) = &args.read {
        print(&args, &read(path, args.model.as_deref())?)?;
        return Ok(0);
    }
    if args.simulate {
        return simulate(&args.command, args.format, quiet);
    }
    let counted = match args.pid {
        Some(pid) => of_process(pid, args.seconds).map(|counted| (counted, 0)),
        None => of_program(&args.command),
    };
    match counted {
        Ok((answer, status)) => {
            print(&args, &answer)?;
            Ok(status)
        }
        Err(error @ (CountError::NoCounters { .. } | CountError::UnknownProcessor | CountError::Forbidden { .. })) => {
            let program = if args.pid.is_some() { "PROG".to_owned() } else { shown(&args.command) };
            Err(Failure::Failed(format!("{error}; `reach stat --simulate -- {program}` simulates it instead")))
        }
        Err(CountError::Io { subject, source }) => Err(Failure::Failed(format!("{subject}: {}", message(&source)))),
    }
}

fn shown(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn of_process(pid: i32, seconds: u64) -> Result<Answer, CountError> {
    let mut counters = Counters::of_process(pid)?;
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(Answer::of(counters.model, &counters.read()?))
}

fn of_program(command: &[OsString]) -> Result<(Answer, u8), CountError> {
    let (mut child, mut counters) = stat::run(command)?;
    own_line::program_started();
    let ended = child.wait();
    own_line::program_ended();
    let ended = ended.map_err(|source| CountError::Io { subject: shown(&command[..1]), source })?;
    let status = ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok((Answer::of(counters.model, &counters.read()?), status as u8))
}

/// Reads counts that perf has written. `model` names the processor; `None` identifies it by its events.
fn read(path: &Path, model: Option<&str>) -> Result<Answer, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::reading(path, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let failed = |problem: &dyn std::fmt::Display| Failure::Failed(format!("{}: {problem}", path.display()));
    let mut counts: Vec<Count> = stat::counts(&text).map_err(|error| failed(&error))?;
    let model: &'static Model = match model {
        Some(name) => stat::models::named(name).ok_or_else(|| {
            let names: Vec<&str> = stat::MODELS.iter().map(|model| model.name).collect();
            Failure::Usage(format!("unknown processor {name:?}; expected one of {}", names.join(", ")))
        })?,
        None => stat::identify(&counts)
            .ok_or_else(|| failed(&"its events identify no processor; name it with --model (docs/stat.md)"))?,
    };
    stat::rename_events(&mut counts, model);
    Ok(Answer::of(model, &counts))
}

/// Simulates the program with `reach run`.
fn simulate(command: &[OsString], format: Format, quiet: bool) -> VerbResult {
    let format = match format {
        Format::Table => "table",
        Format::Jsonl => "jsonl",
        Format::Csv => "csv",
    };
    let mut line: Vec<OsString> = ["reach", "run", "--timing", "ooo", "--format", format].map(Into::into).into();
    if quiet {
        line.push("--quiet".into());
    }
    line.push("--".into());
    line.extend(command.iter().cloned());
    let cli = Cli::try_parse_from(line).map_err(|error| Failure::Usage(error.to_string()))?;
    match cli.verb {
        Verb::Run(args) => run::run(*args, quiet),
        _ => Err(Failure::Failed("the simulation has no arguments of `reach run`".into())),
    }
}

/// A row of the results: one number.
#[derive(Serialize)]
struct Row {
    processor: &'static str,
    metric: &'static str,
    unit: &'static str,
    value: f64,
}

fn rows(answer: &Answer) -> Vec<Row> {
    let row = |metric, unit, value| Row { processor: answer.model.name, metric, unit, value };
    let facts = answer.facts.iter().map(|fact| row(fact.name, fact.unit, fact.value));
    let factors = answer.factors.iter().filter_map(|factor| Some(row(factor.name, factor.unit, factor.value()?)));
    facts.chain(factors).collect()
}

fn print(args: &StatArgs, answer: &Answer) -> Result<(), Failure> {
    match args.format {
        Format::Table => output::print(&tabulate::fitted(&table(answer))),
        Format::Jsonl => {
            print_missing(answer);
            output::print(&rows(answer).iter().map(|row| output::json(row) + "\n").collect::<String>())
        }
        Format::Csv => {
            print_missing(answer);
            output::print(&output::csv(&rows(answer)))
        }
    }
}

/// Prints the missing metrics on standard error, since rows cannot hold them.
fn print_missing(answer: &Answer) {
    answer.missing.iter().for_each(|(metric, why)| print_error(format!("no {metric}: {why}")));
}

fn table(answer: &Answer) -> String {
    let value = |row: &Row| match row.unit {
        "count" | "cycles" if row.value.fract() == 0.0 && row.value >= 0.0 => grouped(row.value as u64),
        "count" | "cycles" if row.value.fract() == 0.0 => format!("-{}", grouped(-row.value as u64)),
        "share of cycles" => percent(row.value),
        _ => decimal(row.value, 4),
    };
    let lines = rows(answer).into_iter().map(|row| [row.metric.to_owned(), value(&row), unit(row.unit)]);
    let mut all = format!("{}\n", answer.model.about);
    all += &tabulate::columns(["metric", "value", ""], lines);
    all += "wcpi: cycles of all page walks per instruction; wcpi_data: of loads and stores, with its factors\n";
    if answer.least_share < 1.0 {
        let share = percent(answer.least_share);
        all += &format!("Events shared counters: each was counted for at least {share} of the time, and scaled.\n");
    }
    for (metric, why) in &answer.missing {
        all += &format!("No {metric}: {why}.\n");
    }
    answer.model.notes.iter().for_each(|note| all += &format!("Note: {note}.\n"));
    all
}

fn unit(unit: &str) -> String {
    if matches!(unit, "count" | "ratio" | "share of cycles") { String::new() } else { unit.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_lab::metrics::definition;

    #[test]
    fn every_metric_of_counters_is_defined_with_its_unit() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../live/src/stat/recorded");
        let mut seen = std::collections::BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let mut counts = stat::counts(&String::from_utf8_lossy(&bytes)).unwrap();
            let model = stat::identify(&counts).unwrap();
            stat::rename_events(&mut counts, model);
            for row in rows(&Answer::of(model, &counts)) {
                assert_eq!(definition(row.metric).map(|definition| definition.unit), Some(row.unit), "{}", row.metric);
                seen.insert(row.metric);
            }
        }
        assert!(seen.len() > 25, "{seen:?}");
        let only_here =
            reach_lab::metrics::definitions().filter(|definition| definition.given.starts_with("`reach stat`"));
        only_here
            .for_each(|definition| assert!(seen.contains(definition.name), "no counters give {}", definition.name));
    }
}
