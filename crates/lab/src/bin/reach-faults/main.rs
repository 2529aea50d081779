//! Page faults and huge pages of programs, as this kernel counts them and as `linux-thp` simulates them: the table of
//! `docs/linux-faults.md`.
//!
//! ```text
//! cargo run --release --bin reach-faults -- [PROGRAM…]
//! ```
//!
//! Without names, measures all programs. Prints the table, and fails if a simulated count of faults is off by more than 2 %
//! and five, and 16 for each huge page that differs, or a count of huge pages, of all sizes, by more than one and 2 %. It needs root, because it changes the kernel's settings
//! of transparent huge pages; it restores them.

mod programs;

use anyhow::{Context, Result, bail, ensure};
use programs::{Memory, PROGRAMS, Program};
use reach_lab::{Conditions, Experiment, Timing, machine};
use reach_trace::live::{Live, Options};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The kernel's settings of transparent huge pages: one for huge pages, and one for each smaller size.
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const ENABLED_64K: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
/// That of memory without a file that processes share, and of memfd.
const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
/// The hugetlb pages that programs may get beyond the pool.
const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
/// The native runs of each program.
const RUNS: usize = 7;

/// A setting of transparent huge pages.
struct Setting {
    name: &'static str,
    enabled: &'static str,
    /// Whether all memory may have blocks of 64 KB.
    blocks: bool,
    /// Variables for the program.
    environment: Option<&'static str>,
    /// The setting of shared memory.
    shmem: &'static str,
    /// Whether there are hugetlb pages for whoever asks.
    has_hugetlb: bool,
    /// Options of the simulated system beyond those that stand for the kernel's settings.
    options: &'static str,
}

const MADVISE: Setting = Setting {
    name: "madvise",
    enabled: "madvise",
    blocks: false,
    environment: None,
    shmem: "never",
    has_hugetlb: false,
    options: "",
};
/// The settings of programs that use private memory.
const PRIVATE: &[Setting] = &[
    Setting { name: "always", enabled: "always", ..MADVISE },
    MADVISE,
    Setting { name: "tunable", environment: Some("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"), ..MADVISE },
    Setting { name: "64 KB", blocks: true, ..MADVISE },
];
/// Those of programs that share memory.
const SHARED: &[Setting] = &[
    MADVISE,
    Setting { name: "shared always", shmem: "always", ..MADVISE },
    Setting { name: "shared within size", shmem: "within_size", ..MADVISE },
    Setting { name: "shared advise", shmem: "advise", ..MADVISE },
];
/// Those of programs whose files lie on a tmpfs with huge pages.
const TMPFS: &[Setting] = &[Setting { name: "tmpfs always", options: ",tmpfs_huge=always", ..MADVISE }];
/// Those of programs whose files were written 2 MB at a time, so that the page cache has huge pages of them.
const WRITTEN: &[Setting] = &[Setting { name: "large folios", options: ",file_folios=2M", ..MADVISE }];

/// Those of programs with memory on hugetlbfs.
const HUGETLB: &[Setting] = &[Setting { name: "hugetlb", has_hugetlb: true, ..MADVISE }];

/// Returns the settings under which `program` is measured.
fn settings(program: &Program) -> &'static [Setting] {
    match program.memory {
        Memory::Private => PRIVATE,
        Memory::Shared => SHARED,
        Memory::Tmpfs => TMPFS,
        Memory::Written => WRITTEN,
        Memory::Hugetlb => HUGETLB,
    }
}

impl Setting {
    /// Makes it the kernel's.
    fn apply(&self) -> Result<()> {
        write(ENABLED, self.enabled)?;
        write(SHMEM_ENABLED, self.shmem)?;
        if self.has_hugetlb {
            write(OVERCOMMIT, "64")?;
        }
        write(ENABLED_64K, if self.blocks { "always" } else { "never" })
    }

    /// The system that simulates it.
    fn system(&self) -> String {
        let blocks = if self.blocks { ",mthp=64K,mthp_enabled=always" } else { "" };
        let shmem = if self.shmem == "never" { String::new() } else { format!(",shmem_enabled={}", self.shmem) };
        format!("linux-thp:enabled={}{blocks}{shmem}{}", self.enabled, self.options)
    }
}

/// Page faults, and the huge pages that they allocated.
#[derive(Clone, Copy, Debug)]
struct Counts {
    faults: u64,
    huge: u64,
}

