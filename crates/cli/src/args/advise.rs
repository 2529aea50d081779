//! The command line of `reach advise`.

use super::results::Format;
use super::values;
use clap::{Args, ValueHint};
use reach_lab::machine;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  reach advise -- ./program
  reach advise --remedy glibc-thp --remedy mthp-64k --precision 0.5% -- ./program
  A server:
      reach advise --ready 'redis-cli ping' --load 'redis-benchmark -q -t get -n 20000' \\
          -- redis-server --save ''
  reach try --list      names the remedies

Exit status: 0 if there is an answer, also if nothing helps; 1 if there is none; 130 after an
interrupt.";

/// Predict by simulation what each remedy for the cost of address translation would gain on this computer
///
/// The program is run some times without the emulator, unless --machine is given: predictions are relative to that time. It is
/// captured under the emulator, as it is and again with each remedy that changes what it does, and simulated
/// under this Linux, with its settings. Remedies come in the order of what they gain, with what they cost in memory and in the
/// longest stops at page faults, and with the exact thing to do. `reach try` measures them; predictions are kept until then, so
/// that later advice can say how often it was right here.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "reach advise [OPTIONS] -- PROG [ARGS]…")]
pub struct AdviseArgs {
    /// The machine: a preset name, a .toml file, or this-computer (that of `reach machine probe`)
    ///
    /// Default: the file of `reach machine probe`, or else the preset nearest to this computer's processor. With a machine, which
    /// may be another computer's, all times are simulated.
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", value_parser = values::machine)]
    pub machine: Option<machine::Resolved>,
    /// Predict only this remedy; may be repeated [default: all, and MADV_HUGEPAGE for single mappings]
    #[arg(long = "remedy", value_name = "NAME")]
    pub remedies: Vec<String>,
    /// How precise predictions must be: half the width of their 95 % confidence intervals
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = values::precision)]
    pub precision: f64,
    /// For a server: a command that succeeds once it is ready
    #[arg(long, value_name = "COMMAND", requires = "load", value_hint = ValueHint::CommandString)]
    pub ready: Option<String>,
    /// For a server: the command of its client; the server gets SIGTERM after it
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub load: Option<String>,
    /// Neither keep the predictions nor say how earlier ones compare with what `reach try` measured
    #[arg(long)]
    pub no_history: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Threads of this computer that simulate; results do not depend on it [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// After --, the program to examine, with its arguments; its output is discarded
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
