//! Defines the command line once: parsing, help, man pages and shell completions all come from here.

pub mod advise;
pub mod catalog;
#[cfg(test)]
mod documented;
mod examples;
pub mod owners;
pub mod record;
pub mod renamed;
pub mod results;
pub mod simulate;
pub mod sweep;
pub mod this_linux;
pub mod trial;
pub mod validate;
mod values;

use advise::AdviseArgs;
use catalog::{ExplainArgs, GenerateVerb, MachineVerb, PaperVerb, ProgramVerb, SystemVerb, TraceVerb};
use clap::{Parser, Subcommand};
use owners::WhereArgs;
use record::RecordArgs;
use simulate::{CompareArgs, RunArgs};
use sweep::SweepArgs;
use this_linux::{PagesArgs, StatArgs, TextVerb};
use trial::TryArgs;
use validate::ValidateArgs;

/// Measure what address translation costs a program, and what each known remedy would save
///
/// Reach captures a program (or reads a trace, or generates a synthetic program) and simulates it on models of
/// processors and operating systems: TLBs, page walks, caches, page tables, page faults and superpages. It reports
/// where the cycles of address translation go. A TLB caches translations from virtual to physical pages; a superpage is
/// a page larger than the base page, such as 2 MB instead of 4 KB.
///
/// The verbs try, text, pages and stat work on this Linux itself; they simulate only on request. The verb advise simulates this
/// Linux.
#[derive(Parser)]
#[command(name = "reach", version, after_help = examples::REACH, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// The verb, with its own arguments.
    #[command(subcommand)]
    pub verb: Verb,
    /// Print errors only: no progress and no remarks on standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The verbs of `reach`.
#[derive(Subcommand)]
pub enum Verb {
    Compare(Box<CompareArgs>),
    Run(Box<RunArgs>),
    Where(Box<WhereArgs>),
    Sweep(SweepArgs),
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
    Validate(ValidateArgs),
    Advise(Box<AdviseArgs>),
    Try(TryArgs),
    #[command(subcommand)]
    Text(TextVerb),
    Pages(PagesArgs),
    Stat(StatArgs),
    Explain(ExplainArgs),
    #[command(subcommand, hide = true)]
    Generate(GenerateVerb),
}
