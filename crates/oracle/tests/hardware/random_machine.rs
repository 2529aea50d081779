//! Machines drawn from the whole space of `config::Machine`, so small that everything is evicted soon. And plain
//! machines, for tests of single properties.

use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{Layout, PageShift, PageTableKind, ReuseSignature};
use reach_hardware::config::{
    Cache, Core, Index, Machine, Nested, Replacement, Serves, Tlb, WalkCache, Walker, Writes,
};

/// Draws any machine, including those that no machine file may describe. Every other one is like a processor: code and
/// data have a first-level array each that holds base pages, so that runs of references may be folded.
pub fn machine() -> impl Strategy<Value = Machine> {
    // So few that a switch exhausts them always, sometimes or never.
    let asids = prop::sample::select(vec![1, 2, 1 << 13]);
    let core = (0..40u32, asids).prop_map(|(walk_access, asids)| Core {
        millicycles_per_instruction: 1000,
        hertz: 1_000_000_000,
        walk_access,
        invalidate: 100,
        asids,
    });
    let parts =
        (pages(), any::<bool>(), vec(tlb(), 0..6), vec(tlb(), 2), walker(), vec(cache(), 0..4), core, coalescing());
    parts.prop_map(|((mut layout, sizes, kind), like_processors, mut tlbs, first, walker, caches, core, coalescing)| {
        if like_processors {
            separate_first_levels(&mut tlbs, first);
        }
        let mut tlbs: Vec<Tlb> = tlbs.into_iter().enumerate().map(|(i, t)| t.build(i, &sizes)).collect();
        let walker = walker.build(&layout, &tlbs);
        if let Walker::Hardware { .. } = walker {
            layout.kind = kind;
        }
        if matches!(walker, Walker::Hardware { .. }) {
            coalescing.apply(&layout, &sizes, &mut tlbs);
        }
        let caches = caches.into_iter().enumerate().map(|(i, c)| Cache { name: format!("c{i}"), ..c }).collect();
        // Some of the walkers are in a guest.
        let guest = matches!(walker, Walker::Hardware { lookup, .. } if lookup % 2 == 1);
        let host = sizes[sizes.len() / 2];
        let nested =
            guest.then(|| Nested { host_page: host, tlb_entries: 2, walk_cache_entries: vec![2; layout.levels() - 1] });
        Machine { layout, sizes, tlbs, walker, nested, caches, memory: 100, core }
    })
}

/// Makes each first-level array serve either code or data, and adds one for each that holds base pages.
fn separate_first_levels(tlbs: &mut Vec<TlbDraft>, first: Vec<TlbDraft>) {
    for tlb in tlbs.iter_mut().filter(|t| t.level <= 1) {
        if tlb.serves.fetch {
            tlb.serves = Serves { fetch: true, load: false, store: false };
        }
        tlb.sizes |= 1;
    }
    for (fetch, mut tlb) in [true, false].into_iter().zip(first) {
        tlb.serves = Serves { fetch, load: !fetch, store: !fetch };
        tlb.level = 1;
        tlb.sizes |= 1;
        tlbs.push(tlb);
    }
}

/// Draws a page table of one to five levels and up to four page sizes, some of them with replicated entries.
fn pages() -> impl Strategy<Value = (Layout, Vec<PageShift>, PageTableKind)> {
    let bits = prop_oneof![3 => vec(1..5u8, 1..=5), 1 => vec(5..10u8, 1..=4)];
    let x86 = Just((12, vec![9, 9, 9, 9], vec![8, 17]));
    let alpha = Just((13, vec![10, 10, 14], vec![2, 5, 8]));
    let any = (12..15u8, bits, vec(any::<u8>(), 0..4));
    let kinds = prop_oneof![3 => Just(PageTableKind::Radix), 1 => prop::sample::select(PageTableKind::ALL.to_vec())];
    (prop_oneof![1 => x86, 1 => alpha, 6 => any], kinds).prop_map(|((base, bits, wanted), kind)| {
        let layout = Layout::radix(PageShift(base), bits);
        // A page is smaller than the whole address space and has at most 512 replicas of its entry.
        let possible: Vec<PageShift> =
            (base + 1..layout.address_bits()).map(PageShift).filter(|&s| layout.placement(s).1 <= 512).collect();
        let mut sizes = vec![layout.base];
        if !possible.is_empty() {
            sizes.extend(wanted.iter().map(|&w| possible[usize::from(w) % possible.len()]));
        }
        sizes.sort();
        sizes.dedup();
        (layout, sizes, kind)
    })
}

