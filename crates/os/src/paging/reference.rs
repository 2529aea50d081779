//! Reference bits, as the page daemon reads and clears them, and what that means for superpages (Navarro et al. §4.6).

use crate::{OutOfMemory, Vm};
use reach_core::{Label, Pfn};

impl Vm {
    /// Whether any translation of this frame was used since its mark was last cleared.
    pub(crate) fn referenced(&self, pfn: Pfn) -> bool {
        let used = |&(asid, vpn)| self.at(asid).table().page(vpn).is_some_and(|page| page.pte.accessed());
        self.frames.get(pfn).referenced || self.frames.translations(pfn).iter().any(used)
    }

    /// Whether the page that this frame holds was written since it was last in its file or in swap.
    pub(crate) fn is_dirty(&self, pfn: Pfn) -> bool {
        let written = |&(asid, vpn)| self.at(asid).table().page(vpn).is_some_and(|page| page.pte.dirty());
        self.frames.get(pfn).dirty || self.frames.translations(pfn).iter().any(written)
    }

    /// Clears the marks of a referenced frame. Under memory pressure a superpage is demoted down to the page with the
    /// chosen probability, to find out which parts of it are in use; where all parts of one were, it is made again
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
            if page.pte.shift() > base && pressure && self.chance() {
                self.demote_for(asid, vpn, Label::Daemon)?;
                page = self.at(asid).table().page(vpn).unwrap_or(page);
            }
            let pages = page.pte.shift().base_pages(base);
            // A superpage has one mark, and clearing it tells of one frame: the others keep theirs to themselves.
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

    fn chance(&mut self) -> bool {
        self.pager.as_mut().is_some_and(|pager| pager.random.below(100) < pager.how.demote)
    }
}
