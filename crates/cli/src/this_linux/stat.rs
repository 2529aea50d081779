//! `reach stat`: counts WCPI and its factors with performance counters.

use crate::args::results::Format;
use crate::args::this_linux::StatArgs;
use crate::args::{Cli, Verb};
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{decimal, grouped, message, percent, plural};
use crate::{output, own_line, run, tabulate};
use clap::Parser;
use reach_core::Shown;
use reach_live::stat::{self, Answer, Count, CountError, Counters, Identified, Model};
use reach_trace::text;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

/// The most bytes of counts that perf has written: a week of all events each second has less.
const MAX_COUNTS: u64 = 64 << 20;

/// Counts a program or process, reads counts of perf, or simulates, and prints WCPI.
pub fn stat(args: StatArgs, quiet: bool) -> VerbResult {
    if let Some(path) = &args.read {
        let (answer, identification) = read(path, args.model.as_deref())?;
        print(&args, &answer, identification.as_ref())?;
        if answer.facts.is_empty() {
            print_error(format!("{}: no metric follows from its counts", path.shown()));
            return Ok(1);
        }
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
            print(&args, &answer, None)?;
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

/// Reads counts that perf has written. `model` names the processor; `None` identifies it by its events. Returns also what to
/// say about the identification.
fn read(path: &Path, model: Option<&str>) -> Result<(Answer, Option<Identification>), Failure> {
    let bytes = text::read_bytes(path, MAX_COUNTS).map_err(|error| Failure::reading(path, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let failed = |problem: &dyn std::fmt::Display| Failure::Failed(format!("{}: {problem}", path.shown()));
    let mut counts: Vec<Count> = stat::counts(&text).map_err(|error| failed(&error))?;
    let (model, identification): (&'static Model, _) = match model {
        Some(name) => {
            let named = stat::models::named(name).ok_or_else(|| {
                let names: Vec<&str> = stat::MODELS.iter().map(|model| model.name).collect();
                Failure::Usage(format!("unknown processor {name:?}; expected one of {}", names.join(", ")))
            });
            (named?, None)
        }
        None => {
            let identified = stat::identify(&counts)
                .ok_or_else(|| failed(&"its events identify no processor; name it with --model (docs/stat.md)"))?;
            (identified.model, Some(Identification::of(&identified)))
        }
    };
    stat::rename_events(&mut counts, model);
    Ok((Answer::of(model, &counts), identification))
}

/// How the processor was identified, if the user did not name it.
struct Identification {
    /// Whether other processors fit as well.
    guessed: bool,
    text: String,
}

impl Identification {
    fn of(identified: &Identified) -> Identification {
        let events = plural(identified.events as u64, "event", "events");
        let others: Vec<&str> = identified.others.iter().map(|model| model.name).collect();
        let text = match others.is_empty() {
            true => format!("{} was told by {events} of the file", identified.model.name),
            false => format!(
                "{} is a guess: {} fit the {events} of the file as well; name the processor with --model",
                identified.model.name,
                others.join(", ")
            ),
        };
        Identification { guessed: !others.is_empty(), text }
    }
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

fn rows(answer: &Answer, identification: Option<&Identification>) -> Vec<Row> {
    let row = |metric, unit, value| Row { processor: answer.model.name, metric, unit, value };
    let facts = answer.facts.iter().map(|fact| row(fact.name, fact.unit, fact.value));
    let factors = answer.factors.iter().filter_map(|factor| Some(row(factor.name, factor.unit, factor.value()?)));
    let guessed = identification.filter(|told| told.guessed).map(|_| row("finding.processor_guessed", "count", 1.0));
    let unused = answer.unused.len();
    let unused = (unused > 0).then(|| row("finding.counts_unused", "count", unused as f64));
    facts.chain(factors).chain(guessed).chain(unused).collect()
}

fn print(args: &StatArgs, answer: &Answer, identification: Option<&Identification>) -> Result<(), Failure> {
    let rows = rows(answer, identification);
    if !matches!(args.format, Format::Table) {
        // Rows cannot hold sentences.
        sentences(answer, identification).iter().for_each(print_error);
    }
    match args.format {
        Format::Table => output::print(&tabulate::fitted(&table(answer, &rows, identification))),
        Format::Jsonl => output::print(&rows.iter().map(|row| output::json(row) + "\n").collect::<String>()),
        Format::Csv => output::print(&output::csv(&rows)),
    }
}

/// Returns what a reader must know beside the numbers: how the processor was identified, and what is missing or unused.
fn sentences(answer: &Answer, identification: Option<&Identification>) -> Vec<String> {
    let mut sentences: Vec<String> =
        identification.map(|told| format!("processor: {}", told.text)).into_iter().collect();
    sentences.extend(answer.missing.iter().map(|(metric, why)| format!("no {metric}: {why}")));
    if !answer.absent.is_empty() {
        sentences.push(format!("not counted: {}", answer.absent.join(", ")));
    }
    sentences.extend(answer.unused.iter().map(|(event, why)| format!("count not used: {event} ({why})")));
    sentences
}

fn table(answer: &Answer, rows: &[Row], identification: Option<&Identification>) -> String {
    let value = |row: &Row| match row.unit {
        "count" | "cycles" if row.value.fract() == 0.0 && row.value >= 0.0 => grouped(row.value as u64),
        "count" | "cycles" if row.value.fract() == 0.0 => format!("-{}", grouped(-row.value as u64)),
        "share of cycles" => percent(row.value),
        _ => decimal(row.value, 4),
    };
    let numbers = rows.iter().filter(|row| !row.metric.starts_with("finding."));
    let lines = numbers.map(|row| [row.metric.to_owned(), value(row), unit(row.unit)]);
    let mut all = format!("{}\n", answer.model.about);
    all += &tabulate::columns(["metric", "value", ""], lines);
    all += "wcpi: cycles of all page walks per instruction; wcpi_data: of loads and stores, with its factors\n";
    let mut notes = sentences(answer, identification);
    if answer.least_share < 1.0 {
        notes.push(format!(
            "counts are estimates: events took turns on the counters, each for at least {} of the time",
            percent(answer.least_share)
        ));
    }
    notes.extend(answer.model.notes.iter().map(|note| (*note).to_owned()));
    notes.iter().for_each(|note| all += &tabulate::paragraph("- ", note));
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
            let model = stat::identify(&counts).unwrap().model;
            stat::rename_events(&mut counts, model);
            for row in rows(&Answer::of(model, &counts), None) {
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
