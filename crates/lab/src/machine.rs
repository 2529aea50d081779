//! Machine files: the machines that Reach simulates, and the source of each of their numbers.
//!
//! ```
//! let machine = reach_lab::machine::resolve("skylake-e3-1240v5:tlb.l2.entries=3072").unwrap();
//! let l2 = machine.hardware.tlbs.iter().find(|tlb| tlb.name == "l2").unwrap();
//! assert_eq!((l2.entries, l2.ways), (3072, 12));
//! ```
//!
//! The schema is in [`mod@file`] and, as prose, in `docs/machines.md`. A file is parsed (`file`, `tag`, `value`), converted
//! to the simulator's types (`lower`) and checked (`check`, `host`); `variant` completes files that are based on a preset,
//! `locate` adds lines to errors, and `renamed` knows the keys of earlier versions.

mod check;
mod error;
mod facts;
pub mod file;
mod host;
mod locate;
mod lower;
mod presets;
mod renamed;
mod spec;
mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod value;
mod variant;

pub use check::{PROGRAM_ADDRESS_BITS, check_hardware};
pub(crate) use error::suggestion;
pub use error::{MachineError, Problem};
pub use facts::Fact;
pub use file::MachineFile;
pub use host::{host_processor, nearest_host};
pub use tag::{Tag, Tagged};
pub use value::{Delay, PageSize, Size, SizeOrNone, Ways, Word, Words};

use crate::conditions::Placement;
use presets::PRESETS;
use reach_hardware::config::{Machine, OooCore, Sharing};
use reach_os::Scatter;
use reach_trace::text;
use sha2::{Digest, Sha256};
use spec::Spec;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use toml::Table;

/// The costs of the operating system's own work on a machine, in cycles of its processor unless said otherwise. They do
/// not include the memory traffic of that work, which goes through the simulated caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OsCosts {
    /// Trap and return of any fault.
    pub trap: u32,
    /// The kernel's path through an anonymous fault, without trap, zeroing, copying, or the write of the entry.
    pub fault: u32,
    /// The same for a page of a file that the page cache holds.
    pub file_fault: u32,
    /// Each further page that a file fault maps around the one faulted on.
    pub fault_around_page: u32,
    /// Zeroing a byte, in thousandths of a cycle.
    pub zero_per_byte: u32,
    /// Copying a byte, in thousandths of a cycle.
    pub copy_per_byte: u32,
    /// Writing one page-table entry.
    pub pte_write: u32,
    /// A TLB shootdown, of the processor that sends it, without the invalidation of each page.
    pub shootdown: u32,
    /// Interrupting other processors for a shootdown, and waiting for them.
    pub interrupt: u32,
    /// A fork, without its page-table entries.
    pub fork: u32,
    /// Copying an entry at fork, without the write.
    pub fork_per_pte: u32,
    /// Tearing down an entry at exec or exit, without the write.
    pub exit_per_pte: u32,
    /// Unmapping a private anonymous page, of any size, that nothing else maps: freeing its memory.
    pub free_page: u32,
    /// Allocating a page of page tables at fork, or freeing it at exec or exit, without zeroing it.
    pub table_page: u32,
    /// A request to read a part of a file into the page cache.
    pub file_read: u32,
    /// Reading a byte of a file into the page cache, in thousandths of a cycle.
    pub file_read_per_byte: u32,
    /// Examining a page (or entry) in a daemon's scan.
    pub scan_per_page: u32,
    /// A system call that does nothing: kernel entry and exit.
    pub syscall: u32,
    /// Not a cost: how scattered the frames of new base pages are. `None`: contiguous.
    pub scatter: Option<Scatter>,
    /// Costs of a virtual machine monitor that shadows page tables. `None`: the program does not run in a guest, or the file does
    /// not tell.
    pub monitor: Option<MonitorCosts>,
}

/// Costs of a virtual machine monitor that shadows a guest's page tables, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorCosts {
    /// A trap, with the monitor's work for an entry.
    pub trap: u32,
    /// Between two looks at which nodes the guest still writes, at least 1.
    pub interval: u64,
}

/// The out-of-order core of a machine, with its hardware threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// The core.
    pub core: OooCore,
    /// The number of hardware threads of a core, at least 1.
    pub threads: u32,
    /// How the threads divide each TLB array, by the array's name. Complete with two threads or more.
    pub smt: BTreeMap<String, Sharing>,
}

