//! Physical registers, which instructions take from dispatch to retirement.

use super::instruction::Inst;
use crate::config;

/// A number of physical registers: integer and vector.
pub(super) type Taken = [u32; 2];

/// The physical registers of a core that do not hold architectural state.
///
/// An instruction takes one for each register that it writes. The register that it replaces is free when it retires, so
/// that as many are taken as instructions in flight write.
#[derive(Clone, Debug)]
pub(super) struct RegisterFiles {
    /// Integer and vector registers, in the order of [`Taken`].
    files: [RegisterFile; 2],
    flags_in_integer: bool,
}

impl RegisterFiles {
    pub fn new(config: &config::RegisterFiles) -> RegisterFiles {
        RegisterFiles {
            files: [config.integer, config.vector].map(RegisterFile::new),
            flags_in_integer: config.flags_in_integer,
        }
    }

    /// Returns the registers that `inst` takes.
    #[inline(always)]
    pub fn taken_by(&self, inst: &Inst) -> Taken {
        let flags = u8::from(inst.renamed.only_flags & self.flags_in_integer);
        [u32::from(inst.renamed.integer + flags), u32::from(inst.renamed.vector)]
    }

    /// Returns a cycle in which as many registers are free as `inst` takes. It is the first one, or one before `inst` can be
    /// dispatched.
    #[inline(always)]
    pub fn free_for(&self, inst: &Inst) -> u64 {
        let [integer, vector] = self.taken_by(inst);
        let free = self.files[0].free(integer);
        // Most code takes no vector registers, or takes them in turns that the host predicts.
        if vector > 0 { free.max(self.files[1].free(vector)) } else { free }
    }

    /// Does what [`RegisterFiles::free_for`] does after younger instructions took `earlier` registers. `None` if the files
    /// are too small for both.
    #[inline(always)]
    pub fn free_after(&self, earlier: Taken, inst: &Inst) -> Option<u64> {
        let mut free = 0;
        for ((file, taken), earlier) in self.files.iter().zip(self.taken_by(inst)).zip(earlier) {
            if taken > 0 && earlier + taken > file.registers {
                return None;
            }
            free = free.max(file.free(earlier.min(file.registers - taken) + taken));
        }
        Some(free)
    }

    /// Gives registers to `inst`, which retires in cycle `retired`.
    #[inline(always)]
    pub fn take(&mut self, inst: &Inst, retired: u64) {
        let [integer, vector] = self.taken_by(inst);
        self.files[0].take(integer, retired);
        if vector > 0 {
            self.files[1].take(vector, retired);
        }
    }
}

/// The registers of one kind.
#[derive(Clone, Debug)]
struct RegisterFile {
    registers: u32,
    /// When those instructions retired that took a register last, a power of two of them.
    retired: Box<[u64]>,
    /// How many registers were ever taken.
    taken: usize,
}

impl RegisterFile {
    fn new(registers: u32) -> RegisterFile {
        // One place more than there are registers is written before it is taken, and the one before the oldest is read.
        let places = (registers as usize + 2).next_power_of_two();
        RegisterFile { registers, retired: vec![0; places].into(), taken: 0 }
    }

    /// Returns the cycle in which `number` registers are free. For none, that of one that was free before.
    #[inline(always)]
    fn free(&self, number: u32) -> u64 {
        // No branches: the host could not predict them.
        let at = self.taken.wrapping_sub(self.registers as usize + 1).wrapping_add(number as usize);
        self.retired[at & (self.retired.len() - 1)]
    }

    #[inline(always)]
    fn take(&mut self, number: u32, retired: u64) {
        let last = self.retired.len() - 1;
        self.retired[self.taken & last] = retired;
        for more in 1..number as usize {
            self.retired[(self.taken + more) & last] = retired;
        }
        self.taken += number as usize;
    }
}
