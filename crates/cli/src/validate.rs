//! `reach validate`: measured hardware beside ours.

mod here;

use crate::args::results::Format;
use crate::args::validate::ValidateArgs;
use crate::experiment::threads;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::output;
use crate::page::{Content, HtmlFile};
use crate::program::interrupted_status;
use crate::tabulate;
use crate::units;
use crate::verdicts;
use reach_core::Shown;
use reach_lab::paper::Comparison;
use reach_lab::validation::{self, Row, Set};
use reach_page::Table;
use reach_trace::Interruption;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Runs sets of measurements, or lists them.
pub fn validate(args: ValidateArgs, quiet: bool) -> VerbResult {
    if args.here {
        return here::here(args, quiet);
    }
    let sets = sets(&args.names)?;
    if args.list {
        return output::print(&tabulate::fitted(&list(&sets))).map(|()| 0);
    }
    let experiments = args.names.get(1..).unwrap_or_default();
    let chosen = |set: &Set| set.paper.chosen(experiments).map(|_| ()).map_err(|e| Failure::Usage(e.to_string()));
    sets.iter().try_for_each(chosen)?;
    let name = if let [set] = &sets[..] { set.paper.name.as_str() } else { "all" };
    let html = html(&args)?;
    let force = args.force || args.output.is_none();
    let path = args.output.unwrap_or_else(|| PathBuf::from(format!("target/validation/{name}.jsonl")));
    let file = verdicts::create(&path, force)?;
    let threads = threads(args.threads);
    let mut interruption = Interruption::default();
    let (mut rows, mut text, mut faults): (Vec<Row>, String, Vec<String>) = Default::default();
    let mut tables: Vec<Table> = Vec::new();
    for set in &sets {
        let done = run(set, experiments, threads, quiet, &mut interruption)?;
        text += &table(set, &done.comparisons);
        tables.extend(page_tables(set, &done.comparisons));
        rows.extend(done.comparisons.iter().map(|comparison| set.row(comparison)));
        faults.extend(done.faults);
        if interruption.came().is_some() {
            break;
        }
    }
    let interrupted = interruption.came();
    let lines = output::json_lines(&rows);
    file.write(&if Format::of_name(&path) == Format::Csv { output::csv(&rows) } else { lines.clone() })?;
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&text),
        Format::Jsonl => lines,
        Format::Csv => output::csv(&rows),
    })?;
    if let Some(html) = html {
        let chosen = sets.iter().flat_map(|set| set.paper.chosen(experiments).unwrap_or_default());
        html.write(&Content {
            title: format!("Measured hardware and Reach: {name}"),
            lead: sets.iter().map(about).chain(interrupted.map(|_| INTERRUPTED.to_owned())).collect(),
            tables,
            rows: output::json_lines(&rows),
            configuration: verdicts::configuration(chosen.collect::<Vec<_>>().into_iter()),
        })?;
    }
    remark(quiet, format!("saved {} to {}", units::plural(rows.len() as u64, "row", "rows"), path.shown()));
    if interrupted.is_some() {
        remark(quiet, INTERRUPTED);
    }
    faults.iter().for_each(print_error);
    Ok(interrupted.map_or(u8::from(!faults.is_empty()), interrupted_status))
}

/// What rows cover after an interruption.
const INTERRUPTED: &str = "interrupted: the rows cover the finished experiments only";

/// Opens the page, if there is to be one.
fn html(args: &ValidateArgs) -> Result<Option<HtmlFile>, Failure> {
    verdicts::check_files(&args.output, &args.html, args.force)?;
    HtmlFile::open(&args.html, args.force)
}

/// Says what a set has measured, and where it is published.
fn about(set: &Set) -> String {
    format!("{}: {}; {} ({})", set.paper.name, set.source.title, set.source.address, set.source.licence)
}