/// A machine, checked and ready to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The machine's name in results: that of the preset or file, with the overrides as the user wrote them.
    pub name: String,
    /// A description of the machine, on one line.
    pub about: String,
    /// The number of cores. `None`: the file does not tell.
    pub cores: Option<u32>,
    /// The processor and its memory.
    pub hardware: Machine,
    /// The costs of the operating system's own work.
    pub os: OsCosts,
    /// The out-of-order core. `None`: the file describes none, and `--timing ooo` refuses the machine.
    pub ooo: Option<OutOfOrder>,
    /// All values that results depend on, as JSON on one line. Names and provenance are left out and the order is fixed, so
    /// that equal machines have equal texts.
    pub configuration: String,
    /// SHA-256 of `configuration`, in hexadecimal.
    pub hash: String,
}

impl Resolved {
    /// Checks that the machine has the cores and hardware threads that `placement` asks for. A machine whose file does not
    /// tell its number of cores takes any.
    ///
    /// # Errors
    /// When it has fewer; the sentence names both numbers.
    pub fn check_placement(&self, placement: &Placement) -> Result<(), String> {
        let (name, asked) = (&self.name, placement.cores);
        if let Some(cores) = self.cores.filter(|&cores| cores < asked) {
            let has = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
            let joint = if name.contains(':') { ',' } else { ':' };
            return Err(format!(
                "machine {name} has {has}, and --cores asks for {asked}; {name}{joint}processor.cores={asked} would have \
                 as many"
            ));
        }
        let (threads, asked) = (self.ooo.as_ref().map_or(1, |ooo| ooo.threads), placement.threads);
        if asked > threads {
            let has = if threads == 1 { "1 hardware thread".to_owned() } else { format!("{threads} hardware threads") };
            return Err(format!("a core of machine {name} has {has}, and --smt asks for {asked}"));
        }
        Ok(())
    }
}

/// A preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The preset's name.
    pub name: &'static str,
    /// A description of the machine, on one line.
    pub about: &'static str,
}

/// Returns all presets, oldest machine first.
pub fn list() -> impl Iterator<Item = Preset> {
    loaded_presets().iter().map(|(name, file)| Preset { name, about: &file.about })
}

/// Returns the table of a preset's machine file, complete where the file is a variant of another. `None`: no preset has this name.
pub fn preset_table(name: &str) -> Option<Table> {
    let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
    parse(text).ok().map(|(table, _)| table)
}

/// Reads the machine that `spec` names: a preset or the path of a machine file, and overrides after a colon.
///
/// # Errors
/// When there is no such preset or file, when the machine lacks an override's key, and when the machine cannot be
/// simulated; the last names every part that is impossible.
pub fn resolve(spec: &str) -> Result<Resolved, MachineError> {
    let (table, text) = read(spec)?;
    resolve_table(spec, Spec::parse(spec)?.base, table, &text)
}

/// Reads a machine from the text of a machine file. Its name in results is the one that the text gives.
///
/// # Errors
/// When the machine cannot be simulated; the error names every part that is impossible, with its line.
pub fn resolve_text(text: &str) -> Result<Resolved, MachineError> {
    let impossible = |problems| MachineError::Impossible { machine: "machine".to_owned(), problems };
    let problems = check(text);
    if !problems.is_empty() {
        return Err(impossible(problems));
    }
    let (table, file) = parse(text).map_err(|problem| impossible(vec![problem]))?;
    resolve_table(&file.name, &file.name, table, text)
}

