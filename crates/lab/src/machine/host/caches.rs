//! The private caches of a core, by which a core is known whose model a hypervisor hides.

use crate::machine::file::{CacheSection, Holds, MachineFile};
use std::path::Path;

/// Sizes in bytes of the caches that CPUID, or the device tree, tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    pub instructions: u64,
    pub data: u64,
    pub second: u64,
    /// 0: there is none.
    pub third: u64,
}

impl Caches {
    /// Returns those of the first processor, from its folder in sysfs, `/sys/devices/system/cpu/cpu0/cache`. `None`: the kernel does
    /// not know them.
    pub fn read(folder: &Path) -> Option<Caches> {
        let (mut instructions, mut data, mut second, mut third) = (None, None, None, 0);
        for index in 0..8 {
            let field = |name: &str| {
                let text = std::fs::read_to_string(folder.join(format!("index{index}")).join(name)).ok()?;
                Some(text.trim().to_owned())
            };
            let (Some(level), Some(kind), Some(size)) = (field("level"), field("type"), field("size")) else { break };
            let bytes = size.strip_suffix('K')?.parse::<u64>().ok()? << 10;
            match (level.as_str(), kind.as_str()) {
                ("1", "Instruction") => instructions = Some(bytes),
                ("1", "Data") => data = Some(bytes),
                ("2", _) => second = Some(bytes),
                ("3", _) => third = bytes,
                _ => {}
            }
        }
        Some(Caches { instructions: instructions?, data: data?, second: second?, third })
    }

    /// Returns those of a machine. `None`: it has no first or no second level.
    pub fn of(file: &MachineFile) -> Option<Caches> {
        let bytes = |level, holds| {
            let holds = |cache: &CacheSection| cache.holds.value.contains(&holds);
            file.caches
                .values()
                .find(|cache| cache.level.value == level && holds(cache))
                .map(|cache| cache.bytes.value.0)
        };
        Some(Caches {
            instructions: bytes(1, Holds::Instructions)?,
            data: bytes(1, Holds::Data)?,
            second: bytes(2, Holds::Data)?,
            third: bytes(3, Holds::Data).unwrap_or(0),
        })
    }

    /// Returns whether both first levels are equal.
    pub fn same_first_level(&self, other: &Caches) -> bool {
        (self.instructions, self.data) == (other.instructions, other.data)
    }

    /// Returns whether all caches of a core alone are equal.
    pub fn same_core(&self, other: &Caches) -> bool {
        self.same_first_level(other) && self.second == other.second
    }

    /// Returns by how many times one shared level is larger than the other, whichever is.
    pub fn shared_apart(&self, other: &Caches) -> f64 {
        let (a, b) = (self.third.max(1) as f64, other.third.max(1) as f64);
        (a / b).max(b / a)
    }
}