/// Opens the set that is named first; all sets if none is.
fn sets(names: &[String]) -> Result<Vec<Set>, Failure> {
    let open = |name: &str| Set::open(name).map_err(|error| Failure::Usage(error.to_string()));
    match names.first() {
        Some(name) => Ok(vec![open(name)?]),
        None => validation::list().map(open).collect(),
    }
}

/// The numbers of a set.
struct Done {
    comparisons: Vec<Comparison>,
    /// Why programs were not read whole, or failed.
    faults: Vec<String>,
}

/// Runs experiments of a set; all of them if `names` is empty.
fn run(
    set: &Set,
    names: &[String],
    threads: usize,
    quiet: bool,
    interruption: &mut Interruption,
) -> Result<Done, Failure> {
    let chosen = set.paper.chosen(names).map_err(|error| Failure::Usage(error.to_string()))?;
    let outcomes = verdicts::outcomes(&set.paper, &chosen, threads, quiet, interruption);
    let faults = verdicts::faults(&outcomes).into_iter().cloned().collect();
    let mut comparisons: Vec<_> = outcomes.iter().flat_map(|(_, outcome)| outcome.comparisons.clone()).collect();
    if names.is_empty() && interruption.came().is_none() {
        comparisons.extend(set.paper.overall(&outcomes));
        comparisons.extend(set.paper.missing());
    }
    Ok(Done { comparisons, faults })
}

/// Formats the numbers of a set for people: those that may have served to build the model, then those kept back.
fn table(set: &Set, comparisons: &[Comparison]) -> String {
    let mut out = tabulate::paragraph("", &format!("{}: {}", set.paper.name, set.source.title));
    for (title, rows) in parts(comparisons) {
        if !rows.is_empty() {
            let title = if title.is_empty() { String::new() } else { format!("{title}\n\n") };
            out += &format!("\n{title}{}", verdicts::table(&rows, "measured", &stand_ins(&rows)));
        }
    }
    out + "\n" + &tabulate::paragraph("", &format!("source: {} ({})", set.source.address, set.source.licence))
}

/// Returns the numbers that may have served to build the model, then those kept back, each with a title.
fn parts(comparisons: &[Comparison]) -> [(&'static str, Vec<Comparison>); 2] {
    let (kept_back, others): (Vec<_>, Vec<_>) = comparisons.iter().cloned().partition(|row| row.kept_back);
    [("", others), ("kept back: no part of the model was built with these numbers", kept_back)]
}

/// Returns the tables of a set for a page.
fn page_tables(set: &Set, comparisons: &[Comparison]) -> impl Iterator<Item = Table> {
    let caption = |title: &str| match title {
        "" => set.paper.name.clone(),
        title => format!("{}, {title}", set.paper.name),
    };
    let parts = parts(comparisons).into_iter().filter(|(_, rows)| !rows.is_empty());
    parts.map(move |(title, rows)| verdicts::page_table(&caption(title), &rows, "measured"))
}

/// Formats how machines and programs differ from the measured ones, each difference once.
fn stand_ins(rows: &[Comparison]) -> String {
    let mut differences: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.replaces.is_empty()) {
        differences.entry(&row.replaces).or_default().insert(&row.experiment);
    }
    let paragraph = |(difference, names): (&str, BTreeSet<&str>)| {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        tabulate::paragraph("  ", &format!("{names}: {difference}"))
    };
    let lines: String = differences.into_iter().map(paragraph).collect();
    if lines.is_empty() { lines } else { format!("\nmachines and programs beside the measured ones\n{lines}") }
}

/// Formats sets with their sources and experiments.
fn list(sets: &[Set]) -> String {
    let mut out = String::new();
    for set in sets {
        let source = &set.source;
        let about = format!("{}; {}; {}", source.title, source.address, source.licence);
        out += &tabulate::definitions([(set.paper.name.as_str(), about.as_str())]);
        let experiments: Vec<_> =
            set.paper.experiments.iter().map(|e| (format!("  {}", e.name), e.about.as_str())).collect();
        out += &tabulate::definitions(experiments.iter().map(|(name, about)| (name.as_str(), *about)));
    }
    out
}
