//! Leaf tables that processes share (McCracken 2003; the earlier work of the authors of Zhou et al. 2023): where several
//! map the same part of a file in the same way, read-only, one page of entries serves all of them.
//!
//! Each process keeps a page table of its own here, in which the shared page stands at the same physical address as in the
//! others': walks of one find in the caches what walks of another left there. A page that is mapped for one is mapped for
//! all, at no cost, and who comes later takes over at its first fault what there is. Who changes its mappings gets a copy.
//! Accessed bits are each process's own.

use crate::{FaultKind, Frames, ObjectId, OutOfMemory, Region, Vm};
use reach_core::{Asid, FrameSource, Label, MappedPage, Pfn, PhysAddr, Pte, Traffic, Vpn};
use std::collections::{BTreeMap, BTreeSet};

/// What stands behind the addresses of one leaf table: of each region the bytes that lie there, from the table's first on,
/// the object with its offset, and whether it can be executed.
type Shape = Vec<(u64, u64, ObjectId, u64, bool)>;

/// A leaf table, and who has it: the process, and the table's first page there.
#[derive(Clone, Debug)]
struct Shared {
    at: PhysAddr,
    users: BTreeSet<(Asid, Vpn)>,
}

/// All shared leaf tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTables(BTreeMap<Shape, Shared>);

impl Frames {
    /// One more page table has the table at `at`.
    fn share_table(&mut self, at: PhysAddr) {
        *self.shared_tables.entry(at).or_default() += 1;
    }

    /// One page table less has the table at `at`; whether others still do.
    pub(crate) fn unshare_table(&mut self, at: PhysAddr) -> bool {
        let Some(others) = self.shared_tables.get_mut(&at) else { return false };
        *others -= 1;
        if *others == 0 {
            self.shared_tables.remove(&at);
        }
        true
    }
}

impl Vm {
    /// The first page of the leaf table that holds `vpn`, and how many there are.
    fn leaf(&self, vpn: Vpn) -> (Vpn, u64) {
        let pages = 1 << self.options().layout.bits[0];
        (Vpn(vpn.0 & !(pages - 1)), pages)
    }

    /// Where the leaf table that starts at `first` lies, if the process has one.
    fn leaf_at(&self, asid: Asid, first: Vpn) -> Option<PhysAddr> {
        self.processes.get(&asid)?.table().walk(first).get(self.options().layout.levels() - 1).map(|step| step.at)
    }

    /// What the leaf table that starts at `first` maps, if that can be shared: parts of files that nobody writes.
    fn shape(&self, asid: Asid, first: Vpn) -> Option<Shape> {
        let base = self.base();
        let (start, end) = (first.0 << base.0, (first.0 + self.leaf(first).1) << base.0);
        let part = |region: &Region| {
            let shareable = region.file && !region.protection.write && !region.private_pages;
            let (from, to) = (region.start.max(start), region.end.min(end));
            let offset = region.offset + (from - region.start);
            shareable.then_some((from - start, to - start, region.object, offset, region.protection.execute))
        };
        let shape: Shape = self.processes.get(&asid)?.space.overlapping(start, end).map(part).collect::<Option<_>>()?;
        (!shape.is_empty()).then_some(shape)
    }

    /// Forgets users of the table of this shape that have it no more.
    fn prune(&mut self, shape: &Shape) {
        let Some(shared) = self.sharing.as_ref().and_then(|sharing| sharing.0.get(shape)).cloned() else { return };
        let has = |&(asid, first): &(Asid, Vpn)| {
            self.leaf_at(asid, first) == Some(shared.at) && self.shape(asid, first).as_ref() == Some(shape)
        };
        let users: BTreeSet<_> = shared.users.iter().filter(|user| has(user)).copied().collect();
        let Some(sharing) = &mut self.sharing else { return };
        if users.is_empty() {
            sharing.0.remove(shape);
        } else if let Some(shared) = sharing.0.get_mut(shape) {
            shared.users = users;
        }
    }

    /// The running process faulted at `vpn`: it takes over a table that others have there, where it has none. Returns
    /// whether that answers the fault.
    pub(crate) fn take_shared_table(&mut self, vpn: Vpn) -> Result<bool, OutOfMemory> {
        let asid = self.current;
        let (first, pages) = self.leaf(vpn);
        if self.sharing.is_none() || self.leaf_at(asid, first).is_some() {
            return Ok(false);
        }
        let Some(shape) = self.shape(asid, first) else { return Ok(false) };
        self.prune(&shape);
        let Some(shared) = self.sharing.as_ref().and_then(|sharing| sharing.0.get(&shape)).cloned() else {
            return Ok(false);
        };
        let &(other, there) = shared.users.first().expect("without users it is forgotten");
        // A page larger than the table stands above it.
        if !self.at(asid).table().pages(first, pages).is_empty() {
            return Ok(false);
        }
        for entry in self.at(other).table().pages(there, pages) {
            self.map_with_others(asid, first + (entry.vpn - there), entry.pte)?;
        }
        let Some(own) = self.edit(asid).0.move_leaf_node(first, shared.at) else { return Ok(false) };
        self.frames.share_table(shared.at);
        let fresh = self.frames.new_tables();
        for (at, bytes) in fresh.into_iter().filter(|(at, _)| *at != own) {
            self.zero_bytes(at, bytes, Label::Fault);
        }
        self.frames.free_table(own, self.options.layout.node_bytes(0));
        if let Some(shared) = self.sharing.as_mut().and_then(|sharing| sharing.0.get_mut(&shape)) {
            shared.users.insert((asid, first));
        }
        // The entry that points to it.
        self.ledger.charge(Label::Fault, self.options.costs.pte_write);
        self.tally(asid, |c| c.tables_shared += 1);
        let found = self.at(asid).table().find(vpn).is_some();
        if found {
            self.charge_fault(asid, FaultKind::File, false);
        }
        self.gauge_memory(asid);
        Ok(found)
    }

