//! Frames, objects, address spaces, faults and the one door to translations.
//!
//! [`Vm`] is the operating system's memory manager. Systems (crate `reach-systems`) decide *what* is mapped with which
//! page size; only the six functions of [`Vm`]'s door (`map`, `unmap`, `promote`, `demote`, `migrate`, `protect`) do
//! it, and each of them charges for it, queues the shootdown, and queues the memory traffic.

mod buddy;
mod census;
mod check;
mod chunked;
mod code;
mod code_census;
mod contiguity;
mod costs;
mod counters;
mod door;
mod eager;
mod enabling;
mod exec;
mod fault;
mod fork;
mod fragment;
mod frames;
mod mapping_changes;
mod object;
pub mod online;
mod options;
mod page_cache;
mod paging;
mod preferred;
mod process;
mod promotion;
mod ranges;
mod relocate;
mod remap;
mod reservation;
mod reserved;
mod series;
mod shadow;
mod sharing;
mod space;
mod superpage;
mod tables;
mod vfork;
mod vm;
mod work;

pub use buddy::{Buddy, ListOrder};
pub use census::Census;
pub use code::{CLUSTER, CodePages};
pub use code_census::{CodeCensus, Written};
pub use contiguity::contiguity;
pub use costs::Costs;
pub use counters::{Counters, FaultKind, Gauge};
pub use door::Refusal;
pub use enabling::{Enabling, Worth};
pub use fragment::{FragmentError, Fragmentation};
pub use frames::{Frame, FrameKind, Frames};
pub use mapping_changes::MappingChange;
pub use object::{Object, ObjectId, ObjectKind, Objects};
pub use options::{Options, OptionsError, OutOfMemory};
pub use paging::{Paging, PagingCounts};
pub use process::{Populate, Process};
pub use promotion::{PastEnd, Superpages};
pub use ranges::{RangeCounts, Ranging, Translated};
pub use relocate::{Mechanism, RemapCosts, Unbuilt};
pub use reservation::{Ladder, ReservationCounts, Reservations, Reserving};
pub use series::Sample;
pub use space::{PROGRAM_PAGE, PageView, Region, Space};
pub use superpage::Superpage;
pub use vm::{Running, Vm, soft};
pub use work::{Operation, Steps, Work};
