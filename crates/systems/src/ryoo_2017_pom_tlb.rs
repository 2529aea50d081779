//! `ryoo-2017-pom-tlb`: a TLB of megabytes in memory, whose entries the data caches hold.
//!
//! After: Ryoo, Gulur, Song and John, "Rethinking TLB Designs in Virtualized Environments: A Very Large Part-of-Memory TLB",
//! ISCA 2017. The text was not at hand; what is said of it here is from its abstract and from papers that compare with it.
//!
//! | design | here |
//! |---|---|
//! | a four-way TLB in memory, a set of four entries of 16 bytes in each line, apart for small and large pages | [`PomTlb`] |
//! | a TLB miss reads the line of its set, through the data caches | [`PomTlb::search`] |
//! | a predictor of the page size decides which of the two is read first | [`SizePredictor`] |
//! | a walk fills it | [`PomTlb::walked`] |
//!
//! Readings: the set is the page number plus the address space, modulo the sets. A set replaces its least recently used entry,
//! and its line holds their order. The predictor has 512 bits, indexed by the page number of a large page. Pages larger than
//! the second size are entered in pieces of that size.
//!
//! Deviations: memory is the machine's; the paper's is stacked on the die. There is no predictor for bypassing the data caches:
//! here a read that misses in all of them takes no longer than one that bypasses them. Each core has a TLB of its own.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PageTableKind, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist,
};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "ryoo-2017-pom-tlb",
    summary: "a TLB of 16 MB in memory behind the last level, cached as data is (POM-TLB)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Ryoo, Gulur, Song and John: Rethinking TLB Designs in Virtualized Environments: A Very Large Part-of-Memory TLB, \
         ISCA 2017",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "found no page in the TLB in memory"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let bytes = settings.megabytes("size").0;
        Box::new(Assisted::new(DESCRIPTION.name, settings, move |vm| Box::new(PomTlb::new(bytes, &vm.options().sizes))))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("size", Accepts::number(1, 1 << 10, Unit::Megabytes), "16", "its memory, half of it for small pages"),
    POLICY,
];

/// The first byte of it, beyond all frames.
const MEMORY: u64 = 1 << 44;
/// Bytes of a line, which holds a set.
const LINE: u64 = 64;
/// Entries of a set.
const WAYS: usize = 4;
/// Bits of the size predictor.
const PREDICTIONS: usize = 512;

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    asid: Asid,
    /// The number of the page, in units of its size.
    number: u64,
    pte: Pte,
}

/// The part of it for pages of one size. Entries of a set are in order of use, the latest first.
#[derive(Clone, Debug)]
struct Part {
    shift: PageShift,
    /// Base pages of a page, as a shift.
    order: u8,
    start: PhysAddr,
    sets: Vec<[Option<Entry>; WAYS]>,
}

impl Part {
    fn set(&self, asid: Asid, number: u64) -> usize {
        ((number + u64::from(asid.0)) % self.sets.len() as u64) as usize
    }

    /// Returns the line of the page's set.
    fn line(&self, asid: Asid, vpn: Vpn) -> PhysAddr {
        PhysAddr(self.start.0 + self.set(asid, vpn.0 >> self.order) as u64 * LINE)
    }

    fn find(&mut self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let number = vpn.0 >> self.order;
        let at = self.set(asid, number);
        let set = &mut self.sets[at];
        let way =
            set.iter().position(|entry| entry.is_some_and(|entry| entry.asid == asid && entry.number == number))?;
        set[..=way].rotate_right(1);
        set[0].map(|entry| entry.pte)
    }

