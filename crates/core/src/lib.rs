//! The vocabulary of Reach, and the interface at which the simulated processor and operating system meet.
//!
//! Every other crate uses these types; this one depends on none of them. `hardware` and `os` never see each other. They
//! share the [`PageTable`], as in a real computer: the operating system writes entries; the walker reads them and sets
//! their accessed and dirty bits. Everything else that one side says to the other is a type of `interface`.
//!
//! | module | contents |
//! |---|---|
//! | `addr` | [`VirtAddr`], [`PhysAddr`], page numbers, [`PageShift`]: page sizes as data |
//! | `units` | [`Cycles`], [`Bytes`], [`Permille`]: quantities with a unit |
//! | `reference` | [`Ref`]: a fetch, load or store in one word |
//! | `block`, `chunk` | [`Block`]: straight-line code; [`Chunk`]: a piece of a program |
//! | `event` | [`Event`]: system calls and switches between references |
//! | `step` | [`StepCutter`]: divides chunks at events, daemon ticks and scheduling slices |
//! | [`fold`] | the same-page filter: which references need a TLB look-up |
//! | [`lines`] | the same-line filter: which references warmed caches must see |
//! | `page_table`, `pte` | [`PageTable`]: radix tables in simulated frames |
//! | `organization` | [`Organization`]: page tables of other kinds, by [`PageTableKind`] |
//! | [`placement`] | the addresses that Linux chooses for new mappings |
//! | `range_table` | [`RangeTable`]: range translations (Karakostas et al. 2015) in a B-tree |
//! | `frame_source` | [`FrameSource`]: where tables get their physical memory |
//! | `interface` | [`Fault`], [`StopReason`], [`Shootdown`], [`Traffic`]: what processor and system exchange |
//! | `ledger` | [`Ledger`]: every cycle under one [`Label`] |
//! | `shown` | [`Shown`]: names from outside, for terminals |
//! | [`lock`] | locks that survive a fork |
//! | `zeroed` | [`Zeroed`]: large arrays that begin at a line or superpage of the host |
//! | `random` | [`Random`]: the only random numbers |
//! | [`ring`] | shared memory through which traced processes send references to the reader |

mod addr;
mod block;
mod chunk;
mod event;
pub mod fold;
mod frame_source;
mod interface;
pub mod last_use;
mod ledger;
pub mod lines;
pub mod lock;
mod organization;
mod page_table;
pub mod placement;
mod pte;
mod random;
mod range_table;
mod reference;
pub mod ring;
mod shown;
mod step;
mod sync;
mod units;
mod zeroed;

pub use addr::{Asid, PageShift, Pfn, PhysAddr, VirtAddr, Vpn};
pub use block::{Block, BlockId, BlockTable};
pub use chunk::Chunk;
pub use event::{Advice, Backing, Event, FileId, Map, Mark, Protection, Remap, Role, Span, ThreadId};
pub use frame_source::FrameSource;
pub use interface::{
    AssistAnswer, AssistPort, AuxLookup, AuxTlbOptions, BackSideOptions, ClusterFrames, ClusterTlbOptions,
    ControllerCommand, ControllerOptions, Fault, FaultCause, FinishedWalk, PerformanceCounters, RangeTlbOptions,
    ReplacementOptions, ReuseSignature, Shootdown, StopReason, TlbEvent, TlbMiss, TlbPreload, Traffic, WalkAssist,
};
pub use ledger::{Label, Ledger};
pub use organization::{Organization, PageTableKind, TableTraffic, Walker};
pub use page_table::{
    EditablePageTable, Layout, MappedPage, NodeId, PageTable, PrefetchHint, PteWrites, ShadowTraps, Shadowed, Slot,
    WalkStep, prefetch,
};
pub use pte::Pte;
pub use random::Random;
pub use range_table::{NodeAccess, RangeTable, RangeTranslation};
pub use reference::{Kind, Ref};
pub use shown::{Shown, shown_json, shown_lines};
pub use step::{Counts, Step, StepCutter, TICK_INSTRUCTIONS};
pub use units::{Bytes, Cycles, Millicycles, Permille};
pub use zeroed::{Zero, Zeroed};
