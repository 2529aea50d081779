//! Parts of daemons that copy base pages into huge pages: what is mapped in an extent, the copy (Linux's `collapse_huge_page`), and
//! how fragmented free memory is.

use reach_core::{Asid, Label, MappedPage, PageShift, Role, VirtAddr, Vpn};
use reach_os::{FrameKind, OutOfMemory, Region, Vm};

/// What became of an extent or a part of it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Collapse {
    Done,
    /// It is empty, huge already, or beyond a limit.
    Ineligible,
    /// There is no free block of its size.
    NoMemory,
}

/// What is mapped in an extent.
pub(crate) struct Census {
    pub pages: Vec<MappedPage>,
    /// Base pages, those of the page of zeroes left out.
    pub present: u64,
    /// Base pages of other processes, too.
    pub shared: u64,
    pub accessed: bool,
    pub writable: bool,
    /// Whether the frames are one aligned block and all present.
    pub is_block: bool,
}

impl Census {
    /// Counts what `asid` has mapped in the extent of `size` at `first`.
    pub fn of(asid: Asid, first: Vpn, size: PageShift, vm: &Vm) -> Census {
        let (base, extent) = (vm.base(), size.base_pages(vm.base()));
        let pages = vm.process(asid).map(|process| process.table().pages(first, extent)).unwrap_or_default();
        let mut found = Census { pages, present: 0, shared: 0, accessed: false, writable: false, is_block: false };
        for page in &found.pages {
            let n = page.pte.shift().base_pages(base);
            let frame = vm.frames().get(page.pte.pfn());
            if frame.kind != FrameKind::Zero {
                found.present += n;
                found.shared += if frame.maps > 1 { n } else { 0 };
            }
            found.accessed |= page.pte.accessed();
            found.writable |= page.pte.writable();
        }
        if let [start, ..] = found.pages[..] {
            let block = start.pte.pfn();
            let in_place = |page: &MappedPage| page.pte.pfn() == block + (page.vpn - first);
            found.is_block = found.present == extent && block.0 % extent == 0 && found.pages.iter().all(in_place);
        }
        found
    }
}

/// Returns whether `region` is memory of which daemons make huge pages: private, no stack, and not advised otherwise.
pub(crate) fn may_be_huge(region: &Region) -> bool {
    region.anonymous() && region.role != Role::Stack && region.huge != Some(false)
}

/// Returns the extents of `size` that may become huge pages, each with its region: aligned, and wholly in memory of which
/// daemons make huge pages.
pub(crate) fn extents(size: PageShift, vm: &Vm) -> Vec<(Asid, Vpn, Region)> {
    let (bytes, base) = (size.bytes(), vm.base());
    let mut all = Vec::new();
    for (asid, process) in vm.processes() {
        for region in process.space().regions().filter(|region| may_be_huge(region)) {
            let starts = (region.start.next_multiple_of(bytes)..).step_by(bytes as usize);
            all.extend(
                starts.take_while(|start| start + bytes <= region.end).map(|at| (asid, Vpn(at >> base.0), *region)),
            );
        }
    }
    all
}

/// Copies the extent of `size` at `first`, which lies within `region`, into a block of its size. Pages that are missing are
/// zeroed.
pub(crate) fn copy_into_block(
    asid: Asid,
    first: Vpn,
    size: PageShift,
    region: &Region,
    label: Label,
    vm: &mut Vm,
) -> Result<Collapse, OutOfMemory> {
    let base = vm.base();
    let index = region.index(first, base);
    let Some(pfn) = vm.frames_mut().allocate(size.order(base), FrameKind::Anonymous, region.object, index) else {
        vm.tally(asid, |c| c.superpage_fallbacks += 1);
        return Ok(Collapse::NoMemory);
    };
    let pte = vm.entry(pfn, vm.page_within(size), region.protection, true);
    vm.note_private_pages(asid, first, size.base_pages(base));
    vm.migrate_block(asid, first, pte, size, label)?;
    Ok(Collapse::Done)
}

/// Returns the share of free memory, in percent, that lies in blocks smaller than `order`.
pub(crate) fn fragmentation(vm: &Vm, order: u8) -> u64 {
    let buddy = vm.frames().buddy();
    buddy.free_below(order) * 100 / buddy.free_frames().max(1)
}

/// Returns the region that holds the whole extent of `size` at `first`.
pub(crate) fn region_of(asid: Asid, first: Vpn, size: PageShift, vm: &Vm) -> Option<Region> {
    let start = first.addr(vm.base());
    let region = vm.process(asid)?.space().find(VirtAddr(start.0)).copied()?;
    (start.0 + size.bytes() <= region.end).then_some(region)
}
