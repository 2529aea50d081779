//! What a simulated operating system is told at boot.

use crate::{Costs, ListOrder};
use reach_core::{Bytes, Layout, PageShift};

/// Memory, page sizes, costs and the kernel's own settings. Plain data: `lab` fills it from the machine file and the
/// command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shape of page tables; its base size is that of frames.
    pub layout: Layout,
    /// Page sizes, ascending; the first is the layout's base.
    pub sizes: Vec<PageShift>,
    /// Physical memory in bytes, at least 64 base pages.
    pub memory: u64,
    /// Order of the buddy allocator's lists.
    pub free_lists: ListOrder,
    /// What the kernel's work costs.
    pub costs: Costs,
    /// Zeroing, copying and page-table writes go through simulated caches instead of being charged by the byte.
    pub caches_modelled: bool,
    /// Clock in Hz, for daemons that sleep by the second.
    pub hertz: u64,
    /// Fault-around window in bytes, a power of two; at most the base page turns it off. Linux: 64 KB.
    pub fault_around: u64,
    /// First loads from anonymous memory get the shared zero page.
    pub zero_page: bool,
    /// How much is read in from a file at once: an aligned window of so many bytes, a power of two.
    pub read_in: u64,
    /// Files are in memory before the program starts, so that no fault waits for the disk.
    pub warm: bool,
    /// How far below its end a stack may grow, in bytes (RLIMIT_STACK).
    pub stack_limit: u64,
    /// Bytes at the top of the new stack that are in memory after exec: arguments and environment, a random gap, and
    /// the tables that the program starts with; 0: none. Small programs under Linux end with three stack pages.
    pub exec_arguments: u64,
    /// Exec maps a page of the kernel's (the vDSO) above the stack, and the program's start-up reads it. For sources
    /// that do not show it themselves.
    pub vdso: bool,
    /// Implicit mappings for references of programs that never map anything (foreign traces) have this many bytes and
    /// are aligned to it, a power of two. A program that does map gets single base pages.
    pub implicit_region: u64,
}

impl Options {
    /// Linux's defaults, with estimated costs at 3 GHz.
    pub fn linux(layout: Layout, sizes: Vec<PageShift>, memory: u64) -> Options {
        Options {
            layout,
            sizes,
            memory,
            free_lists: ListOrder::Lifo,
            costs: Costs::ESTIMATE,
            caches_modelled: false,
            hertz: 3_000_000_000,
            fault_around: 64 << 10,
            zero_page: true,
            read_in: 64 << 10,
            warm: true,
            stack_limit: 8 << 20,
            exec_arguments: 12288,
            vdso: true,
            implicit_region: 1 << 30,
        }
    }

    /// The base page size.
    pub fn base(&self) -> PageShift {
        self.layout.base
    }

    /// Refuses what cannot be simulated.
    pub fn check(&self) -> Result<(), OptionsError> {
        let base = self.base();
        if self.sizes.first() != Some(&base) || !self.sizes.is_sorted_by(|a, b| a < b) {
            return Err(OptionsError::Sizes { base });
        }
        let least = base.bytes() << 6;
        // Frame numbers of the free lists are 32 bits wide.
        let most = base.bytes() << 31;
        if self.memory < least || self.memory > most {
            return Err(OptionsError::Memory { wanted: Bytes(self.memory), least: Bytes(least), most: Bytes(most) });
        }
        for (name, value) in
            [("fault_around", self.fault_around), ("read_in", self.read_in), ("implicit_region", self.implicit_region)]
        {
            if !value.is_power_of_two() {
                return Err(OptionsError::PowerOfTwo { name, value });
            }
        }
        Ok(())
    }
}

/// Options that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Page sizes out of order, or the first is not the base.
    #[error("page sizes must ascend from the base page of {base}; correct the machine file")]
    Sizes {
        /// The base page.
        base: PageShift,
    },
    /// Too little or too much memory.
    #[error("{wanted} of simulated memory is out of range; give --memory from {least} to {most}")]
    Memory {
        /// Asked for.
        wanted: Bytes,
        /// The least.
        least: Bytes,
        /// The most.
        most: Bytes,
    },
    /// A window that is not a power of two.
    #[error("{name} of {value} bytes is not a power of two; give one that is")]
    PowerOfTwo {
        /// Which option.
        name: &'static str,
        /// What it was given.
        value: u64,
    },
}

/// The simulated machine's memory is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of simulated memory: {wanted} more cannot be had of the machine's {memory}; give it more with --memory")]
pub struct OutOfMemory {
    /// What could not be had.
    pub wanted: Bytes,
    /// All the memory there is.
    pub memory: Bytes,
}
