//! The command line of `reach where`.

use super::simulate::Common;
use super::{examples, values};
use clap::{Args, ValueEnum, ValueHint};
use reach_lab::machine;
use std::path::PathBuf;

/// Attribute the cost of address translation to mappings, functions, source lines and addresses
///
/// Simulates the whole program on one machine under one system. Each cycle that the core waits for translation, each TLB miss and
/// each page walk belongs to the instruction and to the memory that caused it. The parts of each list sum to the total.
/// Functions and lines come from debugging information, or from symbol tables where there is none (docs/where.md).
#[derive(Args)]
#[command(after_help = examples::WHERE, override_usage = examples::WHERE_USAGE)]
pub struct WhereArgs {
    /// The machine: a preset name, a .toml file, or this-computer (that of `reach machine probe`)
    ///
    /// Changes to single values follow a colon: skylake-e3-1240v5:tlb.l2.entries=3072. `reach machine list` lists the
    /// presets. Default: the file of `reach machine probe`, or else the preset nearest to this computer's processor.
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", value_parser = values::machine)]
    pub machine: Option<machine::Resolved>,
    /// The system by name; options follow a colon
    ///
    /// `reach system list` lists the systems.
    #[arg(short, long, value_name = "SYSTEM[:KEY=VALUE,…]", value_parser = reach_systems::resolve, default_value = "base")]
    pub system: reach_systems::Resolved,
    /// The lists to give [default: all; script only where a script runs]
    #[arg(long, value_enum, value_delimiter = ',', help_heading = "Results")]
    pub by: Vec<By>,
    /// Entries of each list of a table; the rest is one entry
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Results")]
    pub top: u16,
    /// Also write stacks for flame graphs to this file: process, file, functions, and cycles
    ///
    /// A line is a stack with semicolons between its frames, a space, and the cycles that the core waits for translation; with
    /// --timing counts, the number of page walks.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub folded: Option<PathBuf>,
    /// Also write a profile for the Firefox Profiler (profiler.firefox.com) to this file
    ///
    /// A sample is a stack of owners with source lines: file, functions, and the functions that were inlined. Its weight is the
    /// cycles that the core waits for translation; with --timing counts, the number of page walks. Its time means nothing.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub profile: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// What costs are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum By {
    /// The memory that is accessed: heap, stack, anonymous memory, parts of files
    Mapping,
    /// The function whose instruction accesses it
    Function,
    /// The source line of that instruction
    Line,
    /// The function of a script, such as Python's, on whose behalf it does; needs python3 -X perf or the like (docs/where.md)
    Script,
    /// The 2 MB of addresses that are accessed, of one mapping
    Extent,
    /// Addresses and time: a picture of the misses
    Time,
}

impl By {
    /// All lists, in the order in which they are given.
    pub const ALL: [By; 6] = [By::Mapping, By::Function, By::Line, By::Script, By::Extent, By::Time];

    /// Returns the name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            By::Mapping => "mapping",
            By::Function => "function",
            By::Line => "line",
            By::Script => "script",
            By::Extent => "extent",
            By::Time => "time",
        }
    }
}
