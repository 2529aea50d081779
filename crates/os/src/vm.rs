//! The memory manager: what it holds, and how it accounts for what it does. Its one door is in `door.rs`, faults in
//! `fault.rs`, events in `process.rs`.

use crate::code::CodePages;
use crate::code::CodeSeen;
use crate::paging::Pager;
use crate::promotion::RemapCosts;
use crate::promotion::Superpages;
use crate::ranges::Ranging;
use crate::translation::SharedTables;
use crate::{Counters, FrameKind, Frames, ObjectId, Objects, Options, OptionsError, OutOfMemory, Process};
use reach_core::{
    Asid, Label, Ledger, PageShift, PageTable, PerformanceCounters, Pfn, PhysAddr, Pte, Shootdown, ThreadId,
    TlbPreload, Traffic, Vpn,
};
use std::collections::BTreeMap;

mod check;

/// Software bits of page-table entries.
pub mod soft {
    /// The page was made as one and stays one (hugetlb): unmapping a part of it does nothing until no region overlaps
    /// it any more.
    pub const WHOLE: u8 = 1;
}

/// What the processor needs while references run.
pub struct Running<'a> {
    /// The page table of the running process.
    pub table: &'a mut PageTable,
    /// Where its cycles go.
    pub ledger: &'a mut Ledger,
}

/// The memory manager.
pub struct Vm {
    pub(crate) options: Options,
    /// Where the system makes reservations and promotes: how.
    pub(crate) superpages: Option<Superpages>,
    /// Where code of files becomes superpages by a rule of its own: which.
    pub(crate) code: Option<CodePages>,
    /// Of which files only, by their names.
    pub(crate) code_of: Option<Box<str>>,
    /// Where processes share leaf tables: which.
    pub(crate) sharing: Option<SharedTables>,
    /// What was code until now, there.
    pub(crate) code_seen: CodeSeen,
    /// Where address spaces have range tables: how.
    pub(crate) ranging: Option<Ranging>,
    /// Rights are being changed page by page; ranges will be made anew when all are.
    pub(crate) ranges_later: bool,
    /// Where there is a page daemon.
    pub(crate) pager: Option<Pager>,
    pub(crate) frames: Frames,
    pub(crate) objects: Objects,
    pub(crate) processes: BTreeMap<Asid, Process>,
    /// The process that runs.
    pub(crate) actor: Asid,
    /// The address space that it runs in: its own, or what it borrows.
    pub(crate) current: Asid,
    /// Processes that run in another's address space (vfork), and whose.
    pub(crate) borrowed: BTreeMap<Asid, Asid>,
    pub(crate) thread: ThreadId,
    zero_page: Pfn,
    pub(crate) from_kernel: bool,
    pub(crate) vdso: Option<ObjectId>,
    /// Where the cycles of everything in this simulation went.
    pub ledger: Ledger,
    /// What happened to processes that have exited.
    pub finished: BTreeMap<Asid, Counters>,
    /// What happened, all processes together.
    pub counters: Counters,
    /// Translations to be forgotten before the next reference. The run loop drains it.
    pub shootdowns: Vec<Shootdown>,
    /// Translations that it enters into the TLB by itself, afterwards. The run loop drains it.
    pub preloads: Vec<TlbPreload>,
    /// What the processor's performance counters say, where the system reads them. The run loop writes it.
    pub performance: PerformanceCounters,
    pub(crate) remap_costs: RemapCosts,
    /// Where a policy is to hear of it: pages that were taken apart or unmapped.
    pub(crate) mapping_changes: Option<Vec<crate::MappingChange>>,
    /// Cycles for each KB that promotions copy, in place of what it would take (Romer et al.'s model).
    pub(crate) flat_copies: Option<u64>,
    /// Memory that the operating system read and wrote. The run loop drains it through the caches. Stays empty unless
    /// [`Options::caches_modelled`].
    pub traffic: Vec<Traffic>,
}

impl Vm {
    /// A booted system without processes. The first [`Event::Switch`](reach_core::Event::Switch) makes one.
    pub fn new(options: Options) -> Result<Vm, OptionsError> {
        options.check()?;
        let mut frames = Frames::new(options.memory, options.base(), options.free_lists);
        let zero_page =
            frames.allocate(0, FrameKind::Zero, ObjectId::NONE, 0).expect("memory of at least 64 pages is free");
        Ok(Vm {
            counters: Counters::new(&options.sizes),
            options,
            superpages: None,
            code: None,
            sharing: None,
            code_of: None,
            code_seen: CodeSeen::default(),
            ranging: None,
            ranges_later: false,
            pager: None,
            frames,
            objects: Objects::default(),
            processes: BTreeMap::new(),
            actor: Asid(0),
            current: Asid(0),
            borrowed: BTreeMap::new(),
            thread: ThreadId(0),
            zero_page,
            from_kernel: false,
            vdso: None,
            finished: BTreeMap::new(),
            ledger: Ledger::default(),
            shootdowns: Vec::new(),
            performance: PerformanceCounters::default(),
            preloads: Vec::new(),
            remap_costs: RemapCosts { flush: 0, entry: 0 },
            mapping_changes: None,
            flat_copies: None,
            traffic: Vec::new(),
        })
    }