/// A TLB array before the machine's page sizes are known.
#[derive(Clone, Debug)]
struct TlbDraft {
    level: u8,
    serves: Serves,
    sets: u32,
    ways: u32,
    /// The set of the machine's sizes that it holds, as bits.
    sizes: u8,
    replacement: Replacement,
    index: Index,
    latency: u32,
    probe: u32,
    smash: bool,
}

fn tlb() -> impl Strategy<Value = TlbDraft> {
    let level = prop_oneof![1 => Just(0u8), 3 => Just(1), 3 => Just(2), 1 => Just(3)];
    let serves = prop_oneof![
        2 => Just((true, false, false)),
        2 => Just((false, true, true)),
        1 => Just((false, true, false)),
        1 => Just((false, false, true)),
        3 => Just((true, true, true)),
    ];
    let sets = prop_oneof![2 => Just(1u32), 1 => Just(2), 1 => Just(4)];
    let parts = (level, serves, sets, 1..5u32, any::<u8>(), policies(), 0..10u32, 0..3u32, any::<bool>());
    parts.prop_map(|(level, (fetch, load, store), sets, ways, sizes, policies, latency, probe, smash)| {
        let (replacement, index) = policies;
        let index = if level >= 2 { index } else { Index::Low };
        TlbDraft {
            level,
            serves: Serves { fetch, load, store },
            sets,
            ways: allowed_ways(ways, replacement),
            sizes,
            replacement,
            index,
            latency,
            probe,
            smash,
        }
    })
}

fn policies() -> impl Strategy<Value = (Replacement, Index)> {
    let signature = prop_oneof![3 => Just(ReuseSignature::ControlFlow), 1 => Just(ReuseSignature::Instruction)];
    let own = prop_oneof![Just(Replacement::InstructionAware), signature.prop_map(Replacement::ReusePrediction)];
    (replacement(own), prop_oneof![2 => Just(Index::Low), 1 => Just(Index::Xor)])
}

impl TlbDraft {
    fn build(self, index: usize, all: &[PageShift]) -> Tlb {
        let taken = |&(i, _): &(usize, &PageShift)| self.sizes >> i & 1 != 0;
        let mut sizes: Vec<PageShift> = all.iter().enumerate().filter(taken).map(|(_, &s)| s).collect();
        if sizes.is_empty() {
            sizes.push(all[0]);
        }
        Tlb {
            name: format!("t{index}"),
            level: self.level,
            serves: self.serves,
            entries: self.sets * self.ways,
            ways: self.ways,
            sizes,
            replacement: self.replacement,
            index: self.index,
            latency: self.latency,
            probe: self.probe,
            smash: self.smash,
            coalesce: None,
        }
    }
}

/// The arrays that coalesce up to eight pages, as bits.
#[derive(Clone, Copy, Debug)]
pub struct Coalescing {
    order: u8,
    arrays: u8,
}

/// Draws no coalescing in half of all cases.
fn coalescing() -> impl Strategy<Value = Coalescing> {
    (1..4u8, prop_oneof![Just(0), any::<u8>()]).prop_map(|(order, arrays)| Coalescing { order, arrays })
}

impl Coalescing {
    /// Makes some arrays coalesce, if the machine can.
    fn apply(self, layout: &Layout, sizes: &[PageShift], tlbs: &mut [Tlb]) {
        let span = PageShift(layout.base.0 + self.order);
        if sizes.contains(&span) || layout.bits[0] < self.order {
            return;
        }
        for (index, tlb) in tlbs.iter_mut().enumerate() {
            let drawn = self.arrays >> (index % 8) & 1 != 0;
            tlb.coalesce = (drawn && tlb.sizes.contains(&layout.base)).then_some(span);
        }
    }
}

/// Draws a policy that all arrays take, or `own`.
pub fn replacement(own: impl Strategy<Value = Replacement>) -> impl Strategy<Value = Replacement> {
    prop_oneof![
        2 => Just(Replacement::Lru),
        1 => Just(Replacement::TreePlru),
        1 => Just(Replacement::RotatingPlru),
        1 => Just(Replacement::QuadAgeLru),
        1 => Just(Replacement::Nru),
        1 => Just(Replacement::Random),
        2 => own,
    ]
}

fn allowed_ways(ways: u32, replacement: Replacement) -> u32 {
    match replacement {
        Replacement::TreePlru => ways.next_power_of_two(),
        Replacement::RotatingPlru => 3 * (ways / 2).next_power_of_two(),
        Replacement::QuadAgeLru => ways.min(32),
        Replacement::Lru
        | Replacement::Nru
        | Replacement::Random
        | Replacement::InstructionAware
        | Replacement::ReusePrediction(_)
        | Replacement::PageTableAware => ways,
    }
}

