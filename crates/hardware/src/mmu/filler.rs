//! The filler of the TLB: a hardware walker, or a software miss handler.

use crate::cache::{Access, Caches};
use crate::config::{self, Walker};
use crate::mmu::physical::physical;
use crate::mmu::walk_assist::Hastened;
use crate::tlb::{Context, Tlbs};
use crate::walk::{self, Backing, Nested, OrganizedCaches, WaitsFor, WalkCaches, WalkModes, Walked};
use reach_core::{Asid, FinishedWalk, Label, NodeId, PageShift, PageTable, PhysAddr, Pte, Slot, Vpn};

/// Address of the kernel data that a software handler reads and writes for each process, outside all frames.
const KERNEL_DATA: u64 = 1 << 45;

/// The filler, with its walk caches.
#[derive(Clone, Debug)]
pub(super) struct Filler {
    engine: Engine,
    caches: WalkCaches,
    /// The walk caches of a page table that is not a radix tree.
    organized: OrganizedCaches,
    /// What an assist reads ahead of the next walk.
    hastened: Hastened,
    /// Cycles of a page-table read if no data caches are modelled.
    pub walk_access: u32,
}

#[derive(Clone, Debug)]
enum Engine {
    /// `lookup`: cycles of a walk besides its reads.
    Hardware { lookup: u32, nested: Option<Box<Nested>> },
    /// Cycles, loads and stores of the handler.
    Software { cycles: u32, loads: u32, stores: u32 },
}

/// The page-table entry at which a walk or handler run ended, and the cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchedEntry {
    pub node: NodeId,
    pub index: usize,
    pub slot: Slot,
    pub cost: WalkCost,
    /// The label for the cycles.
    pub label: Label,
    /// In a guest: the guest-physical address for which the host has no page yet. The walk ended there.
    pub host_fault: Option<PhysAddr>,
}

/// The cost of a walk or handler run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalkCost {
    pub cycles: u64,
    /// Page-table entries read, those of the host included.
    pub accesses: u64,
    /// Entries of the host's page table read.
    pub host_accesses: u64,
    /// What the reads of entries take of the core.
    pub reads: WalkReads,
}

impl WalkCost {
    /// Returns the walk with this cost that found `pte`.
    pub fn finished(&self, pte: Pte) -> FinishedWalk {
        let memory_reads = self.reads.from_memory.into();
        FinishedWalk { pte, cycles: self.cycles, accesses: self.accesses, memory_reads }
    }
}

/// What a walk's reads of page-table entries take of the core besides time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WalkReads {
    /// Entries that came from memory rather than a data cache.
    pub from_memory: u32,
    /// Cycles of the reads that missed the first-level data cache. They occupy an MSHR.
    pub l1_miss_cycles: u32,
    /// Cycles of a walk for which nothing but retirement waits, because an assist predicted what it found.
    pub hidden: u32,
    /// Cycles of a walk during which the line of the reference was read, because an assist began to.
    pub ahead: u32,
}

impl WalkReads {
    /// Counts a read of `latency` cycles that ended at `depth` of the data caches, 0 for the first level.
    fn count(&mut self, latency: u32, depth: usize, caches: &Caches) {
        self.from_memory += u32::from(latency >= caches.memory());
        if depth > 0 && caches.walks_enter_l1() {
            self.l1_miss_cycles = self.l1_miss_cycles.saturating_add(latency);
        }
    }

    /// Adds the reads of another walk.
    pub fn add(&mut self, other: WalkReads) {
        self.from_memory = self.from_memory.saturating_add(other.from_memory);
        self.l1_miss_cycles = self.l1_miss_cycles.saturating_add(other.l1_miss_cycles);
        self.hidden = self.hidden.saturating_add(other.hidden);
        self.ahead = self.ahead.saturating_add(other.ahead);
    }
}

impl Filler {
    /// Creates the filler of `machine`. Walk caches may borrow entries of `tlbs`.
    pub fn new(machine: &config::Machine, tlbs: &mut Tlbs) -> Filler {
        let engine = match &machine.walker {
            Walker::Hardware { lookup, .. } => {
                let nested = machine.nested.as_ref().map(|nested| Box::new(Nested::new(machine, nested)));
                let lenders = machine.walk_caches().iter().filter_map(|cache| cache.within.as_ref());
                let latency =
                    |name: &String| machine.tlbs.iter().find(|tlb| tlb.name == *name).map_or(0, |tlb| tlb.latency);
                let lookup = lookup.saturating_add(lenders.map(latency).max().unwrap_or(0));
                Engine::Hardware { lookup, nested }
            }
            &Walker::Software { cycles, loads, stores, .. } => Engine::Software { cycles, loads, stores },
        };
        Filler {
            engine,
            caches: WalkCaches::new(machine, tlbs),
            organized: OrganizedCaches::new(machine.layout.kind),
            hastened: Hastened::default(),
            walk_access: machine.core.walk_access,
        }
    }

