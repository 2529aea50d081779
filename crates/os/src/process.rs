//! Processes, and what program events do to them: map, unmap, protect, advise, fork, exec, exit.

mod address_space;
mod exec;
mod fork;
mod lifecycle;
mod processes;
mod remap;
mod space;
mod vfork;

pub use processes::Process;
pub(crate) use processes::Processes;
pub(crate) use space::page_end;
pub use space::{PROGRAM_PAGE, PageView, Region, Space};

use crate::{OutOfMemory, Vm};
use reach_core::{Event, Role};
use std::ops::Range;

/// Pages that the kernel touches on the program's behalf. [`Vm::apply`] returns them to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Populate {
    /// Base page numbers.
    pub pages: Range<u64>,
    /// Touch them by stores rather than loads.
    pub write: bool,
}

impl Vm {
    /// Applies a program event to the running process as Linux does. Returns pages that the program wants populated; the
    /// system faults them in (see [`Vm::populating`]).
    ///
    /// # Errors
    /// When memory is used up.
    pub fn apply(&mut self, event: &Event) -> Result<Option<Populate>, OutOfMemory> {
        self.reserve_kernel_records()?;
        let asid = self.current();
        match event {
            Event::File { file, len, path, in_memory } => {
                let object = self.objects.file(*file);
                let object = self.objects.get_mut(object);
                (object.len, object.path, object.in_memory) = (Some(*len), Some(path.as_str().into()), *in_memory);
            }
            Event::Phase(_) | Event::Mark(_) | Event::SystemCall(_) => {}
            Event::Switch { asid: to, thread } => {
                self.processes.set_thread(*thread);
                self.processes.switch_to(*to);
                let before = asid;
                let asid = self.current();
                if asid != before {
                    self.trap_switch();
                }
                self.ensure_process(asid)?;
                // A child of vfork runs on the lender's processor until it execs.
                if self.processes.running() == asid {
                    self.at_mut(asid).run_by(*thread);
                }
            }
            Event::Fork { child, shares_memory: false } => self.fork(*child)?,
            Event::Fork { child, shares_memory: true } => self.vfork(*child)?,
            Event::Exec { .. } => {
                let asid = self.processes.leave_shared();
                self.ensure_process(asid)?;
                self.keep_census(asid);
                self.clear_address_space(asid)?;
                self.at_mut(asid).awaits_stack = true;
                let thread = self.processes.thread();
                self.at_mut(asid).begin_with(Some(thread));
            }
            Event::Exit => {
                let asid = self.processes.leave_shared();
                self.exit(asid)?;
            }
            Event::Map(map) => {
                let region = self.map_region(map)?;
                let populate = match region.filter(|region| region.role == Role::Stack) {
                    Some(stack) if std::mem::take(&mut self.at_mut(asid).awaits_stack) => {
                        Some(self.start_image(&stack)?)
                    }
                    _ => region.and_then(|region| self.populate_on_map(map, &region)),
                };
                self.page_eagerly(map.span.start.0, map.span.end().0)?;
                self.code_mapped(map.span.start)?;
                return Ok(populate);
            }
            Event::Unmap(span) => {
                self.ensure_process(asid)?;
                self.unmap_regions(asid, span.start.0, page_end(*span))?;
            }
            Event::Protect(span, protection) => {
                self.ensure_process(asid)?;
                self.protect_regions(asid, *span, *protection)?;
            }
            Event::Remap(remap) => {
                self.ensure_process(asid)?;
                self.remap(remap)?;
                if remap.from.len > 0 {
                    self.page_eagerly(remap.to.start.0 + remap.from.len, remap.to.end().0)?;
                }
            }
            Event::Advise(span, advice) => {
                self.ensure_process(asid)?;
                return self.advise(asid, *span, *advice);
            }
        }
        Ok(None)
    }
}
