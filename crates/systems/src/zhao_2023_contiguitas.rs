//! `zhao-2023-contiguitas`: memory that cannot move lies in a region of its own, so that the rest stays in large blocks.
//!
//! After: Zhao, Xue, Wang, Schatzberg, Yang, Manousis, Weiner, van Riel, Sharma, Tang and Skarlatos, "Contiguitas: The Pursuit of
//! Physical Memory Contiguity in Datacenters", ISCA 2023. What is said of it here is from its abstract and from what is generally
//! known of the design.
//!
//! | design | here |
//! |---|---|
//! | unmovable allocations lie in one region, movable ones in another | [`Contiguitas::confine`] |
//! | page tables and other pages of the kernel, which cannot move, come from that region's blocks | `Vm::cluster_kernel_pages` |
//! | the boundary moves as memory is asked for | the kernel's pool grows by blocks, at most 1/64 of memory at once |
//! | huge pages as in Linux | `linux_thp.rs` |
//!
//! Readings: what holds memory in pieces before the program starts (`--fragment`, or what was measured of a computer) is
//! unmovable. It would have lain at the end of memory.
//!
//! Deviations: frames are not moved while devices use them, which the paper's hardware does: no device uses any here. Movable memory
//! is not compacted, here as in `linux-thp`.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::linux_thp::{self, LinuxThp};
use crate::system::System;
use reach_core::{Cycles, Event, Fault, PageTableKind, Pfn, Vpn};
use reach_os::{FrameKind, Frames, ObjectId, OutOfMemory, Populate, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "zhao-2023-contiguitas",
    summary: "a region of its own for memory that cannot move, and transparent huge pages (Contiguitas)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Zhao, Xue, Wang, Schatzberg, Yang, Manousis, Weiner, van Riel, Sharma, Tang and Skarlatos: Contiguitas: The Pursuit of \
         Physical Memory Contiguity in Datacenters, ISCA 2023",
    ),
    criterion: Criterion::new(Evidence::Superpages, "mapped no huge page"),
    page_table: PageTableKind::Radix,
    settings: linux_thp::SETTINGS,
    build: |settings| Box::new(Contiguitas { linux: LinuxThp::new(settings) }),
};

/// Linux with a region for what cannot move.
pub(crate) struct Contiguitas {
    linux: LinuxThp,
}

impl Contiguitas {
    /// Moves every frame that the kernel holds for good to the end of memory.
    fn confine(frames: &mut Frames) {
        let count = frames.buddy().frames();
        let held: Vec<u64> = (0..count).filter(|&at| frames.get(Pfn(at)).kind == FrameKind::Wired).collect();
        held.iter().for_each(|&at| frames.free(Pfn(at), 1));
        let ends = (0..count).rev();
        let moved = ends.filter(|&at| frames.allocate_at(Pfn(at), 0, FrameKind::Wired, ObjectId::NONE, 0).is_some());
        moved.take(held.len()).for_each(drop);
    }
}

impl System for Contiguitas {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        Contiguitas::confine(vm.frames_mut());
        vm.cluster_kernel_pages();
        self.linux.boot(vm)
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.event(event, vm)
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.fault(fault, vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.first_write(vpn, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.linux.next_tick()
    }

    fn populate(&mut self, populate: &Populate, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.populate(populate, vm)
    }
}
