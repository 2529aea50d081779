//! Attribution: costs sum to what was counted, whatever the program, and they belong to the instruction and the mapping that
//! caused them.

use crate::common::{Pieces, experiment, run, script};
use proptest::prelude::*;
use reach_core::{
    Asid, Block, BlockTable, Chunk, Event, Kind, Map, Mark, Protection, Ref, Role, Span, ThreadId, VirtAddr,
};
use reach_hardware::TranslationSpent;
use reach_lab::attribution::{Attribution, MappingKind, Pages, Site};
use reach_lab::{Attributed, Experiment, Outcome, Timing};

/// A processor with a hardware walker, and one whose policies run in the miss handler.
const MACHINES: [&str; 2] = ["skylake-e3-1240v5", "paint-parisc"];

fn attributed(experiment: Experiment, program: &mut Pieces) -> Outcome {
    run(&Experiment { attribute: Attributed::All, ..experiment }, program).outcomes.remove(0)
}

fn sorted(attribution: &Attribution) -> Vec<(Site, TranslationSpent)> {
    let mut sites: Vec<_> = attribution.sites.iter().map(|(site, spent)| (*site, *spent)).collect();
    sites.sort_by_key(|(site, _)| *site);
    sites
}

/// Returns what all sites must sum to.
fn counted(outcome: &Outcome) -> TranslationSpent {
    let [mut all, fetch] = TranslationSpent::counted(&outcome.total.hardware);
    all.absorb(&fetch);
    all.cycles = outcome.total.translation();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn costs_sum_to_what_was_counted_and_change_nothing(
        seed in any::<u64>(),
        at in 0..MACHINES.len(),
        timing in prop::sample::select(&Timing::ALL[..]),
        system in prop::sample::select(&["base", "linux-thp", "navarro-2002", "karakostas-2015-rmm"][..]),
        lengths in prop::collection::vec(1..200usize, 1..6),
    ) {
        let machine = MACHINES[at];
        // Not every machine has an out-of-order core.
        let timing = if machine == "paint-parisc" && timing == Timing::Ooo { Timing::InOrder } else { timing };
        let program = script::program(seed, 400);
        let experiment = || experiment(&[machine], &[system], timing);
        let outcome = attributed(experiment(), &mut program.cut(vec![usize::MAX]));
        let attribution = outcome.attribution.as_ref().unwrap();
        prop_assert_eq!(attribution.total(), counted(&outcome));
        let plain = run(&experiment(), &mut program.cut(vec![usize::MAX])).outcomes.remove(0);
        prop_assert_eq!(plain.total, outcome.total.clone());
        let cut = attributed(experiment(), &mut program.cut(lengths));
        let (cut, whole) = (sorted(cut.attribution.as_ref().unwrap()), sorted(attribution));
        let difference = cut.iter().zip(&whole).find(|(cut, whole)| cut != whole);
        prop_assert!(difference.is_none() && cut.len() == whole.len(), "{difference:?}");
    }
}

/// Two blocks of two instructions each: one loads one word of a small mapping again and again, the other walks through a large one,
/// a page a load.
fn culprit() -> Pieces {
    let mut blocks = BlockTable::default();
    let at = |pc: u64| Block { pc: VirtAddr(pc), len: 8, instructions: 2, bytes: Box::default() };
    let (small, large) = (blocks.push(at(0x40_0000)), blocks.push(at(0x40_0100)));
    let map = |start: u64, len: u64, role, protection| {
        Event::Map(Map { role, protection, ..Map::anonymous(VirtAddr(start), len) })
    };
    let events = [
        Event::Switch { asid: Asid(0), thread: ThreadId(0) },
        map(0x40_0000, 0x1000, Role::Image, Protection::READ_EXECUTE),
        map(0x1000_0000, 0x1000, Role::Heap, Protection::READ_WRITE),
        map(0x2000_0000, 16 << 20, Role::Mmap, Protection::READ_WRITE),
    ];
    let mut chunk = Chunk { events: events.into_iter().map(|event| (0, event)).collect(), ..Chunk::default() };
    for page in 0..4096u64 {
        let far = 0x2000_0000 + page * 4096;
        for (block, address) in [(small, 0x1000_0000), (large, far)] {
            chunk.fetched.push(block);
            chunk.refs.push(blocks.get(block).fetch());
            chunk.refs.push(Ref::data(Kind::Load, VirtAddr(address), 3, 1));
        }
    }
    Pieces::new("culprit", blocks, chunk)
}

