//! The command line of `reach try`.

use super::results::Format;
use super::values;
use clap::{Args, ValueHint};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  reach try -- ./program
  reach try --remedy glibc-thp --precision 0.5 -- ./program
  Also what changes this computer, for the time of the test:
      sudo reach try --change-system -- ./program
  A server, by its client's requests per second:
      reach try --ready 'redis-cli ping' --load 'redis-benchmark -q -t get -n 200000' \\
          --rate 'GET: ' -- redis-server --save ''
  reach try --list

Exit status: 0 if it is known of every remedy what it does, or why it can do nothing; 1 if
this computer cannot tell; that of the program if it fails; 130 after an interrupt.";

/// Try remedies for the cost of address translation on this computer, and measure each
///
/// Runs the program as it is and with each remedy, in fresh processes, in random order, and compares the runs of each round.
/// A remedy counts only if the kernel shows that it took effect. Speedups are medians with 95 % confidence intervals. They
/// are of processor time, or of what the client of a server sees. More rounds follow until every remedy is decided and all
/// intervals are narrow enough.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "reach try [OPTIONS] -- PROG [ARGS]…")]
pub struct TryArgs {
    /// Try only this remedy; may be repeated [default: all]
    #[arg(long = "remedy", value_name = "NAME")]
    pub remedies: Vec<String>,
    /// Show the remedies, and try nothing
    #[arg(long, conflicts_with = "command")]
    pub list: bool,
    /// Also try remedies that change settings of the kernel for all programs; the settings are restored after each run
    #[arg(long)]
    pub change_system: bool,
    /// Then break up the free memory, so that the kernel has no huge pages to give, and measure again; needs no root
    #[arg(long)]
    pub fragmented: bool,
    /// Half the width of the intervals that is narrow enough, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = values::precision)]
    pub precision: f64,
    /// The most rounds; each runs the program twice as it is, and once with each remedy
    #[arg(long, value_name = "N", default_value_t = 27, value_parser = clap::value_parser!(u64).range(6..=1000))]
    pub rounds: u64,
    /// The most seconds, after six rounds at least; the round that has begun is finished
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub seconds: u64,
    /// For a server: a command that succeeds once it is ready
    #[arg(long, value_name = "COMMAND", requires = "load", value_hint = ValueHint::CommandString)]
    pub ready: Option<String>,
    /// For a server: the command of its client; the server gets SIGTERM after it
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub load: Option<String>,
    /// With --load: the first number after the last occurrence of this text in the client's output; more is better
    #[arg(long, value_name = "TEXT", requires = "load", conflicts_with = "latency")]
    pub rate: Option<String>,
    /// With --load: as --rate; less is better
    #[arg(long, value_name = "TEXT", requires = "load")]
    pub latency: Option<String>,
    /// Neither show what `reach advise` has predicted nor keep what is measured beside it
    #[arg(long)]
    pub no_history: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// After --, the program to run, with its arguments; its output is discarded
    #[arg(last = true, required_unless_present = "list", value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Verb};
    use clap::Parser;

    #[test]
    fn the_precision_is_a_share() {
        let precision = |args: &[&str]| match Cli::try_parse_from([&["reach", "try"], args, &["--", "true"]].concat()) {
            Ok(Cli { verb: Verb::Try(args), .. }) => args.precision,
            _ => panic!("{args:?} does not parse"),
        };
        assert_eq!((precision(&[]), precision(&["--precision", "0.5"])), (0.01, 0.005));
    }
}
