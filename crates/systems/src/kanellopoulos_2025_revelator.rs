//! `kanellopoulos-2025-revelator`: hashes of the page number choose frames, so that data can be read before the walk has found them.
//!
//! After: Kanellopoulos, Sgouras, Kakolyris, Nitu, Konar, Bera and Mutlu, "Revelator: Rapid Data Fetching via OS-Driven Hash-based
//! Speculative Address Translation", arXiv 2508.02007, 2025. What is said of it here is from the abstracts of its versions.
//!
//! | design | here |
//! |---|---|
//! | a first touch takes the first free one among the frames that several hashes of the page number give | [`Hashes::frames`], [`Revelator::fault`] |
//! | conventional allocation, once all of these are taken | `placed.rs` |
//! | a miss in the last TLB reads its line of data in each of these frames, while the walk goes on | [`Engine::search`] |
//! | the reference waits for the walk, and for its line | `AssistPort::read_data` |
//! | the last entry of the walk is read when the walk begins | [`Engine::search`] |
//!
//! Readings: three hashes, and the hardware reads from all three frames, for loads and stores: code lies where files are cached.
//!
//! Deviations: pages of private anonymous memory have hashed frames. Tables do not: the hardware is told where they lie, as in
//! `margaritov_2019_asap.rs`, and always finds them. Base pages only. The line that was wanted goes to the first
//! level of data caches, the others to the second. In a guest, pages of the guest's memory are hashed, not those of the host.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::placed::placed_fault;
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::system::System;
use reach_core::{
    Asid, AssistAnswer, AssistPort, Fault, Kind, PageTableKind, Pfn, Pte, Random, TlbMiss, Vpn, WalkAssist,
};
use reach_os::{FrameKind, OutOfMemory, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "kanellopoulos-2025-revelator",
    summary: "frames chosen by hashes of the page number, and data read before the walk ends (Revelator)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Kanellopoulos, Sgouras, Kakolyris, Nitu, Konar, Bera and Mutlu: Revelator: Rapid Data Fetching via OS-Driven Hash-based \
         Speculative Address Translation, arXiv 2508.02007, 2025",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "read nothing ahead of a walk"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Revelator::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new("hashes", Accepts::number(1, 16, Unit::Count), "3", "frames that a page may have before any other"),
    Setting::new("reads", Accepts::number(0, 16, Unit::Count), "3", "of how many of them a miss reads the data"),
];

/// The frames that hashes give a page.
#[derive(Clone, Copy, Debug)]
struct Hashes {
    /// How many.
    count: u64,
    /// Frames of memory.
    memory: u64,
}

impl Hashes {
    /// Returns the frames of a page, the first choice first. Two may be the same.
    fn frames(self, asid: Asid, vpn: Vpn) -> impl Iterator<Item = Pfn> {
        let mut hashes = Random::new(vpn.0 ^ u64::from(asid.0) << 48);
        (0..self.count).map(move |_| Pfn(hashes.below(self.memory)))
    }
}

/// The hardware beside the walker. It has no state.
#[derive(Clone, Copy, Debug)]
struct Engine {
    hashes: Hashes,
    reads: usize,
}

impl WalkAssist for Engine {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        port.hasten(miss.vpn, 0);
        if miss.kind != Kind::Fetch {
            let frames = self.hashes.frames(miss.asid, miss.vpn).take(self.reads);
            frames.for_each(|frame| port.read_data(frame, miss.offset));
        }
        AssistAnswer::Walk
    }

    fn invalidate(&mut self, _: Asid, _: Vpn, _: u64) {}

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn reads_instructions(&self) -> bool {
        true
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(*self)
    }
}

/// Demand paging into hashed frames.
pub(crate) struct Revelator {
    engine: Engine,
}

impl Revelator {
    pub(crate) fn new(settings: &Settings) -> Revelator {
        let hashes = Hashes { count: settings.number("hashes"), memory: 1 };
        Revelator { engine: Engine { hashes, reads: settings.number("reads") as usize } }
    }
}

impl System for Revelator {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.engine.hashes.memory = vm.frames().buddy().frames();
        vm.cluster_kernel_pages();
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let hashes = self.engine.hashes;
        placed_fault(fault, vm, |asid, vpn, region, vm| {
            let index = region.index(vpn, vm.base());
            let mut frames = hashes.frames(asid, vpn);
            frames.find_map(|at| vm.frames_mut().allocate_at(at, 0, FrameKind::Anonymous, region.object, index))
        })
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        Some(Box::new(self.engine))
    }
}
