//! Options that choose the format of results and the file they are written to.

use clap::{Args, ValueEnum, ValueHint};
use reach_lab::metrics::Selector;
use std::path::{Path, PathBuf};

/// Options on results.
#[derive(Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Format of the results [default: by the name of --output, or else table]
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// Write the results to this file; standard output is shared with the captured program
    ///
    /// Without --format, names that end in .jsonl or .json get jsonl, .csv gets csv, and others a table. An existing file is
    /// replaced only with --force.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Give these metrics only: rows of jsonl and csv, columns of the table
    ///
    /// A * stands for any characters: 'wcpi*'. `reach explain` lists all metrics. Rows of findings are always given.
    #[arg(long = "metric", value_name = "NAME[,NAME…]", value_delimiter = ',')]
    pub metrics: Vec<Selector>,
    /// Also record the program in this trace file, as `reach record` does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Also write a page of figures and tables to this file, for a browser (docs/pictures.md)
    ///
    /// The page needs no other file and no network. It has all rows, whatever --metric selects.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Also say on standard error where the time of this run went: who waited for whom
    #[arg(long)]
    pub verbose: bool,
    /// Let --output, --record and --html replace existing files
    #[arg(long)]
    pub force: bool,
}

impl OutputArgs {
    /// Returns the format: as given, or else by the name of the file.
    pub fn format(&self) -> Format {
        let by_name = || self.output.as_deref().map(Format::of_name);
        self.format.or_else(by_name).unwrap_or(Format::Table)
    }
}

/// Format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people, in the width of the terminal (or of COLUMNS, or 80)
    Table,
    /// One JSON object a line: first a header, then one metric a line
    Jsonl,
    /// Comma-separated values: first the column names, then one metric a line
    Csv,
}

impl Format {
    /// Returns the format that the name of a file asks for.
    pub fn of_name(path: &Path) -> Format {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
        match end.as_str() {
            "jsonl" | "json" => Format::Jsonl,
            "csv" => Format::Csv,
            _ => Format::Table,
        }
    }
}
