//! mremap: moving, growing and shrinking mappings with their pages.

use super::page_end;
use crate::{ObjectId, OutOfMemory, PROGRAM_PAGE, Region, Vm};
use reach_core::{Asid, Label, Protection, Remap, Vpn};

impl Vm {
    /// Moves or resizes a mapping of the running process. Pages go along without being copied.
    pub(super) fn remap(&mut self, remap: &Remap) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let from = remap.from.start.0;
        let to = remap.to.start.0;
        let old_len = page_end(remap.from) - from;
        let new_len = remap.to.len.next_multiple_of(PROGRAM_PAGE);
        if new_len == 0 {
            return Ok(());
        }
        if old_len == 0 {
            return self.duplicate(asid, from, to, new_len);
        }
        if new_len < old_len {
            self.unmap_regions(asid, from + new_len, from + old_len)?;
        }
        let kept = old_len.min(new_len);
        if to == from {
            return self.extend(asid, from + kept, to + new_len);
        }
        self.split_whole(asid, from, from + kept)?;
        self.split_whole(asid, to, to + new_len)?;
        self.unmap_regions(asid, to, to + new_len)?;
        let pieces = self.at_mut(asid).space.carve(from, from + kept);
        for piece in &pieces {
            let moved = Region { start: piece.start - from + to, end: piece.end - from + to, ..*piece };
            self.at_mut(asid).space.insert(moved);
        }
        if remap.keep {
            for piece in &pieces {
                let object = if piece.anonymous() { ObjectId::NONE } else { piece.object };
                self.add_region(asid, Region { object, private_pages: false, ..*piece });
            }
        }
        self.move_pages(asid, from, to, kept)?;
        self.extend(asid, to + kept, to + new_len)
    }

    /// Maps the object at `from` a second time at `to`: what Linux does when the old length is 0.
    fn duplicate(&mut self, asid: Asid, from: u64, to: u64, len: u64) -> Result<(), OutOfMemory> {
        let Some(region) = self.at(asid).space.overlapping(from, from + 1).next().copied() else { return Ok(()) };
        self.split_whole(asid, to, to + len)?;
        self.unmap_regions(asid, to, to + len)?;
        let offset = region.offset + (from - region.start);
        self.add_region(asid, Region { start: to, end: to + len, offset, ..region });
        Ok(())
    }

    /// Extends the region that ends at `at` up to `end`, with the same object.
    fn extend(&mut self, asid: Asid, at: u64, end: u64) -> Result<(), OutOfMemory> {
        if at >= end {
            return Ok(());
        }
        let before = self.at(asid).space.overlapping(at - 1, at).next().copied();
        self.split_whole(asid, at, end)?;
        self.unmap_regions(asid, at, end)?;
        let region = match before {
            Some(r) => Region { start: at, end, offset: r.offset + r.len(), ..r },
            // The source has not reported the old mapping.
            None => Region::anonymous_at(at, end, Protection::READ_WRITE),
        };
        self.add_region(asid, region);
        Ok(())
    }

    /// Moves the translations of `len` bytes. A page that a neighbour at the old place still needs stays there.
    fn move_pages(&mut self, asid: Asid, from: u64, to: u64, len: u64) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pages = self.unshared_pages(asid, from, from + len);
        let target = |vpn: Vpn| Vpn((to >> base.0) + (vpn.0 - (from >> base.0)));
        let len = pages.end - pages.start;
        let mut moved: Vec<std::ops::Range<u64>> = Vec::new();
        let mut at = pages.start;
        while at < pages.end {
            let Some(mut entry) = self.at(asid).table().page(Vpn(at)) else {
                at += 1;
                continue;
            };
            let (first, last) = self.extent(&entry);
            let whole = first >= pages.start && last <= pages.end;
            if entry.pte.shift() > base && !(whole && target(entry.vpn).is_aligned(entry.pte.shift(), base)) {
                self.demote(asid, Vpn(at), base, Label::Fault)?;
                match self.at(asid).table().page(Vpn(at)) {
                    Some(part) => entry = part,
                    // Linux leaves a superpage of the page cache that it splits to later faults.
                    None => {
                        at = last;
                        continue;
                    }
                }
            }
            let to = target(entry.vpn);
            if self.mappable(asid, to) {
                self.map(asid, to, entry.pte.with_range(false), Label::Fault)?;
                let end = to.0 + entry.pte.shift().base_pages(base);
                match moved.last_mut().filter(|run| run.end == to.0) {
                    Some(run) => run.end = end,
                    None => moved.push(to.0..end),
                }
            }
            at = self.extent(&entry).1;
        }
        let swapped = self.swapped(asid, Vpn(pages.start), len);
        self.unmap(asid, Vpn(pages.start), len, Label::Fault)?;
        // A neighbour's page at the new place may be in a range already.
        for run in moved {
            self.form_ranges(asid, Vpn(run.start), run.end - run.start, Label::Fault);
        }
        for offset in swapped {
            let to = target(Vpn(pages.start + offset));
            if self.mappable(asid, to) {
                self.at_mut(asid).swapped.insert(to.0);
            }
        }
        Ok(())
    }

    /// Returns whether `vpn` is in a region and not mapped. Where base pages are larger than the program's, a mapping that
    /// moves by part of one may end before its last page.
    fn mappable(&self, asid: Asid, vpn: Vpn) -> bool {
        self.at(asid).table().find(vpn).is_none() && self.at(asid).space.page(vpn, 1, self.base()).is_some()
    }
}
