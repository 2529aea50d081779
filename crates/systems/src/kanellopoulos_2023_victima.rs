//! `kanellopoulos-2023-victima`: lines of the second-level data cache hold translations.
//!
//! After: Kanellopoulos, Nam, Bostanci, Bera, Sadrosadati, Kumar, Bartolini and Mutlu, "Victima: Drastically Increasing Address
//! Translation Reach by Leveraging Underutilized Cache Resources", MICRO 2023. What is said of it here is from its abstract and
//! from summaries of it.
//!
//! | design | here |
//! |---|---|
//! | a cluster of eight entries takes a line of the second-level cache, in place of data | [`Victima::hold`] |
//! | a TLB miss looks for it there while the walk begins | [`Victima::search`] |
//! | a walk, or an eviction from the last TLB, makes one if the page is costly to translate | [`Victima::walked`], [`Victima::evicted`] |
//! | the predictor of that cost (PTW-CP) counts walks of a page, and those that read memory | [`Walks`] |
//! | the page table's own line holds the eight entries, so nothing else is read | `AssistPort::entry` |
//!
//! Readings: a page is costly to translate if it was walked for at least `frequency` times, and `cost` of these walks read
//! memory. Both counts saturate at 15, as counters in unused bits of the entry do. A line is found by address space and
//! page number; while it is looked for, the walk has read nothing yet, so that a miss costs nothing.
//!
//! Deviations: the cache replaces lines as the machine's does; the paper's replacement prefers lines of translations while
//! TLB misses are frequent. A line found in the second level does not move to others.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PageTableKind, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist,
};
use std::collections::{BTreeSet, HashMap};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "kanellopoulos-2023-victima",
    summary: "lines of the second-level cache hold translations of pages that are costly to walk for (Victima)",
    role: Role::Design,
    // Its entries are in data caches, which only some timings have.
    compared: false,
    published: Some(
        "Kanellopoulos, Nam, Bostanci, Bera, Sadrosadati, Kumar, Bartolini and Mutlu: Victima: Drastically Increasing Address \
         Translation Reach by Leveraging Underutilized Cache Resources, MICRO 2023",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "found no translation in the second-level cache"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let least = Walks { all: settings.number("frequency") as u8, costly: settings.number("cost") as u8 };
        Box::new(Assisted::new(DESCRIPTION.name, settings, move |vm| {
            Box::new(Victima::new(least, &vm.options().sizes))
        }))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "frequency",
        Accepts::number(0, 15, Unit::Count),
        "1",
        "the fewest walks for a page whose translation is kept",
    ),
    Setting::new("cost", Accepts::number(0, 15, Unit::Count), "1", "how many of these read memory, at least"),
    POLICY,
];

/// The first byte of the lines, beyond all frames.
const LINES: u64 = 1 << 45;
/// Bits of a line's number.
const NUMBER_BITS: u32 = 38;
/// Entries of a line, as a shift.
const CLUSTER: u8 = 3;
/// The value at which counts saturate.
const MOST: u8 = 15;

/// Walks for a page: all, and those that read memory.
#[derive(Clone, Copy, Debug, Default)]
struct Walks {
    all: u8,
    costly: u8,
}

/// A cluster of eight pages: address space, index of the page size, and number.
type Cluster = (Asid, usize, u64);

/// Translations in lines of the second-level cache.
#[derive(Clone, Debug)]
struct Victima {
    base: PageShift,
    sizes: Vec<PageShift>,
    least: Walks,
    /// By address space and first base page of the page.
    walks: HashMap<(Asid, u64), Walks>,
    /// The clusters that were put into the cache and are valid. It may have evicted them since.
    valid: BTreeSet<Cluster>,
}

impl Victima {
    /// Creates an empty one, for pages with at least `least` walks, on a machine with pages of `sizes`.
    fn new(least: Walks, sizes: &[PageShift]) -> Victima {
        let (base, sizes) = (sizes[0], sizes.to_vec());
        Victima { base, sizes, least, walks: HashMap::new(), valid: BTreeSet::new() }
    }

    /// Returns the cluster of the page of size number `size` that holds `vpn`.
    fn cluster(&self, asid: Asid, size: usize, vpn: Vpn) -> Cluster {
        (asid, size, vpn.0 >> (self.sizes[size].order(self.base) + CLUSTER))
    }

    fn size_of(&self, shift: PageShift) -> Option<usize> {
        self.sizes.iter().position(|&size| size == shift)
    }

    fn is_costly(&self, asid: Asid, first: Vpn) -> bool {
        let walks = self.walks.get(&(asid, first.0)).copied().unwrap_or_default();
        walks.all >= self.least.all && walks.costly >= self.least.costly
    }

    /// Puts the cluster of a page of size `shift` into the cache.
    fn hold(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        let Some(size) = self.size_of(shift) else { return };
        let cluster = self.cluster(asid, size, vpn);
        if self.valid.insert(cluster) || port.find(line(cluster)).is_none() {
            port.hold(line(cluster));
        }
    }
}

/// Returns the line of a cluster.
fn line((asid, size, number): Cluster) -> PhysAddr {
    // Numbers of different address spaces and sizes rarely meet, and `valid` tells them apart.
    let mixed = number ^ (u64::from(asid.0) << 20 | size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 26;
    PhysAddr(LINES + (mixed & ((1 << NUMBER_BITS) - 1)) * 64)
}

impl WalkAssist for Victima {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        for size in 0..self.sizes.len() {
            let cluster = self.cluster(miss.asid, size, miss.vpn);
            if !self.valid.contains(&cluster) {
                continue;
            }
            let Some(cycles) = port.find(line(cluster)) else {
                self.valid.remove(&cluster);
                continue;
            };
            let entry = port.entry(miss.vpn).filter(|pte| pte.shift() == self.sizes[size] && pte.accessed());
            if let Some(pte) = entry {
                port.wait(cycles);
                return AssistAnswer::Hit(pte);
            }
        }
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        let shift = walk.pte.shift();
        let first = miss.vpn.align_down(shift, self.base);
        let walks = self.walks.entry((miss.asid, first.0)).or_default();
        walks.all = (walks.all + 1).min(MOST);
        walks.costly = (walks.costly + u8::from(walk.memory_reads > 0)).min(MOST);
        if self.is_costly(miss.asid, first) {
            self.hold(miss.asid, miss.vpn, shift, port);
        }
    }

    fn evicted(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        let Some(size) = self.size_of(shift) else { return };
        let cluster = self.cluster(asid, size, vpn);
        let held = self.valid.contains(&cluster) && port.find(line(cluster)).is_some();
        if !held && self.is_costly(asid, vpn) && port.walk(vpn).is_some() {
            self.hold(asid, vpn, shift, port);
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let last = vpn.0.saturating_add(pages - 1);
        for (size, shift) in self.sizes.iter().enumerate() {
            let order = shift.order(self.base) + CLUSTER;
            let doomed = self.valid.range((asid, size, vpn.0 >> order)..=(asid, size, last >> order));
            let doomed: Vec<Cluster> = doomed.copied().collect();
            doomed.iter().for_each(|cluster| _ = self.valid.remove(cluster));
        }
        if pages == u64::MAX {
            self.walks.retain(|(of, _), _| *of != asid);
        }
    }

    /// It answers with the page table's own entries.
    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn needs_caches(&self) -> bool {
        true
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
