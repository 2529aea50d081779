use super::*;
use crate::{FrameSource, Pfn};
use std::collections::BTreeMap;

/// Hands out addresses in sequence, and remembers what has not been freed.
#[derive(Default)]
struct Frames {
    next: u64,
    out: BTreeMap<PhysAddr, u64>,
}

impl FrameSource for Frames {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        self.next = self.next.next_multiple_of(bytes.max(4096));
        let at = PhysAddr(self.next);
        self.next += bytes;
        self.out.insert(at, bytes);
        Some(at)
    }
    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        assert_eq!(self.out.remove(&at), Some(bytes));
    }
}

fn alpha() -> Layout {
    Layout::radix(PageShift(13), vec![10, 10, 15])
}

#[test]
fn a_superpage_is_one_entry_on_x86_and_several_on_alpha() {
    assert_eq!(Layout::x86_64().placement(PageShift(12)), (0, 1));
    assert_eq!(Layout::x86_64().placement(PageShift(21)), (1, 1));
    assert_eq!(Layout::x86_64().placement(PageShift(30)), (2, 1));
    assert_eq!(alpha().placement(PageShift(16)), (0, 8));
    assert_eq!(alpha().placement(PageShift(22)), (0, 512));
}

#[test]
fn clearing_the_only_page_frees_all_nodes_but_the_root() {
    let mut frames = Frames::default();
    let mut table = EditablePageTable::new(Layout::x86_64(), &mut frames).unwrap();
    let vpn = Vpn(0x7_f123_4567);
    let written = table.set(vpn, Pte::new(Pfn(5), PageShift(12)), &mut frames).unwrap();
    assert_eq!((written.entries, written.nodes), (1, 3));
    assert_eq!(table.walk(vpn).len(), 4);
    assert_eq!(table.walk(vpn)[3].at, written.at);
    assert_eq!(table.bytes(), 4 * 4096);
    table.check();
    assert_eq!(table.pages(Vpn(0), 1 << 36), [MappedPage { vpn, pte: Pte::new(Pfn(5), PageShift(12)) }]);
    table.clear(vpn, &mut frames).unwrap();
    table.check();
    assert_eq!((table.bytes(), frames.out.len()), (4096, 1));
    table.release(&mut frames);
    assert!(frames.out.is_empty());
}

#[test]
fn setting_a_superpage_drops_the_smaller_pages_under_it() {
    let mut frames = Frames::default();
    let mut table = EditablePageTable::new(Layout::x86_64(), &mut frames).unwrap();
    for i in 0..512 {
        table.set(Vpn(512 + i), Pte::new(Pfn(i), PageShift(12)), &mut frames).unwrap();
    }
    table.set(Vpn(512), Pte::new(Pfn(1024), PageShift(21)), &mut frames).unwrap();
    table.check();
    assert_eq!(table.pages(Vpn(0), 2048).len(), 1);
    assert_eq!(table.walk(Vpn(700)).len(), 3);
    assert_eq!(table.bytes(), 3 * 4096);
}

#[test]
fn clearing_entries_keeps_the_nodes() {
    let mut frames = Frames::default();
    let mut table = EditablePageTable::new(Layout::x86_64(), &mut frames).unwrap();
    table.set(Vpn(512), Pte::new(Pfn(512), PageShift(21)), &mut frames).unwrap();
    let bytes = table.bytes();
    let (page, written) = table.clear_entries(Vpn(700)).unwrap();
    assert_eq!((page.vpn, written.entries, table.bytes()), (Vpn(512), 1, bytes));
    let written = table.set(Vpn(600), Pte::new(Pfn(600), PageShift(12)), &mut frames).unwrap();
    assert_eq!(written.nodes, 1, "only the leaf node is new");
    table.check();
}

#[test]
fn a_page_is_dirty_when_any_replicated_entry_is() {
    let mut frames = Frames::default();
    let mut table = EditablePageTable::new(alpha(), &mut frames).unwrap();
    let written = table.set(Vpn(64), Pte::new(Pfn(8), PageShift(16)), &mut frames).unwrap();
    assert_eq!(written.entries, 8);
    let (node, index) = table.find(Vpn(67)).unwrap();
    assert!(table.hardware_view().mark(node, index, Pte::ACCESSED | Pte::DIRTY));
    assert!(!table.lookup(Vpn(66)).unwrap().dirty());
    let page = table.page(Vpn(66)).unwrap();
    assert!(page.vpn == Vpn(64) && page.pte.dirty());
    table.check();
}
