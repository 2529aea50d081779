//! The command line as one definition: from it come parsing, help, man pages and completions.

use crate::live::args::{PagesArgs, StatArgs, TextVerb};
use crate::{examples, values};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use reach_lab::machine;
use reach_os::Fragmentation;
use std::ffi::OsString;
use std::path::PathBuf;

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

/// Compare systems on machines: one program, every remedy, side by side
///
/// One pass over the program feeds every machine and system. For each machine, a table says what translation costs
/// under each system; speedups are relative to the first system named.
#[derive(Args)]
#[command(after_help = examples::COMPARE, override_usage = examples::COMPARE_USAGE)]
pub struct CompareArgs {
    /// A machine: a preset, or a file that ends with .toml; may be given several times
    ///
    /// Differences follow a colon: skylake-e3-1240v5:tlb.l2.entries=3072. Without this option, the preset nearest to
    /// the processor of this computer is taken.
    #[arg(short, long = "machine", value_name = "MACHINE[:KEY=VALUE,…]", value_parser = machine::resolve)]
    pub machines: Vec<machine::Resolved>,
    /// A system: an operating-system design by name; may be given several times
    ///
    /// Options follow a colon. Without this option: base, linux-thp, hugetlb-2m, every published system there is, and
    /// ideal.
    #[arg(short, long = "system", value_name = "SYSTEM[:KEY=VALUE,…]", value_parser = reach_systems::resolve)]
    pub systems: Vec<reach_systems::Resolved>,
    #[command(flatten)]
    pub common: Common,
}

/// Simulate one machine under one system, and tell everything about it
///
/// Groups of numbers: what the program did, where its cycles went, TLBs and walks with the factors of WCPI, page
/// faults by kind, memory, caches, and the processes one by one.
#[derive(Args)]
#[command(after_help = examples::RUN, override_usage = examples::RUN_USAGE)]
pub struct RunArgs {
    /// The machine: a preset, or a file that ends with .toml
    ///
    /// Differences follow a colon: skylake-e3-1240v5:tlb.l2.entries=3072. Without this option, the preset nearest to
    /// the processor of this computer is taken.
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", value_parser = machine::resolve)]
    pub machine: Option<machine::Resolved>,
    /// The system: an operating-system design by name; options follow a colon
    #[arg(short, long, value_name = "SYSTEM[:KEY=VALUE,…]", value_parser = reach_systems::resolve, default_value = "base")]
    pub system: reach_systems::Resolved,
    /// Also count what a TLB array would miss at other sizes and numbers of ways, all in the same pass (docs/curve.md)
    ///
    /// The array goes by its name in the machine, or as l1d_tlb, l2_tlb. entries and ways are lists of numbers and ranges:
    /// l2_tlb:entries=64..4096/1536,ways=4..16/full. Without them, entries are 16..16384, and ways 1..16/full.
    #[arg(long, value_name = "ARRAY[:entries=…,ways=…]", help_heading = "Simulation", conflicts_with = "sample")]
    pub curve: Option<reach_lab::Curve>,
    #[command(flatten)]
    pub common: Common,
}

/// What `compare` and `run` share.
#[derive(Args)]
pub struct Common {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub conditions: ConditionArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where references come from: stored programs, one or several; a scenario; or a live program.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct ProgramArgs {
    /// A recorded program: a trace of `reach record`, of ChampSim, or of valgrind's lackey; may be given several times
    #[arg(short, long = "trace", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Program")]
    pub traces: Vec<PathBuf>,
    /// A synthetic program; `reach program list` shows all; may be given several times
    ///
    /// Several programs run in one machine, each with its own address space and with files in common: one after the other,
    /// traces last, or in turns of --quantum instructions.
    #[arg(short, long = "program", value_name = "NAME[:KEY=VALUE,…]", value_parser = values::program, help_heading = "Program")]
    pub programs: Vec<String>,
    /// A file that says which programs run in one machine, and what starts when (docs/scenarios.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Program",
          conflicts_with_all = ["traces", "programs"])]
    pub scenario: Option<PathBuf>,
    /// After --, a program to run and capture, with its arguments
    ///
    /// It runs under QEMU, with all its children. Its input, output and exit status are left alone.
    #[arg(last = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments, help_heading = "Program",
          conflicts_with_all = ["traces", "programs", "scenario"])]
    pub command: Vec<OsString>,
}

