//! The policy in the miss handler.

use reach_core::{Asid, Kind, Label, PhysAddr, TlbEvent, Traffic, Vpn};
use reach_os::online::{Candidate, Online, Policy};
use reach_os::{FrameKind, Mechanism, ObjectId, OutOfMemory, Unbuilt, Vm};

/// A policy at work.
pub(crate) struct Promoter {
    online: Online,
    every_level: bool,
    mechanism: Mechanism,
    /// Cycles for each counter of a candidate that the handler looks at, without its memory references.
    bookkeeping: u64,
    /// What it looks at goes through the caches, where there are any.
    cached: bool,
    due: Vec<Candidate>,
}

impl Promoter {
    pub fn new(policy: Policy, mechanism: Mechanism, bookkeeping: u64, vm: &Vm) -> Promoter {
        Promoter {
            online: Online::new(policy, &vm.options().sizes),
            every_level: matches!(policy, Policy::Asap { every_level: true }),
            mechanism,
            bookkeeping,
            cached: true,
            due: Vec::new(),
        }
    }

    /// What the handler looks at disturbs no cache.
    pub fn without_caches(self) -> Promoter {
        Promoter { cached: false, ..self }
    }

    /// The miss handler, after its miss.
    pub fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        for event in events {
            let (TlbEvent::Miss { asid, vpn, .. }
            | TlbEvent::Removed { asid, vpn, .. }
            | TlbEvent::Inserted { asid, vpn, .. }) = *event;
            // Of what leaves the TLB after its process has, nothing is known.
            let coming = !matches!(event, TlbEvent::Removed { .. });
            let known = self.online.knows(asid, vpn) || coming && self.make_tree(asid, vpn, vm);
            if !known {
                continue;
            }
            let mut due = std::mem::take(&mut self.due);
            self.online.take(event, &mut due);
            self.pay(Label::Handler, vm);
            if let TlbEvent::Miss { vpn, kind, .. } = *event {
                self.build(&due, vpn, kind, vm)?;
            }
            self.due = due;
        }
        Ok(())
    }

    /// Builds what is due after a miss on `vpn`.
    fn build(&mut self, due: &[Candidate], vpn: Vpn, kind: Kind, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let mut built: Option<Candidate> = None;
        for &candidate in due {
            let candidates = self.online.candidates();
            let size = vm.options().sizes[candidate.level];
            let within = |larger: Candidate| {
                larger.asid == candidate.asid && candidates.around(larger.asid, larger.level, candidate.vpn) == larger
            };
            if !self.every_level && built.is_some_and(within) {
                continue;
            }
            let done = vm.build_superpage(candidate.asid, candidate.vpn, size, self.mechanism)?;
            match done {
                Ok(()) => {
                    self.online.promoted(candidate);
                    built = Some(candidate);
                }
                Err(why) => {
                    self.online.refused(candidate);
                    // What does not fit together will not do so in a larger page; a smaller block may be free.
                    if self.every_level || why == Unbuilt::NoBlock && self.mechanism == Mechanism::Remap {
                        break;
                    }
                }
            }
        }
        self.pay(Label::Handler, vm);
        self.apply_mapping_changes(vm);
        if built.is_some() {
            // The handler's last act: the large page in place of the small ones, which have been shot down.
            vm.preload(vpn, kind);
        }
        Ok(())
    }

    /// The kernel's memory for the counters of all candidates around `vpn`. Without any left there is no promotion.
    fn make_tree(&mut self, asid: Asid, vpn: Vpn, vm: &mut Vm) -> bool {
        if vm.process(asid).is_none() {
            return false;
        }
        let bytes = self.online.candidates().tree_bytes();
        let base = vm.base();
        let order = order(bytes, vm);
        let Some(pfn) = vm.frames_mut().allocate(order, FrameKind::Wired, ObjectId::NONE, 0) else {
            return false;
        };
        self.online.candidates().add(asid, vpn, pfn.addr(base));
        true
    }

    /// Charges for the counters that were looked at: instructions, and their loads and stores.
    fn pay(&mut self, label: Label, vm: &mut Vm) {
        let mut count = 0;
        for visit in self.online.visits() {
            count += 1;
            if self.cached && vm.options().caches_modelled {
                let access = |write| Traffic { at: visit.at, bytes: 8, write, label };
                vm.traffic.push(access(false));
                if visit.written {
                    vm.traffic.push(access(true));
                }
            }
        }
        vm.ledger.charge(label, count * self.bookkeeping);
    }

    /// The address space is empty now, or gone: nothing is remembered of it.
    pub fn forget(&mut self, asid: Asid, vm: &mut Vm) {
        let (base, frames) = (vm.base(), 1 << order(self.online.candidates().tree_bytes(), vm));
        for at in self.online.exited(asid) {
            vm.frames_mut().free(PhysAddr::pfn(at, base), frames);
        }
    }

    /// Pages that were taken apart or unmapped have to earn it anew to become one.
    pub fn apply_mapping_changes(&mut self, vm: &mut Vm) {
        for mapping_changes in vm.take_mapping_changes() {
            self.online.mapping_changes(mapping_changes.asid, mapping_changes.vpn, mapping_changes.pages);
            self.pay(mapping_changes.label, vm);
        }
    }
}

fn order(bytes: u64, vm: &Vm) -> u8 {
    bytes.next_power_of_two().max(vm.base().bytes()).ilog2() as u8 - vm.base().0
}
