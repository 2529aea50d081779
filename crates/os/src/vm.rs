//! The memory manager: the parts that it is made of, and what every room asks of it.
//!
//! Each part owns its state and knows none of the others. The rooms of the crate extend [`Vm`] with what takes several
//! parts at once: a page fault needs regions, frames and translations, for example.

mod check;
mod reports;

use crate::accounting::Accounting;
use crate::code::CodeState;
use crate::paging::Pager;
use crate::process::Processes;
use crate::promotion::Superpages;
use crate::translation::TranslationState;
use crate::{
    Counters, ExplicitCounts, FaultKind, FrameKind, Frames, ObjectId, Objects, Options, OptionsError, OutOfMemory,
    Process,
};
use reach_core::{
    Asid, Kind, Label, Ledger, PageShift, PageTable, PerformanceCounters, Pfn, Pte, Shootdown, ThreadId, TlbPreload,
    Traffic, Vpn,
};
use std::collections::BTreeMap;
use std::vec::Drain;

/// Software bits of page-table entries ([`Pte::soft`]).
pub mod soft {
    /// The page was mapped as one and stays one (hugetlb). Unmapping a part of it does nothing until no region overlaps
    /// it any more.
    pub const WHOLE: u8 = 1;
    /// A demotion unmaps the page rather than map its parts, which later faults find in the page cache: superpages of files and
    /// of shared memory under Linux.
    pub const REFAULT: u8 = 2;
}

/// What the processor needs while references run.
pub struct Running<'a> {
    /// The page table of the running process. The processor sets accessed and dirty bits in it.
    pub table: &'a mut PageTable,
    /// The ledger that the processor charges.
    pub ledger: &'a mut Ledger,
}

/// The memory manager of the simulated operating system.
///
/// ```
/// use reach_core::{Event, Fault, FaultCause, Kind, Layout, Map, PageShift, VirtAddr, Vpn};
/// use reach_os::{Options, Vm};
///
/// let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12)], 64 << 20))?;
/// vm.apply(&Event::Map(Map::anonymous(VirtAddr(0x10_0000), 64 << 10)))?;
/// vm.demand_fault(Fault { vpn: Vpn(0x100), kind: Kind::Store, cause: FaultCause::NotPresent })?;
///
/// let process = vm.process(vm.current()).unwrap();
/// assert!(process.table().lookup(Vpn(0x100)).unwrap().writable());
/// assert_eq!(vm.counters().page_faults, 1);
/// assert_eq!(vm.counters().resident_bytes.current, 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Vm {
    pub(crate) options: Options,
    pub(crate) accounting: Accounting,
    pub(crate) frames: Frames,
    pub(crate) objects: Objects,
    pub(crate) processes: Processes,
    pub(crate) translation: TranslationState,
    /// Superpages by reservation. `None` where the system makes no reservations.
    pub(crate) superpages: Option<Superpages>,
    /// Superpages of code in files. `None` where the system has no rule for code.
    pub(crate) code: Option<CodeState>,
    /// The page daemon. `None` where nothing is paged out.
    pub(crate) pager: Option<Pager>,
    /// The largest block that holds parts of files. `None` where their pages are on their own.
    pub(crate) file_folios: Option<PageShift>,
    zero_page: Pfn,
    performance: PerformanceCounters,
}

impl Vm {
    /// Boots a system without processes. The first reference or event makes one.
    ///
    /// # Errors
    /// When `options` cannot be simulated ([`Options::check`]).
    pub fn new(options: Options) -> Result<Vm, OptionsError> {
        options.check()?;
        let mut frames = Frames::new(options.memory, options.base(), options.free_lists);
        let zero_page =
            frames.allocate(0, FrameKind::Zero, ObjectId::NONE, 0).expect("memory of at least 64 pages is free");
        Ok(Vm {
            accounting: Accounting::new(options.costs.clone(), options.caches_modelled, &options.sizes),
            options,
            frames,
            objects: Objects::default(),
            processes: Processes::default(),
            translation: TranslationState::default(),
            superpages: None,
            code: None,
            pager: None,
            file_folios: None,
            zero_page,
            performance: PerformanceCounters::default(),
        })
    }

