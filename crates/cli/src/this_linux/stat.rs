//! `reach stat`.

use crate::args::results::Format;
use crate::args::this_linux::StatArgs;
use crate::args::{Cli, Verb};
use crate::failure::{Done, Failure, complain};
use crate::units::{decimal, grouped, percent, reason};
use crate::{output, run, tabulate};
use clap::Parser;
use reach_live::stat::{self, Answer, Count, CountError, Counters, Model};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

/// Counts, or reads what was counted, and says what it says.
pub fn stat(args: StatArgs, quiet: bool) -> Done {
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
            let instead = match args.pid {
                Some(_) => {
                    "`reach stat --simulate -- PROG` answers by simulation for a program that it starts".to_owned()
                }
                None => format!("`reach stat --simulate -- {}` answers by simulation", shown(&args.command)),
            };
            Err(Failure::Failed(format!("{error}; {instead}")))
        }
        Err(CountError::Io { what, source }) => Err(Failure::Failed(format!("{what}: {}", reason(&source)))),
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
    let ended = child.wait();
    let ended = ended.map_err(|source| CountError::Io { what: shown(&command[..1]), source })?;
    let status = ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok((Answer::of(counters.model, &counters.read()?), status as u8))
}

/// What a file of perf's says.
fn read(path: &Path, model: Option<&str>) -> Result<Answer, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::reading(path, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let wrong = |what: &dyn std::fmt::Display| Failure::Failed(format!("{}: {what}", path.display()));
    let mut counts: Vec<Count> = stat::counts(&text).map_err(|error| wrong(&error))?;
    let model: &'static Model = match model {
        Some(name) => stat::models::named(name).ok_or_else(|| {
            let names: Vec<&str> = stat::MODELS.iter().map(|model| model.name).collect();
            Failure::Usage(format!("no processor {name:?}; there are {}", names.join(", ")))
        })?,
        None => stat::guess(&counts).ok_or_else(|| {
            wrong(&"has no event that tells which processor it is of; say so with --model (docs/stat.md)")
        })?,
    };
    stat::translate(&mut counts, model);
    Ok(Answer::of(model, &counts))
}

/// The same question, by simulation.
fn simulate(command: &[OsString], format: Format, quiet: bool) -> Done {
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
        _ => Err(Failure::Usage("`reach run` simulates".into())),
    }
}

/// A number of the answer.
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
        Format::Table => output::print(&table(answer)),
        Format::Jsonl => {
            remark(answer);
            output::print(&rows(answer).iter().map(|row| output::json(row) + "\n").collect::<String>())
        }
        Format::Csv => {
            remark(answer);
            output::print(&output::csv(&rows(answer)))
        }
    }
}

/// What rows cannot say.
fn remark(answer: &Answer) {
    answer.missing.iter().for_each(|(what, why)| complain(format!("no {what}: {why}")));
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
    if answer.least_share < 1.0 {
        let share = percent(answer.least_share);
        all += &format!("Events took turns: counts are scaled from {share} of the time or more.\n");
    }
    for (what, why) in &answer.missing {
        all += &format!("No {what}: {why}.\n");
    }
    answer.model.notes.iter().for_each(|note| all += &format!("Note: {note}.\n"));
    all
}

fn unit(unit: &str) -> String {
    if matches!(unit, "count" | "ratio" | "share of cycles") { String::new() } else { unit.to_owned() }
}
