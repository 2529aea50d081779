//! The command line of `reach validate`.

use super::examples;
use super::results::Format;
use super::values;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Hold the simulator against measured hardware, and give a verdict on each number
///
/// A set has measurements of real processors, published with their sources, and the experiments that give our numbers. The
/// verdict is `met` if ours lies within the stated tolerance, which has two sides; `missed` if it does not; `not decisive` if
/// a simulator without the mechanism in question would meet the number too; and `not measurable`, with a reason, if the
/// experiment cannot run. Numbers that no part of the model was built with are judged apart. The rows are also saved to a
/// file.
#[derive(Args)]
#[command(after_help = examples::VALIDATE)]
pub struct ValidateArgs {
    /// A set, or a folder that holds a set.toml, then experiments of it [default: all sets]; with --here, programs
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Hold predicted speedups against the clock of this computer
    ///
    /// Runs real programs natively without and with transparent huge pages, in at least nine interleaved pairs of fresh
    /// processes, and simulates the same programs on the machine nearest to this computer. A prediction is met if it lies in
    /// the 95 % interval of the measured median or within 5 % of the median. Where that interval is wider than 5 % after 27
    /// pairs, this computer cannot tell.
    #[arg(long, conflicts_with = "list")]
    pub here: bool,
    /// Take what was measured from this file, which an earlier --here has saved, and predict anew
    #[arg(long, value_name = "FILE", requires = "here", value_hint = ValueHint::FilePath)]
    pub measured: Option<PathBuf>,
    /// Predict for this machine (a preset name, a .toml file, or this-computer) instead of the one nearest to this computer
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", requires = "here", value_parser = values::machine_spec)]
    pub machine: Option<String>,
    /// List the sets, their sources and their experiments, and run nothing
    #[arg(long, conflicts_with_all = ["output", "format", "threads"])]
    pub list: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// File to save the rows to: CSV if its name ends in .csv, else JSON lines [default: target/validation/SET.jsonl]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Also write a page of figures and tables to this file, for a browser (docs/pictures.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "list")]
    pub html: Option<PathBuf>,
    /// Let --output and --html replace existing files; the default file is always replaced
    #[arg(long)]
    pub force: bool,
    /// Threads of this computer that simulate; results do not depend on it [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}
