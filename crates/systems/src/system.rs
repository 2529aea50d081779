//! The interface between the run loop and an operating-system design.

use crate::error::SystemError;
use reach_core::{
    Asid, AuxTlbOptions, BackSideOptions, ControllerOptions, Cycles, Event, Fault, FaultCause, Kind, Label, PageShift,
    Pfn, ReplacementOptions, TlbEvent, Vpn, WalkAssist,
};
use reach_os::{OutOfMemory, Populate, Vm};

/// An operating-system design.
///
/// The run loop calls the hooks; a hook changes translations through the [`Vm`], which charges for each change. The
/// hooks, in the order in which a run first calls them: [`boot`](System::boot), [`event`](System::event),
/// [`fault`](System::fault), [`first_write`](System::first_write), [`handle`](System::handle),
/// [`tick`](System::tick). The other methods say which hardware and which calls the design needs. Every method but
/// [`name`](System::name) has a default: together, the defaults are demand paging with base pages.
///
/// # Example
///
/// A complete policy: the first touch of memory that lies in an aligned, wholly mapped 2 MB gets a 2 MB page.
///
/// ```
/// use reach_core::{Asid, FaultCause, Event, Fault, Kind, Layout, Map, PageShift, ThreadId, VirtAddr, Vpn};
/// use reach_os::{Options, OutOfMemory, Superpage, Vm};
/// use reach_systems::System;
///
/// struct FirstTouch;
///
/// const SUPERPAGE: PageShift = PageShift(21);
///
/// impl System for FirstTouch {
///     fn name(&self) -> &str {
///         "first-touch"
///     }
///
///     fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
///         let view = vm.fault_view(fault)?;
///         if fault.cause == FaultCause::NotPresent
///             && view.region.anonymous()
///             && let Some(first) = vm.extent_within(vm.current(), fault.vpn, SUPERPAGE, &view.region)
///         {
///             let page = Superpage { shift: SUPERPAGE, rights: view.protection, writable: true, whole: false };
///             // `false`: the buddy allocator has no free block of 2 MB.
///             if vm.map_superpage(first, &view, page)? {
///                 return Ok(());
///             }
///         }
///         vm.demand_fault_in(fault, view)
///     }
/// }
///
/// let sizes = vec![PageShift(12), SUPERPAGE];
/// let mut vm = Vm::new(Options::linux(Layout::x86_64(), sizes, 64 << 20))?;
/// let mut system = FirstTouch;
/// system.boot(&mut vm)?;
/// system.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }, &mut vm)?;
/// system.event(&Event::Map(Map::anonymous(VirtAddr(2 << 20), 4 << 20)), &mut vm)?;
/// system.fault(Fault { vpn: Vpn(512 + 7), kind: Kind::Store, cause: FaultCause::NotPresent }, &mut vm)?;
/// assert_eq!(vm.counters().superpages[0].current, 1);
/// assert_eq!(vm.counters().resident_bytes.current, 2 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait System: Send {
    /// Returns the system's name, as `--system` takes it.
    fn name(&self) -> &str;

    /// Fits the system to the machine. Called once, before the first event.
    ///
    /// # Errors
    /// When the machine lacks what the system needs, or when options exclude each other.
    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let _ = vm;
        Ok(())
    }

    /// Handles an event between two references: a system call, a switch, the end of a process.
    ///
    /// # Errors
    /// When memory runs out.
    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        match vm.apply(event)? {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    /// Handles a page fault of the running process. Afterwards the reference must translate. The default maps a base
    /// page.
    ///
    /// # Errors
    /// When memory runs out.
    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)
    }

    /// Handles the first write to a clean page whose entry is watched ([`reach_core::Pte::watched`]). The default only
    /// ends the watch.
    ///
    /// # Errors
    /// When memory runs out.
    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let asid = vm.current();
        vm.protect(asid, vpn, 1, Label::Fault, |_, entry| entry.pte.with_watched(false))
    }

    /// Handles a TLB miss in a software miss handler, after the translation was found. Called only where
    /// [`handles_misses`](System::handles_misses) is true. `events` is the TLB event log since the last call; it ends
    /// with this miss and the replacement that it caused.
    ///
    /// # Errors
    /// When memory runs out.
    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        let _ = (events, vm);
        Ok(())
    }

    /// Runs daemons. Called at the first step boundary at or after [`next_tick`](System::next_tick); `now` is in
    /// cycles since boot.
    ///
    /// # Errors
    /// When memory runs out.
    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let _ = (now, vm);
        Ok(())
    }

    /// Returns the time of the next [`tick`](System::tick), in cycles since boot. `None`: no daemon is due.
    fn next_tick(&self) -> Option<Cycles> {
        None
    }

    /// Returns when the host's scanner next compares its superpages with those of its guests. `None`: the host has no scanner. It is called
    /// for hosts only, and the scan runs at the first step boundary at or after that time. Each scan calls [`guest_superpages`](System::guest_superpages)
    /// of the host, and [`host_superpages`](System::host_superpages) of the guest, for each guest.
    fn next_scan(&self) -> Option<Cycles> {
        None
    }

    /// Learns, in a host, which pages of the process `guest` are superpages of that guest, by first page and size.
    ///
    /// # Errors
    /// When memory runs out.
    fn guest_superpages(
        &mut self,
        guest: Asid,
        superpages: &[(Vpn, PageShift)],
        now: Cycles,
        vm: &mut Vm,
    ) -> Result<(), OutOfMemory> {
        let _ = (guest, superpages, now, vm);
        Ok(())
    }

    /// Learns, in a guest, which frames are superpages of its host, by first frame and size.
    ///
    /// # Errors
    /// When memory runs out.
    fn host_superpages(&mut self, superpages: &[(Pfn, PageShift)], vm: &mut Vm) -> Result<(), OutOfMemory> {
        let _ = (superpages, vm);
        Ok(())
    }

    /// Whether [`handle`](System::handle) runs on each TLB miss. Only machines whose TLB software fills have a miss
    /// handler; the run loop refuses others. A system that returns false pays nothing for the log.
    fn handles_misses(&self) -> bool {
        false
    }

    /// Returns the remapping memory controller that the system needs. Asked after [`boot`](System::boot). `None`: an
    /// ordinary controller.
    fn controller(&self, vm: &Vm) -> Option<ControllerOptions> {
        let _ = vm;
        None
    }

    /// Returns the translator behind the last cache that the system needs. Asked after [`boot`](System::boot). `None`: caches
    /// hold addresses of memory.
    fn back_side(&self, vm: &Vm) -> Option<BackSideOptions> {
        let _ = vm;
        None
    }

    /// Returns the auxiliary TLB that the system adds to the last level of TLB arrays. Asked after
    /// [`boot`](System::boot). `None`: no auxiliary TLB, at no cost.
    fn aux_tlb(&self, vm: &Vm) -> Option<AuxTlbOptions> {
        let _ = vm;
        None
    }

    /// Returns the hardware that the system adds between the last level of TLB arrays and the page walker. Asked after
    /// [`boot`](System::boot), once for each core. `None`: nothing, at no cost.
    fn walk_assist(&self, vm: &Vm) -> Option<Box<dyn WalkAssist>> {
        let _ = vm;
        None
    }

    /// Returns the replacement policies of TLBs and caches that the system has in place of the machine's. `None`: the machine's.
    fn replacement(&self) -> Option<ReplacementOptions> {
        None
    }

    /// Whether the system reads performance counters ([`Vm::performance`]). The run loop then keeps them up to date
    /// and asks [`enables_aux_tlb`](System::enables_aux_tlb).
    fn reads_counters(&self) -> bool {
        false
    }

    /// Whether the auxiliary TLB is on for the running address space. Asked only where
    /// [`reads_counters`](System::reads_counters) is true.
    fn enables_aux_tlb(&self, vm: &Vm) -> bool {
        let _ = vm;
        true
    }

    /// Whether translation costs nothing, because the simulated TLB never misses.
    fn perfect_tlb(&self) -> bool {
        false
    }

    /// Faults in pages that the program asked for ahead of use (`MAP_POPULATE`, `madvise`).
    ///
    /// # Errors
    /// When memory runs out.
    fn populate(&mut self, populate: &Populate, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.populating(true);
        let kind = if populate.write { Kind::Store } else { Kind::Load };
        let mut at = populate.pages.start;
        while at < populate.pages.end {
            let asid = vm.current();
            let page = vm.process(asid).and_then(|process| process.table().page(Vpn(at)));
            match page {
                Some(page) if !populate.write || page.pte.writable() => {
                    at = page.vpn.0 + page.pte.shift().base_pages(vm.base());
                }
                Some(_) => {
                    self.fault(Fault { vpn: Vpn(at), kind, cause: FaultCause::Protection }, vm)?;
                    at += 1;
                }
                None => {
                    self.fault(Fault { vpn: Vpn(at), kind, cause: FaultCause::NotPresent }, vm)?;
                    at += 1;
                }
            }
        }
        vm.populating(false);
        Ok(())
    }
}
