//! The command line of `reach record`.

use super::{examples, values};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Capture a program's memory references once, to replay them on any machine and system
#[derive(Args)]
#[command(after_help = examples::RECORD, override_usage = examples::RECORD_USAGE)]
pub struct RecordArgs {
    /// The trace file to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Skip the first N references, except the first reference and the first store to each page
    ///
    /// These exceptions preserve the operating system's state: they cause the page faults and dirty pages.
    #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
    pub fast_forward: Option<u64>,
    /// Record a sample: one interval of each period, and fast-forward between them (docs/sampling.md)
    ///
    /// Keys, in references: every (length of a period, default 10M), measure (length of an interval,
    /// default 100k), warm (simulated but not measured before each interval, default 200k). Between intervals, the trace
    /// keeps only the first reference and the first store to each page. A run of the trace measures its intervals.
    #[arg(long, value_name = "every=N,measure=N,warm=N", num_args = 0..=1, default_missing_value = "",
          value_parser = values::recorded_sample)]
    pub sample: Option<reach_trace::Sampling>,
    /// Seed for the random offset of the sample's intervals
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Give the program random addresses, as Linux does (docs/qemu.md) [default: the same in each run]
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u32).range(1..))]
    pub aslr: Option<u32>,
    /// Stop recording after N references, fast-forwarded ones not counted; the program runs on to its end
    #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
    pub limit: Option<u64>,
    /// After --, the program to run and capture, with its arguments
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
