//! Machine files: which machines there are, what they are made of, and where every number comes from.
//!
//! ```
//! let machine = reach_lab::machine::resolve("skylake-e3-1240v5:tlb.l2.entries=3072").unwrap();
//! let l2 = machine.hardware.tlbs.iter().find(|tlb| tlb.name == "l2").unwrap();
//! assert_eq!((l2.entries, l2.ways), (3072, 12));
//! ```
//!
//! The schema is in [`mod@file`] and, as prose, in `docs/machines.md`.

mod check;
mod error;
pub mod file;
mod host;
mod locate;
mod lower;
mod presets;
mod rows;
mod spec;
mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod value;

pub use check::{PROGRAM_ADDRESS_BITS, check_hardware};
pub use error::{MachineError, Problem};
pub use file::{MachineFile, Sharing};
pub use host::nearest_host;
pub use rows::Row;
pub use tag::{Tag, Tagged};
pub use value::{Delay, HostPage, PageSize, Size, Ways};

use presets::PRESETS;
use reach_hardware::config::Machine;
use sha2::{Digest, Sha256};
use spec::Spec;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use toml::Table;

/// What the operating system's own work costs on a machine, in cycles of its processor unless said otherwise. Memory
/// traffic that the work causes goes through the simulated caches and is no part of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsCosts {
    /// Trap and return of any fault.
    pub trap: u32,
    /// The kernel's path through an anonymous fault, without trap, zeroing, copying, or writing the entry.
    pub fault: u32,
    /// The same for a page of a file that the page cache holds.
    pub file_fault: u32,
    /// Each further page that a file fault maps around the one faulted on.
    pub fault_around_page: u32,
    /// Zeroing one byte, in thousandths of a cycle.
    pub zero_per_byte: u32,
    /// Copying one byte, in thousandths of a cycle.
    pub copy_per_byte: u32,
    /// Writing one page-table entry.
    pub pte_write: u32,
    /// One shootdown: reaching the other processors and waiting for them, without each page's invalidation.
    pub shootdown: u32,
    /// A fork, without its page-table entries.
    pub fork: u32,
    /// Duplicating one entry at fork, without writing it.
    pub fork_per_pte: u32,
    /// Tearing down one entry at exec or exit, without writing it.
    pub exit_per_pte: u32,
    /// One page of page tables that fork adds, or exec or exit frees, without zeroing it.
    pub table_page: u32,
    /// One request to read a part of a file into the page cache.
    pub file_read: u32,
    /// Reading one byte of a file into the page cache, in thousandths of a cycle.
    pub file_read_per_byte: u32,
    /// Looking at one page (or entry) in a daemon's scan.
    pub scan_per_page: u32,
    /// Entering and leaving the kernel for a call that does nothing.
    pub syscall: u32,
}

/// The out-of-order window of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OooCore {
    /// The core itself.
    pub core: reach_hardware::config::OooCore,
    /// Hardware threads of a core.
    pub threads: u32,
    /// How these threads divide each TLB array; empty with one thread.
    pub smt: BTreeMap<String, Sharing>,
}

/// A machine, ready to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// What results call it: the preset's name or the file's, with the overrides as they were given.
    pub name: String,
    /// What it is, on one line.
    pub about: String,
    /// The processor and its memory.
    pub hardware: Machine,
    /// The operating system's costs.
    pub os: OsCosts,
    /// The out-of-order window, where the machine has one.
    pub ooo: Option<OooCore>,
    /// All that a result depends on, as JSON on one line: values without provenance or names, always in the same
    /// order, so that equal machines have equal texts.
    pub configuration: String,
    /// SHA-256 of `configuration`, in hexadecimal.
    pub hash: String,
}

/// A preset in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it is, on one line.
    pub about: &'static str,
}

/// All presets, oldest first.
pub fn list() -> impl Iterator<Item = Listed> {
    loaded_presets().iter().map(|(name, file)| Listed { name, about: &file.about })
}