    /// What it was told at boot.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Physical memory.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Physical memory, for what takes frames without mapping them: reservations, pre-fragmentation, kernel data.
    pub fn frames_mut(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Objects and, with them, the page cache.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The base page size.
    pub fn base(&self) -> PageShift {
        self.options.layout.base
    }

    /// The address space that is running. After vfork, the parent's: its faults count as those of whose memory it is.
    pub fn current(&self) -> Asid {
        self.current
    }

    /// The thread that is running.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// A process that exists.
    pub fn process(&self, asid: Asid) -> Option<&Process> {
        self.processes.get(&asid)
    }

    /// All processes that exist, by address space.
    pub fn processes(&self) -> impl Iterator<Item = (Asid, &Process)> {
        self.processes.iter().map(|(&asid, process)| (asid, process))
    }

    /// The shared page of zeroes.
    pub fn zero_page(&self) -> Pfn {
        self.zero_page
    }

    /// What the processor works on until the next stop. Makes the running process if there is none.
    pub fn running(&mut self) -> Result<Running<'_>, OutOfMemory> {
        self.ensure(self.current)?;
        let process = self.processes.get_mut(&self.current).expect("just made");
        Ok(Running { table: process.translations.hardware_view(), ledger: &mut self.ledger })
    }

    pub(crate) fn at(&self, asid: Asid) -> &Process {
        &self.processes[&asid]
    }

    pub(crate) fn at_mut(&mut self, asid: Asid) -> &mut Process {
        self.processes.get_mut(&asid).expect("callers name live processes")
    }

    /// Counts something for a process and for all.
    pub fn tally(&mut self, asid: Asid, count: impl Fn(&mut Counters)) {
        count(&mut self.counters);
        if let Some(process) = self.processes.get_mut(&asid) {
            count(&mut process.counters);
        }
    }

    pub(crate) fn count_page(&mut self, asid: Asid, pte: Pte, up: bool) {
        let bytes = if self.frames.get(pte.pfn()).kind == FrameKind::Zero { 0 } else { pte.shift().bytes() };
        let size = self.options.sizes.iter().position(|&size| size == pte.shift()).expect("a size of the machine");
        let gauges = |c: &mut Counters| {
            if let Some(gauge) = size.checked_sub(1).map(|at| &mut c.superpages[at]) {
                if up { gauge.rise(1) } else { gauge.fall(1) }
            }
        };
        gauges(&mut self.counters);
        if let Some(process) = self.processes.get_mut(&asid) {
            gauges(&mut process.counters);
            let resident = &mut process.counters.resident_bytes;
            if up { resident.rise(bytes) } else { resident.fall(bytes) }
        }
        self.gauge_memory(asid);
        let resident = &self.counters.resident_bytes;
        if up && resident.current == resident.peak {
            let now = self.counters.superpages.iter().map(|gauge| gauge.current);
            self.counters.superpages_at_peak.clear();
            self.counters.superpages_at_peak.extend(now);
        }
    }

    pub(crate) fn gauge_memory(&mut self, asid: Asid) {
        self.counters.resident_bytes.set(self.frames.resident() << self.base().0);
        self.counters.page_table_bytes.set(self.frames.table_bytes());
        self.counters.reserv = self.frames.reservations.as_ref().map(|reservations| reservations.counts());
        if let Some(process) = self.processes.get_mut(&asid) {
            process.counters.page_table_bytes.set(process.table().bytes());
        }
    }

    /// Queues a shootdown and charges for it.
    pub(crate) fn shoot(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        self.ledger.charge(label, self.options.costs.shootdown);
        self.tally(asid, |c| c.shootdowns += 1);
        self.shootdowns.push(Shootdown { asid, vpn, pages });
    }

    /// Zeroes `pages` base frames from `pfn` on, by traffic or by charge.
    pub fn zero(&mut self, pfn: Pfn, pages: u64, label: Label) {
        let base = self.base();
        self.zero_bytes(pfn.addr(base), pages << base.0, label);
    }

    pub(crate) fn zero_bytes(&mut self, at: PhysAddr, bytes: u64, label: Label) {
        if bytes == 0 {
            return;
        }
        self.counters.bytes_zeroed += bytes;
        if self.options.caches_modelled {
            self.push_traffic(Traffic { at, bytes, write: true, label });
        } else {
            self.ledger.charge(label, bytes * self.options.costs.zero_millicycles_per_byte / 1000);
        }
    }

    /// Copies `pages` base frames, by traffic or by charge.
    pub fn copy(&mut self, from: Pfn, to: Pfn, pages: u64, label: Label) {
        let base = self.base();
        let bytes = pages << base.0;
        self.counters.bytes_copied += bytes;
        let costs = &self.options.costs;
        if let Some(flat) = self.flat_copies.filter(|_| label == Label::Copy) {
            return self.ledger.charge(label, bytes * flat / 1024);
        }
        if self.options.caches_modelled {
            if label == Label::Copy {
                // The loop of a promotion takes as long as the machine says; traffic has its cycle for each eight bytes.
                let loops = bytes * costs.copy_millicycles_per_byte / 1000;
                self.ledger.charge(label, loops.saturating_sub(2 * bytes.div_ceil(8)));
            }
            for page in 0..pages {
                let (from, to) = ((from + page).addr(base), (to + page).addr(base));
                self.traffic.push(Traffic { at: from, bytes: base.bytes(), write: false, label });
                self.traffic.push(Traffic { at: to, bytes: base.bytes(), write: true, label });
            }
        } else {
            self.ledger.charge(label, bytes * self.options.costs.copy_millicycles_per_byte / 1000);
        }
    }

    /// Queues traffic, one with the last where it continues it.
    pub(crate) fn push_traffic(&mut self, traffic: Traffic) {
        match self.traffic.last_mut() {
            Some(last)
                if last.at + last.bytes == traffic.at && last.write && traffic.write && last.label == traffic.label =>
            {
                last.bytes += traffic.bytes;
            }
            _ => self.traffic.push(traffic),
        }
    }
}
