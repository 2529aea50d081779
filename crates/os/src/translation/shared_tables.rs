//! Leaf tables that several page tables have in common.

use crate::{Frames, ObjectId};
use reach_core::{Asid, PhysAddr, Vpn};
use std::collections::{BTreeMap, BTreeSet};

/// Part of a file in the address range of one leaf table: first and last byte relative to the table's first, the object,
/// the offset there, and whether it can be executed.
pub(super) type Part = (u64, u64, ObjectId, u64, bool);

/// The parts of files that one leaf table maps. Processes can share a table if their shapes are equal.
pub(super) type Shape = Vec<Part>;

/// A leaf table that can be shared.
#[derive(Clone, Debug)]
pub(super) struct SharedTable {
    /// Its address in physical memory.
    pub(super) at: PhysAddr,
    /// Address spaces that use the table, each with the first page that the table maps there.
    pub(super) users: BTreeSet<(Asid, Vpn)>,
}

/// All shared leaf tables, by shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTables(BTreeMap<Shape, SharedTable>);

impl SharedTables {
    /// Returns the table of this shape.
    pub(super) fn get(&self, shape: &Shape) -> Option<&SharedTable> {
        self.0.get(shape)
    }

    /// Replaces the users of the table of this shape, which is dropped without any.
    pub(super) fn set_users(&mut self, shape: &Shape, users: BTreeSet<(Asid, Vpn)>) {
        if users.is_empty() {
            self.0.remove(shape);
        } else if let Some(shared) = self.0.get_mut(shape) {
            shared.users = users;
        }
    }

    /// Adds a user of the table of this shape.
    pub(super) fn add_user(&mut self, shape: &Shape, user: (Asid, Vpn)) {
        if let Some(shared) = self.0.get_mut(shape) {
            shared.users.insert(user);
        }
    }

    /// Returns the table of this shape; without one, the table at `at` with its only user `user` becomes it.
    pub(super) fn get_or_insert(&mut self, shape: Shape, at: PhysAddr, user: (Asid, Vpn)) -> &SharedTable {
        self.0.entry(shape).or_insert_with(|| SharedTable { at, users: BTreeSet::from([user]) })
    }

    /// Returns the tables that `asid` uses, with the first page that each maps there.
    pub(super) fn used_by(&self, asid: Asid) -> impl Iterator<Item = (PhysAddr, Vpn)> {
        let users = self.0.values().flat_map(|shared| shared.users.iter().map(|user| (shared.at, *user)));
        users.filter(move |(_, (user, _))| *user == asid).map(|(at, (_, first))| (at, first))
    }

    /// Removes a user from all tables.
    pub(super) fn remove_user(&mut self, user: (Asid, Vpn)) {
        self.0.values_mut().for_each(|shared| _ = shared.users.remove(&user));
    }

    /// Drops tables without users.
    pub(super) fn drop_unused(&mut self) {
        self.0.retain(|_, shared| !shared.users.is_empty());
    }
}

impl Frames {
    /// Counts one more page table that uses the node at `at`.
    pub(super) fn share_table(&mut self, at: PhysAddr) {
        *self.shared_tables.entry(at).or_default() += 1;
    }

    /// Counts one page table less that uses the node at `at`. Returns whether others still use it.
    pub(crate) fn unshare_table(&mut self, at: PhysAddr) -> bool {
        let Some(others) = self.shared_tables.get_mut(&at) else { return false };
        *others -= 1;
        if *others == 0 {
            self.shared_tables.remove(&at);
        }
        true
    }
}
