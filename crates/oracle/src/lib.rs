//! Slow, obvious twins of the fast structures: no packing, no folding, no short cuts, one step at a time.
//!
//! Only tests use them. They run a structure and its twin in lockstep, and compare all that can be observed.
//! Twins of types in `reach_hardware` have the same names: [`Mmu`], [`Caches`], [`Processor`]. Twins of parts of `os`
//! begin with `Naive`.
//!
//! ```
//! # let machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../hardware/doc/small_machine.rs"));
//! use reach_core::{Chunk, EditablePageTable, FrameSource, PageShift, Pfn, PhysAddr, Pte};
//! use reach_core::{Ref, StopReason, VirtAddr, Vpn};
//! use reach_hardware::{Mmu, StepRefs};
//!
//! /// Hands out physical memory from address 0 on.
//! struct Memory(u64);
//! impl FrameSource for Memory {
//!     fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
//!         self.0 += bytes;
//!         Some(PhysAddr(self.0 - bytes))
//!     }
//!     fn free_table(&mut self, _: PhysAddr, _: u64) {}
//! }
//!
//! // Both sides have a page table of their own, which maps eight pages.
//! let new_table = || {
//!     let mut memory = Memory(0);
//!     let mut table = EditablePageTable::new(machine.layout.clone(), &mut memory).unwrap();
//!     for page in 0..8 {
//!         table.set(Vpn(page), Pte::new(Pfn(page), PageShift(12)), &mut memory).unwrap();
//!     }
//!     table
//! };
//! let (mut table, mut twins_table) = (new_table(), new_table());
//! let chunk = Chunk::from((0..8).map(|page| Ref::load(VirtAddr(page << 12))).collect::<Vec<_>>());
//!
//! let mut mmu = Mmu::new(&machine, false, 0);
//! let step = StepRefs::whole(&chunk);
//! let stop = mmu.run(step, &mut step.begin(), table.hardware_view(), None);
//! assert_eq!((stop, mmu.counters.walks()), (StopReason::End, 8));
//!
//! let mut twin = reach_oracle::Mmu::new(&machine, false, 0);
//! assert_eq!(twin.run(&chunk.refs, twins_table.hardware_view(), None), (stop, 8));
//! assert_eq!(twin.counters, mmu.counters);
//! ```

pub mod address_space;
mod array;
pub mod assist;
pub mod buddy;
mod cache;
mod cluster_tlb;
mod mmu;
mod nested;
pub mod online_promotion;
pub mod ooo;
mod organized;
mod processor;
mod range_tlb;
pub mod reservation;
mod reuse_predictor;
mod tlb;
mod walk_caches;

pub use array::Array;
pub use cache::Caches;
pub use mmu::Mmu;
pub use processor::Processor;
