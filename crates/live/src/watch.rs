//! Observes a program while it runs: its memory by kind of page, and its libraries, as the kernel shows them.

use crate::exits::Gate;
use crate::native::Running;
use crate::stops::Stops;
use procfs::process::{MMapPath, Process};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// The kernel's count of blocks of 64 KB that faults allocated.
const BLOCKS: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/anon_fault_alloc";

impl Watched {
    /// Returns whether a file whose name begins with `library` was mapped as code.
    pub fn maps(&self, library: &str) -> bool {
        self.libraries.iter().any(|name| name.starts_with(library))
    }

    /// Adds what is seen now of some processes.
    fn look(&mut self, processes: impl Iterator<Item = Process>) {
        let (mut resident, mut huge, mut hugetlb) = (0, 0, 0);
        for process in processes {
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

/// Looks at a program: now and then, and from its first instruction on when one of its processes ends.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Watched>>,
    /// Where the program waits for the one that holds its processes at their exit. `None`: none does.
    gate: Option<Gate>,
    /// The kernel's count at the beginning.
    blocks: u64,
}

impl Watch {
    /// Begins to watch the program that is started next, and to hold its processes at their exit if `held`.
    ///
    /// # Errors
    /// When there are no more descriptors or threads.
    pub(crate) fn begin(held: bool) -> io::Result<Watch> {
        let seen = Arc::new(Mutex::new(Watched::default()));
        let of_exits = Arc::clone(&seen);
        let look = move |processes: &BTreeSet<i32>| {
            lock(&of_exits).look(processes.iter().filter_map(|&id| Process::new(id).ok()));
        };
        let gate = held.then(|| Gate::new(look)).transpose()?;
        Ok(Watch { seen, gate, blocks: blocks() })
    }

    /// Returns what the program must pass when it is started.
    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// Looks at a running program, the leader of a group.
    pub(crate) fn look(&self, running: &Running) {
        let Ok(all) = procfs::process::all_processes() else { return };
        let group = running.pid();
        let processes = all.flatten().filter(|process| process.stat().is_ok_and(|stat| stat.pgrp == group));
        // The processes are found before the lock is taken, for which a process that ends may wait.
        let processes: Vec<_> = processes.collect();
        lock(&self.seen).look(processes.into_iter());
    }

    /// Returns what was seen of a program that has ended.
    pub(crate) fn end(self) -> Watched {
        let blocks = blocks().saturating_sub(self.blocks);
        Watched { blocks, ..mem::take(&mut lock(&self.seen)) }
    }
}

/// Peaks stay true when the thread of the other side has panicked.
fn lock(seen: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Task, Thp};
    use std::process::ExitStatus;
    use std::time::Instant;

    /// Runs a program that is looked at only when its processes end.
    fn at_exits(program: &str, args: &[&str]) -> (Watched, ExitStatus) {
        let output = tempfile::NamedTempFile::new().unwrap();
        let args: Vec<_> = args.iter().map(Into::into).collect();
        let task = Task {
            program: Path::new(program),
            args: &args,
            folder: None,
            output: output.path(),
            environment: &[],
            thp: Thp::Inherited,
            own_group: true,
        };
        let watch = Watch::begin(true).unwrap();
        let running = task.start_through(watch.gate()).unwrap();
        assert!(running.ends_within(Duration::from_secs(30)).unwrap(), "{program} hangs");
        let status = running.wait().unwrap().status;
        (watch.end(), status)
    }

    #[test]
    fn the_shortest_program_is_seen() {
        for _ in 0..20 {
            let (seen, status) = at_exits("true", &[]);
            assert!(status.success() && seen.looks == 1 && seen.resident > 0 && seen.maps("libc.so"), "{seen:?}");
        }
    }

    #[test]
    fn a_process_is_seen_with_its_memory_when_it_ends_or_is_killed() {
        // sort holds the line of 40 MB; its reader and its writer hold little.
        let line = "head -c 40M /dev/zero | sort -z -S 100M | wc -c";
        for (script, code) in [(format!("{line}; exit 3"), Some(3)), (format!("{line}; kill -9 $$"), None)] {
            let (seen, status) = at_exits("sh", &["-c", &script]);
            assert_eq!(status.code(), code);
            assert!((40 << 20..150 << 20).contains(&seen.resident) && seen.looks >= 4, "{seen:?}");
        }
    }

    #[test]
    fn a_program_gets_its_signals_and_stops_and_goes_on() {
        let script = "trap 'echo told' USR1; kill -USR1 $$; (sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; exit 5";
        let begun = Instant::now();
        let (seen, status) = at_exits("sh", &["-c", script]);
        assert!(status.code() == Some(5) && begun.elapsed() >= Duration::from_millis(300), "{status} {seen:?}");
        let (_, status) = at_exits("sh", &["-c", "kill -TERM $$"]);
        assert_eq!(status.to_string(), "signal: 15 (SIGTERM)");
    }

    #[test]
    fn a_program_that_cannot_start_is_an_error_and_one_that_is_dropped_is_gone() {
        let output = tempfile::NamedTempFile::new().unwrap();
        let args = ["-c".into(), "sleep 1000 & sleep 1000".into()];
        let (environment, thp, folder) = (&[], Thp::Inherited, None);
        let task = |program| Task {
            program: Path::new(program),
            args: &args,
            folder,
            output: output.path(),
            environment,
            thp,
            own_group: true,
        };
        let watch = Watch::begin(true).unwrap();
        assert_eq!(task("no-such-program").start_through(watch.gate()).unwrap_err().kind(), io::ErrorKind::NotFound);
        let watch = Watch::begin(true).unwrap();
        let running = task("sh").start_through(watch.gate()).unwrap();
        let id = running.pid();
        drop(running);
        assert!(Process::new(id).is_err());
    }
}
