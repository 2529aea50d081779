//! Observes a program while it runs: its memory by kind of page, and its libraries, as the kernel shows them.

use crate::native::Running;
use crate::stops::Stops;
use procfs::process::{MMapPath, Process};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The observations of a program and its children. Sizes are peaks, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Resident memory; what processes share counts once.
    pub resident: u64,
    /// Memory in transparent huge pages of 2 MB.
    pub huge: u64,
    /// Memory in hugetlb pages.
    pub hugetlb: u64,
    /// Blocks of 64 KB that faults of the whole computer allocated meanwhile.
    pub blocks: u64,
    /// Page faults of the program and of the children that it has waited for.
    pub faults: u64,
    /// How long faults stopped the program. `None`: the kernel does not tell.
    pub stops: Option<Stops>,
    /// The names of the files that are mapped as code, without their folders.
    pub libraries: BTreeSet<String>,
    /// How often the program was looked at.
    pub looks: u64,
}

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// The kernel's count of blocks of 64 KB that faults allocated.
const BLOCKS: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/anon_fault_alloc";

impl Watched {
    /// Returns whether a file whose name begins with `library` was mapped as code.
    pub fn maps(&self, library: &str) -> bool {
        self.libraries.iter().any(|name| name.starts_with(library))
    }

    /// Adds what is seen now of the processes of a group.
    fn look(&mut self, group: i32) {
        let Ok(all) = procfs::process::all_processes() else { return };
        let (mut resident, mut huge, mut hugetlb) = (0, 0, 0);
        for process in all.flatten().filter(|process| process.stat().is_ok_and(|stat| stat.pgrp == group)) {
            let Ok(rollup) = process.smaps_rollup() else { continue };
            let sizes = rollup.memory_map_rollup.into_iter().map(|map| map.extension.map);
            let sum = |name: &str| sizes.clone().filter_map(|map| map.get(name).copied()).sum::<u64>();
            resident += sum("Pss");
            huge += sum("AnonHugePages");
            hugetlb += sum("Private_Hugetlb") + sum("Shared_Hugetlb");
            self.note_libraries(&process);
            self.looks += 1;
        }
        self.resident = self.resident.max(resident + hugetlb);
        self.huge = self.huge.max(huge);
        self.hugetlb = self.hugetlb.max(hugetlb);
    }

    fn note_libraries(&mut self, process: &Process) {
        let Ok(maps) = process.maps() else { return };
        let code = maps.iter().filter(|map| map.perms.contains(procfs::process::MMPermissions::EXECUTE));
        let paths = code.filter_map(|map| match &map.pathname {
            MMapPath::Path(path) => path.file_name(),
            _ => None,
        });
        self.libraries.extend(paths.map(|name| name.to_string_lossy().into_owned()));
    }
}

/// Returns the kernel's count of blocks of 64 KB; 0 where it does not count them.
fn blocks() -> u64 {
    let text = fs::read_to_string(Path::new(BLOCKS)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Looks at a running program, the leader of a group, until `ended` says that it has ended or nothing more is to be seen.
///
/// # Errors
/// Those of `ended`, which is given a time to wait.
pub fn watch(running: &Running, mut ended: impl FnMut(Duration) -> io::Result<bool>) -> io::Result<Watched> {
    let mut watched = Watched::default();
    let before = blocks();
    loop {
        watched.look(running.pid());
        if ended(PAUSE)? {
            break;
        }
    }
    watched.blocks = blocks().saturating_sub(before);
    Ok(watched)
}
