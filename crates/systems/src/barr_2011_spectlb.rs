//! `barr-2011-spectlb`: translations interpolated from the reservations of the operating system.
//!
//! After: Barr, Cox and Rixner, "SpecTLB: A Mechanism for Speculative Address Translation", ISCA 2011. What is said of it here is
//! from its abstract and introduction, and from papers that compare with it.
//!
//! | design | here |
//! |---|---|
//! | physical memory by reservation, as FreeBSD allocates it | `freebsd.rs` |
//! | a buffer of reservations, each the frames of a large page of which some base pages are mapped | [`SpecTlb`] |
//! | a miss in one of them predicts the frame in its place; the walk verifies it | [`SpecTlb::search`] |
//! | a walk for a base page in a reservation enters it | [`SpecTlb::walked`] |
//!
//! Readings: a base page is in a reservation if its frame has the place in an aligned block of 2 MB that the page has in its extent;
//! the paper has the operating system mark it. The buffer is fully associative and replaces the least recently used reservation.
//! A wrong prediction costs 20 cycles besides the walk.
//!
//! Deviations: a machine without 2 MB pages has the reservations that `freebsd` makes there.

use crate::assisted::Assisted;
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::freebsd::{self, FreeBsd};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PageTableKind, Pfn, Pte, TlbMiss, Vpn, WalkAssist,
};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "barr-2011-spectlb",
    summary: "FreeBSD's reservations, from which translations are predicted (SpecTLB)",
    role: Role::Design,
    compared: false,
    published: Some("Barr, Cox and Rixner: SpecTLB: A Mechanism for Speculative Address Translation, ISCA 2011"),
    criterion: Criterion::new(Evidence::AssistedWalks, "predicted no translation"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let policy = Box::new(FreeBsd::new(&Settings::defaults(freebsd::SETTINGS)));
        let (entries, flush) = (settings.number("entries") as usize, settings.number32("flush"));
        Box::new(Assisted::over(policy, DESCRIPTION.name, move |vm| {
            let large = superpage::nearest(DESCRIPTION.name, PageShift(21), vm).unwrap_or(vm.base());
            Box::new(SpecTlb { entries, flush, base: vm.base(), pages: large.base_pages(vm.base()), held: Vec::new() })
        }))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("entries", Accepts::number(1, 1 << 12, Unit::Count), "64", "reservations in the buffer"),
    Setting::new(
        "flush",
        Accepts::number(0, 1000, Unit::Cycles),
        "20",
        "cycles of a wrong prediction besides the walk",
    ),
];

/// A reservation: the extent of a large page, and its block of frames.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    asid: Asid,
    /// The number of the extent.
    extent: u64,
    /// The first frame.
    block: Pfn,
}

/// A buffer of reservations, the most recently used first.
#[derive(Clone, Debug)]
struct SpecTlb {
    entries: usize,
    flush: u32,
    base: PageShift,
    /// Base pages of a large page.
    pages: u64,
    held: Vec<Reservation>,
}

impl SpecTlb {
    /// Moves the reservation of a page to the front, if the buffer has it.
    fn find(&mut self, asid: Asid, vpn: Vpn) -> Option<&mut Reservation> {
        let extent = vpn.0 / self.pages;
        let at = self.held.iter().position(|held| (held.asid, held.extent) == (asid, extent))?;
        self.held[..=at].rotate_right(1);
        self.held.first_mut()
    }
}

impl WalkAssist for SpecTlb {
    fn search(&mut self, miss: TlbMiss, _: &mut dyn AssistPort) -> AssistAnswer {
        let (within, penalty) = (miss.vpn.0 % self.pages, self.flush);
        let found = self.find(miss.asid, miss.vpn);
        found.map_or(AssistAnswer::Walk, |held| AssistAnswer::Predicted { frame: held.block + within, penalty })
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, _: &mut dyn AssistPort) {
        let (pfn, within) = (walk.pte.pfn().0, miss.vpn.0 % self.pages);
        let in_place = walk.pte.shift() == self.base && pfn % self.pages == within;
        let (asid, extent, entries) = (miss.asid, miss.vpn.0 / self.pages, self.entries);
        match self.find(miss.asid, miss.vpn) {
            Some(held) if in_place => held.block = Pfn(pfn - within),
            // The page is not in the reservation, or the reservation has become a large page.
            Some(_) => _ = self.held.remove(0),
            None if in_place => {
                self.held.truncate(entries - 1);
                self.held.insert(0, Reservation { asid, extent, block: Pfn(pfn - within) });
            }
            None => {}
        }
    }

    fn invalidate(&mut self, asid: Asid, _: Vpn, pages: u64) {
        // A wrong prediction does no harm, so only the end of an address space matters.
        if pages == u64::MAX {
            self.held.retain(|held| held.asid != asid);
        }
    }

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
