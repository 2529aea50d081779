//! `gupta-2021-midgard`: caches hold lines by addresses of an intermediate space, in which each mapping lies in one piece.
//!
//! After: Gupta, Bhattacharyya, Oh, Bhattacharjee, Falsafi and Payer, "Rebooting Virtual Memory with Midgard", ISCA 2021. What is
//! said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | before the caches, an address is translated to the intermediate space by its mapping, of which programs have few | [`Vlb::search`] |
//! | a buffer of mappings behind the first level of TLBs (the VLB); a tree of mappings in memory behind it | [`Vlb`] |
//! | only what misses in the last cache is translated to an address of memory | `cache/back_side.rs` of `reach-hardware` |
//! | that page table lies in one piece, so that a walk begins at its lowest level | the same |
//! | a small cache of pages at the memory controllers (the MLB), which the paper shows to be optional | `mlb` |
//!
//! Readings: the buffer has 16 mappings and answers in three cycles. The tree of mappings has a root and a level of leaves, each a line.
//!
//! Deviations: frames stand for addresses of the intermediate space. Contiguity-aware paging (`contiguity.rs`) keeps the frames of a
//! mapping in one piece, so that an entry is the distance from page to frame; where memory has no room for that, a mapping is several
//! entries. All levels of the machine's TLBs come before the buffer; the paper has only the first. Faults are found before the caches,
//! not behind them. Cycles of translation behind the last cache are part of the access to memory (`back_side.cycles`). Lines that are
//! written back need no translation. In a guest, the host's pages scatter the lowest table's entries.

use crate::contiguity::CaPaging;
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use reach_core::{
    Asid, AssistAnswer, AssistPort, BackSideOptions, PageTableKind, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist,
};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "gupta-2021-midgard",
    summary: "caches of an intermediate space, translated by mapping before them and by page behind them (Midgard)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Gupta, Bhattacharyya, Oh, Bhattacharjee, Falsafi and Payer: Rebooting Virtual Memory with Midgard, ISCA 2021",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "translated nothing by its mapping"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let vlb = Vlb { held: Vec::new(), entries: settings.number("vlb") as usize };
        let back_side = BackSideOptions { entries: settings.number32("mlb"), latency: MLB_LATENCY };
        Box::new(CaPaging::new(DESCRIPTION.name, Box::new(vlb)).with_back_side(back_side))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("vlb", Accepts::number(1, 1 << 12, Unit::Count), "16", "mappings in the buffer before the caches"),
    Setting::new("mlb", Accepts::number(0, 1 << 12, Unit::Count), "0", "pages in the cache at the memory controllers"),
];

/// Cycles of a look-up in the buffer, and in the cache at the memory controllers.
const VLB_LATENCY: u32 = 3;
const MLB_LATENCY: u32 = 3;
/// The tree of mappings, beyond all frames: a region of roots, one for each program, and one of leaves.
const ROOTS: u64 = 1 << 43;
const LEAVES: u64 = ROOTS + (1 << 30);
/// Lines of leaves that a program's mappings take.
const LEAVES_EACH: u64 = 64;
const LINE: u64 = 64;

/// A mapping: the pages of a program at one distance from their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    asid: Asid,
    distance: i64,
}

impl Mapping {
    /// Returns the lines that hold the mapping in the tree, the root first.
    fn path(self) -> [PhysAddr; 2] {
        let program = u64::from(self.asid.0);
        let leaf = program * LEAVES_EACH + self.distance as u64 % LEAVES_EACH;
        [PhysAddr(ROOTS + program * LINE), PhysAddr(LEAVES + leaf * LINE)]
    }
}

/// The buffer of mappings, the latest used first.
#[derive(Clone, Debug)]
struct Vlb {
    held: Vec<Mapping>,
    entries: usize,
}

impl WalkAssist for Vlb {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let Some(pte) = port.entry(miss.vpn) else { return AssistAnswer::Walk };
        let within = miss.vpn.0 & (pte.shift().base_pages(port.base()) - 1);
        let mapping = Mapping { asid: miss.asid, distance: (pte.pfn().0 + within).wrapping_sub(miss.vpn.0) as i64 };
        port.wait(VLB_LATENCY);
        match self.held.iter().position(|&held| held == mapping) {
            Some(at) => self.held[..=at].rotate_right(1),
            None => {
                for line in mapping.path() {
                    let cycles = port.read(line);
                    port.wait(cycles);
                }
                self.held.truncate(self.entries - 1);
                self.held.insert(0, mapping);
            }
        }
        AssistAnswer::Hit(pte)
    }

    /// Answers come from the page table, so that only the end of a program matters.
    fn invalidate(&mut self, asid: Asid, _: Vpn, pages: u64) {
        if pages == u64::MAX {
            self.held.retain(|mapping| mapping.asid != asid);
        }
    }

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn needs_caches(&self) -> bool {
        true
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