/// Reads the machine that `table` describes, which comes from `text`. `base` is the part of `spec` that stands for its name.
fn resolve_table(spec: &str, base: &str, table: Table, text: &str) -> Result<Resolved, MachineError> {
    let impossible = |problems| MachineError::Impossible { machine: spec.to_owned(), problems };
    let file: MachineFile = table.clone().try_into().map_err(|error| impossible(vec![syntax(text, &error)]))?;
    let (parts, mut problems) = lower_and_check(&file);
    if !problems.is_empty() {
        locate::locate(text, &mut problems);
        return Err(impossible(problems));
    }
    let configuration = facts::configuration(&table).to_string();
    let hash = Sha256::digest(configuration.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = spec.replacen(base, &file.name, 1);
    let (hardware, os, ooo) = parts;
    let cores = file.processor.cores.map(|cores| cores.value);
    Ok(Resolved { name, about: file.about, cores, hardware, os, ooo, configuration, hash })
}

/// Returns every fact of the machine that `spec` names, in the order of its file.
///
/// # Errors
/// As [`resolve`].
pub fn show(spec: &str) -> Result<Vec<Fact>, MachineError> {
    resolve(spec)?;
    Ok(facts::facts(&read(spec)?.0))
}

/// Returns all errors of a machine file with this text, each with its line; none where the file is good.
pub fn check(text: &str) -> Vec<Problem> {
    let located = |mut problems: Vec<Problem>| {
        locate::locate(text, &mut problems);
        problems
    };
    let table: Table = text.parse().unwrap_or_default();
    let earlier = renamed::check(&table);
    if !earlier.is_empty() {
        return located(earlier);
    }
    let (table, file) = match parse(text) {
        Ok(parsed) => parsed,
        Err(problem) => return located(vec![problem]),
    };
    let (_, mut problems) = lower_and_check(&file);
    for fact in facts::facts(&table) {
        if fact.tag == Tag::Override {
            let what = format!("tag {:?} is for overrides; a file gives the source of the number", fact.tag.symbol());
            problems.push(Problem::new(fact.path, what));
        }
    }
    located(problems)
}

/// Reads the text of a machine file: its complete table, and what that says.
fn parse(text: &str) -> Result<(Table, MachineFile), Problem> {
    let table: Table = text.parse().map_err(|error| syntax(text, &error))?;
    let is_variant = variant::is_variant(&table);
    let table = variant::complete(table)?;
    // Where the text is the whole file, an error has its line.
    let file = if is_variant { table.clone().try_into() } else { toml::from_str(text) };
    Ok((table, file.map_err(|error| syntax(text, &error))?))
}

/// Returns all errors of the machine file at `path`, as [`check`] does.
///
/// # Errors
/// When the file cannot be read.
pub fn check_path(path: &Path) -> Result<Vec<Problem>, MachineError> {
    let text =
        text::read(path, text::MAX_BYTES).map_err(|source| MachineError::Io { path: path.to_owned(), source })?;
    Ok(check(&text))
}

/// Whether the machine file at `path`, which has no errors, describes an out-of-order core.
///
/// # Errors
/// When the file cannot be read.
pub fn has_ooo(path: &Path) -> Result<bool, MachineError> {
    let text =
        text::read(path, text::MAX_BYTES).map_err(|source| MachineError::Io { path: path.to_owned(), source })?;
    Ok(parse(&text).is_ok_and(|(_, file)| file.ooo.is_some()))
}

/// Returns the presets by name, parsed.
fn loaded_presets() -> &'static [(&'static str, MachineFile)] {
    static LOADED: OnceLock<Vec<(&str, MachineFile)>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let load = |&(name, text): &(&'static str, &str)| parse(text).ok().map(|(_, file)| (name, file));
        // A test asserts that every preset loads.
        PRESETS.iter().filter_map(load).collect()
    })
}

/// Returns the table that `spec` names, overrides applied, and the text of its file.
fn read(spec: &str) -> Result<(Table, String), MachineError> {
    let parsed = Spec::parse(spec)?;
    let text = if parsed.is_path {
        let path = Path::new(parsed.base);
        text::read(path, text::MAX_BYTES).map_err(|source| MachineError::Io { path: path.to_owned(), source })?
    } else {
        let names = || PRESETS.iter().map(|(name, _)| *name);
        let found = PRESETS.iter().find(|(name, _)| *name == parsed.base).map(|(_, text)| (*text).to_owned());
        found.ok_or_else(|| MachineError::Unknown {
            name: parsed.base.to_owned(),
            todo: error::suggestion(parsed.base, names(), "`reach machine list` lists them all"),
        })?
    };
    let impossible = |problems| MachineError::Impossible { machine: parsed.base.to_owned(), problems };
    // The file must be good without overrides, so that an error in it has its line.
    let problems = check(&text);
    if !problems.is_empty() {
        return Err(impossible(problems));
    }
    let (mut table, _) = parse(&text).map_err(|problem| impossible(vec![problem]))?;
    for change in &parsed.overrides {
        change.apply(&mut table)?;
    }
    Ok((table, text))
}

/// Returns the problem that `error` reports in a file with `text`.
fn syntax(text: &str, error: &toml::de::Error) -> Problem {
    let line = error.span().map(|span| locate::line_of(text, span.start));
    // An error without a span is of a table in memory, after overrides; its text names the key.
    let what = if line.is_some() { error.message().to_owned() } else { error.to_string().replace('\n', " ") };
    Problem { at: String::new(), line, what: what.trim().to_owned() }
}

type Parts = (Machine, OsCosts, Option<OutOfOrder>);

/// Converts `file` to the simulator's types and returns all errors in it.
fn lower_and_check(file: &MachineFile) -> (Parts, Vec<Problem>) {
    let (hardware, mut problems) = lower::hardware(file);
    problems.extend(check_hardware(&hardware));
    problems.extend(host::check(&file.processor));
    let ooo = file.ooo.as_ref().map(|ooo| {
        let (ooo, errors) = lower::ooo(ooo, &file.memory, &hardware);
        problems.extend(errors);
        ooo
    });
    let (os, problem) = lower::os(file);
    problems.extend(problem);
    ((hardware, os, ooo), problems)
}
