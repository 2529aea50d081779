//! The command line of the verbs that work on this Linux itself: `reach text`, `reach pages` and `reach stat`.

mod examples;

use super::results::Format;
use super::values;
use clap::{Args, Subcommand, ValueHint};
use reach_live::collapse::What;
use std::ffi::OsString;
use std::path::PathBuf;

/// Map the code of programs with superpages on this Linux, now
///
/// Linux maps code with a 2 MB superpage if two conditions hold. First, the page cache holds those 2 MB of the file in
/// one folio (a unit of contiguous page-cache memory). Second, the addresses and file offsets of the code agree modulo
/// 2 MB. These verbs show whether the conditions hold, establish them, and measure the effect. A region, below, is 2 MB
/// of code at an address that is a multiple of 2 MB. To promote a region is to make it a superpage.
#[derive(Subcommand)]
#[command(after_help = examples::TEXT)]
pub enum TextVerb {
    Show(ShowArgs),
    Promote(PromoteArgs),
    Align(AlignArgs),
    Run(TextRunArgs),
    Keep(KeepArgs),
    Bench(BenchArgs),
}

/// Show which code of files or processes can be superpages, and which is
///
/// For each file, the output shows: executable segments with their regions of 2 MB; the code before and after whole
/// regions, and which verb can pad it to whole ones; how much the page cache holds, by folio size; how many of the 32
/// clusters of 64 KB are in memory in each region; the processes that map the file, with their superpages; and the
/// processes that this user may not examine. For a process, the output covers the program and all its libraries.
#[derive(Args)]
#[command(after_help = examples::SHOW)]
pub struct ShowArgs {
    /// Programs, libraries or process IDs; with --gain: files whose code to promote, one at a time
    #[arg(required_unless_present = "gain", value_name = "FILE|PID", value_hint = ValueHint::FilePath)]
    pub targets: Vec<PathBuf>,
    /// Simulate a program to predict what promoting its code and libraries would save; promotes nothing
    #[arg(long)]
    pub gain: bool,
    #[command(flatten)]
    pub source: GainSource,
    /// Also show the libraries that the programs load
    #[arg(long)]
    pub libraries: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// The program that `reach text show --gain` simulates, and the machine.
#[derive(Args)]
pub struct GainSource {
    /// With --gain: the machine to simulate [default: the preset nearest to this computer's processor]
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", requires = "gain")]
    pub machine: Option<String>,
    /// With --gain: a trace of the program
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "gain", conflicts_with = "command")]
    pub trace: Option<PathBuf>,
    /// With --gain, after --: a program to run and capture, with its arguments
    #[arg(last = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments, requires = "gain")]
    pub command: Vec<OsString>,
}

/// Count page-walk cycles per instruction (WCPI) with the processor's performance counters
///
/// Prints WCPI (cycles of all page walks per instruction), the factors of its part for loads and stores, and how many walks
/// complete, abort or belong to a wrong path.
/// The counts come from a program that is started, from a running process, or from a file that `perf stat` has written.
/// docs/stat.md lists the processors, and what the counters of each can and cannot show.
#[derive(Args)]
#[command(after_help = examples::STAT)]
pub struct StatArgs {
    /// Count a running process, and all processes and threads that it starts meanwhile
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["read", "command"])]
    pub pid: Option<i32>,
    /// With --pid: seconds to count
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub seconds: u64,
    /// Read counts from a file that `perf stat -x,` or `perf stat -j` has written
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub read: Option<PathBuf>,
    /// With --read: the processor that was counted, if its events do not identify it
    #[arg(long, value_name = "NAME", requires = "read")]
    pub model: Option<String>,
    /// Simulate the program instead (`reach run --timing ooo`); needs no counters
    #[arg(long, conflicts_with_all = ["pid", "read"])]
    pub simulate: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// After --, a program to run and count, with its arguments
    #[arg(last = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments,
          required_unless_present_any = ["pid", "read"], conflicts_with = "read")]
    pub command: Vec<OsString>,
}

/// Show the pages of a running process: sizes, residency, bloat and contiguity
///
/// For each mapping: resident memory by page size, and bloat (base pages inside superpages that hold only zeros). Then
/// the number of ranges that hold 90 % and 99 % of the memory. A range is contiguous in virtual and in physical
/// addresses, so it is what one entry of a range TLB maps (Karakostas et al. 2015). Page frames are visible to root only.
#[derive(Args)]
#[command(after_help = examples::PAGES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PagesArgs {
    /// A verb that changes pages; without one, they are shown.
    #[command(subcommand)]
    pub verb: Option<PagesVerb>,
    /// A process ID
    #[arg(required = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Show all mappings, not only those with at least 1 % of the memory
    #[arg(long)]
    pub all: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// The verbs of `reach pages`.
#[derive(Subcommand)]
pub enum PagesVerb {
    Collapse(CollapseArgs),
}

