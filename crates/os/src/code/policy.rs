//! How code in files becomes superpages: settings, and what must be remembered of code.

use super::records::CodeRecords;

/// Bytes of a cluster: the unit in which a fault reads a file (Zhou et al. 2023, §5). A superpage of 2 MB has 32.
pub const CLUSTER: u64 = 64 << 10;

/// How code in files becomes superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePages {
    /// A superpage is made when, after a page had to be read in, this many 32nds of its clusters are in memory; the others
    /// are read then (§5). `None`: never.
    pub threshold: Option<u64>,
    /// Residual code becomes whole superpages, filled with what follows in the file, then with no-ops (§6).
    pub padding: bool,
    /// The rule holds for shared libraries as well as for the executable.
    pub libraries: bool,
    /// Processes that map the same part of a file in the same way share a leaf page table.
    pub share: bool,
    /// Whole superpages of code are copied to private memory when they are mapped (§9), instead of all but `share`.
    pub copy: bool,
}

/// The rule for code, and the records of code.
pub(crate) struct CodeState {
    pub(crate) policy: CodePages,
    /// The name of the only files that the rule holds for. `None`: all files.
    pub(crate) only: Option<Box<str>>,
    pub(crate) records: CodeRecords,
}