/// A setting of the kernel as it was, which is restored at the end.
struct Restore(&'static str, String);

impl Restore {
    /// Notes a setting, and tries whether it can be written.
    fn new(path: &'static str) -> Result<Restore> {
        let words = fs::read_to_string(path).with_context(|| path)?;
        // Numbers have no brackets.
        let current = words.split(['[', ']']).nth(1).unwrap_or(words.trim());
        write(path, current).context("run this as root")?;
        Ok(Restore(path, current.to_owned()))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

fn write(path: &str, word: &str) -> Result<()> {
    fs::write(path, word).with_context(|| path.to_owned())
}

fn main() -> Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = wanted.iter().find(|name| PROGRAMS.iter().all(|program| program.name != **name)) {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        bail!("{name}: expected one of {}", names.join(", "));
    }
    let changed = [ENABLED, ENABLED_64K, SHMEM_ENABLED, OVERCOMMIT];
    let _restore = changed.into_iter().map(Restore::new).collect::<Result<Vec<_>>>()?;
    let folder = tempfile::tempdir()?;
    let meter = programs::prepare(folder.path())?;
    let is_wanted = |program: &&Program| wanted.is_empty() || wanted.iter().any(|name| name == program.name);
    let measured: Vec<_> = PROGRAMS.iter().filter(is_wanted).collect();
    let needs_tmpfs = measured.iter().any(|program| matches!(program.memory, Memory::Tmpfs));
    let _mounted = needs_tmpfs.then(|| programs::mount(folder.path())).transpose()?;

    println!("| program | setting | faults, Linux | simulated | | huge pages, Linux | simulated |");
    println!("|---|---|---|---|---|---|---|");
    let mut misses = 0;
    for program in measured {
        for setting in settings(program) {
            setting.apply()?;
            let command = command(program, setting, folder.path());
            let native = native(&meter, &command).with_context(|| program.name)?;
            let simulated = simulated(setting, &command).with_context(|| program.name)?;
            let error = simulated.faults as f64 / native.faults as f64 - 1.0;
            let is_near = |ours: u64, theirs: u64, least: u64| ours.abs_diff(theirs) <= (theirs / 50).max(least);
            // A block of 64 KB more or less, for which memory is too fragmented now and then, is 16 faults.
            let few = 5 + 16 * simulated.huge.abs_diff(native.huge);
            let hit = is_near(simulated.faults, native.faults, few) && is_near(simulated.huge, native.huge, 1);
            misses += u32::from(!hit);
            println!(
                "| {} | {} | {} | {} | {:+.1} %{} | {} | {} |",
                program.about,
                setting.name,
                native.faults,
                simulated.faults,
                100.0 * error,
                if hit { "" } else { " **off**" },
                native.huge,
                simulated.huge
            );
        }
    }
    Ok(if misses == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the command line under a setting. Its variables are set by env, in native and captured runs alike.
fn command(program: &Program, setting: &Setting, folder: &Path) -> Vec<String> {
    let environment = setting.environment.iter().flat_map(|variable| ["env".to_owned(), (*variable).to_owned()]);
    environment.chain(program.command(folder)).collect()
}

/// Returns this kernel's counts: the median of faults, and the least of huge pages, because other processes add to them.
fn native(meter: &Path, command: &[String]) -> Result<Counts> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let output = Command::new(meter).args(command).stdin(Stdio::null()).stdout(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "the program failed: {text}");
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [faults, huge] = numbers[..] else { bail!("the meter printed {text}") };
        runs.push(Counts { faults, huge });
    }
    runs.sort_by_key(|run| run.faults);
    let huge = runs.iter().map(|run| run.huge).min().unwrap_or(0);
    Ok(Counts { faults: runs[RUNS / 2].faults, huge })
}

/// Returns the counts of `linux-thp` for the captured program.
fn simulated(setting: &Setting, command: &[String]) -> Result<Counts> {
    let (program, args) = command.split_first().expect("a program has a name");
    let options = Options {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        output: Some("/dev/null".into()),
        aligns_shared: reach_systems::resolve(&setting.system())?.aligns_shared_memory(),
        ..Options::default()
    };
    let conditions = Conditions { timing: Timing::Counts, ..Conditions::new(8 << 30) };
    let experiment = Experiment::new(
        vec![machine::resolve("skylake-e3-1240v5")?],
        vec![reach_systems::resolve(&setting.system())?],
        conditions,
    );
    let mut live = Live::launch(options)?;
    let report = experiment.run(&mut live, |_| true)?;
    ensure!(live.wait()?.success(), "the captured program failed");
    let os = &report.outcomes[0].os;
    Ok(Counts { faults: os.page_faults, huge: os.superpage_faults + os.folio_faults })
}
