//! Part of systems that choose the frame of a page themselves: demand paging with base pages, but for where pages lie.

use reach_core::{Asid, Fault, Kind, Label, Pfn, Vpn};
use reach_os::{FaultKind, FrameKind, OutOfMemory, PageView, Region, Vm};

/// Answers a fault. A page of private anonymous memory that gets its first frame gets the one that `place` allocates; all other
/// faults, and those where it allocates none, are demand paging's.
pub(crate) fn placed_fault(
    fault: Fault,
    vm: &mut Vm,
    place: impl FnOnce(Asid, Vpn, &Region, &mut Vm) -> Option<Pfn>,
) -> Result<(), OutOfMemory> {
    let view = vm.fault_view(fault)?;
    placed_fault_in(fault, view, vm, place)
}

/// Does the same for a page that [`Vm::fault_view`] has looked up.
pub(crate) fn placed_fault_in(
    fault: Fault,
    view: PageView,
    vm: &mut Vm,
    place: impl FnOnce(Asid, Vpn, &Region, &mut Vm) -> Option<Pfn>,
) -> Result<(), OutOfMemory> {
    let (asid, region) = (vm.current(), view.region);
    let present = vm.process(asid).and_then(|process| process.table().lookup(fault.vpn));
    // The first store to a page that only loads have touched replaces the page of zeroes.
    let zeroes = present.is_some_and(|pte| vm.kind_of(pte) == FrameKind::Zero && pte.shift() == vm.base());
    let first_touch = present.is_none() && !vm.in_swap(asid, fault.vpn);
    let gets_frame = fault.kind == Kind::Store || !vm.options().zero_page;
    if !region.anonymous() || !(first_touch || zeroes) || !gets_frame {
        return vm.demand_fault_in(fault, view);
    }
    let Some(pfn) = place(asid, fault.vpn, &region, vm) else { return vm.demand_fault_in(fault, view) };
    vm.note_private_pages(asid, fault.vpn, 1);
    let pte = vm.entry(pfn, vm.base(), view.protection, true);
    if zeroes {
        vm.charge_fault(asid, FaultKind::Cow, false);
        return vm.migrate(asid, fault.vpn, pte, Label::Fault);
    }
    vm.charge_fault(asid, FaultKind::Anonymous, false);
    vm.zero(pfn, 1, Label::Fault);
    vm.map(asid, fault.vpn, pte, Label::Fault)
}
