//! Memory that gets MADV_HUGEPAGE although the program does not ask: what a call of `madvise` behind one of its mappings would
//! change.

use crate::settings::{Accepts, Setting, Settings};
use reach_core::{Advice, Event, Span, VirtAddr};
use reach_os::{OutOfMemory, Vm};

pub(super) const SPANS: Setting = Setting::new(
    "advised",
    Accepts::Spans,
    "none",
    "addresses that get MADV_HUGEPAGE when they are mapped, in every process",
);

/// The spans that get the advice.
pub(super) struct Advised(Vec<Span>);

impl Advised {
    pub(super) fn new(settings: &Settings) -> Advised {
        Advised(settings.spans(SPANS.name))
    }

    /// Advises what `event` has mapped, as the program would right behind its call.
    ///
    /// # Errors
    /// When memory is used up.
    pub(super) fn after(&self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let mapped = match event {
            Event::Map(map) => map.span,
            Event::Remap(remap) => remap.to,
            _ => return Ok(()),
        };
        for span in &self.0 {
            let (start, end) = (span.start.0.max(mapped.start.0), span.end().0.min(mapped.end().0));
            if start < end {
                let part = Span { start: VirtAddr(start), len: end - start };
                vm.apply(&Event::Advise(part, Advice::Huge))?;
            }
        }
        Ok(())
    }
}