/// The machine that `spec` names: a preset or the path of a machine file, and overrides after a colon.
///
/// # Errors
/// When there is no such preset or file, when an override leads nowhere, and when the machine cannot be built; the
/// last names every part that is impossible.
pub fn resolve(spec: &str) -> Result<Resolved, MachineError> {
    let (table, text) = read(spec)?;
    let impossible = |problems| MachineError::Impossible { machine: spec.to_owned(), problems };
    let file: MachineFile = table.clone().try_into().map_err(|error| impossible(vec![syntax(&text, &error)]))?;
    let (parts, mut problems) = judge(&file);
    if !problems.is_empty() {
        locate::locate(&text, &mut problems);
        return Err(impossible(problems));
    }
    let configuration = rows::configuration(&table).to_string();
    let hash = Sha256::digest(configuration.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = spec.replacen(Spec::parse(spec)?.base, &file.name, 1);
    let (hardware, os, ooo) = parts;
    Ok(Resolved { name, about: file.about, hardware, os, ooo, configuration, hash })
}

/// Every fact of the machine that `spec` names, with its provenance, in the order of its file.
///
/// # Errors
/// As [`resolve`].
pub fn show(spec: &str) -> Result<Vec<Row>, MachineError> {
    resolve(spec)?;
    Ok(rows::rows(&read(spec)?.0))
}

/// All that is wrong with a machine file of this text, each with its line; nothing when it is good.
pub fn check(text: &str) -> Vec<Problem> {
    let file: MachineFile = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => return vec![syntax(text, &error)],
    };
    let (_, mut problems) = judge(&file);
    for row in text.parse().map(|table| rows::rows(&table)).unwrap_or_default() {
        if row.tag == Tag::Override {
            let what = format!("tag {:?} is for overrides; a file says where the number comes from", row.tag.symbol());
            problems.push(Problem::new(row.path, what));
        }
    }
    locate::locate(text, &mut problems);
    problems
}

/// As [`check`], for a file.
///
/// # Errors
/// When the file cannot be read.
pub fn check_path(path: &Path) -> Result<Vec<Problem>, MachineError> {
    let text = std::fs::read_to_string(path).map_err(|source| MachineError::Io { path: path.to_owned(), source })?;
    Ok(check(&text))
}

/// Whether the machine file at `path`, in which nothing is wrong, describes a window.
///
/// # Errors
/// When the file cannot be read.
pub fn has_ooo(path: &Path) -> Result<bool, MachineError> {
    let text = std::fs::read_to_string(path).map_err(|source| MachineError::Io { path: path.to_owned(), source })?;
    Ok(toml::from_str(&text).is_ok_and(|file: MachineFile| file.ooo.is_some()))
}

/// The presets as files.
fn loaded_presets() -> &'static [(&'static str, MachineFile)] {
    static LOADED: OnceLock<Vec<(&str, MachineFile)>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let load = |&(name, text): &(&'static str, &str)| toml::from_str(text).ok().map(|file| (name, file));
        // The tests hold that every preset loads.
        PRESETS.iter().filter_map(load).collect()
    })
}

/// The table that `spec` stands for, and the text that it was read from.
fn read(spec: &str) -> Result<(Table, String), MachineError> {
    let parsed = Spec::parse(spec)?;
    let text = if parsed.is_path {
        let path = Path::new(parsed.base);
        std::fs::read_to_string(path).map_err(|source| MachineError::Io { path: path.to_owned(), source })?
    } else {
        let names = || PRESETS.iter().map(|(name, _)| *name);
        let found = PRESETS.iter().find(|(name, _)| *name == parsed.base).map(|(_, text)| (*text).to_owned());
        found.ok_or_else(|| MachineError::Unknown {
            name: parsed.base.to_owned(),
            todo: error::suggestion(parsed.base, names(), "`reach machine list` lists them all"),
        })?
    };
    let impossible = |problems| MachineError::Impossible { machine: parsed.base.to_owned(), problems };
    // The file must be good by itself, so that a complaint about it has its line.
    let problems = check(&text);
    if !problems.is_empty() {
        return Err(impossible(problems));
    }
    let mut table: Table = text.parse().map_err(|error| impossible(vec![syntax(&text, &error)]))?;
    for edit in &parsed.edits {
        edit.apply(&mut table)?;
    }
    Ok((table, text))
}

fn syntax(text: &str, error: &toml::de::Error) -> Problem {
    let line = error.span().map(|span| locate::line_of(text, span.start));
    // Without a span the error is of a table in memory, and its text says in which key.
    let what = if line.is_some() { error.message().to_owned() } else { error.to_string().replace('\n', " ") };
    Problem { at: String::new(), line, what: what.trim().to_owned() }
}

type Parts = (Machine, OsCosts, Option<OooCore>);

/// What `file` describes, and all that is wrong with it.
fn judge(file: &MachineFile) -> (Parts, Vec<Problem>) {
    let (hardware, mut problems) = lower::hardware(file);
    problems.extend(check_hardware(&hardware));
    problems.extend(host::check(&file.processor));
    let ooo = file.ooo.as_ref().map(|ooo| {
        let (ooo, wrong) = lower::ooo(ooo, &file.memory, &hardware);
        problems.extend(wrong);
        ooo
    });
    ((hardware, lower::os(&file.os), ooo), problems)
}
