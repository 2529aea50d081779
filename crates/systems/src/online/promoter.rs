//! The promotion policy in the miss handler.

use reach_core::{Asid, Kind, Label, PhysAddr, TlbEvent, Traffic, Vpn};
use reach_os::online::{Candidate, Online, Policy};
use reach_os::{FrameKind, Mechanism, ObjectId, OutOfMemory, Unbuilt, Vm};

/// A promotion policy with its counters in kernel memory.
pub(crate) struct Promoter {
    online: Online,
    every_level: bool,
    mechanism: Mechanism,
    /// Cycles for each candidate whose counters the handler updates, without its memory references.
    bookkeeping: u64,
    /// Whether counter accesses go through the data caches.
    cached: bool,
    /// Scratch buffer, reused between misses.
    due: Vec<Candidate>,
}

impl Promoter {
    /// A promoter that pays `bookkeeping` cycles for each candidate, and for its memory references.
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

    /// The same, but counter accesses bypass the caches and cost nothing beyond `bookkeeping`.
    pub fn without_caches(self) -> Promoter {
        Promoter { cached: false, ..self }
    }

    /// Updates the policy with the TLB event log and builds the superpages that the miss made due.
    pub fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        for event in events {
            let (TlbEvent::Miss { asid, vpn, .. }
            | TlbEvent::Removed { asid, vpn, .. }
            | TlbEvent::Inserted { asid, vpn, .. }) = *event;
            // An entry may leave the TLB after its process has exited: then there are no counters, and none are made.
            let removed = matches!(event, TlbEvent::Removed { .. });
            let has_counters = self.online.has_tree(asid, vpn) || !removed && self.make_tree(asid, vpn, vm);
            if !has_counters {
                continue;
            }
            let mut due = std::mem::take(&mut self.due);
            self.online.handle(event, &mut due);
            self.pay(Label::Handler, vm);
            if let TlbEvent::Miss { vpn, kind, .. } = *event {
                self.build(&due, vpn, kind, vm)?;
            }
            self.due = due;
        }
        Ok(())
    }

    /// Builds the candidates in `due`, in that order, after a miss on `vpn`.
    fn build(&mut self, due: &[Candidate], vpn: Vpn, kind: Kind, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let mut built: Option<Candidate> = None;
        for &candidate in due {
            let candidates = self.online.candidates();
            let size = vm.options().sizes[candidate.level];
            let contains = |larger: Candidate| {
                larger.asid == candidate.asid && candidates.around(larger.asid, larger.level, candidate.vpn) == larger
            };
            if !self.every_level && built.is_some_and(contains) {
                continue;
            }
            let done = vm.build_superpage(candidate.asid, candidate.vpn, size, self.mechanism)?;
            match done {
                Ok(()) => {
                    self.online.promoted(candidate);
                    built = Some(candidate);
                }
                Err(reason) => {
                    self.online.refused(candidate);
                    // Pages that cannot form this superpage cannot form a larger one; a smaller block may be free.
                    if self.every_level || reason == Unbuilt::NoBlock && self.mechanism == Mechanism::Remap {
                        break;
                    }
                }
            }
        }
        self.pay(Label::Handler, vm);
        self.apply_mapping_changes(vm);
        if built.is_some() {
            // The handler ends by entering the superpage; the shootdown has removed the base pages.
            vm.preload(vpn, kind);
        }
        Ok(())
    }

    /// Allocates kernel memory for the counters of all candidates around `vpn`. Returns false where the process is gone
    /// or no memory is free; the page is then not promoted.
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

    /// Charges `label` for the counters visited since the last call: instructions, and their loads and stores.
    fn pay(&mut self, label: Label, vm: &mut Vm) {
        let mut count = 0;
        for visit in self.online.visits() {
            count += 1;
            if self.cached && vm.options().caches_modelled {
                let access = |write| Traffic { at: visit.at, bytes: 8, write, label };
                vm.push_traffic(access(false));
                if visit.written {
                    vm.push_traffic(access(true));
                }
            }
        }
        vm.charge(label, count * self.bookkeeping);
    }

    /// Frees the counters of an address space that is empty or gone.
    pub fn forget(&mut self, asid: Asid, vm: &mut Vm) {
        let (base, frames) = (vm.base(), 1 << order(self.online.candidates().tree_bytes(), vm));
        for at in self.online.exited(asid) {
            vm.frames_mut().free(PhysAddr::pfn(at, base), frames);
        }
    }

    /// Resets the counters of pages that were demoted or unmapped, which must earn a promotion anew.
    pub fn apply_mapping_changes(&mut self, vm: &mut Vm) {
        for change in vm.take_mapping_changes() {
            self.online.mapping_changes(change.asid, change.vpn, change.pages);
            self.pay(change.label, vm);
        }
    }
}

/// Returns the buddy order of the smallest block of at least `bytes`.
fn order(bytes: u64, vm: &Vm) -> u8 {
    bytes.next_power_of_two().max(vm.base().bytes()).ilog2() as u8 - vm.base().0
}