    /// Returns the options of this boot. Systems may have changed the page sizes and the zero page since.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns physical memory.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Returns physical memory, for code that takes frames without mapping them: pre-fragmentation, kernel data.
    pub fn frames_mut(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Returns the memory objects with their resident pages.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the base page size.
    pub fn base(&self) -> PageShift {
        self.options.layout.base
    }

    /// Returns the running address space. After vfork it is the parent's: faults count for the owner of the memory.
    pub fn current(&self) -> Asid {
        self.processes.current()
    }

    /// Returns the running thread.
    pub fn thread(&self) -> ThreadId {
        self.processes.thread()
    }

    /// Returns a live process. `None` when there is none in this address space.
    pub fn process(&self, asid: Asid) -> Option<&Process> {
        self.processes.get(asid)
    }

    /// Returns all live processes by address space.
    pub fn processes(&self) -> impl Iterator<Item = (Asid, &Process)> {
        self.processes.iter()
    }

    /// Returns the shared page of zeroes.
    pub fn zero_page(&self) -> Pfn {
        self.zero_page
    }

    /// Returns what the processor works on until the next stop. Makes the running process if there is none.
    ///
    /// # Errors
    /// When memory has no room for the root of its page table.
    pub fn running(&mut self) -> Result<Running<'_>, OutOfMemory> {
        let asid = self.current();
        self.ensure_process(asid)?;
        let process = self.processes.get_mut(asid).expect("just made");
        Ok(Running { table: process.translations.hardware_view(), ledger: &mut self.accounting.ledger })
    }

    /// Returns the ledger: where the cycles of everything in this simulation went.
    pub fn ledger(&self) -> &Ledger {
        &self.accounting.ledger
    }

    /// Hands all charges over to `next`, another operating system that goes on with the same clock.
    pub fn hand_ledger_to(&mut self, next: &mut Vm) {
        next.accounting.ledger.absorb(&std::mem::take(&mut self.accounting.ledger));
    }

    /// Charges `cycles` of the operating system's own work to `label`.
    pub fn charge(&mut self, label: Label, cycles: u64) {
        self.accounting.charge(label, cycles);
    }

    /// Returns the counters of all processes together.
    pub fn counters(&self) -> &Counters {
        &self.accounting.total
    }

    /// Returns the counters of a live process.
    pub fn counters_of(&self, asid: Asid) -> Option<&Counters> {
        self.accounting.of(asid)
    }

    /// Returns the counters of all live processes, by address space.
    pub fn live_counters(&self) -> impl Iterator<Item = (Asid, &Counters)> {
        self.accounting.live()
    }

    /// Returns the counters of processes that have exited.
    pub fn finished(&self) -> &BTreeMap<Asid, Counters> {
        &self.accounting.finished
    }

    /// Applies `count` to the counters of a process and to those of all processes together.
    pub fn tally(&mut self, asid: Asid, count: impl Fn(&mut Counters)) {
        self.accounting.tally(asid, count);
    }

    /// Counts what first touches get of pages of `size`, which answers for `asked`. Call at boot.
    pub fn count_explicit_pages(&mut self, asked: PageShift, size: PageShift) {
        let mapped = vec![0; self.options().sizes.len()];
        self.accounting.total.explicit = Some(ExplicitCounts { asked, size, mapped, shared_extents: 0, failures: 0 });
    }

    /// Returns the counts of [`count_explicit_pages`](Vm::count_explicit_pages), to be updated. `None` before that call.
    pub fn explicit_counts(&mut self) -> Option<&mut ExplicitCounts> {
        self.accounting.total.explicit.as_mut()
    }

    /// Charges for a page fault and counts it. A `major` fault waited for a disk.
    pub fn charge_fault(&mut self, asid: Asid, kind: FaultKind, major: bool) {
        self.accounting.fault(asid, kind, major);
    }

    /// Zeroes `pages` base frames from `pfn` on: as traffic where caches are modelled, else as cycles.
    pub fn zero(&mut self, pfn: Pfn, pages: u64, label: Label) {
        self.accounting.zero(pfn, pages, label);
    }

    /// Zeroes `bytes` of free memory in time of which no program sees anything. Faults to come take their memory from there, as
    /// long as it lasts. No more is zeroed than is free.
    pub fn zero_ahead(&mut self, bytes: u64) {
        let free = self.frames.buddy().free_frames() << self.base().0;
        self.accounting.zero_ahead(bytes, free);
    }

    /// Copies `pages` base frames: as traffic where caches are modelled, else as cycles.
    pub fn copy(&mut self, from: Pfn, to: Pfn, pages: u64, label: Label) {
        self.accounting.copy(from, to, pages, label);
    }

