//! Which of a machine's page sizes stands for a size that a system was made for.

use crate::SystemError;
use reach_core::PageShift;
use reach_os::Vm;

/// The machine's size that is `wanted`, else its smallest larger one, else its largest. A machine whose only size is
/// the base page is refused.
pub(crate) fn nearest(system: &str, wanted: PageShift, vm: &Vm) -> Result<PageShift, SystemError> {
    let sizes = &vm.options().sizes[1..];
    sizes.iter().copied().find(|&size| size >= wanted).or(sizes.last().copied()).ok_or_else(|| SystemError::Machine {
        system: system.into(),
        what: format!("its only page size is {}; take a machine with superpages, or the system base", vm.base()),
    })
}
