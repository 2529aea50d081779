//! Memory for patterns of fetches, on x86-64.

use super::area::Area;
use crate::bench::BenchError;
use crate::pattern::{Page, Pattern, jump};
use std::marker::PhantomData;

/// Address space of small pages that hold instructions.
pub(super) struct CodeArea(Area);

/// A chain of places that jump from each to the next, for as long as its area is not written again.
pub(super) struct Chain<'a> {
    /// The first place. Writable memory and executable memory are never the same, so that no reference to it exists.
    start: *const u8,
    area: PhantomData<&'a mut CodeArea>,
}

impl CodeArea {
    /// Reserves address space.
    pub fn new() -> Result<CodeArea, BenchError> {
        Area::new(Page::Small).map(CodeArea)
    }

    /// Writes the chain of a pattern of fetches, and makes it executable. Keeps no more than `most` pages.
    ///
    /// # Errors
    /// When the kernel refuses, and on other architectures than x86-64, whose instructions those of places are.
    pub fn write(&mut self, pattern: &Pattern, most: u64) -> Result<Chain<'_>, BenchError> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(BenchError::Failed("instruction TLBs are measured on x86-64 only".into()));
        }
        self.0.protect(libc::PROT_READ | libc::PROT_WRITE)?;
        self.0.write_places(pattern, most, |area, chain, i| {
            let code = jump::place(area.place(chain[(i + 1) % chain.len()]) as u64, i + 1 == chain.len());
            let to = area.place(chain[i]).cast_mut();
            // SAFETY: the place is a multiple of 64 in this writable area, and the instructions are less than 64 bytes, as a test
            // of them says. So they overlap with no other place. Nothing refers to the memory, and it is not
            // executed: a `Chain` borrows the area.
            unsafe { to.copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        })?;
        self.0.protect(libc::PROT_READ | libc::PROT_EXEC)?;
        Ok(Chain { start: self.0.place(pattern.chains[0][0]), area: PhantomData })
    }
}

impl Chain<'_> {
    /// Visits all places `laps` times, at least once.
    ///
    /// # Panics
    /// On other architectures than x86-64, where there is no chain.
    pub fn run(&self, laps: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `CodeArea::write` has written a function of this signature there, and its memory stays executable and as it is
            // while the area is borrowed. The instructions (`pattern::jump`) keep to the System V convention: they change `rdi`,
            // `rax`, flags and the eight bytes below the stack pointer, which the call of a place moves down and its return up again.
            // The last place returns to this caller after `laps` laps. Returns to other addresses than calls have pushed are no
            // fault: Linux gives a process no shadow stack unless all that it loads asks for one, which Rust's linking does not.
            let visit = unsafe { std::mem::transmute::<*const u8, extern "sysv64" fn(u64)>(self.start) };
            visit(laps.max(1));
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("a chain at {:?} for {laps} laps: `CodeArea::write` makes none", self.start);
    }
}