    /// Charges promotions a fixed number of cycles per KB that they copy (Romer et al.'s model); their copies disturb no
    /// cache. Call at boot.
    pub fn use_flat_copy_cost(&mut self, cycles_per_kb: u64) {
        self.accounting.set_flat_copy_cost(cycles_per_kb);
    }

    /// Sets whether the kernel itself takes the faults to come, so that they cost no trap.
    pub fn populating(&mut self, on: bool) {
        self.accounting.set_faults_by_kernel(on);
    }

    /// Returns the shootdowns that wait for the run loop.
    pub fn shootdowns(&self) -> &[Shootdown] {
        &self.accounting.shootdowns
    }

    /// Removes the shootdowns that wait. The run loop carries them out before the next reference.
    pub fn drain_shootdowns(&mut self) -> Drain<'_, Shootdown> {
        self.accounting.shootdowns.drain(..)
    }

    /// Returns the memory traffic that waits for the run loop. There is none unless [`Options::caches_modelled`].
    pub fn traffic(&self) -> &[Traffic] {
        &self.accounting.traffic
    }

    /// Queues an access of the operating system to memory.
    pub fn push_traffic(&mut self, traffic: Traffic) {
        self.accounting.traffic.push(traffic);
    }

    /// Removes the memory traffic that waits. The run loop sends it through the caches.
    pub fn drain_traffic(&mut self) -> Drain<'_, Traffic> {
        self.accounting.traffic.drain(..)
    }

    /// Enters the translation of `vpn` into the TLB of the running process, for references of `kind`, after all
    /// shootdowns.
    pub fn preload(&mut self, vpn: Vpn, kind: Kind) {
        self.translation.preloads.push(TlbPreload { vpn, kind });
    }

    /// Removes the translations that wait to be entered into the TLB.
    pub fn take_preloads(&mut self) -> Vec<TlbPreload> {
        std::mem::take(&mut self.translation.preloads)
    }

    /// Returns the processor's performance counters, where the system reads them.
    pub fn performance(&self) -> &PerformanceCounters {
        &self.performance
    }

    /// Sets the processor's performance counters. The run loop calls this before it calls the system.
    pub fn set_performance(&mut self, counters: PerformanceCounters) {
        self.performance = counters;
    }

    /// Returns a live process.
    pub(crate) fn at(&self, asid: Asid) -> &Process {
        self.processes.get(asid).expect("callers name live processes")
    }

    /// Returns a live process, to be changed.
    pub(crate) fn at_mut(&mut self, asid: Asid) -> &mut Process {
        self.processes.get_mut(asid).expect("callers name live processes")
    }

    /// Counts a page that was mapped (`up`) or unmapped, and brings the gauges of memory up to date.
    pub(crate) fn count_page(&mut self, asid: Asid, pte: Pte, up: bool) {
        let bytes = if self.frames.get(pte.pfn()).kind == FrameKind::Zero { 0 } else { pte.shift().bytes() };
        let level = self.options.sizes.iter().position(|&size| size == pte.shift()).expect("a size of the machine");
        self.accounting.count_page(asid, level, bytes, up);
        self.gauge_memory(asid);
        if up {
            self.accounting.note_peak();
        }
    }

    /// Brings the gauges of memory up to date, those of all and that of `asid`'s page table.
    pub(crate) fn gauge_memory(&mut self, asid: Asid) {
        let own_table = self.processes.get(asid).map_or(0, |process| process.table().bytes());
        let resident = self.frames.resident() << self.base().0;
        self.accounting.gauge_memory(asid, resident, self.frames.table_bytes(), own_table);
        self.accounting.total.reserv = self.frames.reservations().map(|reservations| reservations.counts());
    }

    /// Queues a shootdown and charges for it.
    pub(crate) fn shoot(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        self.charge_shootdowns(asid, 1, label);
        self.trap_invalidations(asid, vpn, 1, label);
        self.accounting.queue_shootdown(asid, vpn, pages);
    }

    /// Charges for `count` shootdowns and counts them. Other processors are interrupted where they may have entries of the
    /// address space: if several threads have run in it.
    pub(crate) fn charge_shootdowns(&mut self, asid: Asid, count: u64, label: Label) {
        let several = self.processes.get(asid).is_some_and(Process::has_several_threads);
        let costs = &self.options().costs;
        let cycles = costs.shootdown + if several { costs.interrupt } else { 0 };
        self.charge(label, count * cycles);
        self.tally(asid, |c| c.shootdowns += count);
    }
}
