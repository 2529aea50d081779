//! Counts of code: its size, how much of it is touched, and how much becomes superpages (Zhou et al. 2023, Table 3 and Figures
//! 1 and 2).

use crate::ObjectId;
use reach_core::Role;
use std::collections::{BTreeMap, BTreeSet};

/// The code of all processes so far. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCensus {
    /// Code of the executable that has most.
    pub executable: u64,
    /// Code of each library that was mapped, ascending.
    pub libraries: Vec<u64>,
    /// Resident clusters of 64 KB of each whole, aligned superpage of file code that was mapped, ascending.
    pub clusters: Vec<u64>,
    /// Aligned extents of file code that were mapped with superpages, padded ones included.
    pub promoted: u64,
    /// Code that a program wrote itself, in the process that has most.
    pub written: WrittenCode,
}

/// Code that one process wrote itself: private executable memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenCode {
    /// Resident bytes.
    pub resident: u64,
    /// Whole, aligned superpages of addresses.
    pub extents: u64,
    /// Extents with any resident page.
    pub touched: u64,
    /// Extents that are superpages.
    pub promoted: u64,
}

/// Records of code that outlive the processes that mapped it. An extent is named by its file and the index of its first page.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeRecords {
    /// Role and bytes of the code of each file.
    pub(super) files: BTreeMap<ObjectId, (Role, u64)>,
    pub(super) extents: BTreeSet<(ObjectId, u64)>,
    pub(super) promoted: BTreeSet<(ObjectId, u64)>,
    pub(super) written: WrittenCode,
}