/// Conditions of the simulation.
#[derive(Args)]
#[command(next_help_heading = "Simulation")]
pub struct ConditionArgs {
    /// How time passes
    #[arg(long, value_enum, default_value_t = Timing::Counts)]
    pub timing: Timing,
    /// Simulated physical memory
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "16G")]
    pub memory: u64,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Instructions after which the next of several programs has its turn [default: each runs to its end]
    #[arg(long, value_name = "INSTRUCTIONS", value_parser = values::count, conflicts_with_all = ["scenario", "command"])]
    pub quantum: Option<u64>,
    /// Break up free memory before the program starts
    ///
    /// Keys: scattered (share of the free memory that lies in blocks smaller than 2^order base pages, 0 to 1), order
    /// (default 9: 2 MB with pages of 4 KB), hold (share of such a block that the kernel keeps, default 0.1), grain (in
    /// runs of 2^grain pages, default 0).
    #[arg(long, value_name = "scattered=SHARE,…", value_parser = values::fragmentation)]
    pub fragment: Option<Fragmentation>,
    /// Start with a cold page cache: first accesses to files wait for the disk
    #[arg(long)]
    pub cold: bool,
    /// Cores that the program's threads and processes are placed on, in turn as they appear (docs/cores.md)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cores: u32,
    /// Hardware threads of each core that are used, as many as the machine has or fewer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub smt: u32,
    /// Pass over the program's beginning, but for what changes the operating system's state
    ///
    /// Of so many references, or of all before a phase that the program announces (docs/workloads.md), only the first to
    /// each page and the first store to it are simulated, and nothing of that is counted: the rest meets memory and files
    /// as the beginning has left them, and caches and TLBs that are nearly cold.
    #[arg(long, value_name = "REFERENCES|PHASE", value_parser = values::fast_forward)]
    pub fast_forward: Option<reach_trace::FastForward>,
    /// Move files of code to multiples of 2 MB, and what of them is written 2 MB behind
    ///
    /// As if they had been linked with -z max-page-size=2097152: superpages of code can begin with the file, and its last
    /// ones can be padded (zhou-2023:padding=on). Nothing but addresses changes.
    #[arg(long, value_enum, value_name = "WHICH")]
    pub align_code: Option<AlignCode>,
    /// Measure intervals at equal distances, and give rates with error bars (docs/sampling.md)
    ///
    /// Keys, in references: every (from interval to interval, default 10M), measure (the length of one, default 100k), warm
    /// (what is simulated in full before each and not measured, default 200k). Between intervals, TLBs, data caches and the
    /// operating system follow the program; with between=tlbs, caches do not, and with between=fast-forward, only the operating
    /// system does. Needs one core with one hardware thread.
    #[arg(long, value_name = "every=N,measure=N,warm=N,between=…", num_args = 0..=1, default_missing_value = "",
          conflicts_with = "record")]
    pub sample: Option<reach_trace::Sampling>,
    /// Cut the program off after so many references, those not counted that are fast-forwarded
    #[arg(long, value_name = "REFERENCES", value_parser = values::count)]
    pub limit: Option<u64>,
    /// Threads that simulate [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Which files of code are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlignCode {
    /// Executables
    Programs,
    /// Executables and libraries
    All,
}

/// What comes out, and where.
#[derive(Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write the results to this file rather than to standard output, which the program shares
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Record the program at the same time, as `reach record` does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Let --record replace an existing file
    #[arg(long, requires = "record")]
    pub force: bool,
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Timing {
    /// Count translation work, at fixed costs; no caches
    Counts,
    /// A blocking in-order core with caches
    #[value(name = "inorder")]
    InOrder,
    /// An out-of-order core with caches, which overlaps walks and misses
    Ooo,
}

/// Forms of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in 80 columns
    Table,
    /// One JSON object a line: a header, then one metric a line
    Jsonl,
    /// One metric a line, under a line of column names
    Csv,
}

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
