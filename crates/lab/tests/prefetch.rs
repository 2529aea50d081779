//! Prefetchers at the end of a page, as measured on Zen 4 (docs/validation.md, *Lines in order*).

use crate::common::{Pieces, experiment, run};
use reach_core::{Asid, Block, BlockTable, Chunk, Event, Map, Protection, Random, Ref, ThreadId, VirtAddr};
use reach_lab::Timing;

const LINES: u64 = 64;

/// Returns a program that follows, `laps` times, a chain through all lines of `pages` pages: each load's address depends on the load
/// before. A page's lines are in order, and so are its pages unless `shuffled`.
fn chain(pages: u64, shuffled: bool, laps: u64) -> Pieces {
    let (start, heap) = (VirtAddr(1 << 32), VirtAddr(1 << 33));
    let (mut blocks, mut program, mut random) = (BlockTable::default(), Chunk::default(), Random::new(3));
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let protection = Protection::READ_EXECUTE;
    program.push_event(Event::Map(Map { protection, ..Map::anonymous(start, 4096) }));
    program.push_event(Event::Map(Map::anonymous(heap, pages << 12)));
    // mov rdx, [rdx]; jmp to it
    let bytes: Box<[u8]> = [0x48, 0x8b, 0x12, 0xeb, 0xfb].into();
    let id = blocks.push(Block { pc: start, len: 5, instructions: 2, bytes });
    let mut order: Vec<u64> = (0..pages).collect();
    for at in (1..order.len()).rev().filter(|_| shuffled) {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    for page in (0..laps).flat_map(|_| &order) {
        for line in 0..LINES {
            program.push_fetch(id, blocks.get(id));
            program.refs.push(Ref::load(heap + (page << 12 | line << 6)));
        }
    }
    Pieces::new("chain", blocks, program)
}

/// Returns the cycles of a page on `machine`, after a lap in which pages are touched.
fn page_cycles(machine: &str, system: &str, shuffled: bool) -> f64 {
    // More than the caches hold.
    let pages = 16_384;
    let cycles = |laps| {
        let experiment = experiment(&[machine], &[system], Timing::Ooo);
        let outcome = run(&experiment, &mut chain(pages, shuffled, laps).cut(vec![100_000])).outcomes.remove(0);
        outcome.total.ledger.total().0
    };
    (cycles(2) - cycles(1)) as f64 / pages as f64
}

#[test]
fn a_stream_of_virtual_addresses_goes_on_in_the_next_page_of_any_size() {
    let zen = |system| page_cycles("zen4", system, false);
    let (small, large) = (zen("base:zero_page=off"), zen("hugetlb-2m"));
    assert!((0.9..1.2).contains(&(small / large)), "{small} {large}");
    let within = page_cycles("zen4:ooo.prefetch.page_end=stop", "hugetlb-2m", false);
    assert!(within > 2.0 * large, "{within} {large}");
    let shuffled = page_cycles("zen4", "hugetlb-2m", true);
    assert!(shuffled > 2.0 * large, "{shuffled} {large}");
}
