//! Other guests' lines in the last cache, as seen on Zen 4 (docs/validation.md, *The third-level cache is shared*).

use crate::common::{Pieces, experiment, run};
use reach_core::{Asid, Block, BlockTable, Chunk, Event, Map, Protection, Random, Ref, ThreadId, VirtAddr};
use reach_lab::Timing;

/// Lines of the chain: 2 MB.
const LINES: u64 = 1 << 15;

/// Returns a program that follows, `laps` times, a chain of loads through lines in random order, with `nops` instructions from one
/// load to the next.
fn chain(nops: usize, laps: u64) -> Pieces {
    let (start, heap) = (VirtAddr(1 << 32), VirtAddr(1 << 33));
    let (mut blocks, mut program, mut random) = (BlockTable::default(), Chunk::default(), Random::new(5));
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    program.push_event(Event::Map(Map { protection: Protection::READ_EXECUTE, ..Map::anonymous(start, 4096) }));
    program.push_event(Event::Map(Map::anonymous(heap, LINES << 6)));
    // mov rdx, [rdx]; nops; jmp to it
    let mut bytes = vec![0x48, 0x8b, 0x12];
    bytes.resize(3 + nops, 0x90);
    bytes.push(0xe9);
    bytes.extend((-(nops as i32) - 8).to_le_bytes());
    let (len, instructions) = (bytes.len() as u16, nops as u16 + 2);
    let id = blocks.push(Block { pc: start, len, instructions, bytes: bytes.into() });
    let mut order: Vec<u64> = (0..LINES).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    for line in (0..laps).flat_map(|_| &order) {
        program.push_fetch(id, blocks.get(id));
        program.refs.push(Ref::load(heap + (line << 6)));
    }
    Pieces::new("chain", blocks, program)
}

/// Returns the cycles of a load while others bring so many bytes into the last cache in 1,024 cycles, after two laps, by which all
/// lines are in the caches.
fn load_cycles(others: u32, nops: usize) -> f64 {
    let cycles = |laps| {
        let mut experiment = experiment(&["zen4"], &["hugetlb-2m"], Timing::Ooo);
        experiment.machines[0].hardware.caches.last_mut().unwrap().others = others;
        let outcome = run(&experiment, &mut chain(nops, laps).cut(vec![1000])).outcomes.remove(0);
        outcome.total.ledger.total().0
    };
    (cycles(3) - cycles(2)) as f64 / LINES as f64
}

#[test]
fn a_chain_that_comes_back_late_finds_its_lines_gone() {
    let others = 5500;
    let (fast, fast_among_others) = (load_cycles(0, 0), load_cycles(others, 0));
    assert!((0.95..1.05).contains(&(fast_among_others / fast)), "{fast} {fast_among_others}");
    let (slow, slow_among_others) = (load_cycles(0, 2000), load_cycles(others, 2000));
    assert!(slow_among_others > slow + 150.0, "{slow} {slow_among_others}");
}
