//! The options of a simulated operating system, fixed at boot.

use crate::{Costs, ListOrder, Monitor};
use reach_core::{Bytes, Layout, PageShift};

/// Memory, page sizes, costs and kernel settings. Plain data: `lab` fills it from the machine file and the command line.
///
/// ```
/// use reach_core::{Layout, PageShift};
/// use reach_os::{Options, Vm};
///
/// let sizes = vec![PageShift(12), PageShift(21)];
/// let mut options = Options::linux(Layout::x86_64(), sizes, 1 << 30);
/// options.fault_around = 0x3000;
/// assert_eq!(
///     options.check().unwrap_err().to_string(),
///     "fault_around: 12288 bytes is not a power of two; give a power of two"
/// );
/// options.fault_around = 16 << 10;
/// let vm = Vm::new(options)?;
/// assert_eq!(vm.frames().buddy().frames(), 1 << 18);
/// # Ok::<(), reach_os::OptionsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shape of page tables; its base page size is the size of frames.
    pub layout: Layout,
    /// Page sizes, ascending; the first is the base page size of `layout`.
    pub sizes: Vec<PageShift>,
    /// Physical memory in bytes, 2^6 to 2^31 base pages.
    pub memory: u64,
    /// Order of the buddy allocator's free lists.
    pub free_lists: ListOrder,
    /// Costs of the kernel's work.
    pub costs: Costs,
    /// Zeroing, copying and page-table writes become traffic through simulated caches, instead of cycles per byte.
    pub caches_modelled: bool,
    /// Clock frequency in Hz, for daemons that sleep by the second.
    pub hertz: u64,
    /// Fault-around window in bytes, a power of two. A window of at most the base page turns fault-around off. Linux: 64 KB.
    pub fault_around: u64,
    /// First loads from anonymous memory map the shared zero page.
    pub zero_page: bool,
    /// Bytes of the aligned window that is read in from a file at once, a power of two.
    pub read_in: u64,
    /// Files are in memory before the program starts, so that no fault waits for a disk.
    pub warm: bool,
    /// Largest size of a stack in bytes (`RLIMIT_STACK`).
    pub stack_limit: u64,
    /// Bytes at the top of the new stack that are resident after exec: arguments and environment, a random gap, and the tables that
    /// the program starts with. Small programs under Linux have three stack pages.
    pub exec_arguments: u64,
    /// Exec maps the vDSO, a page of kernel code, above the stack, and the program's start-up reads it. For sources that do not show
    /// it themselves.
    pub vdso: bool,
    /// Bytes and alignment, a power of two, of implicit mappings for programs that never map anything (foreign traces). Programs that
    /// do map get implicit mappings of one base page.
    pub implicit_region: u64,
    /// In a guest: how a virtual machine monitor shadows its page tables. `None`: nobody does.
    pub monitor: Option<Monitor>,
}

impl Options {
    /// Returns Linux's defaults for a machine with these page sizes and `memory` bytes, with estimated costs at 3 GHz.
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
            monitor: None,
        }
    }

    /// Returns the base page size.
    pub fn base(&self) -> PageShift {
        self.layout.base
    }

    /// Checks that the options can be simulated.
    ///
    /// # Errors
    /// When page sizes do not ascend from the base page, memory is out of range, or a window is not a power of two.
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
    /// The page sizes do not ascend, or the first is not the base page size.
    #[error("page sizes: expected ascending sizes from the base page of {base}; correct the machine file")]
    Sizes {
        /// The base page.
        base: PageShift,
    },
    /// Too little or too much memory.
    #[error("memory of {wanted}: expected {least} to {most}; give --memory in that range")]
    Memory {
        /// The memory given.
        wanted: Bytes,
        /// Smallest memory.
        least: Bytes,
        /// Largest memory.
        most: Bytes,
    },
    /// A window that is not a power of two.
    #[error("{name}: {value} bytes is not a power of two; give a power of two")]
    PowerOfTwo {
        /// The name of the option.
        name: &'static str,
        /// The value given.
        value: u64,
    },
}

/// The simulated machine's memory is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of simulated memory: allocation of {wanted} failed on a machine with {memory}; give more with --memory")]
pub struct OutOfMemory {
    /// Size of the allocation that failed.
    pub wanted: Bytes,
    /// Memory of the machine.
    pub memory: Bytes,
}
