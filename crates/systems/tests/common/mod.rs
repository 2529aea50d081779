//! A machine without timing: references that fault are retried, as the run loop does.

// No test uses all of it.
#![allow(dead_code)]

use reach_core::{Asid, Event, Fault, FaultCause, Kind, Layout, PageShift, Pte, ThreadId, TlbEvent, Vpn};
use reach_oracle::address_space::{FIRST_PAGE, NaiveAddressSpaces, Op};
use reach_os::{Options, Vm};
use reach_systems::{System, SystemError, resolve};
use std::collections::VecDeque;

/// A booted machine: memory manager, system and TLB.
pub struct Machine {
    pub vm: Vm,
    pub system: Box<dyn System>,
    tlb: Tlb,
}

/// A FIFO TLB for systems with a miss handler, and its event log since the handler's last call.
#[derive(Default)]
struct Tlb {
    entries: VecDeque<(Asid, Vpn, PageShift)>,
    log: Vec<TlbEvent>,
}

const ENTRIES: usize = 8;

impl Tlb {
    /// Drops entries that were shot down, and checks the rest against the page tables.
    fn shoot(&mut self, vm: &mut Vm) {
        let base = vm.base();
        for shot in vm.drain_shootdowns() {
            let log = &mut self.log;
            self.entries.retain(|&(asid, vpn, shift)| {
                let disjoint =
                    vpn.0 >= shot.vpn.0.saturating_add(shot.pages) || vpn.0 + shift.base_pages(base) <= shot.vpn.0;
                let kept = asid != shot.asid || disjoint;
                if !kept {
                    log.push(TlbEvent::Removed { asid, vpn, shift, evicted: false });
                }
                kept
            });
        }
        for &(asid, vpn, shift) in &self.entries {
            let page = vm.process(asid).and_then(|process| process.table().page(vpn));
            let held = page.map(|page| (page.vpn, page.pte.shift()));
            assert_eq!(held, Some((vpn, shift)), "{asid:?}: the TLB has an entry that the page table has not");
        }
    }

    /// Inserts the page that holds `vpn`. Returns false where it is in the TLB already or not mapped.
    fn enter(&mut self, asid: Asid, vpn: Vpn, missed: Option<Kind>, vm: &Vm) -> bool {
        let Some(page) = vm.process(asid).and_then(|process| process.table().page(vpn)) else { return false };
        let shift = page.pte.shift();
        if self.entries.contains(&(asid, page.vpn, shift)) {
            return false;
        }
        if let Some(kind) = missed {
            self.log.push(TlbEvent::Miss { asid, vpn, kind, shift });
        }
        if self.entries.len() == ENTRIES
            && let Some((asid, vpn, shift)) = self.entries.pop_front()
        {
            self.log.push(TlbEvent::Removed { asid, vpn, shift, evicted: true });
        }
        self.entries.push_back((asid, page.vpn, shift));
        self.log.push(TlbEvent::Inserted { asid, vpn: page.vpn, shift });
        true
    }
}

impl Machine {
    pub fn boot(spec: &str, options: Options) -> Machine {
        Machine::try_boot(spec, options).unwrap()
    }

    /// Boots a system that may not run on such a machine.
    pub fn try_boot(spec: &str, options: Options) -> Result<Machine, SystemError> {
        let mut vm = Vm::new(options).unwrap();
        let mut system = resolve(spec).unwrap().build();
        system.boot(&mut vm)?;
        let mut machine = Machine { vm, system, tlb: Tlb::default() };
        machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        Ok(machine)
    }

    pub fn arm(spec: &str, memory: u64) -> Machine {
        let sizes = [12, 16, 21, 25, 30].map(PageShift).to_vec();
        Machine::boot(spec, Options::linux(Layout::x86_64(), sizes, memory))
    }

    pub fn x86(spec: &str, memory: u64) -> Machine {
        let sizes = vec![PageShift(12), PageShift(21), PageShift(30)];
        Machine::boot(spec, Options::linux(Layout::x86_64(), sizes, memory))
    }

    pub fn event(&mut self, event: &Event) {
        self.system.event(event, &mut self.vm).unwrap();
    }

    pub fn translation(&self, vpn: Vpn) -> Option<Pte> {
        self.vm.process(self.vm.current()).and_then(|process| process.table().lookup(vpn))
    }

    /// Applies an operation of the oracle's.
    pub fn apply(&mut self, op: Op) {
        match (op.event(), op) {
            (Some(event), _) => self.event(&event),
            (None, Op::Touch { at, store }) => {
                let base = self.vm.base();
                self.touch(Vpn((FIRST_PAGE + at) << 12 >> base.0), NaiveAddressSpaces::kind(store));
            }
            (None, _) => unreachable!("all other operations are events"),
        }
    }

    /// Makes one reference, sets the accessed and dirty bits, and returns the number of faults.
    pub fn touch(&mut self, vpn: Vpn, kind: Kind) -> u64 {
        let before = self.vm.counters().page_faults;
        for _ in 0..4 {
            let cause = match self.translation(vpn) {
                None => FaultCause::NotPresent,
                Some(pte) if kind == Kind::Store && !pte.writable() => FaultCause::Protection,
                Some(pte) if kind == Kind::Fetch && !pte.executable() => FaultCause::Protection,
                Some(pte) if kind == Kind::Store && pte.watched() && !pte.dirty() => {
                    self.system.first_write(vpn, &mut self.vm).unwrap();
                    continue;
                }
                Some(_) => {
                    let table = self.vm.running().unwrap().table;
                    let (node, index) = table.find(vpn).unwrap();
                    table.mark(node, index, Pte::ACCESSED | if kind == Kind::Store { Pte::DIRTY } else { 0 });
                    self.look_up(vpn, kind);
                    return self.vm.counters().page_faults - before;
                }
            };
            self.system.fault(Fault { vpn, kind, cause }, &mut self.vm).unwrap();
        }
        panic!("no progress at {vpn:?}");
    }

    /// Looks the page up in the TLB and runs the miss handler after a miss.
    fn look_up(&mut self, vpn: Vpn, kind: Kind) {
        if !self.system.handles_misses() {
            return;
        }
        self.tlb.shoot(&mut self.vm);
        let asid = self.vm.current();
        if self.tlb.enter(asid, vpn, Some(kind), &self.vm) {
            let log = std::mem::take(&mut self.tlb.log);
            self.system.handle(&log, &mut self.vm).unwrap();
            self.tlb.shoot(&mut self.vm);
            for preload in self.vm.take_preloads() {
                self.tlb.enter(asid, preload.vpn, None, &self.vm);
            }
        }
    }

    /// Makes one reference to each of `pages` base pages from byte `at` on, and returns the number of faults.
    pub fn sweep(&mut self, at: u64, pages: u64, kind: Kind) -> u64 {
        let first = at >> self.vm.base().0;
        (0..pages).map(|page| self.touch(Vpn(first + page), kind)).sum()
    }

    /// Exits all processes and checks that no memory is left in use.
    pub fn exit_all(&mut self) {
        for asid in (0..=3).map(Asid) {
            if self.vm.process(asid).is_some() {
                self.event(&Event::Switch { asid, thread: ThreadId(0) });
                self.event(&Event::Exit);
            }
        }
        self.vm.drop_idle_file_pages();
        self.vm.check();
        let [anonymous, file, table, ..] = self.vm.frames().census();
        assert_eq!((anonymous, file, table), (0, 0, 0), "frames are still in use");
        assert!(self.vm.counters().superpages.iter().all(|gauge| gauge.current == 0));
    }
}