    fn insert(&mut self, asid: Asid, vpn: Vpn, pte: Pte) {
        let number = vpn.0 >> self.order;
        let at = self.set(asid, number);
        let set = &mut self.sets[at];
        let same = set.iter().position(|entry| entry.is_some_and(|entry| entry.asid == asid && entry.number == number));
        set[..=same.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = Some(Entry { asid, number, pte });
    }

    fn remove(&mut self, asid: Asid, numbers: std::ops::RangeInclusive<u64>) {
        let doomed =
            |entry: &Option<Entry>| entry.is_some_and(|entry| entry.asid == asid && numbers.contains(&entry.number));
        let drop_from = |set: &mut [Option<Entry>; WAYS]| {
            if set.iter().any(doomed) {
                // The others keep their order.
                let kept: Vec<Option<Entry>> = set.iter().copied().filter(|entry| !doomed(entry)).collect();
                *set = [None; WAYS];
                set[..kept.len()].copy_from_slice(&kept);
            }
        };
        let (first, last) = (*numbers.start(), *numbers.end());
        if last - first < self.sets.len() as u64 {
            (first..=last).for_each(|number| {
                let at = self.set(asid, number);
                drop_from(&mut self.sets[at]);
            });
        } else {
            self.sets.iter_mut().for_each(drop_from);
        }
    }
}

/// Predicts whether a page is large.
#[derive(Clone, Debug)]
struct SizePredictor {
    large: Vec<bool>,
    /// Base pages of a large page, as a shift.
    order: u8,
}

impl SizePredictor {
    fn at(&mut self, vpn: Vpn) -> &mut bool {
        &mut self.large[(vpn.0 >> self.order) as usize % PREDICTIONS]
    }
}

/// A TLB in memory.
#[derive(Clone, Debug)]
struct PomTlb {
    base: PageShift,
    /// For small pages, and for large ones if the machine has any.
    parts: Vec<Part>,
    predictor: SizePredictor,
}

impl PomTlb {
    /// Creates an empty TLB of `bytes` for a machine with pages of `sizes`.
    fn new(bytes: u64, sizes: &[PageShift]) -> PomTlb {
        let base = sizes[0];
        let sets = (bytes / 2 / LINE) as usize;
        let part = |(at, &shift): (usize, &PageShift)| Part {
            shift,
            order: shift.order(base),
            start: PhysAddr(MEMORY + at as u64 * bytes / 2),
            sets: vec![[None; WAYS]; sets],
        };
        let parts: Vec<Part> = sizes.iter().take(2).enumerate().map(part).collect();
        let order = parts[parts.len() - 1].order;
        PomTlb { base, parts, predictor: SizePredictor { large: vec![false; PREDICTIONS], order } }
    }

    /// Returns the part that holds pages of size `shift`, whole or in pieces.
    fn part_of(&self, shift: PageShift) -> usize {
        self.parts.iter().rposition(|part| part.shift <= shift).unwrap_or(0)
    }
}

impl WalkAssist for PomTlb {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let first = usize::from(*self.predictor.at(miss.vpn)).min(self.parts.len() - 1);
        let others = (0..self.parts.len()).filter(|&part| part != first);
        for at in [first].into_iter().chain(others) {
            let part = &mut self.parts[at];
            let cycles = port.read(part.line(miss.asid, miss.vpn));
            port.wait(cycles);
            if let Some(pte) = part.find(miss.asid, miss.vpn) {
                *self.predictor.at(miss.vpn) = at > 0;
                return AssistAnswer::Hit(pte);
            }
        }
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, _: &mut dyn AssistPort) {
        let at = self.part_of(walk.pte.shift());
        let base = self.base;
        let part = &mut self.parts[at];
        if walk.pte.shift() < part.shift {
            return;
        }
        let first = miss.vpn.align_down(part.shift, base) - miss.vpn.align_down(walk.pte.shift(), base);
        let piece = walk.pte.with_pfn(walk.pte.pfn() + first).with_shift(part.shift);
        part.insert(miss.asid, miss.vpn, piece);
        *self.predictor.at(miss.vpn) = at > 0;
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let last = vpn.0.saturating_add(pages - 1);
        for part in &mut self.parts {
            part.remove(asid, vpn.0 >> part.order..=last >> part.order);
        }
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        let of = |part: &Part| {
            let order = part.order;
            let entries = part.sets.iter().flatten().flatten().filter(|entry| entry.asid == asid);
            entries.map(|entry| (Vpn(entry.number << order), entry.pte)).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of).collect()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
