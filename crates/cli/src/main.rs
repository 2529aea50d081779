//! The `reach` command.

mod args;
mod compare;
mod curve;
mod experiment;
mod failure;
mod generate;
mod machine;
mod output;
mod paper;
mod processor;
mod program;
mod progress;
mod record;
mod report;
mod run;
mod synthetic;
mod system;
mod table;
mod tabulate;
mod this_linux;
mod trace;
mod units;

use args::{Cli, Verb};
use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    processor::check();
    start()
}

/// A function of its own: nothing of it may run, or be prepared, before the check.
#[inline(never)]
fn start() -> ExitCode {
    let Cli { verb, quiet } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match verb {
        Verb::Compare(args) => compare::compare(*args, quiet),
        Verb::Run(args) => run::run(*args, quiet),
        Verb::Record(args) => record::record(args, quiet),
        Verb::Trace(verb) => trace::trace(verb, quiet),
        Verb::Machine(verb) => machine::machine(verb, quiet),
        Verb::System(verb) => system::system(verb),
        Verb::Program(verb) => synthetic::program(verb),
        Verb::Paper(verb) => paper::paper(verb, quiet),
        Verb::Text(verb) => this_linux::text(verb, quiet),
        Verb::Pages(args) => this_linux::pages(&args),
        Verb::Stat(args) => this_linux::stat(args, quiet),
        Verb::Generate(verb) => generate::generate(verb),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}

/// Prints help where it was asked for, and otherwise what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let text = error.render().to_string();
        eprint!("reach: {}", text.strip_prefix("error: ").unwrap_or(&text));
    } else {
        // Whoever asked for help and does not read it to its end is no error.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}