    /// Returns whether hardware walks.
    pub fn is_hardware(&self) -> bool {
        matches!(self.engine, Engine::Hardware { .. })
    }

    /// Returns the size of the host's pages, or of its base pages if it has several; `None` unless the program runs in a guest.
    #[inline(always)]
    pub fn host_page(&self) -> Option<PageShift> {
        self.nested().map(|nested| nested.host)
    }

    /// Returns the part of the guest page `pte` around `vpn` that one host page backs; `pte` itself without a guest.
    #[inline(always)]
    pub fn within_host_page(&self, pte: Pte, vpn: Vpn, base: PageShift, table: &PageTable) -> Pte {
        match self.nested() {
            None => pte,
            Some(nested) => {
                let size = nested.page_size(table.host(), physical(pte, vpn.addr(base).0, base));
                walk::within_host_page(pte, vpn, base, Some(size))
            }
        }
    }

    /// Returns the memory behind the frames of `table`.
    pub fn backing<'a>(&'a self, table: &'a PageTable, base: PageShift) -> Backing<'a> {
        Backing { nested: self.nested(), host: table.host(), base }
    }

    #[inline(always)]
    fn nested(&self) -> Option<&Nested> {
        match &self.engine {
            Engine::Hardware { nested, .. } => nested.as_deref(),
            Engine::Software { .. } => None,
        }
    }

    /// Drops what is cached of the host's table for guest number `guest`.
    pub fn clear_host(&mut self, guest: u32) {
        if let Engine::Hardware { nested: Some(nested), .. } = &mut self.engine {
            nested.clear(guest);
        }
    }

    /// Enters guest number `guest`: what is cached of the host's table from here on is for it.
    pub fn enter_guest(&mut self, guest: u32) {
        if let Engine::Hardware { nested: Some(nested), .. } = &mut self.engine {
            nested.enter_guest(guest);
        }
    }

    /// Returns the address of the host's entry for guest-physical address `at`; `None` outside a guest.
    pub fn host_leaf_entry(&self, at: PhysAddr, table: &PageTable) -> Option<PhysAddr> {
        match table.host() {
            None => self.nested().map(|nested| nested.leaf_entry(at)),
            Some(host) => host.walk(walk::host_vpn(at, host)).last().map(|step| step.at),
        }
    }

    /// Drops the entries of `context` from the walk caches.
    pub fn invalidate(&mut self, context: Context) {
        self.caches.invalidate(context);
        self.organized.invalidate(context);
    }

    /// Lets the next walk find the entry at `at` of the radix tree there, once `cycles` have passed.
    pub fn hasten(&mut self, at: PhysAddr, cycles: u64) {
        self.hastened.add(at, cycles);
    }

    /// Forgets what was read ahead of a walk.
    pub fn forget_hastened(&mut self) {
        self.hastened.clear();
    }

    /// Walks `table` for `vpn`, or runs the handler.
    pub fn fetch(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        (asid, context): (Asid, Context),
        vpn: Vpn,
        caches: Option<&mut Caches>,
    ) -> FetchedEntry {
        if table.organization().is_some() {
            let (walked, cost) = self.fetch_organized(tlbs, table, context, vpn, caches, u64::MAX);
            let walked = walked.expect("time does not run out");
            return FetchedEntry::new(walked, cost, Label::Walk);
        }
        match &mut self.engine {
            Engine::Hardware { lookup, nested } => {
                let cost = WalkCost { cycles: u64::from(*lookup), ..WalkCost::default() };
                let (hastened, walk_access) = (&self.hastened, self.walk_access);
                let mut reader = EntryReader { caches, hastened, walk_access, cost };
                let (walked, host_fault) = match nested {
                    None => (self.caches.walk(tlbs, table, context, vpn, |at, _| reader.read(at)), None),
                    Some(nested) => nested_walk(nested, &mut self.caches, tlbs, table, context, vpn, &mut reader),
                };
                FetchedEntry { host_fault, ..FetchedEntry::new(walked, reader.cost, Label::Walk) }
            }
            Engine::Software { cycles, loads, stores } => {
                let mut path = [PhysAddr(0); 8];
                let mut depth = 0;
                let walked = self.caches.walk(tlbs, table, context, vpn, |at, _| {
                    path[depth % 8] = at;
                    depth += 1;
                });
                // A handler with fewer loads than levels finds the lower entries through its linear table.
                let own = depth.min(*loads as usize);
                let mut cycles = u64::from(*cycles);
                if let Some(caches) = caches {
                    let near = caches.near_latency(Access::Load);
                    let kernel = |n: usize| PhysAddr(KERNEL_DATA + u64::from(asid.0) * 128 + n as u64 * 8);
                    let entries = path[depth - own..depth].iter().copied();
                    for at in entries.chain((own..*loads as usize).map(kernel)) {
                        cycles += u64::from(caches.access(Access::Load, at).0.saturating_sub(near));
                    }
                    for n in 0..*stores as usize {
                        caches.access(Access::Store, kernel(8 + n));
                    }
                }
                let cost = WalkCost { cycles, accesses: own as u64, ..WalkCost::default() };
                FetchedEntry::new(walked, cost, Label::Handler)
            }
        }
    }

