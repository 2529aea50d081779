//! Guests' page tables that a virtual machine monitor shadows ([`Shadowed`]).
//!
//! In shadow mode a walk reads the monitor's nodes, one for each of the guest's, whose entries have the host's addresses. At
//! the first node in nested mode it goes over to the guest's own: the entry above has that node's host address, and from there on
//! the host's table translates (Gandhi et al. 2016, §III-A and figure 3). A walk that began at a cached entry has the
//! host's address of the first node, too.
//!
//! A shadow entry translates no more than one page of the host. A larger page of the guest therefore has shadow nodes below the one
//! that stands for its own; no walk cache holds their entries.

use super::nested::{Nested, host_vpn};
use reach_core::{Layout, NodeId, PageTable, PhysAddr, Pte, Shadowed};

/// Address of the shadow nodes, outside all memory of guest and host: each is as far from here as the guest's node from 0.
const SHADOW: u64 = 1 << 47;
/// Address of shadow nodes that the guest has none for.
const BELOW: u64 = SHADOW | 1 << 46;
/// Binary logarithm of the distance between the regions of two levels of them.
const LEVEL_AT: u32 = 40;

/// What a walk that goes down the guest's table reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkModes<'a> {
    /// `None`: nobody shadows the table, and all nodes are nested.
    shadowed: Option<&'a Shadowed>,
    /// Whether the node above is nested.
    nested_above: bool,
}

impl<'a> WalkModes<'a> {
    /// Returns the modes of `table`, at its root.
    pub fn of(table: &'a PageTable) -> WalkModes<'a> {
        let shadowed = table.shadowed();
        WalkModes { shadowed, nested_above: shadowed.is_none_or(|shadowed| shadowed.is_nested(table.root())) }
    }

    /// Goes on to `node`, whose entry at `at` the walk needs. Returns the address that it reads, and whether the host's table has to
    /// translate `at` before. `cached`: a walk cache held the entry above.
    #[inline]
    pub fn enter(&mut self, node: NodeId, at: PhysAddr, cached: bool) -> (PhysAddr, bool) {
        if self.shadowed.is_some_and(|shadowed| !shadowed.is_nested(node)) {
            return (PhysAddr(SHADOW + at.0), false);
        }
        let translates = self.nested_above && !cached;
        self.nested_above = true;
        (at, translates)
    }

    /// Returns whether the walk ended in nested mode, so that the host's table has to translate the page.
    pub fn is_nested(&self) -> bool {
        self.nested_above
    }
}

/// Calls `read` with the address of each shadow entry below the one of `pte`, a page of the guest that the walk ended at in shadow mode
/// and whose part at guest-physical address `at` is wanted.
pub(crate) fn read_below(nested: &Nested, table: &PageTable, pte: Pte, at: PhysAddr, mut read: impl FnMut(PhysAddr)) {
    let layout: &Layout = table.layout();
    let size = nested.page_size(table.host(), at).min(pte.shift());
    for level in (layout.placement(size).0..layout.placement(pte.shift()).0).rev() {
        read(PhysAddr(BELOW + ((level as u64) << LEVEL_AT) + (at.0 >> layout.span(level).0) * 8));
    }
}

/// Returns whether the host has given the guest memory at `at`.
pub(crate) fn has_memory(table: &PageTable, at: PhysAddr) -> bool {
    table.host().is_none_or(|host| host.lookup(host_vpn(at, host)).is_some())
}
