//! What an auxiliary TLB holds in a guest: pages that lie together in the memory of its host.

use crate::host::Guest;
use crate::random_os::Edit;
use reach_core::{
    Asid, AuxLookup, AuxTlbOptions, ClusterFrames, ClusterTlbOptions, PageShift, Pfn, Pte, RangeTlbOptions,
    RangeTranslation, StopReason, Vpn,
};

/// The first page and frame of the guest's memory in these tests.
const PAGE: Vpn = Vpn(0x800);
const FRAME: Pfn = Pfn(0x1000);

fn pte(frame: Pfn) -> Pte {
    Pte::new(frame, PageShift(12)).with_writable(true)
}

fn guest(aux_tlb: AuxTlbOptions) -> Guest {
    let mut guest = Guest::new(PageShift(12));
    guest.mmu.attach_aux_tlb(aux_tlb);
    guest
}

/// A guest with a range of 64 pages and a range TLB.
fn guest_with_range() -> Guest {
    let lookup = AuxLookup::AfterMiss;
    let ranges = RangeTlbOptions { entries: 4, sweep_entries: 0, mru: false, lookup, latency: 0 };
    let mut guest = guest(AuxTlbOptions::Ranges(ranges));
    let range = RangeTranslation { vpn: PAGE, pages: 64, pte: pte(FRAME).with_range(true) };
    guest.memory.edit(Edit::Range(Asid(0), range));
    guest
}

/// Loads from page `page` of the guest's memory; the host gives what is missing in pages of `size`.
fn load(guest: &mut Guest, page: u64, size: PageShift) {
    while let StopReason::HostFault(at) = guest.load((PAGE.0 + page) << 12) {
        guest.give(at, size);
    }
}

/// Returns the ranges held: first page of the guest's memory, and length.
fn held(guest: &Guest) -> Vec<(u64, u64)> {
    guest.mmu.ranges().iter().map(|(_, range)| (range.vpn - PAGE, range.pages)).collect()
}

#[test]
fn a_range_ends_with_the_hosts_page() {
    let mut small = guest_with_range();
    load(&mut small, 16, PageShift(12));
    assert_eq!(held(&small), [(16, 1)], "base pages lie anywhere");
    let mut large = guest_with_range();
    load(&mut large, 16, PageShift(21));
    assert_eq!(held(&large), [(0, 64)], "one page of 2 MB holds all of it");
    let walks = large.mmu.counters.walks();
    assert_eq!(large.load((PAGE.0 + 40) << 12), StopReason::End);
    assert_eq!(large.mmu.counters.walks(), walks, "and another page needs no walk");
}

#[test]
fn a_range_of_the_guest_and_one_of_the_host_make_one_entry() {
    let mut guest = guest_with_range();
    let in_host = |frame: u64| Vpn((reach_hardware::GUEST_MEMORY.0 >> 12) + frame);
    let range = RangeTranslation { vpn: in_host(FRAME.0 + 10), pages: 300, pte: pte(Pfn(1 << 20)).with_range(true) };
    guest.host.edit(Edit::Range(Asid(0), range));
    load(&mut guest, 20, PageShift(12));
    assert_eq!(held(&guest), [(10, 54)], "from where the host's begins to where the guest's ends");
    let counters = guest.mmu.counters;
    assert_eq!((counters.range_walks, counters.range_walk_accesses), (1, 4), "a node of each table, two lines each");
    load(&mut guest, 9, PageShift(12));
    assert_eq!(held(&guest), [(9, 1), (10, 54)], "the page before is the host's own choice");
}

#[test]
fn a_flush_by_the_host_drops_ranges() {
    let mut guest = guest_with_range();
    load(&mut guest, 16, PageShift(21));
    guest.mmu.flush_guest(0);
    assert_eq!(held(&guest), []);
}

/// Maps eight consecutive pages of the guest, whose frames the host has put into these of its own, counted from an aligned one. Returns
/// how many pages the entry holds that a load of page 2 filled.
fn clustered(frames: ClusterFrames, in_host: [u64; 8]) -> usize {
    let lookup = AuxLookup::AfterMiss;
    let clusters = ClusterTlbOptions { entries: 4, ways: 4, pages: 8, frames, min_pages: 1, lookup, latency: 0 };
    let mut guest = guest(AuxTlbOptions::Clusters(clusters));
    for (page, in_host) in (0..).zip(in_host) {
        guest.memory.edit(Edit::Set(Asid(0), PAGE + page, pte(FRAME + page)));
        let vpn = Vpn((reach_hardware::GUEST_MEMORY.0 >> 12) + FRAME.0 + page);
        guest.host.edit(Edit::Set(Asid(0), vpn, pte(Pfn(1 << 20 | in_host))));
    }
    // An entry holds pages whose page-table entries agree in all but the frame, in the accessed bit, too.
    (0..8).for_each(|page| load(&mut guest, page, PageShift(12)));
    guest.mmu.flush_guest(0);
    load(&mut guest, 2, PageShift(12));
    guest.mmu.aux_tlb_pages().len()
}

#[test]
fn neighbours_share_an_entry_where_the_host_has_kept_them_together() {
    use ClusterFrames::{Consecutive, SameGroup};
    let in_order = [0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!((clustered(Consecutive, in_order), clustered(SameGroup, in_order)), (8, 8));
    let in_halves = [0, 1, 2, 3, 12, 13, 14, 15];
    assert_eq!((clustered(Consecutive, in_halves), clustered(SameGroup, in_halves)), (4, 4));
    let backwards = [7, 6, 5, 4, 3, 2, 1, 0];
    assert_eq!((clustered(Consecutive, backwards), clustered(SameGroup, backwards)), (1, 8));
}