    /// Walks `table` for `vpn` for at most `within` cycles. Returns the entry, or `None` if the walk was aborted or a handler
    /// would have to run, and the cost. Reads after `within` cycles are not made; those made have changed the data caches.
    pub fn fetch_within(
        &mut self,
        tlbs: &mut Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        caches: &mut Caches,
        within: u64,
    ) -> (Option<Walked>, WalkCost) {
        if table.organization().is_some() {
            return self.fetch_organized(tlbs, table, context, vpn, Some(caches), within);
        }
        let base = tlbs.sizes.base;
        let Engine::Hardware { lookup, nested } = &mut self.engine else { return (None, WalkCost::default()) };
        let mut cost = WalkCost { cycles: u64::from(*lookup), ..WalkCost::default() };
        let mut read = |cost: &mut WalkCost, at| {
            if cost.cycles >= within {
                return false;
            }
            cost.accesses += 1;
            let (latency, depth) = caches.access(Access::Walk, at);
            cost.reads.count(latency, depth, caches);
            cost.cycles += u64::from(latency);
            cost.cycles <= within
        };
        let mut modes = WalkModes::of(table);
        let mut walked = self.caches.try_walk(tlbs, table, context, vpn, |node, at, cached| {
            let Some(nested) = nested.as_deref_mut() else { return read(&mut cost, at) };
            let (own, translates) = modes.enter(node, at, cached);
            let found = !translates
                || nested.translate(table.host(), at, true, |entries| {
                    entries.iter().for_each(|&at| cost.host_accesses += u64::from(read(&mut cost, at)));
                });
            found && read(&mut cost, own)
        });
        if let Some(nested) = nested
            && let Some(Slot::Leaf(pte)) = walked.map(|walked| walked.slot)
        {
            let page = physical(pte, vpn.addr(base).0, base);
            let mut in_time = true;
            let found = if modes.is_nested() {
                nested.translate(table.host(), page, false, |entries| {
                    for &at in entries {
                        in_time = read(&mut cost, at);
                        cost.host_accesses += u64::from(in_time);
                    }
                })
            } else {
                walk::read_below(nested, table, pte, page, |at| in_time = read(&mut cost, at));
                walk::has_memory(table, page)
            };
            walked = walked.filter(|_| in_time && found);
        }
        cost.cycles = cost.cycles.min(within);
        (walked, cost)
    }

