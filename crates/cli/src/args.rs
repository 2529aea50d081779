//! The command line as one definition: from it come parsing, help, man pages and completions.

pub mod catalog;
mod examples;
pub mod record;
pub mod results;
pub mod simulate;
pub mod this_linux;
mod values;

use catalog::{GenerateVerb, MachineVerb, PaperVerb, ProgramVerb, SystemVerb, TraceVerb};
use clap::{Parser, Subcommand};
use record::RecordArgs;
use simulate::{CompareArgs, RunArgs};
use this_linux::{PagesArgs, StatArgs, TextVerb};

/// What address translation costs a program, and what every known remedy would give.
///
/// Reach runs a real program (or takes a recorded or synthetic one), simulates processors and operating systems beside
/// it, and says where the time for address translation goes.
#[derive(Parser)]
#[command(name = "reach", version, after_help = examples::REACH, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// No progress and no remarks on standard error; errors are still reported
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    Compare(Box<CompareArgs>),
    Run(Box<RunArgs>),
    Record(RecordArgs),
    #[command(subcommand)]
    Trace(TraceVerb),
    #[command(subcommand)]
    Machine(MachineVerb),
    #[command(subcommand)]
    System(SystemVerb),
    #[command(subcommand)]
    Program(ProgramVerb),
    #[command(subcommand)]
    Paper(PaperVerb),
    #[command(subcommand)]
    Text(TextVerb),
    Pages(PagesArgs),
    Stat(StatArgs),
    #[command(subcommand, hide = true)]
    Generate(GenerateVerb),
}
