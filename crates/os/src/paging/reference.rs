//! Reference bits as the page daemon reads and clears them, and the promotion and demotion that follow (Navarro et al. §4.6).

use crate::{OutOfMemory, Vm};
use reach_core::{Label, Pfn};

impl Vm {
    /// Returns whether any translation of this frame was used since its accessed bit was last cleared.
    pub(crate) fn referenced(&self, pfn: Pfn) -> bool {
        let used = |&(asid, vpn)| self.at(asid).table().page(vpn).is_some_and(|page| page.pte.accessed());
        self.frames.get(pfn).referenced || self.frames.translations(pfn).iter().any(used)
    }

    /// Returns whether the page in this frame was written since the disk last had its contents.
    pub(crate) fn is_dirty(&self, pfn: Pfn) -> bool {
        let written = |&(asid, vpn)| self.at(asid).table().page(vpn).is_some_and(|page| page.pte.dirty());
        self.frames.get(pfn).dirty || self.frames.translations(pfn).iter().any(written)
    }

    /// Clears the accessed bits of a referenced frame. Under memory pressure, a superpage is demoted down to the page with the
    /// set probability, to find out which parts of it are in use. Where all parts of an extent were in use, it is promoted
    /// instead.
    pub(crate) fn clear_reference(&mut self, pfn: Pfn) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pressure = self.short_of_memory();
        self.frames.get_mut(pfn).referenced = false;
        for (asid, vpn) in self.frames.translations(pfn) {
            let Some(mut page) = self.at(asid).table().page(vpn) else { continue };
            if self.promote_referenced(asid, vpn)? {
                continue;
            }
            if page.pte.shift() > base && pressure && self.draw_demotion() {
                self.demote_for(asid, vpn, Label::Daemon)?;
                page = self.at(asid).table().page(vpn).unwrap_or(page);
            }
            let pages = page.pte.shift().base_pages(base);
            // A superpage has one accessed bit. Clearing it is for one frame: the others remember that they were used.
            if page.pte.accessed() && pages > 1 {
                for at in 0..pages {
                    self.frames.get_mut(page.pte.pfn() + at).referenced = true;
                }
                self.frames.get_mut(pfn).referenced = false;
            }
            self.protect(asid, page.vpn, pages, Label::Daemon, |_, entry| entry.pte.with_accessed(false))?;
        }
        Ok(())
    }

    /// Draws whether to demote.
    fn draw_demotion(&mut self) -> bool {
        self.pager.as_mut().is_some_and(|pager| pager.random.below(100) < pager.settings.demote)
    }
}
