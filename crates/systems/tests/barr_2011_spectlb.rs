//! SpecTLB: what it predicts from FreeBSD's reservations.

use crate::common::Machine;
use reach_core::{
    Asid, AssistAnswer, Event, FinishedWalk, Kind, Map, PageShift, Pfn, TlbMiss, VirtAddr, Vpn, WalkAssist,
};
use reach_oracle::assist::Bench;

const AT: u64 = 0x7f00_0000_0000;

/// Lets the processor miss on a page that is mapped. Returns the prediction and the frame.
fn miss(machine: &Machine, assist: &mut dyn WalkAssist, vpn: Vpn) -> (Option<Pfn>, Pfn) {
    let mut port = Bench::new(PageShift(12), 1);
    let miss = TlbMiss { asid: Asid(1), vpn, kind: Kind::Load, instruction: 0, offset: 0 };
    let predicted = match assist.search(miss, &mut port) {
        AssistAnswer::Predicted { frame, .. } => Some(frame),
        _ => None,
    };
    let pte = machine.translation(vpn).unwrap();
    assist.walked(miss, FinishedWalk { pte, cycles: 30, accesses: 2, memory_reads: 0 }, &mut port);
    (predicted, pte.pfn())
}

#[test]
fn one_page_of_a_reservation_predicts_the_others() {
    let mut machine = Machine::x86("barr-2011-spectlb:entries=2", 64 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 8 << 20)));
    let page = |extent: u64, page: u64| Vpn((AT >> 12) + 512 * extent + page);
    for extent in 0..3 {
        [7, 100, 300].into_iter().for_each(|at| _ = machine.touch(page(extent, at), Kind::Store));
    }
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    assert_eq!(miss(&machine, &mut *assist, page(0, 7)).0, None, "the first walk enters the reservation");
    for at in [100, 300] {
        let (predicted, frame) = miss(&machine, &mut *assist, page(0, at));
        assert_eq!(predicted, Some(frame));
    }
    miss(&machine, &mut *assist, page(1, 7));
    miss(&machine, &mut *assist, page(2, 7));
    assert_eq!(miss(&machine, &mut *assist, page(0, 100)).0, None, "two others took its place");
}
