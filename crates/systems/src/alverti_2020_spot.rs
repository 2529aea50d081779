//! `alverti-2020-spot`: contiguity-aware paging, and translations predicted by the distance between page and frame (SpOT).
//!
//! After: Alverti, Psomadakis, Karakostas, Gandhi, Nikas, Goumas and Koziris, "Enhancing and Exploiting Contiguity for Fast
//! Memory Virtualization", ISCA 2020. The text was not at hand; what is said of it here is from its abstract, from later papers,
//! and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | contiguity-aware (CA) paging | [`CaPaging`] |
//! | a table of distances from pages to frames, found by the instruction that misses | [`Spot`] |
//! | a miss predicts its frame once the distance has held twice; the walk verifies it | [`Spot::search`], [`Spot::walked`] |
//! | execution goes on with the prediction; a wrong one costs a flush | `AssistAnswer::Predicted` |
//!
//! Readings: 32 distances in four ways. Two bits of confidence: a right prediction adds one, a wrong one takes one, and at zero
//! the distance is replaced. Frames are predicted from confidence two on. A flush costs 20 cycles besides the walk.
//!
//! Deviations: the table learns from all walks; the paper's operating system marks the pages of long contiguous runs, and only
//! those enter it. Faults map base pages, without the paper's huge pages. In a guest, pages of the guest's memory are placed, not
//! those of the host.

use crate::contiguity::CaPaging;
use crate::description::{self, Description};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Unit};
use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, PageTableKind, Pfn, Pte, TlbMiss, Vpn, WalkAssist};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "alverti-2020-spot",
    summary: "contiguous frames, and translations predicted by the distance between page and frame (CA paging, SpOT)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Alverti, Psomadakis, Karakostas, Gandhi, Nikas, Goumas and Koziris: Enhancing and Exploiting Contiguity for Fast \
         Memory Virtualization, ISCA 2020",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "predicted no translation"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| {
        let spot = Spot::new(settings.number("entries") as usize, settings.number32("flush"));
        Box::new(CaPaging::new(DESCRIPTION.name, Box::new(spot)))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("entries", Accepts::number(4, 1 << 12, Unit::Count), "32", "distances in the table, in four ways"),
    Setting::new(
        "flush",
        Accepts::number(0, 1000, Unit::Cycles),
        "20",
        "cycles of a wrong prediction besides the walk",
    ),
];

/// Entries of a set.
const WAYS: usize = 4;
/// The greatest confidence, and the least for a prediction.
const SURE: u8 = 3;
const CONFIDENT: u8 = 2;

/// The distance of an instruction's pages from their frames.
#[derive(Clone, Copy, Debug)]
struct Entry {
    asid: Asid,
    instruction: u64,
    distance: i64,
    confidence: u8,
}

/// The table of distances. Entries of a set are in order of use, the latest first.
#[derive(Clone, Debug)]
struct Spot {
    sets: Vec<Vec<Entry>>,
    flush: u32,
}

impl Spot {
    fn new(entries: usize, flush: u32) -> Spot {
        Spot { sets: vec![Vec::new(); (entries / WAYS).max(1)], flush }
    }

    /// Returns the set of an instruction, with its entry in front if there is one.
    fn find(&mut self, miss: TlbMiss) -> (&mut Vec<Entry>, bool) {
        let at = miss.instruction as usize % self.sets.len();
        let set = &mut self.sets[at];
        let way = set.iter().position(|entry| (entry.asid, entry.instruction) == (miss.asid, miss.instruction));
        if let Some(way) = way {
            set[..=way].rotate_right(1);
        }
        (set, way.is_some())
    }
}

impl WalkAssist for Spot {
    fn search(&mut self, miss: TlbMiss, _: &mut dyn AssistPort) -> AssistAnswer {
        let penalty = self.flush;
        let (set, found) = self.find(miss);
        let entry = set.first().filter(|entry| found && entry.confidence >= CONFIDENT);
        let frame = entry.and_then(|entry| miss.vpn.0.checked_add_signed(entry.distance));
        frame.map_or(AssistAnswer::Walk, |frame| AssistAnswer::Predicted { frame: Pfn(frame), penalty })
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        let within = miss.vpn.0 & (walk.pte.shift().base_pages(port.base()) - 1);
        let distance = (walk.pte.pfn().0 + within).wrapping_sub(miss.vpn.0) as i64;
        let (set, found) = self.find(miss);
        if !found {
            set.truncate(WAYS - 1);
            set.insert(0, Entry { asid: miss.asid, instruction: miss.instruction, distance, confidence: 1 });
            return;
        }
        let entry = &mut set[0];
        if entry.distance == distance {
            entry.confidence = (entry.confidence + 1).min(SURE);
        } else if entry.confidence > 0 {
            entry.confidence -= 1;
        }
        if entry.confidence == 0 {
            (entry.distance, entry.confidence) = (distance, 1);
        }
    }

    fn invalidate(&mut self, asid: Asid, _: Vpn, pages: u64) {
        // A wrong prediction does no harm, so only the end of an address space matters.
        if pages == u64::MAX {
            self.sets.iter_mut().for_each(|set| set.retain(|entry| entry.asid != asid));
        }
    }

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn reads_instructions(&self) -> bool {
        true
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
