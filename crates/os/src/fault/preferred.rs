//! The frame that a page gets, and the preferred size of the reservation around it (Navarro et al. §4.2).

use crate::reservation::Placement;
use crate::{FrameKind, ObjectId, OutOfMemory, PROGRAM_PAGE, PastEnd, Region, Vm};
use reach_core::{Label, Pfn, Role, Vpn};
use std::ops::Range;

impl Vm {
    /// Allocates a frame for page `index` of `object`. `mapping` is the region and page that maps it; `None` for a page of a
    /// file, however it is mapped. Where the system makes reservations, one of the preferred size is made or used.
    ///
    /// # Errors
    /// When reclaiming memory does not yield a frame.
    pub(crate) fn allocate_page(
        &mut self,
        kind: FrameKind,
        object: ObjectId,
        index: u64,
        mapping: Option<(&Region, Vpn)>,
    ) -> Result<Pfn, OutOfMemory> {
        if self.superpages.is_none() {
            return self.allocate(0, kind, object, index);
        }
        let mut placement = self.frames.look_up(object, index);
        let wanted = match placement {
            Placement::Vacant(level) => self.preferred_level(object, index, mapping, level),
            _ => 0,
        };
        let before = self.frames.preemptions();
        let mut allocated = self.frames.allocate_page(kind, object, index, placement, wanted);
        if allocated.is_none() {
            self.make_room(0)?;
            placement = self.frames.look_up(object, index);
            allocated = self.frames.allocate_page(kind, object, index, placement, wanted);
        }
        self.forget_dropped();
        let preempted = self.frames.preemptions() - before;
        self.charge_frame_work(Label::Fault);
        let asid = self.current();
        let reserved = allocated.map_or(0, |page| page.reserved);
        self.tally(asid, |c| {
            c.preemptions += preempted;
            c.reservations_wanted += u64::from(wanted > 0);
            c.reservations += u64::from(reserved > 0);
            c.superpage_fallbacks += u64::from(reserved < wanted);
            for (level, slot) in [(wanted, 0), (reserved, 1)] {
                if let Some(counts) =
                    usize::from(level).checked_sub(1).and_then(|at| c.reservations_by_size.get_mut(at))
                {
                    counts[slot] += 1;
                }
            }
        });
        if reserved < wanted {
            self.note_failed_reservation(wanted);
        }
        Ok(allocated.ok_or_else(|| self.out_of_memory(0))?.pfn)
    }

    /// Returns the level of the largest extent around page `index` that the policy allows to reserve, at most `vacant`; 0 for
    /// none.
    fn preferred_level(&self, object: ObjectId, index: u64, mapping: Option<(&Region, Vpn)>, vacant: u8) -> u8 {
        let Some(reservations) = self.frames.reservations().filter(|_| vacant > 0) else { return 0 };
        let ladder = reservations.ladder();
        let place = reservations.place(object, index);
        // Pages between the start of the page's extent of a level and the page, and the pages of the extent.
        let extent = |level| (place - ladder.start(level, place), ladder.pages(level));
        let fits: Box<dyn Fn(u8) -> bool> = match mapping {
            Some((region, vpn)) if !region.file => {
                let (back, pages) = extent(vacant);
                let window = vpn.0.saturating_sub(back)..vpn.0.saturating_sub(back) + pages;
                let known = self.object_around(region, vpn, window);
                let size = self.objects.get(object).mapped >> self.base().0;
                let any = self.superpages.as_ref().is_some_and(|policy| policy.past_end == PastEnd::Anonymous);
                let up = if any { region.anonymous() } else { region.role == Role::Heap };
                let down = !any && region.role == Role::Stack;
                let growing = up || down;
                Box::new(move |level| {
                    let (back, pages) = extent(level);
                    let Some(start) = vpn.0.checked_sub(back) else { return false };
                    let within = (down || known.start <= start) && (up || start + pages <= known.end);
                    within && start.is_multiple_of(pages) && (any || !growing || pages <= size)
                })
            }
            _ => {
                let end = self.reservable(object);
                Box::new(move |level| {
                    let (back, pages) = extent(level);
                    index.checked_sub(back).is_some_and(|start| start + pages <= end)
                })
            }
        };
        (1..=vacant).rev().find(|&level| fits(level)).unwrap_or(0)
    }

    /// Returns the base pages around `vpn`, in `window` and perhaps beyond, that regions of the same object cover without a
    /// gap.
    fn object_around(&self, region: &Region, vpn: Vpn, window: Range<u64>) -> Range<u64> {
        let base = self.base();
        let Some(process) = self.process(self.current()) else { return vpn.0..vpn.0 + 1 };
        let mut run = region.pages(base);
        let offset = |r: &Region| r.offset.wrapping_sub(r.start);
        let regions = process.space().overlapping(window.start << base.0, window.end << base.0);
        let alike: Vec<Range<u64>> = regions
            .filter(|r| r.object == region.object && offset(r) == offset(region))
            .map(|r| r.start >> base.0..r.end.next_multiple_of(PROGRAM_PAGE).div_ceil(base.bytes()))
            .collect();
        for other in &alike {
            if other.start <= run.end && run.end < other.end {
                run.end = other.end;
            }
        }
        for other in alike.iter().rev() {
            if run.start <= other.end && other.start < run.start {
                run.start = other.start;
            }
        }
        run
    }
}
