//! Entries of several neighbouring base pages. The random machines coalesce too; here, each condition is alone.

use crate::random_machine::{plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use reach_core::{Asid, Chunk, Kind, PageShift, Pfn, Pte, Ref, Shootdown, StopReason, VirtAddr, Vpn};
use reach_hardware::config::{Machine, Nested, Replacement, Tlb};
use reach_hardware::{Mmu, StepRefs};

const BASE: PageShift = PageShift(12);
const SPAN: PageShift = PageShift(14);
const SETTLED: u64 = Pte::WRITABLE | Pte::ACCESSED | Pte::DIRTY;

fn array(level: u8, coalesce: Option<PageShift>) -> Tlb {
    Tlb { coalesce, ..plain_tlb(level, 16, 16, Replacement::Lru) }
}

/// Returns a machine whose second level coalesces, and whose first level does too if `first`.
fn machine(first: bool) -> Machine {
    plain_machine(vec![array(1, first.then_some(SPAN)), array(2, Some(SPAN))])
}

/// Returns memory that maps page `n` to the `n`-th frame of `frames`, with the bits of `bits`.
fn memory(machine: &Machine, frames: [u64; 4], bits: [u64; 4]) -> Memory {
    let mut memory = Memory::new(&machine.layout, 1);
    for (page, (frame, bits)) in frames.into_iter().zip(bits).enumerate() {
        memory.edit(Edit::Set(Asid(0), Vpn(page as u64), Pte(Pte::new(Pfn(frame), BASE).0 | bits)));
    }
    memory
}

/// References `pages`, and returns the walks so far, and those that coalesced.
fn run(mmu: &mut Mmu, memory: &mut Memory, kind: Kind, pages: &[u64]) -> (u64, u64) {
    let refs: Vec<Ref> = pages.iter().map(|page| Ref::data(kind, VirtAddr(page << BASE.0), 3, 0)).collect();
    let chunk = Chunk::from(refs);
    let step = StepRefs::whole(&chunk);
    assert_eq!(mmu.run(step, &mut step.begin(), memory.table(Asid(0)), None), StopReason::End);
    mmu.check(memory.table(Asid(0)));
    (mmu.counters.walks(), mmu.counters.walks_coalesced)
}

/// Runs loads of four pages on a machine whose levels both coalesce.
fn loads_of_four(frames: [u64; 4], bits: [u64; 4]) -> (u64, u64) {
    let machine = machine(true);
    run(&mut Mmu::new(&machine, false, 0), &mut memory(&machine, frames, bits), Kind::Load, &[0, 1, 2, 3])
}

#[test]
fn one_walk_translates_neighbours_that_are_alike() {
    assert_eq!(loads_of_four([4, 5, 6, 7], [SETTLED; 4]), (1, 1));
    assert_eq!(loads_of_four([4, 5, 6, 7], [Pte::ACCESSED; 4]), (1, 1), "pages that nobody may write stay clean");
}

#[test]
fn pages_with_other_frames_rights_or_marks_have_their_own_entries() {
    let alone = (4, 0);
    assert_eq!(loads_of_four([5, 6, 7, 8], [SETTLED; 4]), alone, "neighbours, but not aligned");
    assert_eq!(loads_of_four([4, 5, 7, 6], [SETTLED; 4]), alone, "not in order");
    let clean = Pte::WRITABLE | Pte::ACCESSED;
    assert_eq!(loads_of_four([4, 5, 6, 7], [SETTLED, SETTLED, SETTLED, clean]), alone, "the dirty bits differ");
    assert_eq!(loads_of_four([4, 5, 6, 7], [clean; 4]), alone, "the dirty bits are still to be set");
    assert_eq!(
        loads_of_four([4, 5, 6, 7], [SETTLED, SETTLED, SETTLED, SETTLED ^ Pte::WRITABLE]),
        alone,
        "the rights differ"
    );
    // The first three walks find a page that nobody has used.
    let last_unused = [SETTLED, SETTLED, SETTLED, SETTLED ^ Pte::ACCESSED];
    assert_eq!(loads_of_four([4, 5, 6, 7], last_unused), (4, 1), "the accessed bits differ until the last walk");
}

#[test]
fn a_coalesced_entry_replaces_those_of_its_pages() {
    let machine = machine(true);
    let mut memory = memory(&machine, [4, 5, 6, 7], [SETTLED, SETTLED, SETTLED, SETTLED ^ Pte::ACCESSED]);
    let mut mmu = Mmu::new(&machine, false, 0);
    run(&mut mmu, &mut memory, Kind::Load, &[0, 1, 2]);
    assert_eq!(mmu.contents().len(), 6, "three pages in two levels");
    run(&mut mmu, &mut memory, Kind::Load, &[3]);
    assert_eq!(mmu.contents().len(), 2, "one entry in each level");
}

#[test]
fn a_shootdown_of_one_page_drops_the_entry_of_all() {
    let machine = machine(true);
    let mut memory = memory(&machine, [4, 5, 6, 7], [SETTLED; 4]);
    let mut mmu = Mmu::new(&machine, false, 0);
    run(&mut mmu, &mut memory, Kind::Store, &[0, 1]);
    memory.edit(Edit::Clear(Asid(0), Vpn(2)));
    mmu.invalidate(&Shootdown { asid: Asid(0), vpn: Vpn(2), pages: 1 });
    assert_eq!(run(&mut mmu, &mut memory, Kind::Store, &[0, 1]), (3, 1), "the others walk again, each for itself");
}

#[test]
fn an_array_that_does_not_coalesce_gets_the_page() {
    let machine = machine(false);
    let mut memory = memory(&machine, [4, 5, 6, 7], [SETTLED; 4]);
    let mut mmu = Mmu::new(&machine, false, 0);
    assert_eq!(run(&mut mmu, &mut memory, Kind::Load, &[0, 1, 2, 3]), (1, 1));
    assert_eq!((mmu.counters.l2_tlb_hits_data, mmu.contents().len()), (3, 5), "four pages in the first level");
}

#[test]
fn a_guest_coalesces_only_what_one_host_page_holds() {
    let on_pages_of = |host_page| {
        let nested = Nested { host_page, tlb_entries: 0, walk_cache_entries: Vec::new() };
        let machine = Machine { nested: Some(nested), sizes: vec![BASE, PageShift(21)], ..machine(true) };
        let mut memory = memory(&machine, [4, 5, 6, 7], [SETTLED; 4]);
        run(&mut Mmu::new(&machine, false, 0), &mut memory, Kind::Load, &[0, 1, 2, 3])
    };
    assert_eq!(on_pages_of(BASE), (4, 0));
    assert_eq!(on_pages_of(PageShift(21)), (1, 1));
}
