//! Options that choose the format of results and the file they are written to.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Options on results.
#[derive(Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write the results to this file; standard output is shared with the captured program
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Also record the program in this trace file, as `reach record` does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Let --record replace an existing file
    #[arg(long, requires = "record")]
    pub force: bool,
}

/// Format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people, in 80 columns
    Table,
    /// One JSON object a line: first a header, then one metric a line
    Jsonl,
    /// Comma-separated values: first the column names, then one metric a line
    Csv,
}
