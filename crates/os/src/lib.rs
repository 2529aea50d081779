//! Frames, objects, address spaces, faults and the one door to translations.
//!
//! [`Vm`] is the operating system's memory manager. Systems (crate `reach-systems`) decide *what* is mapped with which
//! page size; only the six functions of [`Vm`]'s door (`map`, `unmap`, `promote`, `demote`, `migrate`, `protect`) do
//! it, and each of them charges for it, queues the shootdown, and queues the memory traffic.

mod accounting;
mod code;
mod fault;
mod memory;
mod object;
pub mod online;
mod options;
mod paging;
mod process;
mod promotion;
mod ranges;
mod reservation;
mod translation;
mod vm;

pub use accounting::{Census, Costs, Counters, FaultKind, Gauge, Operation, Sample, Steps, Work};
pub use code::{CLUSTER, CodeCensus, CodePages, Written};
pub use fault::Superpage;
pub use memory::{Buddy, Frame, FrameKind, Frames, ListOrder};
pub use memory::{FragmentError, Fragmentation, contiguity};
pub use object::{Object, ObjectId, ObjectKind, Objects};
pub use options::{Options, OptionsError, OutOfMemory};
pub use paging::{Paging, PagingCounts};
pub use process::{PROGRAM_PAGE, PageView, Populate, Process, Region, Space};
pub use promotion::{Mechanism, PastEnd, RemapCosts, Superpages, Unbuilt};
pub use ranges::{Enabling, RangeCounts, Ranging, Translated, Worth};
pub use reservation::{Ladder, ReservationCounts, Reservations, Reserving};
pub use translation::{MappingChange, Refusal};
pub use vm::{Running, Vm, soft};
