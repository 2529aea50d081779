//! `reach paper`: reproduces published numbers.

use crate::args::catalog::{PaperArgs, PaperRecordArgs, PaperVerb};
use crate::args::results::Format;
use crate::experiment::threads;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::output;
use crate::page::{Content, HtmlFile};
use crate::program::interrupted_status;
use crate::progress::Progress;
use crate::tabulate;
use crate::units;
use crate::verdicts::{self, create};
use reach_core::Shown;
use reach_lab::paper::{self, Comparison, FigureTable, Paper, PaperExperiment, PaperOutcome, Verdict};
use reach_page::Table;
use reach_trace::Interruption;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What rows cover after an interruption.
const INTERRUPTED: &str = "interrupted: the rows cover the finished experiments only";

/// Runs one of the verbs of `reach paper`.
pub fn paper(verb: PaperVerb, quiet: bool) -> VerbResult {
    match verb {
        PaperVerb::List => output::print(&list()?).map(|()| 0),
        PaperVerb::Run(args) => run(*args, quiet),
        PaperVerb::Record(args) => record(*args, quiet),
    }
}

/// Formats the papers with their citations and experiments.
fn list() -> Result<String, Failure> {
    let mut out = String::new();
    for name in paper::list() {
        let paper = Paper::open(name).map_err(Failure::failed)?;
        out += &tabulate::definitions([(paper.name.as_str(), paper.citation.as_str())]);
        let experiments = paper.experiments.iter().map(|e| (format!("  {}", e.name), e.about.as_str()));
        let experiments: Vec<_> = experiments.collect();
        out += &tabulate::definitions(experiments.iter().map(|(name, about)| (name.as_str(), *about)));
    }
    Ok(out)
}

/// Runs experiments, then saves and prints their rows. After an interruption, those of the finished experiments.
fn run(args: PaperArgs, quiet: bool) -> VerbResult {
    verdicts::check_files(&args.output, &args.html, args.force)?;
    let html = HtmlFile::open(&args.html, args.force)?;
    let PaperArgs { paper, experiments, format, output, force, threads: requested, no_effect, .. } = args;
    let paper = if args.quick { paper.quick().map_err(Failure::Usage)? } else { paper };
    let paper = if no_effect { paper.without_effect() } else { paper };
    let chosen = paper.chosen(&experiments).map_err(|error| Failure::Usage(error.to_string()))?;
    let force = force || output.is_none();
    let path = output.unwrap_or_else(|| PathBuf::from(format!("target/papers/{}.jsonl", paper.name)));
    let file = create(&path, force)?;
    let results = args.save_results.as_ref().map(|path| create(path, force)).transpose()?;
    let threads = threads(requested);
    let mut interruption = Interruption::default();
    let outcomes = match &args.from_results {
        Some(path) => judged(&paper, &chosen, path)?,
        None => verdicts::outcomes(&paper, &chosen, threads, quiet, &mut interruption),
    };
    if let Some(file) = results {
        file.write(&paper::save(&outcomes))?;
    }
    let interrupted = interruption.came();
    let faults = verdicts::faults(&outcomes);
    let mut rows: Vec<Comparison> = outcomes.iter().flat_map(|(_, outcome)| outcome.comparisons.clone()).collect();
    let series: Vec<_> = outcomes.iter().flat_map(|(_, outcome)| outcome.series.clone()).collect();
    if experiments.is_empty() && interrupted.is_none() {
        rows.extend(paper.overall(&outcomes));
        rows.extend(paper.missing());
    }
    let drawn = paper.draw(&outcomes);
    let marks: Vec<_> = drawn.iter().flat_map(|drawn| drawn.values(&paper.name)).collect();
    let csv = output::csv(&rows);
    let lines = output::json_lines(&rows);
    let all = lines.clone() + &output::json_lines(&series) + &output::json_lines(&marks);
    file.write(if Format::of_name(&path) == Format::Csv { &csv } else { &all })?;
    output::print(&match format {
        Format::Table => tabulate::fitted(
            &(drawn.iter().map(figure).collect::<String>() + &verdicts::table(&rows, "published", &replaced(&rows))),
        ),
        Format::Jsonl => lines,
        Format::Csv => csv,
    })?;
    if let Some(html) = html {
        let interrupted = interrupted.map(|_| INTERRUPTED.to_owned());
        let lead =
            [paper.citation.clone()].into_iter().chain(interrupted).chain(faults.iter().map(|&fault| fault.clone()));
        html.write(&Content {
            title: format!("{}: published and ours", paper.name),
            lead: lead.collect(),
            tables: [verdicts::page_table("verdicts", &rows, "published")]
                .into_iter()
                .chain(drawn.iter().map(page_table))
                .collect(),
            rows: all,
            configuration: verdicts::configuration(chosen.iter().copied()),
        })?;
    }
    remark(quiet, format!("saved {} to {}", units::plural(rows.len() as u64, "row", "rows"), path.shown()));
    if interrupted.is_some() {
        remark(quiet, INTERRUPTED);
    }
    faults.iter().for_each(print_error);
    let met = rows.iter().filter(|row| no_effect && row.verdict == Verdict::Met).map(|row| row.item.as_str());
    let met: Vec<&str> = met.collect();
    if !met.is_empty() {
        print_error(format!("met without any effect, so not decisive: {}", met.join("; ")));
    }
    let nothing = verdicts::all_failed(&outcomes);
    if nothing {
        print_error("no experiment gave results, so nothing was judged");
    }
    Ok(interrupted.map_or(u8::from(nothing || !faults.is_empty() || !met.is_empty()), interrupted_status))
}

