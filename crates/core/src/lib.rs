//! The vocabulary of Reach: addresses and page sizes, page tables, references and the events between them, and the
//! ledger in which every cycle has a label. Every other crate speaks in these terms; this one depends on none of them.
//!
//! `hardware` and `os` never see each other. They meet at [`PageTable`], as in a real computer: the operating system
//! writes entries, the walker reads them and sets their accessed and dirty bits.

mod addr;
mod event;
pub mod fold;
mod interface;
mod ledger;
mod page_table;
mod pte;
mod random;
mod range_table;
mod reference;
pub mod ring;
mod step;

pub use addr::{Asid, Bytes, Cycles, PageShift, Pfn, PhysAddr, VirtAddr, Vpn};
pub use event::{Advice, Backing, Event, FileId, Map, Protection, Remap, Role, Span, ThreadId};
pub use interface::{
    AuxLookup, AuxTlbOptions, ClusterTlbOptions, ControllerCommand, ControllerOptions, Fault, FaultCause,
    PerformanceCounters, RangeTlbOptions, Shootdown, StopReason, TlbEvent, TlbPreload, Traffic,
};
pub use ledger::{Label, Ledger};
pub use page_table::{
    FrameSource, Layout, MappedPage, NodeId, PageTable, PrefetchHint, PteWrites, Slot, WalkStep, prefetch,
};
pub use pte::Pte;
pub use random::Random;
pub use range_table::{NodeAccess, RangeTable, RangeTranslation};
pub use reference::{Block, BlockId, BlockTable, Chunk, Kind, Ref};
pub use step::{Counts, Step, StepCutter, TICK_INSTRUCTIONS};
