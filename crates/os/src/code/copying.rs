//! Copying whole superpages of code to private memory (Zhou et al. 2023, §9): what a program without help of the kernel would
//! do after its start happens here when the code is mapped, with reads of the code page by page.

use crate::{FaultKind, FrameKind, ObjectId, OutOfMemory, Region, Vm};
use reach_core::{Asid, Kind, Label, PageShift, Vpn};

impl Vm {
    /// Copies the whole superpages of `region` that are not mapped yet.
    pub(super) fn copy_code(&mut self, asid: Asid, region: &Region) -> Result<(), OutOfMemory> {
        let base = self.base();
        let size = self.options.sizes[1];
        let pages = size.base_pages(base);
        let mut at = Vpn(region.start.div_ceil(size.bytes()) * pages);
        while ((at.0 + pages) << base.0) <= region.end {
            if self.nothing_mapped(asid, at, pages) && !self.copy_code_extent(asid, at, size, region)? {
                self.tally(asid, |c| c.superpage_fallbacks += 1);
            }
            at += pages;
        }
        Ok(())
    }

    /// Copies one extent. Returns whether memory had a block for it.
    fn copy_code_extent(
        &mut self,
        asid: Asid,
        first: Vpn,
        size: PageShift,
        region: &Region,
    ) -> Result<bool, OutOfMemory> {
        let base = self.base();
        let (pages, order) = (size.base_pages(base), size.order(base));
        let Some(block) = self.frames.allocate(order, FrameKind::Anonymous, ObjectId::NONE, 0) else {
            return Ok(false);
        };
        self.hold(block, pages);
        self.charge_fault(asid, FaultKind::Anonymous, false);
        let window = (self.options().fault_around >> base.0).max(1);
        for at in 0..pages {
            let page = self.cache_page(region, first + at, Label::Fault)?;
            if page.read_in || at % window == 0 {
                self.charge_fault(asid, FaultKind::File, page.read_in);
            }
            self.copy(page.pfn, block + at, 1, Label::Copy);
            self.pin(None);
        }
        self.release_held(1);
        self.note_private_pages(asid, first, pages);
        let pte = self.entry(block, size, region.protection, false);
        self.map(asid, first, self.touched(pte, Kind::Fetch), Label::Remap)?;
        Ok(true)
    }
}
