//! The twin of walks of page tables that are not radix trees. What a walk reads is the organization's own answer; its walk
//! caches and its cost are restated.

use reach_core::{Asid, PageTable, PageTableKind, PhysAddr, Vpn, Walker};

/// Entries that a walk reads at the same time.
pub struct Group {
    pub entries: Vec<PhysAddr>,
    /// The walk does not wait for them.
    pub aside: bool,
    /// The one that ends the walk, which waits for no other.
    pub found: Option<usize>,
}

/// The walk caches of an organization.
#[derive(Clone, Debug)]
pub struct Organized {
    /// Each cache: the most entries, and what it holds, the most recently used first.
    caches: Vec<(u32, Vec<(Asid, u64)>)>,
}

impl Organized {
    pub fn new(kind: PageTableKind) -> Organized {
        Organized { caches: kind.walk_caches().iter().map(|&entries| (entries, Vec::new())).collect() }
    }

    /// Returns what a walk for `vpn` reads; `None` if the page table is a radix tree.
    pub fn walk(&mut self, table: &PageTable, asid: Asid, vpn: Vpn) -> Option<Vec<Group>> {
        let mut walk = Walk { organized: self, asid, groups: Vec::new() };
        table.organization()?.walk(vpn, &mut walk);
        Some(walk.groups)
    }

    pub fn invalidate(&mut self, asid: Asid) {
        self.caches.iter_mut().for_each(|(_, held)| held.retain(|(of, _)| *of != asid));
    }
}

struct Walk<'a> {
    organized: &'a mut Organized,
    asid: Asid,
    groups: Vec<Group>,
}

impl Walker for Walk<'_> {
    fn read(&mut self, at: &[PhysAddr], found: Option<usize>) -> bool {
        self.groups.push(Group { entries: at.to_vec(), aside: false, found });
        true
    }

    fn read_aside(&mut self, at: &[PhysAddr]) {
        self.groups.push(Group { entries: at.to_vec(), aside: true, found: None });
    }

    fn lookup(&mut self, cache: usize, number: u64) -> bool {
        let (_, held) = &mut self.organized.caches[cache];
        let found = held.iter().position(|&entry| entry == (self.asid, number));
        if let Some(at) = found {
            let entry = held.remove(at);
            held.insert(0, entry);
        }
        found.is_some()
    }

    fn insert(&mut self, cache: usize, number: u64) {
        let (most, held) = &mut self.organized.caches[cache];
        held.insert(0, (self.asid, number));
        held.truncate(*most as usize);
    }
}
