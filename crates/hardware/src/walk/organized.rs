//! Walks of page tables that are not radix trees ([`reach_core::Organization`]): groups of entries that are read at the same
//! time, and walk caches of the organization's own.

use crate::array::Array;
use crate::config::Replacement;
use crate::tlb::Context;
use reach_core::{Organization, PageTableKind, PhysAddr, Vpn, Walker};

/// The walk caches that an organization brings: fully associative, least recently used.
#[derive(Clone, Debug)]
pub(crate) struct OrganizedCaches(Vec<Array<u64>>);

impl OrganizedCaches {
    /// Creates the empty walk caches of `kind`.
    pub fn new(kind: PageTableKind) -> OrganizedCaches {
        let array = |&entries: &u32| Array::new(entries as usize, entries as usize, Replacement::Lru, 0);
        OrganizedCaches(kind.walk_caches().iter().map(array).collect())
    }

    /// Drops all entries of `context`.
    pub fn invalidate(&mut self, context: Context) {
        self.0.iter_mut().for_each(|array| array.remove_if(|tag| context.owns(tag)));
    }

    /// Walks `organization` for `vpn`. Calls `read` with each group of addresses that are read at
    /// the same time, and with what the walk waits for. Returns `false` if `read` aborts the walk by that.
    pub fn walk(
        &mut self,
        organization: &dyn Organization,
        context: Context,
        vpn: Vpn,
        read: &mut dyn FnMut(&[PhysAddr], WaitsFor) -> bool,
    ) -> bool {
        organization.walk(vpn, &mut OrganizedWalk { caches: &mut self.0, context, read })
    }
}

/// What a walk waits for, of entries that are read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// All of them.
    Slowest,
    /// The one of this index, which ends the walk.
    One(usize),
    /// None: the walk goes on meanwhile.
    Nothing,
}

/// One walk.
struct OrganizedWalk<'a> {
    caches: &'a mut [Array<u64>],
    context: Context,
    read: &'a mut dyn FnMut(&[PhysAddr], WaitsFor) -> bool,
}

impl Walker for OrganizedWalk<'_> {
    fn read(&mut self, at: &[PhysAddr], found: Option<usize>) -> bool {
        (self.read)(at, found.map_or(WaitsFor::Slowest, WaitsFor::One))
    }

    fn read_aside(&mut self, at: &[PhysAddr]) {
        (self.read)(at, WaitsFor::Nothing);
    }

    fn lookup(&mut self, cache: usize, number: u64) -> bool {
        self.caches[cache].lookup(0, self.context.table_tag(cache, number)).is_some()
    }

    fn insert(&mut self, cache: usize, number: u64) {
        self.caches[cache].insert(0, self.context.table_tag(cache, number), 0);
    }
}
