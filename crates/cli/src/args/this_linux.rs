//! The command line of what changes this Linux, or looks at it: `reach text` and `reach pages`.

mod examples;

use super::results::Format;
use super::values;
use clap::{Args, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Map the code of programs with superpages, on this Linux, now
///
/// Linux maps code with superpages of 2 MB where its page cache holds the file in folios of 2 MB and the code is aligned to
/// 2 MB. These verbs look at that, bring it about, and measure what it gives.
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

/// Show what superpages the code of files or processes could have, and has
///
/// For each file: its executable segments, the regions of 2 MB in them and the residual code, whether that could be
/// padded, what the page cache holds in folios of which size, how many clusters of 64 KB are resident in each region, and
/// which processes have how much of it mapped with superpages. Of a process, the program and all its libraries are shown.
#[derive(Args)]
#[command(after_help = examples::SHOW)]
pub struct ShowArgs {
    /// Programs and libraries, or numbers of processes; with --gain: which code to promote, one file at a time
    #[arg(required_unless_present = "gain", value_name = "FILE|PID", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// What promoting the code of a program and its libraries would give, by simulation: nothing is promoted
    #[arg(long)]
    pub gain: bool,
    #[command(flatten)]
    pub source: GainSource,
    /// Also show the libraries that the programs load
    #[arg(long)]
    pub libraries: bool,
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Which program `reach text show --gain` simulates, and on which machine.
#[derive(Args)]
pub struct GainSource {
    /// With --gain: the machine [default: the preset nearest to this computer's processor]
    #[arg(short, long, value_name = "MACHINE[:KEY=VALUE,…]", requires = "gain")]
    pub machine: Option<String>,
    /// With --gain: a recorded program
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "gain", conflicts_with = "command")]
    pub trace: Option<PathBuf>,
    /// With --gain, after --: a program to run and capture, with its arguments
    #[arg(last = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments, requires = "gain")]
    pub command: Vec<OsString>,
}

/// Count walk cycles per instruction with the counters of the processor, and what they are made of
///
/// Walk cycles per instruction (WCPI) and its factors, and what becomes of walks, of a program that is started, of a
/// process, or of what `perf stat` has counted elsewhere. docs/stat.md says which processors are known, what each can tell,
/// and what it cannot.
#[derive(Args)]
#[command(after_help = examples::STAT)]
pub struct StatArgs {
    /// Count what a process and all that it starts do
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["read", "command"])]
    pub pid: Option<i32>,
    /// With --pid: for so many seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub seconds: u64,
    /// Read what `perf stat -x,` or `perf stat -j` has written
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub read: Option<PathBuf>,
    /// With --read: of which processor it is, where its events do not tell
    #[arg(long, value_name = "NAME", requires = "read")]
    pub model: Option<String>,
    /// Answer by simulation (`reach run --timing ooo`), with no counters
    #[arg(long, conflicts_with_all = ["pid", "read"])]
    pub simulate: bool,
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// After --, a program to run, with its arguments
    #[arg(last = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments,
          required_unless_present_any = ["pid", "read"], conflicts_with = "read")]
    pub command: Vec<OsString>,
}

/// Show the pages of a live process: sizes, residency, bloat, and how contiguous its memory is
///
/// For each mapping: what is resident, in pages of which size, and how much of its superpages holds nothing but zeros.
/// Then how many ranges, contiguous in virtual and physical addresses, hold 90 % and 99 % of the memory: what redundant
/// memory mappings would need. Frames are shown to root only.
#[derive(Args)]
#[command(after_help = examples::PAGES)]
pub struct PagesArgs {
    /// The number of a process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Show all mappings, not only those that hold at least 1 % of the memory
    #[arg(long)]
    pub all: bool,
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Promote the code of files to superpages, in the page cache itself
///
/// Every process that starts later maps the code with superpages, and all share one copy. The file is only read: what
/// is in memory in small pages is thrown out and read again in folios of 2 MB. Such pages are lost when memory is short;
/// `reach text keep` brings them back. State before and after is shown as verified by mapping the file.
#[derive(Args)]
#[command(after_help = examples::PROMOTE)]
pub struct PromoteArgs {
    /// Programs and libraries
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Also promote the libraries that the programs load, where they have regions of 2 MB
    #[arg(long)]
    pub libraries: bool,
    /// Only regions of 2 MB with at least so many of their 32 clusters of 64 KB in memory now
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=32))]
    pub threshold: u64,
    /// For a file in use: put a promoted copy of the same bytes, owner and mode in its place
    ///
    /// Programs that run keep the old file, and use it until they end; those that start later use the copy.
    #[arg(long, conflicts_with_all = ["mount", "restore"])]
    pub replace: bool,
    /// For a file system without large folios: mount a promoted copy on tmpfs over the file
    ///
    /// The file itself is not touched; until --restore, it cannot be written or replaced: package upgrades of it fail.
    #[arg(long, conflicts_with = "restore")]
    pub mount: bool,
    /// Undo: hold the code in base pages again, and unmount copies
    #[arg(long, conflicts_with = "threshold")]
    pub restore: bool,
}

