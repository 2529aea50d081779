//! What the processor and the operating system say to each other besides the page table.

use crate::{Asid, Kind, Label, PhysAddr, Vpn};

/// Why a reference could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No translation.
    Missing,
    /// There is one, but it forbids this kind of reference.
    Protection,
}

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The base page referred to.
    pub vpn: Vpn,
    /// What was tried.
    pub kind: Kind,
    /// Why it failed.
    pub cause: Cause,
}

/// Why the processor stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The references are used up.
    End,
    /// A page fault; the reference is retried after it is handled.
    Fault(Fault),
    /// The first write to a clean page that the operating system watches ([`crate::Pte::watched`]); retried too.
    FirstWrite(Vpn),
    /// The policy in the miss handler asked for the operating system; the next reference is not affected.
    Consult,
    /// An outline does not tell what comes next; with references it could be told. Nothing can be done but to begin
    /// again.
    Obscured,
}

/// Translations that processors must forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shootdown {
    /// Of which address space.
    pub asid: Asid,
    /// First base page.
    pub vpn: Vpn,
    /// How many base pages; every entry that overlaps them goes. `u64::MAX`: the whole address space.
    pub pages: u64,
}

/// Memory that the operating system itself reads or writes, in physical addresses. The run loop sends it through the
/// same caches as the program's references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// First byte.
    pub at: PhysAddr,
    /// How many bytes, one after the other.
    pub bytes: u64,
    /// Written rather than read.
    pub write: bool,
    /// What the cycles are charged to.
    pub label: Label,
}
