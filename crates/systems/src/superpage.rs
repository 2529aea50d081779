//! What systems with superpages share: which of a machine's page sizes stands for a size that a system was made for,
//! and what preemption costs.

use crate::{Accepts, Setting, SystemError};
use reach_core::PageShift;
use reach_os::Vm;

/// The cost of breaking a reservation for its frames.
pub(crate) const PREEMPTION: Setting = Setting {
    name: "preemption",
    summary: "cycles for each reservation preempted (set from Navarro et al. 2002, 6.6)",
    accepts: Accepts::Number { least: 0, most: 1_000_000 },
    default: "350",
};

/// The machine's size that is `wanted`, else its smallest larger one, else its largest. A machine whose only size is
/// the base page is refused.
pub(crate) fn nearest(system: &str, wanted: PageShift, vm: &Vm) -> Result<PageShift, SystemError> {
    let sizes = &vm.options().sizes[1..];
    sizes.iter().copied().find(|&size| size >= wanted).or(sizes.last().copied()).ok_or_else(|| SystemError::Machine {
        system: system.into(),
        what: format!("its only page size is {}; take a machine with superpages, or the system base", vm.base()),
    })
}

/// The machine's largest page. A machine whose only size is the base page is refused.
pub(crate) fn largest(system: &str, vm: &Vm) -> Result<PageShift, SystemError> {
    nearest(system, PageShift(u8::MAX), vm)
}

/// The machine's page sizes that are to be used: the base and `wanted`, or all. Refuses sizes that it has not.
pub(crate) fn chosen(system: &str, wanted: &Option<Vec<PageShift>>, vm: &Vm) -> Result<Vec<PageShift>, SystemError> {
    let sizes = &vm.options().sizes;
    nearest(system, vm.base(), vm)?;
    let Some(wanted) = wanted else { return Ok(sizes.clone()) };
    if let Some(absent) = wanted.iter().find(|size| !sizes[1..].contains(size)) {
        let has: Vec<String> = sizes[1..].iter().map(PageShift::to_string).collect();
        let what = format!("it has no superpages of {absent}; its sizes are {}", has.join(", "));
        return Err(SystemError::Machine { system: system.into(), what });
    }
    Ok(sizes.iter().copied().filter(|size| *size == vm.base() || wanted.contains(size)).collect())
}