/// Make a copy of a program whose code is aligned to 2 MB, and padded to whole superpages
///
/// For programs that `promote` refuses because their code is not aligned. No address changes: alignment is patched,
/// segments are moved within the file where need be, and where code shares its 2 MB with read-only data only, that data
/// becomes part of the executable segment. Where more is needed, the flags for the linker are shown. The copy is loaded,
/// but not run, before it gets its name.
#[derive(Args)]
#[command(after_help = examples::ALIGN)]
pub struct AlignArgs {
    /// A program or library
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The copy to write
    #[arg(short, long, value_name = "COPY", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace an existing copy
    #[arg(long)]
    pub force: bool,
    /// Align only: no data becomes executable
    #[arg(long)]
    pub no_padding: bool,
}

/// Run a program with its code, and that of its libraries, moved to superpages at its start
///
/// For programs whose files cannot be promoted: on other file systems, in read-only images, used by others. Each process
/// gets a private copy. Whatever fails leaves the program as it was; a line on standard error says what came of it. Static
/// programs, and those that give rights to whoever runs them, cannot be run so.
#[derive(Args)]
#[command(after_help = examples::RUN, override_usage = examples::RUN_USAGE)]
pub struct TextRunArgs {
    /// Also move the code of programs that the program starts
    #[arg(long)]
    pub children: bool,
    /// Move only regions of 2 MB that are all code
    #[arg(long)]
    pub no_padding: bool,
    /// After --, the program to run, with its arguments
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Keep files promoted: a service
///
/// Looks at the files from time to time, and promotes again what was lost to reclaim or has come anew with an upgrade.
/// A line on standard output says what has changed. SIGTERM and SIGINT end it after the round that runs. What it has
/// promoted stays promoted. docs/text.md has a unit file for systemd.
#[derive(Args)]
#[command(after_help = examples::KEEP)]
pub struct KeepArgs {
    /// Programs and libraries
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "list")]
    pub files: Vec<PathBuf>,
    /// A file with paths, one a line; it is read anew for each round
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub list: Option<PathBuf>,
    /// Seconds between rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub every: u64,
    /// Promote so much in a round, and the rest in the next ones
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "256M")]
    pub work: u64,
    /// Only regions of 2 MB with at least so many of their 32 clusters of 64 KB in memory
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=32))]
    pub threshold: u64,
    /// One round only
    #[arg(long)]
    pub once: bool,
}

/// Measure whether code superpages help a program, here
///
/// The program is run in turns with its code in base pages, in base pages again (what differs then is noise), in larger
/// folios that are mapped by base pages, and in superpages: copies of its file that take its place for one process only.
/// The state of each run is verified. Ratios are medians of pairs, with intervals of 95 % confidence; what does not exceed
/// the noise is no effect.
#[derive(Args)]
#[command(after_help = examples::BENCH, override_usage = examples::BENCH_USAGE)]
pub struct BenchArgs {
    /// So many times each
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(6..=1000))]
    pub rounds: u64,
    /// The same for the libraries that have regions of 2 MB
    #[arg(long)]
    pub libraries: bool,
    /// The folder for copies; its file system should be that of the program
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, default_value = "/var/tmp")]
    pub scratch: PathBuf,
    /// Form of the results
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// After --, the program to run, with its arguments; what it prints is thrown away
    #[arg(last = true, required = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