#[test]
fn the_load_that_walks_pays_for_the_mapping_that_it_walks_through() {
    for timing in Timing::ALL {
        let outcome = attributed(experiment(&["skylake-e3-1240v5"], &["base"], timing), &mut culprit());
        let attribution = outcome.attribution.unwrap();
        let total = attribution.total();
        let (mut of_large, mut extents) = (TranslationSpent::default(), Vec::new());
        for (site, spent) in &attribution.sites {
            let mapping = attribution.mapping(site.mapping);
            if mapping.span == (Span { start: VirtAddr(0x2000_0000), len: 16 << 20 }) {
                assert_eq!(mapping.kind, MappingKind::Anonymous);
                assert_eq!((site.block.map(|block| block.0), site.instruction), (Some(1), 1), "{timing:?}");
                of_large.absorb(spent);
                extents.push((site.extent, spent.walks));
            }
        }
        extents.sort();
        // 2 MB have 512 pages; a page that is not there walks again after its fault.
        let expected: Vec<_> = (0..8).map(|n| ((0x2000_0000 >> 21) + n, 1024)).collect();
        assert_eq!(extents, expected, "{timing:?}");
        assert!(of_large.walks >= total.walks - 4, "{timing:?}: {of_large:?} of {total:?}");
        assert!(of_large.cycles * 100 >= total.cycles * 98, "{timing:?}: {of_large:?} of {total:?}");
    }
}

#[test]
fn what_is_not_the_whole_program_on_one_thread_is_refused() {
    let refused = |change: fn(&mut Experiment)| {
        let mut experiment =
            Experiment { attribute: Attributed::All, ..experiment(&["skylake-e3-1240v5"], &["base"], Timing::Ooo) };
        change(&mut experiment);
        experiment.run(&mut culprit(), |_| true).err().expect("a refusal").to_string()
    };
    assert!(refused(|e| e.conditions.placement = reach_lab::Placement::of(2, 1)).contains("--cores"));
    assert!(refused(|e| e.conditions.kernel = true).contains("--kernel"));
    assert!(refused(|e| e.sample = Some(Default::default())).contains("--sample"));
}

#[test]
fn a_recorded_sample_is_refused_too() {
    let sampled = culprit().with([(0, Event::Mark(Mark::Sample { every: 1000 }))].into_iter());
    let experiment =
        Experiment { attribute: Attributed::All, ..experiment(&["skylake-e3-1240v5"], &["base"], Timing::Ooo) };
    let error = experiment.run(&mut { sampled }, |_| true).err().expect("a refusal").to_string();
    assert!(error.contains("without --sample"), "{error}");
}

#[test]
fn a_fetch_that_faults_pays_for_its_own_page_and_for_no_wrong_path() {
    // Each block is on a page of its own and runs once. There are no branches to predict, because blocks have no code.
    let mut blocks = BlockTable::default();
    let mut chunk = Chunk::default();
    chunk.events.push((0, Event::Switch { asid: Asid(0), thread: ThreadId(0) }));
    let code =
        Map { role: Role::Image, protection: Protection::READ_EXECUTE, ..Map::anonymous(VirtAddr(0x40_0000), 1 << 20) };
    chunk.events.push((0, Event::Map(code)));
    for page in 0..256u64 {
        let pc = VirtAddr(0x40_0000 + page * 4096);
        let block = blocks.push(Block { pc, len: 8, instructions: 2, bytes: Box::default() });
        chunk.fetched.push(block);
        chunk.refs.push(blocks.get(block).fetch());
    }
    let outcome = attributed(
        experiment(&["skylake-e3-1240v5"], &["base"], Timing::Ooo),
        &mut Pieces::new("faults", blocks, chunk),
    );
    let attribution = outcome.attribution.unwrap();
    assert!(attribution.total().cycles > 256);
    for (site, spent) in &attribution.sites {
        assert!(site.fetch && attribution.mapping(site.mapping).kind == MappingKind::Anonymous, "{site:?} {spent:?}");
    }
}

#[test]
fn memory_that_is_mapped_again_at_its_address_is_touched_once() {
    let mut chunk = Chunk::default();
    chunk.events.push((0, Event::Switch { asid: Asid(0), thread: ThreadId(0) }));
    let span = Span { start: VirtAddr(0x2000_0000), len: 1 << 20 };
    for _ in 0..10 {
        let at = chunk.refs.len() as u32;
        chunk.events.push((at, Event::Map(Map::anonymous(span.start, span.len))));
        chunk.refs.extend((0..256).map(|page| Ref::data(Kind::Store, span.start + page * 4096, 3, 0)));
        chunk.events.push((at + 256, Event::Unmap(span)));
    }
    let program = &mut Pieces::new("again", BlockTable::default(), chunk);
    let outcome = attributed(experiment(&["skylake-e3-1240v5"], &["base"], Timing::Counts), program);
    let attribution = outcome.attribution.unwrap();
    let mut pages = Pages::default();
    attribution.touched.values().for_each(|more| pages.absorb(more));
    assert_eq!((attribution.touched.len(), pages.bytes()), (10, 1 << 20));
}
