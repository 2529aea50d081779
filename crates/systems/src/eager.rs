//! What systems with eager paging share (Karakostas et al. 2015, §5.2): mmap, brk and mremap give memory at once.

use reach_core::Event;
use reach_os::{OutOfMemory, Populate, Vm};

/// Carries out `event`, and pages eagerly what it has mapped.
pub(crate) fn event(event: &Event, vm: &mut Vm) -> Result<Option<Populate>, OutOfMemory> {
    let populate = vm.apply(event)?;
    match event {
        Event::Map(map) => vm.page_eagerly(map.span.start.0, map.span.end().0)?,
        Event::Remap(remap) if remap.to.len > remap.from.len && remap.from.len > 0 => {
            vm.page_eagerly(remap.to.start.0 + remap.from.len, remap.to.end().0)?;
        }
        _ => {}
    }
    Ok(populate)
}
