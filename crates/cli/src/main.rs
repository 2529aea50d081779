//! The `reach` command.

mod advise;
mod args;
mod captured;
mod compare;
mod curve;
mod emulator;
mod experiment;
mod explain;
mod failure;
mod generate;
mod history;
mod machine;
mod output;
mod own_line;
mod owners;
mod page;
mod paper;
mod probe;
mod processor;
mod program;
mod progress;
mod record;
mod report;
mod run;
mod selected;
mod sweep;
mod synthetic;
mod system;
mod table;
mod tabulate;
mod this_linux;
mod trace;
mod units;
mod validate;
mod verdicts;

use args::{Cli, Verb, renamed};
use clap::Parser;
use clap::error::ErrorKind;
use reach_core::shown_lines;
use std::process::ExitCode;

fn main() -> ExitCode {
    processor::check();
    start()
}

/// Runs the command. A separate function that is never inlined: none of its code may run before the processor check.
#[inline(never)]
fn start() -> ExitCode {
    let Cli { verb, quiet } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(error),
    };
    let result = match verb {
        Verb::Compare(args) => compare::compare(*args, quiet),
        Verb::Run(args) => run::run(*args, quiet),
        Verb::Where(args) => owners::owners(*args, quiet),
        Verb::Sweep(args) => sweep::sweep(&args, quiet),
        Verb::Record(args) => record::record(args, quiet),
        Verb::Trace(verb) => trace::trace(verb, quiet),
        Verb::Machine(verb) => machine::machine(verb, quiet),
        Verb::System(verb) => system::system(verb),
        Verb::Program(verb) => synthetic::program(verb),
        Verb::Paper(verb) => paper::paper(verb, quiet),
        Verb::Validate(args) => validate::validate(args, quiet),
        Verb::Advise(args) => advise::advise(&args, quiet),
        Verb::Try(args) => this_linux::try_remedies(&args, quiet),
        Verb::Text(verb) => this_linux::text(verb, quiet),
        Verb::Pages(args) => this_linux::pages(&args),
        Verb::Stat(args) => this_linux::stat(args, quiet),
        Verb::Explain(args) => explain::explain(&args),
        Verb::Generate(verb) => generate::generate(verb),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}

/// Prints help if the user asked for it, and otherwise the error in the command line.
fn usage(mut error: clap::Error) -> ExitCode {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        renamed::explain(&mut error);
        let text = error.render().to_string();
        eprint!("reach: {}", shown_lines(text.strip_prefix("error: ").unwrap_or(&text)));
    } else {
        // A reader that closes the pipe before the end of the help is no error.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}
