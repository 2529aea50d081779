//! Writes results in the requested format to a file or standard output.

use crate::args::results::{Format, OutputArgs};
use crate::experiment::Finished;
use crate::failure::Failure;
use reach_lab::{Header, Row, Value};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The destination of results: a file, or standard output if there is none.
pub struct Output {
    file: Option<(PathBuf, File)>,
}

impl Output {
    /// Opens the destination, so that an unwritable file fails before the simulation. The file keeps its content until
    /// [`Output::write`].
    pub fn open(args: &OutputArgs) -> Result<Output, Failure> {
        let open = |path: &PathBuf| {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            file.map(|file| (path.clone(), file)).map_err(|error| Failure::writing(path, error))
        };
        Ok(Output { file: args.output.as_ref().map(open).transpose()? })
    }

    /// Replaces the file's content with `content`, or prints it to standard output.
    pub fn write(self, content: &str) -> Result<(), Failure> {
        match self.file {
            Some((path, mut file)) => {
                let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
                let cut = if regular { file.set_len(0) } else { Ok(()) };
                let written = cut.and_then(|()| file.write_all(content.as_bytes()));
                written.map_err(|error| Failure::writing(&path, error))
            }
            None => print(content),
        }
    }
}

/// Prints `content` to standard output.
pub fn print(content: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(content.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::writing(Path::new("standard output"), error))
}

/// Formats the results. `table` makes the format for people.
pub fn render(finished: &Finished, format: Format, table: impl Fn(&Finished) -> String) -> String {
    match format {
        Format::Table => table(finished),
        Format::Jsonl => jsonl(&finished.header, &finished.report.rows()),
        Format::Csv => {
            let rows = finished.report.rows();
            let sampled = finished.report.outcomes.iter().any(|outcome| outcome.sample.is_some());
            if sampled { csv(&rows.iter().map(Sampled::from).collect::<Vec<_>>()) } else { csv(&rows) }
        }
    }
}

fn jsonl(header: &Header, rows: &[Row]) -> String {
    let mut out = serde_json::to_string(header).expect("a header is JSON");
    out.push('\n');
    for row in rows {
        out += &json(row);
        out.push('\n');
    }
    out
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
    serde_json::to_string(row).expect("a row is JSON")
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
    String::from_utf8(bytes).expect("rows are text")
}