    /// The running process has had its fault at `vpn` answered: what is mapped in the leaf table there is so for all who
    /// have the table.
    pub(crate) fn map_for_others(&mut self, vpn: Vpn) -> Result<(), OutOfMemory> {
        let asid = self.current;
        let (first, pages) = self.leaf(vpn);
        if self.sharing.is_none() {
            return Ok(());
        }
        let (Some(at), Some(shape)) = (self.leaf_at(asid, first), self.shape(asid, first)) else { return Ok(()) };
        self.prune(&shape);
        let Some(sharing) = &mut self.sharing else { return Ok(()) };
        let shared = sharing.0.entry(shape).or_insert_with(|| Shared { at, users: BTreeSet::from([(asid, first)]) });
        if !shared.users.contains(&(asid, first)) {
            return Ok(());
        }
        let others: Vec<(Asid, Vpn)> = shared.users.iter().filter(|user| **user != (asid, first)).copied().collect();
        let entries: Vec<MappedPage> = self.at(asid).table().pages(first, pages);
        for (other, there) in others {
            for entry in &entries {
                let vpn = there + (entry.vpn - first);
                if self.at(other).table().find(vpn).is_none() {
                    self.map_with_others(other, vpn, entry.pte)?;
                }
            }
            self.gauge_memory(other);
        }
        Ok(())
    }

    /// Enters a page that stands in a shared table already: nothing is written.
    fn map_with_others(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> Result<(), OutOfMemory> {
        self.hold(pte.pfn(), 1);
        let written = self.set_entry(asid, vpn, pte);
        self.let_go(1);
        written?;
        self.frames.add_map(asid, vpn, pte);
        self.count_page(asid, pte, true);
        Ok(())
    }

    /// The mappings of the bytes `start..end` are about to change for this process: shared tables there become its own, as
    /// copies.
    pub(crate) fn unshare_tables(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        let base = self.base();
        let touches = |first: Vpn| first.0 << base.0 < end && start < (first.0 + self.leaf(first).1) << base.0;
        let users = sharing.0.values().flat_map(|shared| shared.users.iter().map(|user| (shared.at, *user)));
        let mine = users.filter(|(_, (user, first))| *user == asid && touches(*first));
        let mine: Vec<(PhysAddr, Vpn)> = mine.map(|(at, (_, first))| (at, first)).collect();
        for (at, first) in mine {
            for shared in self.sharing.iter_mut().flat_map(|sharing| sharing.0.values_mut()) {
                shared.users.remove(&(asid, first));
            }
            // Without others it has been its own all along.
            if self.leaf_at(asid, first) != Some(at) || !self.frames.shared_tables.contains_key(&at) {
                continue;
            }
            let bytes = self.options.layout.node_bytes(0);
            let order = self.frames.table_order(bytes);
            let own = match self.frames.allocate_table(bytes) {
                Some(own) => own,
                None => {
                    self.make_room(order)?;
                    self.frames.allocate_table(bytes).ok_or_else(|| self.out_of_memory(order))?
                }
            };
            // It is filled, not zeroed.
            self.frames.new_tables();
            self.edit(asid).0.move_leaf_node(first, own);
            self.frames.unshare_table(at);
            self.copy_table(at, own, bytes);
            self.gauge_memory(asid);
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.0.retain(|_, shared| !shared.users.is_empty());
        }
        Ok(())
    }

    fn copy_table(&mut self, from: PhysAddr, to: PhysAddr, bytes: u64) {
        let (label, costs) = (Label::Fault, self.options.costs.clone());
        self.ledger.charge(label, costs.table_page);
        if self.options.caches_modelled {
            self.traffic.push(Traffic { at: from, bytes, write: false, label });
            self.traffic.push(Traffic { at: to, bytes, write: true, label });
        } else {
            self.ledger.charge(label, bytes * costs.copy_millicycles_per_byte / 1000);
        }
    }

    /// The frame of a process's leaf table; for tests.
    pub fn leaf_table(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        self.leaf_at(asid, self.leaf(vpn).0).map(|at| at.pfn(self.base()))
    }
}