    /// Does what [`Filler::fetch_within`] does for a page table that is not a radix tree.
    fn fetch_organized(
        &mut self,
        tlbs: &Tlbs,
        table: &PageTable,
        context: Context,
        vpn: Vpn,
        mut caches: Option<&mut Caches>,
        within: u64,
    ) -> (Option<Walked>, WalkCost) {
        let base = tlbs.sizes.base;
        let walk_access = self.walk_access;
        let (Engine::Hardware { lookup, nested }, Some(organization)) = (&mut self.engine, table.organization()) else {
            return (None, WalkCost::default());
        };
        let mut cost = WalkCost { cycles: u64::from(*lookup), ..WalkCost::default() };
        // Returns the cycles of a read.
        let mut read = |cost: &mut WalkCost, at| match caches.as_deref_mut() {
            Some(caches) => {
                let (latency, depth) = caches.access(Access::Walk, at);
                cost.reads.count(latency, depth, caches);
                u64::from(latency)
            }
            None => u64::from(walk_access),
        };
        let mut read_group = |group: &[PhysAddr], waits_for: WaitsFor| {
            if cost.cycles >= within {
                return false;
            }
            let mut waited = 0;
            for (index, &at) in group.iter().enumerate() {
                let mut cycles = 0;
                if let Some(nested) = nested.as_deref_mut() {
                    nested.translate(None, at, true, |entries| {
                        cost.host_accesses += entries.len() as u64;
                        cycles += entries.iter().map(|&at| read(&mut cost, at)).max().unwrap_or(0);
                    });
                }
                cycles += read(&mut cost, at);
                waited = match waits_for {
                    WaitsFor::Slowest => waited.max(cycles),
                    WaitsFor::One(found) if found == index => cycles,
                    WaitsFor::One(_) | WaitsFor::Nothing => waited,
                };
            }
            cost.accesses += group.len() as u64;
            cost.cycles += waited;
            cost.cycles <= within
        };
        let mut finished = self.organized.walk(organization, context, vpn, &mut read_group);
        // The tree has every entry of the organization, with its contents.
        let (node, index, slot) = table
            .find(vpn)
            .map_or((table.root(), 0, Slot::Empty), |(node, index)| (node, index, table.slot(node, index)));
        if let (Some(nested), Slot::Leaf(pte)) = (nested, slot)
            && finished
        {
            nested.translate(None, physical(pte, vpn.addr(base).0, base), false, |entries| {
                if cost.cycles <= within {
                    cost.host_accesses += entries.len() as u64;
                    cost.cycles += entries.iter().map(|&at| read(&mut cost, at)).max().unwrap_or(0);
                }
            });
            finished = cost.cycles <= within;
        }
        let walked = finished.then_some(Walked { node, index, slot });
        cost.accesses += cost.host_accesses;
        cost.cycles = cost.cycles.min(within);
        (walked, cost)
    }
}

/// Reads entries for a walk that is never aborted, and counts what that costs.
struct EntryReader<'a> {
    caches: Option<&'a mut Caches>,
    hastened: &'a Hastened,
    walk_access: u32,
    cost: WalkCost,
}

impl EntryReader<'_> {
    #[inline(always)]
    fn read(&mut self, at: PhysAddr) {
        let ready = self.hastened.ready(at);
        self.cost.accesses += 1;
        self.cost.cycles += match self.caches.as_deref_mut() {
            Some(caches) => {
                let (latency, depth) = caches.access(Access::Walk, at);
                self.cost.reads.count(latency, depth, caches);
                u64::from(latency)
            }
            // The read that is under way is this one.
            None if ready.is_some() => 0,
            None => u64::from(self.walk_access),
        };
        self.cost.cycles = self.cost.cycles.max(ready.unwrap_or(0));
    }

    fn read_host(&mut self, entries: &[PhysAddr]) {
        self.cost.host_accesses += entries.len() as u64;
        entries.iter().for_each(|&at| self.read(at));
    }
}

/// Walks in both dimensions. Returns what the guest's table has, and the guest-physical address for which the host has no page, if
/// the walk ended there.
#[inline(never)]
fn nested_walk(
    nested: &mut Nested,
    caches: &mut WalkCaches,
    tlbs: &mut Tlbs,
    table: &PageTable,
    context: Context,
    vpn: Vpn,
    reader: &mut EntryReader,
) -> (Walked, Option<PhysAddr>) {
    let (base, host) = (tlbs.sizes.base, table.host());
    let (mut modes, mut fault) = (WalkModes::of(table), None);
    let walked = caches.try_walk(tlbs, table, context, vpn, |node, at, cached| {
        let (own, translates) = modes.enter(node, at, cached);
        if translates && !nested.translate(host, at, true, |entries| reader.read_host(entries)) {
            fault = Some(at);
            return false;
        }
        reader.read(own);
        true
    });
    let walked = walked.unwrap_or(Walked { node: table.root(), index: 0, slot: Slot::Empty });
    if let Slot::Leaf(pte) = walked.slot {
        let page = physical(pte, vpn.addr(base).0, base);
        let found = if modes.is_nested() {
            nested.translate(host, page, false, |entries| reader.read_host(entries))
        } else {
            walk::read_below(nested, table, pte, page, |at| reader.read(at));
            walk::has_memory(table, page)
        };
        fault = fault.or((!found).then_some(page));
    }
    (walked, fault)
}

impl FetchedEntry {
    fn new(walked: Walked, cost: WalkCost, label: Label) -> FetchedEntry {
        FetchedEntry { node: walked.node, index: walked.index, slot: walked.slot, cost, label, host_fault: None }
    }
}
