//! What a walk reads and costs.

use super::{Mmu, rights::leaf};
use crate::cache::Caches;
use crate::organized::Group;
use reach_core::{
    FinishedWalk, Kind, Label, NodeId, PageTable, PageTableKind, Pfn, PhysAddr, Pte, Slot, Vpn, WalkStep,
};
use reach_hardware::Access;
use reach_hardware::config::Walker;

/// The data of software miss handlers: 128 bytes for each address space. Loads use the first half, stores the second.
const KERNEL_DATA: u64 = 1 << 45;

/// The cost of a walk or of a run of the miss handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub label: Label,
    pub accesses: u64,
    pub cycles: u64,
    pub memory_reads: u64,
}

impl Cost {
    /// Returns the walk with this cost that found `pte`.
    pub fn finished(&self, pte: Pte) -> FinishedWalk {
        let Cost { accesses, cycles, memory_reads, .. } = *self;
        FinishedWalk { pte, cycles, accesses, memory_reads }
    }
}

/// Returns the nodes on the way to the entry for `vpn`, the root first.
fn nodes_to(vpn: Vpn, table: &PageTable) -> Vec<NodeId> {
    let mut nodes = vec![table.root()];
    for level in (0..table.layout().levels()).rev() {
        let node = nodes[nodes.len() - 1];
        let Slot::Table(next) = table.slot(node, table.index(level, vpn)) else { break };
        nodes.push(next);
    }
    nodes
}

impl Mmu {
    /// Returns the part of the page `pte` around `vpn` that one host page backs; all of it outside a guest.
    pub(super) fn smaller_page(&self, vpn: Vpn, pte: Pte) -> Pte {
        let Some(nested) = &self.nested else { return pte };
        let size = nested.smaller_size(pte.shift());
        let within = vpn.0 % pte.shift().base_pages(self.base());
        let first = within - within % size.base_pages(self.base());
        pte.with_pfn(pte.pfn() + first).with_shift(size)
    }

    /// Returns one entry for all base pages of the aligned span around `vpn`, whose own entry is `pte`, if the machine
    /// coalesces them.
    pub(super) fn coalesced(&self, vpn: Vpn, pte: Pte, table: &PageTable) -> Option<Pte> {
        let base = self.base();
        let span = self.config.coalesces().filter(|_| pte.shift() == base)?;
        // Without clusters a walk reads one entry at a time.
        if self.config.layout.kind == PageTableKind::Chained {
            return None;
        }
        if self.config.nested.as_ref().is_some_and(|nested| nested.host_page < span) {
            return None;
        }
        let start = vpn.align_down(span, base);
        let pages: Option<Vec<Pte>> = (0..span.base_pages(base)).map(|page| table.lookup(start + page)).collect();
        let pages = pages?;
        let bits = |pte: &Pte| pte.with_pfn(Pfn(0)).0;
        let in_order = pages.windows(2).all(|pair| pair[0].pfn() + 1 == pair[1].pfn());
        let alike = pages.iter().all(|pte| pte.shift() == base && bits(pte) == bits(&pages[0]));
        let first = pages[0];
        let wants_no_bit = first.accessed() && (first.dirty() || !first.writable());
        let aligned = first.pfn().0 % span.base_pages(base) == 0;
        (in_order && alike && wants_no_bit && aligned).then(|| first.with_shift(span))
    }

