//! The command line of `reach record`.

use super::{examples, values};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Capture a program once, to replay it anywhere
#[derive(Args)]
#[command(after_help = examples::RECORD, override_usage = examples::RECORD_USAGE)]
pub struct RecordArgs {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Pass over the program's first references, but for the first to each page and the first store to it
    #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
    pub fast_forward: Option<u64>,
    /// Record only a sample: intervals, and between them the first reference to each page and the first store to it
    ///
    /// Keys as for `reach run --sample`. What runs the recording measures its intervals.
    #[arg(long, value_name = "every=N,measure=N,warm=N", num_args = 0..=1, default_missing_value = "",
          value_parser = values::recorded_sample)]
    pub sample: Option<reach_trace::Sampling>,
    /// Of where in each period its interval lies
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Stop recording after so many references, those not counted that are fast-forwarded; the program goes on to its end
    #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
    pub limit: Option<u64>,
    /// After --, the program to run and capture, with its arguments
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