/// Make huge pages of the memory of a running process, or split them again
///
/// Copies extents of 2 MB into huge pages (process_madvise with MADV_COLLAPSE, from Linux 6.1 on), whatever the kernel's setting
/// of transparent huge pages is. Needs root, or the capabilities CAP_SYS_NICE and CAP_SYS_PTRACE. The gain is read from the kernel
/// afterwards.
#[derive(Args)]
#[command(after_help = examples::COLLAPSE)]
pub struct CollapseArgs {
    /// A process ID
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// The memory: anon (all that is private and anonymous, but stacks), heap, or the mapping at an address (0x…)
    #[arg(long, value_name = "MEMORY", default_value = "anon", value_parser = values::memory_kind)]
    pub what: What,
    /// Collapse only extents with at least N of their 512 pages in memory; the others would grow most
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=512), conflicts_with = "undo")]
    pub least: u64,
    /// Split huge pages into base pages instead; needs debugfs
    #[arg(long)]
    pub undo: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Promote the code of files to superpages in the page cache
///
/// Every process that starts later maps the code with superpages, and all share one copy. The file is only read: code in
/// small folios is evicted from the page cache and read again in folios of 2 MB. Memory pressure can evict these;
/// `reach text keep` promotes them again. The state before and after is verified by mapping the file.
#[derive(Args)]
#[command(after_help = examples::PROMOTE)]
pub struct PromoteArgs {
    /// Programs and libraries
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Also promote the libraries that the programs load, if they have regions of 2 MB
    #[arg(long)]
    pub libraries: bool,
    /// Promote only regions with at least N of their 32 clusters of 64 KB in memory now
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=32))]
    pub threshold: u64,
    /// If a file is in use, replace it with a promoted copy of the same bytes, owner and mode
    ///
    /// Running programs keep the old file until they end; programs that start later use the copy.
    #[arg(long, conflicts_with_all = ["mount", "restore"])]
    pub replace: bool,
    /// If the file system has no large folios, mount a promoted copy on tmpfs over the file
    ///
    /// The file itself is not changed. Until --restore it cannot be written or replaced, so package upgrades of it fail.
    #[arg(long, conflicts_with = "restore")]
    pub mount: bool,
    /// Undo promotion: read the code back in base pages, and unmount copies
    #[arg(long, conflicts_with = "threshold")]
    pub restore: bool,
}

/// Copy a program with its code aligned to 2 MB and padded to whole superpages
///
/// For programs that `promote` refuses because their code is not aligned. Addresses stay the same. The copy has a larger
/// segment alignment, and its segments move within the file if necessary. If code shares 2 MB with read-only data only,
/// that data becomes part of the executable segment. If the program needs relinking, the linker flags are shown. The
/// copy is loaded, but not run, before it gets its name.
#[derive(Args)]
#[command(after_help = examples::ALIGN)]
pub struct AlignArgs {
    /// A program or library
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The copy to write
    #[arg(short, long, value_name = "COPY", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Align only; make no data executable
    #[arg(long)]
    pub no_padding: bool,
}

/// Run a program, and move its code and that of its libraries to superpages at its start
///
/// For programs whose files cannot be promoted: on other file systems, in read-only images, or in use. Each process gets
/// a private copy of the code. If anything fails, the program runs with its code as it was. A line on standard error
/// reports the result. Static programs and programs with setuid, setgid or capabilities are refused.
#[derive(Args)]
#[command(after_help = examples::RUN, override_usage = examples::RUN_USAGE)]
pub struct TextRunArgs {
    /// Also move the code of programs that the program starts
    #[arg(long)]
    pub children: bool,
    /// Move only regions of 2 MB that hold nothing but code
    #[arg(long)]
    pub no_padding: bool,
    /// After --, the program to run, with its arguments
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Keep files promoted: run as a service that promotes again what was lost
///
/// Examines the files periodically, and promotes code that was evicted or that an upgrade has replaced. Each change is a
/// line on standard output. SIGTERM and SIGINT end the service after the current round; promoted code stays promoted.
/// docs/text.md has a systemd unit.
#[derive(Args)]
#[command(after_help = examples::KEEP)]
pub struct KeepArgs {
    /// Programs and libraries
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "list")]
    pub files: Vec<PathBuf>,
    /// A file of paths, one a line (# starts a comment); read again in each round
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub list: Option<PathBuf>,
    /// Seconds between rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub every: u64,
    /// Bytes of code to promote in one round, at most; the rest waits for later rounds
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "256M")]
    pub work: u64,
    /// Promote only regions with at least N of their 32 clusters of 64 KB in memory
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=32))]
    pub threshold: u64,
    /// Run one round, then exit
    #[arg(long)]
    pub once: bool,
}

/// Measure the speedup that code superpages give a program on this computer
///
/// Runs the program repeatedly with its code in base pages, in base pages again (the difference is the noise), in folios of
/// 64 KB mapped with base pages, and in superpages. Copies of its files are mounted over the originals, for that process
/// only. The state of each run is verified. Speedups are medians of pairs of runs, with 95 % confidence intervals. The
/// answer is "no effect" only if the interval and the noise exclude an effect that matters (--within), and otherwise
/// "cannot tell". The exit status is 1 if neither user time nor wall time tells whether superpages have an effect.
#[derive(Args)]
#[command(after_help = examples::BENCH, override_usage = examples::BENCH_USAGE)]
pub struct BenchArgs {
    /// Measured runs in each of the four states
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(6..=1000))]
    pub rounds: u64,
    /// Least effect that matters, in percent of the time
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = values::percent)]
    pub within: f64,
    /// Also change the state of libraries that have regions of 2 MB
    #[arg(long)]
    pub libraries: bool,
    /// Folder for copies of the files; should be on the program's file system
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, default_value = "/var/tmp")]
    pub scratch: PathBuf,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// After --, the program to run, with its arguments; its output is discarded
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