/// A walker before the page table is known.
#[derive(Clone, Debug)]
enum WalkerDraft {
    /// `of_level` has, for each level above the leaves, the index of the walk cache of its entries. A walk cache has
    /// sets, ways, and perhaps a TLB array that lends it entries.
    Hardware {
        lookup: u32,
        of_level: Vec<u8>,
        caches: Vec<(u32, u32, Option<u8>)>,
    },
    Software(Walker),
}

fn walker() -> impl Strategy<Value = WalkerDraft> {
    let sets = prop_oneof![2 => Just(1u32), 1 => Just(2), 1 => Just(4)];
    let caches = vec((sets, 1..4u32, proptest::option::weighted(0.4, any::<u8>())), 3);
    let hardware = (0..4u32, vec(0..4u8, 4), caches);
    let hardware = hardware.prop_map(|(lookup, of_level, caches)| WalkerDraft::Hardware { lookup, of_level, caches });
    let software = (0..60u32, 0..8u32, 0..4u32).prop_map(|(cycles, loads, stores)| {
        WalkerDraft::Software(Walker::Software { cycles, instructions: cycles, loads, stores })
    });
    prop_oneof![3 => hardware, 1 => software]
}

impl WalkerDraft {
    fn build(self, layout: &Layout, tlbs: &[Tlb]) -> Walker {
        let (lookup, of_level, drafts) = match self {
            WalkerDraft::Software(walker) => return walker,
            WalkerDraft::Hardware { lookup, of_level, caches } => (lookup, of_level, caches),
        };
        let mut caches = Vec::new();
        for (i, (sets, ways, lender)) in drafts.into_iter().enumerate() {
            let levels: Vec<u8> = (1..layout.levels() as u8).filter(|&l| of_level[l as usize - 1] == i as u8).collect();
            let lender = lender.filter(|_| !tlbs.is_empty()).map(|lender| &tlbs[usize::from(lender) % tlbs.len()]);
            if !levels.is_empty() {
                let entries = if lender.is_some() { 0 } else { sets * ways };
                let within = lender.map(|tlb| tlb.name.clone());
                caches.push(WalkCache { name: format!("w{i}"), levels, entries, ways, within });
            }
        }
        Walker::Hardware { walkers: 1, lookup, cache_level: 1 + (lookup / 2) as u8, caches }
    }
}

fn cache() -> impl Strategy<Value = Cache> {
    let serves = prop_oneof![3 => Just((true, true)), 1 => Just((true, false)), 2 => Just((false, true))];
    let writes = prop_oneof![2 => Just(Writes::Back), 1 => Just(Writes::Around), 1 => Just(Writes::Through)];
    let parts =
        (1..4u8, serves, 1..7u64, 1..4u32, 4..8u32, 1..30u32, writes, replacement(Just(Replacement::PageTableAware)));
    parts.prop_map(|(level, (instructions, data), sets, ways, line, latency, writes, replacement)| {
        let ways = allowed_ways(ways, replacement);
        Cache {
            name: String::new(),
            level,
            instructions,
            data,
            bytes: (sets * u64::from(ways)) << line,
            ways,
            line: 1 << line,
            latency,
            writes,
            replacement,
            shared: false,
            others: 0,
        }
    })
}

/// Returns an array for all kinds of reference that holds base pages of 4 KB.
pub fn plain_tlb(level: u8, entries: u32, ways: u32, replacement: Replacement) -> Tlb {
    Tlb {
        name: format!("l{level}"),
        level,
        serves: Serves { fetch: true, load: true, store: true },
        entries,
        ways,
        sizes: vec![PageShift(12)],
        replacement,
        index: Index::Low,
        latency: 7,
        probe: 0,
        smash: false,
        coalesce: None,
    }
}

/// Returns a machine with these arrays, a page table of one level that maps 256 pages of 4 KB, and no caches.
pub fn plain_machine(tlbs: Vec<Tlb>) -> Machine {
    Machine {
        layout: Layout::radix(PageShift(12), vec![8]),
        sizes: vec![PageShift(12)],
        tlbs,
        walker: Walker::Hardware { walkers: 1, lookup: 0, cache_level: 1, caches: Vec::new() },
        nested: None,
        caches: Vec::new(),
        memory: 100,
        core: Core {
            millicycles_per_instruction: 1000,
            hertz: 1_000_000_000,
            walk_access: 20,
            invalidate: 100,
            asids: 1 << 13,
        },
    }
}
