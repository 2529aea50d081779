//! The simulated operating system: frames, memory objects, address spaces, page faults, superpages, paging.
//!
//! [`Vm`] is its memory manager. Systems (crate `reach-systems`) decide *what* is mapped with which page size and call
//! [`Vm`] to do it.
//!
//! # Rooms
//!
//! | module | contents |
//! |---|---|
//! | `vm` | [`Vm`], which the other rooms extend; the invariants of all of them together |
//! | `options` | [`Options`]: everything decided before boot |
//! | `accounting` | costs, counters, elementary steps, censuses of memory |
//! | `memory` | the [`Buddy`] allocator, [`Frames`], cache pages, shadow space, pre-fragmentation |
//! | `reservation` | reservations of frames and population maps |
//! | `object` | memory objects: files, shared memory, private memory |
//! | `process` | address spaces and their regions; map, unmap, fork, exec, vfork, mremap |
//! | `translation` | page tables, range tables, shared leaf tables: the only room that changes them |
//! | `fault` | demand paging, the page cache, which frame a page gets |
//! | `promotion` | superpages by reservation, by copying and by remapping |
//! | `code` | superpages of code in files |
//! | `ranges` | eager paging, and when a range TLB is worth its power |
//! | `paging` | the page daemon, eviction, swap |
//! | [`online`] | promotion policies of a software miss handler |
//!
//! # The law: one way to change a translation
//!
//! [`Vm::map`], [`Vm::unmap`], [`Vm::promote`], [`Vm::demote`], [`Vm::migrate`] and [`Vm::protect`] change translations.
//! Each edits the page table, charges the ledger, queues the shootdown, and queues the memory traffic that it causes, so
//! that no policy can forget a cost. The compiler enforces this: the mutable page table of an address space is private to
//! the room `translation`. Other code reads it, and the processor sets accessed and dirty bits in it.
//!
//! A system has `&mut Vm`. It can read a page table and call the translation API:
//!
//! ```
//! # use reach_core::{Event, Label, Layout, Map, PageShift, Pte, VirtAddr, Vpn};
//! # use reach_os::{FrameKind, ObjectId, Options, OutOfMemory, Vm};
//! fn system(vm: &mut Vm) -> Result<(), OutOfMemory> {
//!     let pfn = vm.allocate(0, FrameKind::Anonymous, ObjectId::NONE, 0)?;
//!     let pte = Pte::new(pfn, vm.base());
//!     assert_eq!(vm.running()?.table.lookup(Vpn(5)), None);
//!     vm.map(vm.current(), Vpn(5), pte, Label::Fault)?;
//!     assert_eq!(vm.running()?.table.lookup(Vpn(5)), Some(pte));
//!     Ok(())
//! }
//! # let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12)], 64 << 20)).unwrap();
//! # vm.apply(&Event::Map(Map::anonymous(VirtAddr(5 << 12), 4096))).unwrap();
//! # system(&mut vm).unwrap();
//! # vm.check();
//! ```
//!
//! It cannot write an entry itself, because its view of the table has no such function:
//!
//! ```compile_fail,E0599
//! # use reach_core::{Event, Label, Layout, Map, PageShift, Pte, VirtAddr, Vpn};
//! # use reach_os::{FrameKind, ObjectId, Options, OutOfMemory, Vm};
//! fn system(vm: &mut Vm) -> Result<(), OutOfMemory> {
//!     let pfn = vm.allocate(0, FrameKind::Anonymous, ObjectId::NONE, 0)?;
//!     let pte = Pte::new(pfn, vm.base());
//!     assert_eq!(vm.running()?.table.lookup(Vpn(5)), None);
//!     vm.running()?.table.update(Vpn(5), |_| pte);
//!     assert_eq!(vm.running()?.table.lookup(Vpn(5)), Some(pte));
//!     Ok(())
//! }
//! ```
//!
//! The function exists for tables that one owns:
//!
//! ```
//! # use reach_core::{EditablePageTable, Layout, PageShift, Pfn, Pte, Vpn};
//! # use reach_os::{Frames, ListOrder};
//! # let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
//! # let pte = Pte::new(Pfn(7), PageShift(12));
//! let mut table = EditablePageTable::new(Layout::x86_64(), &mut frames).unwrap();
//! assert!(table.update(Vpn(5), |_| pte).is_none(), "nothing is mapped there");
//! ```

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
pub use accounting::{ExplicitCounts, MonitorCounts, PagingCounts, RangeCounts, ReservationCounts};
pub use code::{CLUSTER, CodeCensus, CodePages, WrittenCode};
pub use fault::Superpage;
pub use memory::{Buddy, Frame, FrameKind, Frames, ListOrder};
pub use memory::{FragmentError, Fragmentation, FreeBlocks, FreeMemory, FreeMemoryError, Scatter, contiguity};
pub use object::{Folio, Object, ObjectId, ObjectKind, Objects};
pub use options::{Options, OptionsError, OutOfMemory};
pub use paging::Paging;
pub use process::{PROGRAM_PAGE, PageView, Populate, Process, Region, Space};
pub use promotion::{Mechanism, PastEnd, RemapCosts, Superpages, Unbuilt};
pub use ranges::{Enabling, Ranging, Translated, Worth};
pub use reservation::{Ladder, Reservations, Reserving};
pub use translation::{MappingChange, Monitor, Refusal};
pub use vm::{Running, Vm, soft};
