//! Writes results in the requested format to a file or standard output.

use crate::args::results::{Format, OutputArgs};
use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::failure::{Failure, print_error};
use crate::own_line::{self, Stream};
use crate::{selected, tabulate};
use reach_core::{Shown, shown_json, shown_lines};
use reach_lab::metrics::Selector;
use reach_lab::{Header, Row, Value};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The destination of results: a file, or standard output if there is none.
pub struct Output {
    file: Option<Destination>,
}

/// An open file.
struct Destination {
    path: PathBuf,
    file: File,
    /// Whether the file did not exist, and must not stay if there are no results.
    is_new: bool,
}

impl Output {
    /// Opens the destination, so that an unwritable file fails before the simulation. The file keeps its content until
    /// [`Output::write`].
    ///
    /// # Errors
    /// If the file exists and may not be replaced, or cannot be written.
    pub fn open(args: &OutputArgs) -> Result<Output, Failure> {
        if args.force && args.output.is_none() && args.record.is_none() && args.html.is_none() {
            return Err(Failure::Usage("--force replaces a file: give --output, --record or --html too".into()));
        }
        refuse_same(&[("--output", &args.output), ("--record", &args.record), ("--html", &args.html)])?;
        let Some(path) = &args.output else { return Ok(Output { file: None }) };
        tabulate::for_a_file();
        Output::create(path, args.force)
    }

    /// Opens the file `path`, which may replace an existing one only with `force`.
    pub fn create(path: &Path, force: bool) -> Result<Output, Failure> {
        refuse_to_replace(path, force)?;
        let is_new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Failure::writing(path, error))?;
        Ok(Output { file: Some(Destination { path: path.to_owned(), file, is_new }) })
    }

    /// Replaces the file's content with `content`, or prints it to standard output.
    pub fn write(mut self, content: &str) -> Result<(), Failure> {
        match self.file.take() {
            Some(Destination { path, mut file, .. }) => {
                let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
                let cut = if regular { file.set_len(0) } else { Ok(()) };
                let written = cut.and_then(|()| file.write_all(content.as_bytes()));
                written.map_err(|error| Failure::writing(&path, error))
            }
            None => print(content),
        }
    }
}

impl Drop for Output {
    /// Removes a file that was created for results that did not come.
    fn drop(&mut self) {
        if let Some(Destination { path, is_new: true, .. }) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Refuses two options that name the same file.
pub fn refuse_same(options: &[(&str, &Option<PathBuf>)]) -> Result<(), Failure> {
    for (at, (option, path)) in options.iter().enumerate() {
        let same = options[..at].iter().find(|(_, other)| path.is_some() && *other == *path);
        if let Some((other, _)) = same {
            return Err(Failure::Usage(format!("{other} and {option} name the same file; give two names")));
        }
    }
    Ok(())
}

/// Refuses to replace an existing regular file unless `force`. Devices and pipes are always accepted.
pub fn refuse_to_replace(path: &Path, force: bool) -> Result<(), Failure> {
    if force || !path.is_file() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{}: exists already; give another name, or --force to replace it", path.shown())))
}

/// Prints `content` to standard output, on a line of its own, without what a terminal could obey.
pub fn print(content: &str) -> Result<(), Failure> {
    let written = own_line::write(Stream::Output, &shown_lines(content), |content| {
        let mut out = io::stdout().lock();
        out.write_all(content.as_bytes()).and_then(|()| out.flush())
    });
    written.map_err(|error| Failure::writing(Path::new("standard output"), error))
}

/// Formats the results. `table` makes the format for people, and `selected` makes it for the metrics that were asked for.
pub fn render(
    finished: &Finished,
    args: &OutputArgs,
    table: impl Fn(&Finished) -> String,
    selected: impl Fn(&Finished, &[Selector]) -> String,
) -> String {
    let metrics = &args.metrics[..];
    match args.format() {
        Format::Table if metrics.is_empty() => tabulate::fitted(&table(finished)),
        Format::Table => tabulate::fitted(&selected(finished, metrics)),
        Format::Jsonl => jsonl(&finished.header, &selected::rows(finished.rows(), metrics)),
        Format::Csv => {
            let rows = selected::rows(finished.rows(), metrics);
            let sampled = finished.report.outcomes.iter().any(|outcome| outcome.sample.is_some());
            if sampled { csv(&rows.iter().map(Sampled::from).collect::<Vec<_>>()) } else { csv(&rows) }
        }
    }
}

/// Says on standard error which of the metrics that were asked for no row has, and which runs give them.
pub fn remark_on_missing(finished: &Finished, args: &OutputArgs, quiet: bool) {
    if args.metrics.is_empty() || quiet {
        return;
    }
    for selector in selected::without_rows(&finished.rows(), &args.metrics) {
        let definition = selector.definitions().first().copied();
        let given = match definition {
            Some(definition) if finished.timing == Timing::Counts && definition.takes_time() => {
                "--timing inorder and ooo".into()
            }
            definition => definition.map_or("", |definition| definition.given_by()).replace('`', ""),
        };
        print_error(format!("no row has the metric {}; it is given by: {given}", selector.text()));
    }
}

fn jsonl(header: &Header, rows: &[Row]) -> String {
    json(header) + "\n" + &json_lines(rows)
}

/// Formats rows as JSON objects, one a line.
pub fn json_lines(rows: &[impl Serialize]) -> String {
    rows.iter().map(|row| json(row) + "\n").collect()
}

/// A row of sampled results: the column `error` exists in every row, empty if the metric has no error.
#[derive(Serialize)]
struct Sampled<'a> {
    machine: &'a str,
    system: &'a str,
    program: &'a str,
    process: &'a str,
    metric: &'a str,
    unit: &'static str,
    value: Value,
    error: Option<f64>,
}

impl<'a> From<&'a Row> for Sampled<'a> {
    fn from(row: &'a Row) -> Sampled<'a> {
        let Row { machine, system, program, process, metric, unit, value, error } = row;
        Sampled { machine, system, program, process, metric, unit, value: *value, error: *error }
    }
}

/// Formats a row as one JSON object.
pub fn json(row: &impl Serialize) -> String {
    shown_json(&serde_json::to_string(row).expect("a row is JSON")).into_owned()
}

/// Formats rows as CSV under their column names.
pub fn csv(rows: &[impl Serialize]) -> String {
    csv_part(rows, true)
}

/// Formats rows as CSV, under their column names if `with_names`.
pub fn csv_part(rows: &[impl Serialize], with_names: bool) -> String {
    let mut out = csv::WriterBuilder::new().has_headers(with_names).from_writer(Vec::new());
    for row in rows {
        out.serialize(row).expect("a row is flat");
    }
    let bytes = out.into_inner().expect("memory can be written");
    shown_lines(&String::from_utf8(bytes).expect("rows are text")).into_owned()
}
