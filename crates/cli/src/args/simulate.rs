//! The command line of `reach compare` and `reach run`.

use super::results::OutputArgs;
use super::{examples, values};
use clap::{Args, ValueEnum, ValueHint};
use reach_lab::machine;
use reach_os::Fragmentation;
use std::ffi::OsString;
use std::path::PathBuf;

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
