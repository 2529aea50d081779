//! The options that say which form results have, and where they go.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// What comes out, and where.
#[derive(Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write the results to this file rather than to standard output, which the program shares
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Record the program at the same time, as `reach record` does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Let --record replace an existing file
    #[arg(long, requires = "record")]
    pub force: bool,
}

/// Forms of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in 80 columns
    Table,
    /// One JSON object a line: a header, then one metric a line
    Jsonl,
    /// One metric a line, under a line of column names
    Csv,
}
