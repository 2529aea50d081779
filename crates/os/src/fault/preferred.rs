//! Which frame a page gets, and how much is reserved around it (Navarro et al. §4.2).

use crate::reservation::Seat;
use crate::{FrameKind, ObjectId, OutOfMemory, PROGRAM_PAGE, PastEnd, Region, Vm};
use reach_core::{Label, Pfn, Role, Vpn};
use std::ops::Range;

impl Vm {
    /// A frame for page `index` of `object`, which `mapping` maps; `None` for a page of a file, however it is mapped.
    /// Where the system makes reservations, one of the preferred size is made, or used. When there is no memory at
    /// all, file pages that nobody maps are dropped, and it is tried once more.
    pub(crate) fn page_frame(
        &mut self,
        kind: FrameKind,
        object: ObjectId,
        index: u64,
        mapping: Option<(&Region, Vpn)>,
    ) -> Result<Pfn, OutOfMemory> {
        if self.superpages.is_none() {
            return self.allocate(0, kind, object, index);
        }
        let mut seat = self.frames.seat(object, index);
        let wanted = match seat {
            Seat::Vacant(level) => self.preferred(object, index, mapping, level),
            _ => 0,
        };
        let before = self.frames.preemptions();
        let mut seated = self.frames.sit(kind, object, index, seat, wanted);
        if seated.is_none() {
            self.make_room(0)?;
            seat = self.frames.seat(object, index);
            seated = self.frames.sit(kind, object, index, seat, wanted);
        }
        self.forget_dropped();
        let preempted = self.frames.preemptions() - before;
        self.account(Label::Fault);
        let asid = self.current;
        let reserved = seated.map_or(0, |seated| seated.reserved);
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
            self.unmet(wanted);
        }
        Ok(seated.ok_or_else(|| self.out_of_memory(0))?.pfn)
    }

    /// The level of the largest extent around page `index` that policy allows to be reserved, at most `vacant`.
    fn preferred(&self, object: ObjectId, index: u64, mapping: Option<(&Region, Vpn)>, vacant: u8) -> u8 {
        let Some(reservations) = self.frames.reservations().filter(|_| vacant > 0) else { return 0 };
        let ladder = reservations.ladder();
        let place = reservations.place(object, index);
        // An extent of a level reaches from `back` pages before the page to `pages` after its start.
        let extent = |level| (place - ladder.start(level, place), ladder.pages(level));
        let fits: Box<dyn Fn(u8) -> bool> = match mapping {
            Some((region, vpn)) if !region.file => {
                let (back, pages) = extent(vacant);
                let window = vpn.0.saturating_sub(back)..vpn.0.saturating_sub(back) + pages;
                let known = self.object_around(region, vpn, window);
                let size = self.objects.get(object).mapped >> self.base().0;
                let any = self.superpages.as_ref().is_some_and(|how| how.past_end == PastEnd::Anonymous);
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

    /// The base pages around `vpn`, in `window` and perhaps beyond, that regions of the same object cover without a
    /// gap.
    fn object_around(&self, region: &Region, vpn: Vpn, window: Range<u64>) -> Range<u64> {
        let base = self.base();
        let Some(process) = self.process(self.current) else { return vpn.0..vpn.0 + 1 };
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