    /// Returns the entries that a walk reads, of the guest's table and of the host's.
    fn entries_read(&mut self, vpn: Vpn, steps: &[WalkStep], table: &PageTable) -> Vec<PhysAddr> {
        let base = self.base();
        if table.shadowed().is_some() {
            return self.shadowed_entries_read(vpn, steps, table);
        }
        let Some(nested) = &mut self.nested else { return steps.iter().map(|step| step.at).collect() };
        let mut all = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            // A walk cache that has a table has its host address too.
            if number > 0 || step.level == self.config.layout.levels() - 1 {
                all.extend(nested.translate(step.at, true).concat());
            }
            all.push(step.at);
        }
        if let Some(pte) = leaf(steps.last().map(|step| step.slot)) {
            let within = vpn.addr(base).0 % pte.shift().bytes();
            all.extend(nested.translate(PhysAddr(pte.pfn().addr(base).0 + within), false).concat());
        }
        self.counters.host_accesses += (all.len() - steps.len()) as u64;
        all
    }

    /// Returns the entries that a walk reads where a monitor shadows the guest's table: of shadow nodes first; from the first node in
    /// nested mode on, the guest's entries and, except for that node's address, the host's for each.
    fn shadowed_entries_read(&mut self, vpn: Vpn, steps: &[WalkStep], table: &PageTable) -> Vec<PhysAddr> {
        let base = self.base();
        let layout = self.config.layout.clone();
        let nodes = nodes_to(vpn, table);
        let (Some(nested), Some(shadowed)) = (&mut self.nested, table.shadowed()) else { panic!("no guest") };
        let (mut all, mut of_host) = (Vec::new(), 0);
        let first = nodes.len() - steps.len();
        for (number, step) in steps.iter().enumerate().map(|(number, step)| (first + number, step)) {
            if !shadowed.is_nested(nodes[number]) {
                all.push(PhysAddr((1 << 47) + step.at.0));
                continue;
            }
            let address_known = match number.checked_sub(1) {
                // Walks that do not begin at the root begin at a cached entry.
                Some(above) => (number == first) || !shadowed.is_nested(nodes[above]),
                None => false,
            };
            if !address_known {
                let entries = nested.translate(step.at, true).concat();
                of_host += entries.len();
                all.extend(entries);
            }
            all.push(step.at);
        }
        if let Some(pte) = leaf(steps.last().map(|step| step.slot)) {
            let at = PhysAddr(pte.pfn().addr(base).0 + vpn.addr(base).0 % pte.shift().bytes());
            if shadowed.is_nested(nodes[nodes.len() - 1]) {
                let entries = nested.translate(at, false).concat();
                of_host += entries.len();
                all.extend(entries);
            } else {
                let lowest = layout.placement(nested.smaller_size(pte.shift())).0;
                let below = (lowest..layout.placement(pte.shift()).0).rev();
                all.extend(
                    below
                        .map(|level| PhysAddr((3 << 46) + ((level as u64) << 40) + (at.0 >> layout.span(level).0) * 8)),
                );
            }
        }
        self.counters.host_accesses += of_host as u64;
        all
    }

    /// Walks for `vpn`. Returns the entry at which the walk ends, if it is a page's, and the cost.
    pub(super) fn walk_for(&mut self, vpn: Vpn, table: &PageTable, caches: Option<&mut Caches>) -> (Option<Pte>, Cost) {
        let asid = self.tagged_asid();
        let leaf = leaf(table.walk(vpn).last().map(|step| step.slot));
        let cost = match self.organized.walk(table, asid, vpn) {
            Some(groups) => self.cost_of_groups(vpn, leaf, &groups, caches),
            None => {
                let steps = self.walk_caches.walk(&mut self.tlbs, table, asid, vpn);
                self.cost_of_steps(vpn, &steps, table, caches)
            }
        };
        (leaf, cost)
    }

    /// Reads the entries of a walk. Returns the cost.
    fn cost_of_steps(
        &mut self,
        vpn: Vpn,
        steps: &[WalkStep],
        table: &PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Cost {
        match self.config.walker {
            Walker::Hardware { lookup, caches: ref walk_caches, .. } => {
                let mut cycles = u64::from(lookup);
                // The walker asks the TLB array that holds table entries, once.
                let lenders = self
                    .config
                    .tlbs
                    .iter()
                    .filter(|tlb| walk_caches.iter().any(|cache| cache.within.as_ref() == Some(&tlb.name)));
                cycles += u64::from(lenders.map(|tlb| tlb.latency).max().unwrap_or(0));
                let entries = self.entries_read(vpn, steps, table);
                let mut memory_reads = 0;
                for at in &entries {
                    let read_ahead = self.hastened.iter().find(|(line, _)| *line == at.0 / 64);
                    cycles += match (caches.as_deref_mut(), read_ahead) {
                        (Some(caches), _) => {
                            let latency = caches.access(Access::Walk, *at);
                            memory_reads += u64::from(latency >= self.config.memory);
                            u64::from(latency)
                        }
                        (None, Some(_)) => 0,
                        (None, None) => u64::from(self.config.core.walk_access),
                    };
                    if let Some((_, ready)) = read_ahead {
                        cycles = cycles.max(*ready);
                    }
                }
                Cost { label: Label::Walk, accesses: entries.len() as u64, cycles, memory_reads }
            }
            Walker::Software { cycles, loads, stores, .. } => {
                // The handler loads the lowest entries of the walk, then data of its own.
                let own = steps.len().min(loads as usize);
                let kernel = |n: u64| PhysAddr(KERNEL_DATA + u64::from(self.asid.0) * 128 + 8 * n);
                let mut cycles = u64::from(cycles);
                if let Some(caches) = caches {
                    let near = caches.near_latency(Access::Load);
                    let mut loaded: Vec<PhysAddr> = steps[steps.len() - own..].iter().map(|step| step.at).collect();
                    loaded.extend((own as u64..u64::from(loads)).map(kernel));
                    for at in loaded {
                        cycles += u64::from(caches.access(Access::Load, at).saturating_sub(near));
                    }
                    for n in 0..u64::from(stores) {
                        caches.access(Access::Store, kernel(8 + n));
                    }
                }
                Cost { label: Label::Handler, accesses: own as u64, cycles, memory_reads: 0 }
            }
        }
    }

    /// Reads what a walk of a page table that is not a radix tree reads. Returns the cost: a group takes as long as the entry
    /// that ends the walk, or else as its slowest.
    fn cost_of_groups(
        &mut self,
        vpn: Vpn,
        leaf: Option<Pte>,
        groups: &[Group],
        mut caches: Option<&mut Caches>,
    ) -> Cost {
        let Walker::Hardware { lookup, .. } = self.config.walker else { panic!("software walks radix trees only") };
        let (base, walk_access) = (self.base(), u64::from(self.config.core.walk_access));
        let (memory, mut memory_reads) = (u64::from(self.config.memory), 0);
        let mut latency = |at: PhysAddr| match caches.as_deref_mut() {
            Some(caches) => {
                let latency = u64::from(caches.access(Access::Walk, at));
                memory_reads += u64::from(latency >= memory);
                latency
            }
            None => walk_access,
        };
        let mut cycles = u64::from(lookup);
        let (mut accesses, mut of_host) = (0, 0);
        for group in groups {
            let mut each = Vec::new();
            for &at in &group.entries {
                let host = self.nested.as_mut().map(|nested| nested.translate(at, true)).unwrap_or_default();
                of_host += host.iter().map(Vec::len).sum::<usize>() as u64;
                accesses += 1;
                let mut slowest_of = |group: Vec<PhysAddr>| group.into_iter().map(&mut latency).max().unwrap_or(0);
                each.push(host.into_iter().chain([vec![at]]).map(&mut slowest_of).sum::<u64>());
            }
            let slowest = each.iter().copied().max().unwrap_or(0);
            cycles += if group.aside { 0 } else { group.found.map_or(slowest, |found| each[found]) };
        }
        if let (Some(nested), Some(pte)) = (&mut self.nested, leaf) {
            let within = vpn.addr(base).0 % pte.shift().bytes();
            let host = nested.translate(PhysAddr(pte.pfn().addr(base).0 + within), false);
            of_host += host.iter().map(Vec::len).sum::<usize>() as u64;
            let mut slowest_of = |group: Vec<PhysAddr>| group.into_iter().map(&mut latency).max().unwrap_or(0);
            cycles += host.into_iter().map(&mut slowest_of).sum::<u64>();
        }
        self.counters.host_accesses += of_host;
        Cost { label: Label::Walk, accesses: accesses + of_host, cycles, memory_reads }
    }

    /// Counts a walk. If it is `hidden`, nothing waits for it.
    pub(super) fn count_walk(&mut self, kind: Kind, Cost { label, accesses, cycles, .. }: Cost, hidden: bool) {
        self.counters.walk_accesses += accesses;
        self.counters.walk_cycles += cycles;
        if kind == Kind::Fetch {
            self.counters.walk_accesses_fetch += accesses;
            self.counters.walk_cycles_fetch += cycles;
        }
        match hidden {
            true => self.counters.assist_hidden_cycles += cycles,
            false => self.ledger.charge(label, cycles),
        }
    }
}