/// Judges the results of an earlier run.
fn judged<'a>(
    paper: &Paper,
    chosen: &[&'a PaperExperiment],
    path: &Path,
) -> Result<Vec<(&'a PaperExperiment, PaperOutcome)>, Failure> {
    let wrong = |what: String| Failure::Failed(format!("{}: {what}", path.shown()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let written = |what| wrong(format!("{what}; expected a file that --save-results wrote"));
    let outcomes = paper.judge_saved(chosen, &text).map_err(written)?;
    match chosen.iter().find(|experiment| outcomes.iter().all(|(judged, _)| judged.name != experiment.name)) {
        Some(absent) => Err(wrong(format!("no results of the experiment {}; name those to judge", absent.name))),
        None => Ok(outcomes),
    }
}

/// Records the programs of the experiments. One that fails does not stop the others.
fn record(args: PaperRecordArgs, quiet: bool) -> VerbResult {
    let PaperRecordArgs { paper, experiments, force } = args;
    let chosen = paper.chosen(&experiments).map_err(|error| Failure::Usage(error.to_string()))?;
    let recordings = paper.recordings(&chosen).map_err(Failure::Failed)?;
    let mut interruption = Interruption::default();
    let (mut failed, mut out) = (Vec::new(), Vec::new());
    for (at, recording) in recordings.iter().enumerate() {
        let name = &recording.experiment.name;
        if !force && recording.is_made().unwrap_or(false) {
            out.push((name.as_str(), format!("{} exists already", recording.path.shown())));
            continue;
        }
        remark(quiet, format!("recording {} of {}: {name}", at + 1, recordings.len()));
        let mut progress = Progress::new(true, quiet);
        let done = paper.record(recording, |references| {
            progress.show(references, Default::default());
            interruption.came().is_none()
        });
        progress.end();
        match done {
            Ok(Some(references)) => {
                let bytes = std::fs::metadata(&recording.path).map_or(0, |file| file.len());
                let (references, size) = (units::short(references as f64), units::memory(bytes));
                out.push((name, format!("{references} references in {}, {size}", recording.path.shown())));
            }
            Ok(None) => break,
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    if recordings.is_empty() {
        out.push((paper.name.as_str(), "these experiments capture no programs".into()));
    }
    output::print(&tabulate::definitions(out.iter().map(|(name, result)| (*name, result.as_str()))))?;
    match (interruption.came(), &failed[..]) {
        (Some(signal), _) => Ok(interrupted_status(signal)),
        (None, []) => Ok(0),
        (None, failed) => Err(Failure::Failed(failed.join("\nreach: "))),
    }
}

/// Formats a figure's data for people: a line for each row.
fn figure(drawn: &FigureTable) -> String {
    let Table { caption, header, rows, .. } = page_table(drawn);
    tabulate::paragraph("", &caption) + &tabulate::grid(&header, &rows) + "\n"
}

/// Returns a figure's data as a table.
fn page_table(drawn: &FigureTable) -> Table {
    let line = |(row, cells): &(String, Vec<Option<f64>>)| {
        let cells = cells.iter().map(|cell| cell.map_or("-".into(), |x| units::decimal(x, 2)));
        [format!("  {row}")].into_iter().chain(cells).collect()
    };
    Table {
        caption: format!("{}, {}", drawn.name, drawn.unit),
        header: [String::new()].into_iter().chain(drawn.columns.iter().cloned()).collect(),
        rows: drawn.rows.iter().map(line).collect(),
        notes: Vec::new(),
    }
}

/// Formats which programs stand in for those of the paper.
fn replaced(rows: &[Comparison]) -> String {
    let replaced: BTreeSet<_> =
        rows.iter().filter(|row| !row.replaces.is_empty()).map(|row| (&row.experiment, &row.replaces)).collect();
    if replaced.is_empty() {
        return String::new();
    }
    let names: Vec<_> = replaced.into_iter().map(|(name, program)| (format!("  {name}"), program.as_str())).collect();
    let lines = tabulate::definitions(names.iter().map(|(name, program)| (name.as_str(), *program)));
    format!("\nprograms replaced by others\n{lines}")
}
