//! The command line of the verbs that list, show and check what Reach knows: traces, machines, systems, programs, papers.

use super::results::Format;
use super::simulate::Timing;
use super::{examples, values};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Look into traces, verify and convert them
#[derive(Subcommand)]
#[command(after_help = examples::TRACE)]
pub enum TraceVerb {
    /// Say what a trace is and what is in it
    Info {
        /// A trace of `reach record`, of ChampSim, or of valgrind's lackey
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Read all of a trace and verify it: exit status 1 when it is damaged
    Check {
        /// The traces
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Write a trace as text, a reference or event a line
    Dump {
        /// The trace
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Number of the first reference to write, from 0
        #[arg(long, value_name = "REFERENCE", default_value_t = 0)]
        from: u64,
        /// How many references to write [default: all]
        #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
        count: Option<u64>,
    },
    /// Turn any trace that can be read into one of Reach's own
    ///
    /// Also makes a whole trace of one that lacks its end because the recorder was killed.
    Convert {
        /// The trace to read
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The trace to write
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
}

/// Show the machines that there are, and verify machine files
#[derive(Subcommand)]
#[command(after_help = examples::MACHINE)]
pub enum MachineVerb {
    /// List the presets
    List,
    /// Show every number of a machine, and where it comes from
    Show {
        /// A preset, or a file that ends with .toml
        #[arg(value_name = "MACHINE[:KEY=VALUE,…]", value_parser = values::machine)]
        machine: String,
    },
    /// Verify machine files: exit status 1 when one describes an impossible machine
    Check {
        /// Files
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
        /// Refuse machines that lack what this timing needs
        #[arg(long, value_enum, default_value_t = Timing::Counts)]
        timing: Timing,
    },
}

/// Show the systems that there are: operating-system designs, as published or as shipped
#[derive(Subcommand)]
#[command(after_help = examples::SYSTEM)]
pub enum SystemVerb {
    /// List all
    List,
    /// Show a system with its options
    Show {
        /// The system; options may follow a colon
        #[arg(value_name = "SYSTEM[:KEY=VALUE,…]", value_parser = reach_systems::resolve)]
        system: reach_systems::Resolved,
    },
}

/// Show the synthetic programs that there are, for --program
#[derive(Subcommand)]
#[command(after_help = examples::PROGRAM)]
pub enum ProgramVerb {
    /// List all
    List,
    /// Show a program with its parameters
    Show {
        /// The program's name
        #[arg(value_parser = values::program_name)]
        name: &'static reach_trace::synthetic::Description,
    },
}

/// Run the experiments of papers, and put their published numbers beside ours
#[derive(Subcommand)]
#[command(after_help = examples::PAPER)]
pub enum PaperVerb {
    /// List the papers, and the experiments of each
    List,
    /// Run a paper's experiments: a verdict for every published number
    ///
    /// A number of ours is `met` when it lies within the tolerance that the paper's file states, with its reason, and
    /// `missed` when it does not. What cannot be run yet is `not measurable`, with the reason. The rows are also saved.
    ///
    /// Captured programs are read from their recordings, where `paper record` has made some, and run anew where not.
    Run(Box<PaperArgs>),
    /// Record the programs that a paper's experiments capture, in target/papers/PAPER/, so that each run reads the same
    Record(Box<PaperRecordArgs>),
}

/// What `paper record` takes.
#[derive(Args)]
pub struct PaperRecordArgs {
    /// A paper by name, or a folder with a paper.toml
    #[arg(value_name = "PAPER", value_parser = values::paper)]
    pub paper: reach_lab::paper::Paper,
    /// The programs of some of its experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Record anew what is there already
    #[arg(long)]
    pub force: bool,
}

/// What `paper run` takes.
#[derive(Args)]
pub struct PaperArgs {
    /// A paper by name, or a folder with a paper.toml
    #[arg(value_name = "PAPER", value_parser = values::paper)]
    pub paper: reach_lab::paper::Paper,
    /// Some of its experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Save the rows, as JSON lines, to this file [default: target/papers/PAPER.jsonl]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Threads that simulate [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Write what packages need from this command line's definition
#[derive(Subcommand)]
pub enum GenerateVerb {
    /// Manual pages
    Man {
        /// The folder to write to; it is made if need be
        folder: PathBuf,
    },
    /// Completions for bash, elvish, fish, PowerShell and zsh
    Completions {
        /// The folder to write to; it is made if need be
        folder: PathBuf,
    },
}
