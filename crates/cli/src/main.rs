//! The `reach` command.

mod args;
mod compare;
mod examples;
mod experiment;
mod failure;
mod output;
mod program;
mod progress;
mod record;
mod table;
mod units;
mod values;

use args::{Cli, Verb};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Cli { verb, quiet } = Cli::parse();
    let done = match verb {
        Verb::Compare(args) => compare::compare(args, quiet),
        Verb::Record(args) => record::record(args, quiet),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
