//! `reach text show --gain`: predicts by simulation what promoting code saves.

use crate::args::results::Format;
use crate::args::this_linux::ShowArgs;
use crate::args::{Cli, Verb};
use crate::experiment::Besides;
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{grouped, percent};
use crate::{experiment, output, tabulate};
use clap::Parser;
use reach_core::{Label, Shown};
use reach_lab::Outcome;
use serde::Serialize;
use std::ffi::OsString;

/// The simulated systems by what they promote: no code, the program's, and that of its libraries too. They promote as
/// `reach text promote` does: whole regions only, however much of them is in memory. Data stays in base pages.
const SYSTEMS: [(&str, &str); 3] = [
    ("none", CODE[0]),
    ("program", "zhou-2023:threshold=1,padding=off,libraries=off,data=none"),
    ("program and libraries", ALL),
];

/// The systems without code superpages, and with all of them.
pub const CODE: [&str; 2] = ["zhou-2023:threshold=33,padding=off,data=none", ALL];

const ALL: &str = "zhou-2023:threshold=1,padding=off,data=none";

/// Returns the simulated systems by what they promote: [`SYSTEMS`], then each file of the command line alone.
fn systems(args: &ShowArgs) -> Result<Vec<(String, String)>, Failure> {
    let mut systems = SYSTEMS.map(|(promoted, system)| (promoted.to_owned(), system.to_owned())).to_vec();
    for path in &args.targets {
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.contains(','));
        let name = name.ok_or_else(|| {
            Failure::Usage(format!("{}: expected the file name of a program or library", path.shown()))
        })?;
        systems.push((format!("{name} only"), format!("{ALL},file={name}")));
    }
    Ok(systems)
}

/// Simulates the program without and with code superpages.
pub fn gain(args: &ShowArgs, quiet: bool) -> VerbResult {
    let source = &args.source;
    let systems = systems(args)?;
    let mut line: Vec<OsString> = ["reach", "compare", "--timing", "ooo"].map(Into::into).into();
    systems.iter().for_each(|(_, system)| line.extend(["--system".into(), system.into()]));
    line.extend(source.machine.iter().flat_map(|machine| ["--machine".into(), machine.into()]));
    match (&source.trace, source.command.is_empty()) {
        (Some(trace), _) => line.extend(["--trace".into(), trace.into()]),
        (None, false) => {
            line.push("--".into());
            line.extend(source.command.iter().cloned());
        }
        (None, true) => {
            let message = "--gain simulates a program: give --trace FILE, or the program after --";
            return Err(Failure::Usage(message.into()));
        }
    }
    let cli = Cli::try_parse_from(line).map_err(|error| {
        let text = error.to_string();
        Failure::Usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
    })?;
    let Verb::Compare(compare) = cli.verb else {
        return Err(Failure::Failed("the simulation has no arguments of `reach compare`".into()));
    };
    let machine = match compare.machines.into_iter().next() {
        Some(machine) => machine,
        None => experiment::nearest_machine(quiet)?,
    };
    let finished = experiment::run(vec![machine], compare.systems, Besides::default(), &compare.common, quiet)?;
    let outcomes = &finished.report.outcomes;
    let promoted: Vec<&str> = systems.iter().map(|(promoted, _)| promoted.as_str()).collect();
    let nothing = nothing_to_promote(&promoted, outcomes);
    output::print(&match args.format {
        Format::Table => {
            let findings = crate::table::program_findings(&finished.report);
            tabulate::fitted(&(findings + &table(&promoted, outcomes)))
        }
        Format::Jsonl => rows(&promoted, outcomes).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&rows(&promoted, outcomes)),
    })?;
    nothing.iter().for_each(print_error);
    let fails = finished.report.findings.iter().any(|finding| finding.kind.fails()) || !nothing.is_empty();
    Ok(if finished.status == 0 { fails.into() } else { finished.status })
}

