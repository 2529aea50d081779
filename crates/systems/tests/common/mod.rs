//! A processor that only translates: it retries what faults, as the run loop does.

// Not every test needs all of it.
#![allow(dead_code)]

use reach_core::{Asid, Event, Fault, FaultCause, Kind, Layout, PageShift, Pte, ThreadId, TlbEvent, Vpn};
use reach_oracle::address_space::{FIRST, NaiveSpaces, Op};
use reach_os::{Options, Vm};
use reach_systems::{System, resolve};
use std::collections::VecDeque;

/// A booted machine with a system.
pub struct Machine {
    pub vm: Vm,
    pub system: Box<dyn System>,
    tlb: Tlb,
}

/// Entries, first in first out, for systems that work in the miss handler; and what those have not heard yet.
#[derive(Default)]
struct Tlb {
    entries: VecDeque<(Asid, Vpn, PageShift)>,
    told: Vec<TlbEvent>,
}

const ENTRIES: usize = 8;

impl Tlb {
    /// Drops what was shot down.
    fn shoot(&mut self, vm: &mut Vm) {
        let base = vm.base();
        for shot in vm.shootdowns.drain(..) {
            let told = &mut self.told;
            self.entries.retain(|&(asid, vpn, shift)| {
                let apart =
                    vpn.0 >= shot.vpn.0.saturating_add(shot.pages) || vpn.0 + shift.base_pages(base) <= shot.vpn.0;
                let stays = asid != shot.asid || apart;
                if !stays {
                    told.push(TlbEvent::Removed { asid, vpn, shift, evicted: false });
                }
                stays
            });
        }
        for &(asid, vpn, shift) in &self.entries {
            let page = vm.process(asid).and_then(|process| process.table().page(vpn));
            let held = page.map(|page| (page.vpn, page.pte.shift()));
            assert_eq!(held, Some((vpn, shift)), "{asid:?}: the TLB holds what the page table does not");
        }
    }

    /// Enters the page that holds `vpn`, unless it is there.
    fn enter(&mut self, asid: Asid, vpn: Vpn, missed: Option<Kind>, vm: &Vm) -> bool {
        let Some(page) = vm.process(asid).and_then(|process| process.table().page(vpn)) else { return false };
        let shift = page.pte.shift();
        if self.entries.contains(&(asid, page.vpn, shift)) {
            return false;
        }
        if let Some(kind) = missed {
            self.told.push(TlbEvent::Miss { asid, vpn, kind, shift });
        }
        if self.entries.len() == ENTRIES
            && let Some((asid, vpn, shift)) = self.entries.pop_front()
        {
            self.told.push(TlbEvent::Removed { asid, vpn, shift, evicted: true });
        }
        self.entries.push_back((asid, page.vpn, shift));
        self.told.push(TlbEvent::Inserted { asid, vpn: page.vpn, shift });
        true
    }
}

impl Machine {
    pub fn boot(spec: &str, options: Options) -> Machine {
        let mut vm = Vm::new(options).unwrap();
        let mut system = resolve(spec).unwrap().build();
        system.boot(&mut vm).unwrap();
        let mut machine = Machine { vm, system, tlb: Tlb::default() };
        machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        machine
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

    /// One operation of the twin's language.
    pub fn apply(&mut self, op: Op) {
        match (op.event(), op) {
            (Some(event), _) => self.event(&event),
            (None, Op::Touch { at, store }) => {
                let base = self.vm.base();
                self.touch(Vpn((FIRST + at) << 12 >> base.0), NaiveSpaces::kind(store));
            }
            (None, _) => unreachable!("all others are events"),
        }
    }

    /// One reference; returns the faults that it took. A processor marks what it uses.
    pub fn touch(&mut self, vpn: Vpn, kind: Kind) -> u64 {
        let before = self.vm.counters.page_faults;
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
                    return self.vm.counters.page_faults - before;
                }
            };
            self.system.fault(Fault { vpn, kind, cause }, &mut self.vm).unwrap();
        }
        panic!("no progress at {vpn:?}");
    }

    /// What the miss handler does, if the page is not in the TLB.
    fn look_up(&mut self, vpn: Vpn, kind: Kind) {
        if !self.system.handles_misses() {
            return;
        }
        self.tlb.shoot(&mut self.vm);
        let asid = self.vm.current();
        if self.tlb.enter(asid, vpn, Some(kind), &self.vm) {
            let told = std::mem::take(&mut self.tlb.told);
            self.system.handle(&told, &mut self.vm).unwrap();
            self.tlb.shoot(&mut self.vm);
            for preload in std::mem::take(&mut self.vm.preloads) {
                self.tlb.enter(asid, preload.vpn, None, &self.vm);
            }
        }
    }

    /// References to `pages` base pages from byte `at` on, one each; returns the faults.
    pub fn sweep(&mut self, at: u64, pages: u64, kind: Kind) -> u64 {
        let first = at >> self.vm.base().0;
        (0..pages).map(|page| self.touch(Vpn(first + page), kind)).sum()
    }

    /// All processes leave.
    pub fn leave(&mut self) {
        for asid in (0..=3).map(Asid) {
            if self.vm.process(asid).is_some() {
                self.event(&Event::Switch { asid, thread: ThreadId(0) });
                self.event(&Event::Exit);
            }
        }
        self.vm.drop_idle_file_pages();
        self.vm.check();
        let [anonymous, file, table, ..] = self.vm.frames().census();
        assert_eq!((anonymous, file, table), (0, 0, 0), "something stayed behind");
        assert!(self.vm.counters.superpages.iter().all(|gauge| gauge.current == 0));
    }
}
