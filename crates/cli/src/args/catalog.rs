//! The command line of the verbs that list, show and check traces, machines, systems, programs and papers.

use super::results::Format;
use super::simulate::Timing;
use super::{examples, values};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use reach_lab::metrics::Selector;
use std::path::PathBuf;

/// Inspect, verify and convert trace files
#[derive(Subcommand)]
#[command(after_help = examples::TRACE)]
pub enum TraceVerb {
    /// Show a trace's origin, format and contents, whether it is complete, and how its program ended
    ///
    /// The exit status is 1 if a part of the trace is missing (docs/endings.md).
    Info {
        /// A trace of `reach record`, ChampSim, drmemtrace or valgrind's lackey: a file, or a folder of drmemtrace
        #[arg(value_hint = ValueHint::AnyPath)]
        file: PathBuf,
    },
    /// Read traces completely and verify their checksums; exit status 1 if one is damaged or incomplete
    Check {
        /// The trace files
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Print a trace as text, one reference or event a line
    Dump {
        /// The trace file
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Number of the first reference to print, counted from 0
        #[arg(long, value_name = "REFERENCE", default_value_t = 0)]
        from: u64,
        /// Number of references to print [default: all]
        #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
        count: Option<u64>,
    },
    /// Convert any readable trace to Reach's format, ChampSim's or drmemtrace's
    ///
    /// ChampSim's records are one stream of instructions, without sizes of accesses. drmemtrace's keep threads and code, but no
    /// mappings (docs/traces.md). Both are compressed if the name of the output ends with .gz, .xz or .zst.
    ///
    /// If a part of the trace cannot be read, writes the part before it, marks the output as incomplete, and exits with
    /// status 1.
    Convert {
        /// The trace to read
        #[arg(value_hint = ValueHint::AnyPath)]
        file: PathBuf,
        /// The trace file to write
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Format to write
        #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TraceFormat::Reach)]
        to: TraceFormat,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
}

/// A format that `reach trace convert` writes.
#[derive(Clone, Copy, ValueEnum)]
pub enum TraceFormat {
    /// Reach's own
    Reach,
    /// ChampSim's
    #[value(name = "champsim")]
    ChampSim,
    /// DynamoRIO's
    #[value(name = "drmemtrace")]
    DrMemtrace,
}

/// Show machines (models of processors), and verify machine files
#[derive(Subcommand)]
#[command(after_help = examples::MACHINE)]
pub enum MachineVerb {
    /// List the preset machines
    List,
    /// Show every value of a machine with its source
    Show {
        /// A preset name, a .toml file, or this-computer (that of `reach machine probe`)
        #[arg(value_name = "MACHINE[:KEY=VALUE,…]", value_parser = values::machine_spec)]
        machine: String,
    },
    /// Verify machine files; exit status 1 if one describes an impossible machine
    Check {
        /// The machine files
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
        /// Also require the values that this timing needs
        #[arg(long, value_enum, default_value_t = Timing::Counts)]
        timing: Timing,
    },
    /// Measure this computer's TLBs, caches and memory, and write a machine file
    ///
    /// Measures in fresh processes until their numbers agree, for at most --seconds, and says which do not agree. The file has
    /// the numbers that do; the rest is that of the nearest preset. Without --output, the file is the default machine on this
    /// processor from then on (docs/probe.md).
    Probe(ProbeArgs),
}

/// Arguments of `reach machine probe`.
#[derive(Args)]
pub struct ProbeArgs {
    /// File to write [default: reach/PROCESSOR.toml in $XDG_DATA_HOME or ~/.local/share, replaced if it exists]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Let --output replace an existing file
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Also draw the steps from which sizes are found
    #[arg(long)]
    pub plot: bool,
    /// The most seconds to measure
    #[arg(long, value_name = "N", default_value_t = 170, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub seconds: u16,
    /// Measure in this process, and print what it finds as JSON
    #[arg(long, hide = true)]
    pub once: bool,
}

/// Show systems: models of operating systems' memory management, as published or as shipped
#[derive(Subcommand)]
#[command(after_help = examples::SYSTEM)]
pub enum SystemVerb {
    /// List all systems
    List,
    /// Show a system and its options
    Show {
        /// The system; options may follow a colon
        #[arg(value_name = "SYSTEM[:KEY=VALUE,…]", value_parser = reach_systems::resolve)]
        system: reach_systems::Resolved,
    },
}

/// Show the synthetic programs that --program accepts
#[derive(Subcommand)]
#[command(after_help = examples::PROGRAM)]
pub enum ProgramVerb {
    /// List all synthetic programs
    List,
    /// Show a synthetic program and its parameters
    Show {
        /// The program's name
        #[arg(value_parser = values::program_name)]
        name: &'static reach_trace::synthetic::Description,
    },
}

/// Define metrics of the results: meaning, unit, source, and which runs give them
///
/// Without a metric, lists all of them. docs/metrics.md has the same definitions.
#[derive(Args)]
#[command(after_help = examples::EXPLAIN)]
pub struct ExplainArgs {
    /// Metrics by name, as in the column `metric` of results; a * stands for any characters
    #[arg(value_name = "METRIC", value_delimiter = ',')]
    pub metrics: Vec<Selector>,
}

/// Reproduce the experiments of papers, and compare the results with the published numbers
#[derive(Subcommand)]
#[command(after_help = examples::PAPER)]
pub enum PaperVerb {
    /// List the papers and the experiments of each
    List,
    /// Run a paper's experiments, and give a verdict on each published number
    ///
    /// The verdict is `met` if our number lies within the tolerance that the paper's file states and justifies, `missed`
    /// if it does not, and `not measurable`, with a reason, if the experiment cannot run. The rows are also saved to a
    /// file.
    ///
    /// Captured programs are read from their recordings if `reach paper record` has made any, and run anew otherwise.
    Run(Box<PaperArgs>),
    /// Record the programs of a paper's experiments in target/papers/PAPER/, so that every run reads the same references
    Record(Box<PaperRecordArgs>),
}

/// Arguments of `reach paper record`.
#[derive(Args)]
pub struct PaperRecordArgs {
    /// A paper's name, or a folder that holds a paper.toml
    #[arg(value_name = "PAPER", value_parser = values::paper)]
    pub paper: reach_lab::paper::Paper,
    /// Experiments whose programs to record [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Record again even if a recording exists
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `reach paper run`.
#[derive(Args)]
pub struct PaperArgs {
    /// A paper's name, or a folder that holds a paper.toml
    #[arg(value_name = "PAPER", value_parser = values::paper)]
    pub paper: reach_lab::paper::Paper,
    /// Experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// File to save the rows to: CSV if its name ends in .csv, else JSON lines [default: target/papers/PAPER.jsonl]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Also write a page of figures and tables to this file, for a browser (docs/pictures.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Let --output and --html replace existing files; the default file is always replaced
    #[arg(long)]
    pub force: bool,
    /// Threads of this computer that simulate; results do not depend on it [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Replace every system by the baseline; exit status 1 if a number is met nevertheless
    ///
    /// Where the baseline is measured alone, its translation costs nothing. A number that such a simulator meets decides
    /// nothing.
    #[arg(long)]
    pub no_effect: bool,
    /// Decide only the conclusions, from the experiments, rows and systems that the paper's file names for this
    #[arg(long, conflicts_with = "experiments")]
    pub quick: bool,
    /// Save the results of all simulations to a file, for --from-results
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_effect")]
    pub save_results: Option<PathBuf>,
    /// Judge the results in this file, which --save-results wrote, and simulate nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["no_effect", "save_results"])]
    pub from_results: Option<PathBuf>,
}

/// Write manual pages, shell completions and reference pages, for packages of Reach
#[derive(Subcommand)]
pub enum GenerateVerb {
    /// Hold settings of the kernel for `reach try`, and restore them at the end of the input
    #[command(hide = true)]
    Guardian,
    /// Break up free memory for `reach try --fragmented`, until the end of the input
    #[command(hide = true)]
    Fragmenter,
    /// Write manual pages
    Man {
        /// The folder to write to; created if missing
        folder: PathBuf,
    },
    /// Write completions for bash, elvish, fish, PowerShell and zsh
    Completions {
        /// The folder to write to; created if missing
        folder: PathBuf,
    },
    /// Write pages in Markdown: commands, machines, systems and synthetic programs
    Reference {
        /// The folder to write to; created if missing
        folder: PathBuf,
    },
}