/// Returns a sentence for each file of the command line without code to promote, and for a program without any.
fn nothing_to_promote(promoted: &[&str], outcomes: &[Outcome]) -> Vec<String> {
    if outcomes[SYSTEMS.len() - 1].code_superpages.is_empty() {
        let text = "no gain to predict: no file of this program has a region of 2 MB of code at an address that allows a superpage";
        return vec![text.into()];
    }
    let named = promoted.iter().zip(outcomes).skip(SYSTEMS.len());
    let nothing = named.filter(|(_, outcome)| outcome.code_superpages.is_empty());
    nothing
        .map(|(promoted, _)| format!("{promoted}: the program maps no region of 2 MB of code from a file of that name"))
        .collect()
}

/// A row of the results: one number.
#[derive(Serialize)]
struct Row<'a> {
    promoted: &'a str,
    metric: String,
    unit: &'static str,
    value: f64,
}

fn cycles(outcome: &Outcome) -> u64 {
    outcome.total.ledger.total().0
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Returns the cycles that instruction fetches lost to translation, without those that other work overlapped.
fn lost(outcome: &Outcome) -> u64 {
    [Label::ItlbStall, Label::ItlbWalk, Label::ItlbL2TlbHit]
        .map(|label| outcome.total.ledger.charged(label).0)
        .iter()
        .sum()
}

/// Returns the share of the first outcome's cycles that `outcome` saves.
fn saved(outcomes: &[Outcome], outcome: &Outcome) -> f64 {
    1.0 - cycles(outcome) as f64 / cycles(&outcomes[0]).max(1) as f64
}

/// Returns whether `outcome` has code superpages, so that its difference to the first is their effect, or is the first.
fn is_compared(outcomes: &[Outcome], outcome: &Outcome) -> bool {
    std::ptr::eq(outcome, &outcomes[0]) || !outcome.code_superpages.is_empty()
}

fn rows<'a>(promoted: &[&'a str], outcomes: &[Outcome]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (&promoted, outcome) in promoted.iter().zip(outcomes) {
        let mut add = |metric: String, unit, value| rows.push(Row { promoted, metric, unit, value });
        add("cycles".into(), "cycles", cycles(outcome) as f64);
        add("itlb_stall".into(), "cycles", outcome.total.hardware.itlb_stall() as f64);
        add("itlb_stall.lost".into(), "cycles", lost(outcome) as f64);
        add("walks.fetch".into(), "count", outcome.total.hardware.walks_fetch as f64);
        if is_compared(outcomes, outcome) {
            add("cycles.saved".into(), "share", saved(outcomes, outcome));
        }
        for (file, superpages) in &outcome.code_superpages {
            add(format!("superpages {file}"), "regions", *superpages as f64);
        }
    }
    rows
}

fn table(promoted: &[&str], outcomes: &[Outcome]) -> String {
    let header = [
        "code superpages",
        "regions",
        "walks,\nfetches",
        "ITLB stall\n% of cycles",
        "not over-\nlapped",
        "cycles\nsaved",
    ];
    let lines = promoted.iter().zip(outcomes).map(|(&promoted, outcome)| {
        let hardware = &outcome.total.hardware;
        [
            promoted.to_owned(),
            outcome.code_superpages.iter().map(|(_, regions)| regions).sum::<u64>().to_string(),
            grouped(hardware.walks_fetch),
            percent(share(hardware.itlb_stall(), cycles(outcome))),
            percent(share(lost(outcome), cycles(outcome))),
            if is_compared(outcomes, outcome) { percent(saved(outcomes, outcome)) } else { "–".into() },
        ]
    });
    let mut all = format!("{}: simulated with --timing ooo; nothing was promoted\n", outcomes[0].machine);
    all += &tabulate::numbers(header, lines);
    let files = &outcomes[SYSTEMS.len() - 1].code_superpages;
    if files.is_empty() {
        return all;
    }
    let files = files.iter().map(|(file, regions)| [file.clone(), regions.to_string()]);
    all + &tabulate::numbers(["file", "regions"], files)
}
