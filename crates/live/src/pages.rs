//! The pages of a live process: their sizes, what is resident, what superpages waste, and how contiguous memory is.

use crate::elf::BASE;
use crate::frames::{Entry, Folios, ORDERS, PageMap};
use crate::layout::SUPERPAGE;
use crate::users;
use procfs::process::{MMapPath, MemoryMap, Process};
use procfs::{ProcError, ProcResult};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// As `r-xp`.
    pub permissions: String,
    /// What it is of.
    pub name: String,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes mapped with superpages of 2 MB.
    pub superpages: u64,
    /// Bytes in pages of hugetlbfs.
    pub hugetlb: u64,
    /// Resident bytes by the order of the folio that they are part of, however it is mapped; nothing where the kernel
    /// hides frames.
    pub by_order: Option<[u64; ORDERS]>,
    /// Bytes of anonymous superpages whose base pages hold nothing but zeros: never written, in all likelihood.
    pub bloat: Option<u64>,
}

/// How much memory lies in runs that are contiguous in virtual and in physical addresses, with one protection: what RMM
/// maps with one entry (Karakostas et al. 2015, section 3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contiguity {
    /// Lengths of ranges in base pages, the longest first.
    pub ranges: Vec<u64>,
}

impl Contiguity {
    /// Resident base pages.
    pub fn pages(&self) -> u64 {
        self.ranges.iter().sum()
    }

    /// How many of the longest ranges hold at least `percent` of the memory.
    pub fn ranges_for(&self, percent: u64) -> usize {
        let goal = (u128::from(self.pages()) * u128::from(percent)).div_ceil(100);
        let mut sum = 0u128;
        self.ranges
            .iter()
            .take_while(|&&pages| {
                sum < goal && {
                    sum += u128::from(pages);
                    true
                }
            })
            .count()
    }

    /// From runs in any order.
    fn of(mut runs: Vec<u64>) -> Contiguity {
        runs.sort_unstable_by(|a, b| b.cmp(a));
        Contiguity { ranges: runs }
    }
}

/// The memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// Its name.
    pub name: String,
    /// Mappings of which something is in memory, in order of address.
    pub areas: Vec<Area>,
    /// How contiguous its memory is; nothing where the kernel hides frames.
    pub contiguity: Option<Contiguity>,
}

impl Pages {
    /// Looks at a process, while it runs: what it does meanwhile may be seen or not.
    ///
    /// # Errors
    /// When there is no such process, or it is another's.
    pub fn of(pid: i32) -> io::Result<Pages> {
        let (name, smaps) = read(pid).map_err(|error| match error {
            ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
            ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
            error => io::Error::other(error),
        })?;
        let mut look = Look {
            table: PageMap::of(Some(pid))?,
            folios: Folios::open().ok(),
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
            runs: Vec::new(),
            hidden: false,
        };
        let mut areas = Vec::new();
        for mapping in smaps.iter().filter(|mapping| resident(mapping) > 0) {
            areas.push(look.area(mapping)?);
        }
        let contiguity = (look.folios.is_some() && !look.hidden).then(|| Contiguity::of(look.runs));
        Ok(Pages { name, areas, contiguity })
    }
}

fn read(pid: i32) -> ProcResult<(String, Vec<MemoryMap>)> {
    let process = Process::new(pid)?;
    Ok((process.stat()?.comm, process.smaps()?.into_iter().collect()))
}

fn size(mapping: &MemoryMap, key: &str) -> u64 {
    mapping.extension.map.get(key).copied().unwrap_or(0)
}

fn hugetlb(mapping: &MemoryMap) -> u64 {
    size(mapping, "Shared_Hugetlb") + size(mapping, "Private_Hugetlb")
}

fn resident(mapping: &MemoryMap) -> u64 {
    size(mapping, "Rss") + hugetlb(mapping)
}

/// What is looked at with.
struct Look {
    table: PageMap,
    folios: Option<Folios>,
    memory: Option<File>,
    /// Lengths of contiguous runs so far, in base pages.
    runs: Vec<u64>,
    /// A page was seen whose frame was not.
    hidden: bool,
}

impl Look {
    fn area(&mut self, mapping: &MemoryMap) -> io::Result<Area> {
        let addresses = mapping.address.0..mapping.address.1;
        let mut by_order = [0; ORDERS];
        let mut superpages = Vec::new();
        // The frame that would continue the run.
        let mut next = None;
        // Addresses above all of user space have no page table of their own.
        let entries = if addresses.end < 1 << 63 { addresses.clone() } else { 0..0 };
        let (folios, runs, hidden) = (&mut self.folios, &mut self.runs, &mut self.hidden);
        self.table.read(entries, |start, entries| {
            for (address, entry) in (start..).step_by(BASE as usize).zip(entries) {
                let Some(frame) = entry.frame() else {
                    *hidden |= Entry::present(*entry);
                    next = None;
                    continue;
                };
                match runs.last_mut() {
                    Some(run) if next == Some(frame) => *run += 1,
                    _ => runs.push(1),
                }
                next = Some(frame + 1);
                // A frame beyond the memory that the kernel has flags for, as of a device, counts as a base page.
                let order = folios.as_mut().and_then(|folios| folios.order(frame).ok()).unwrap_or(0);
                by_order[usize::from(order)] += BASE;
                if order == 9 && address.is_multiple_of(SUPERPAGE) && frame.is_multiple_of(512) {
                    superpages.push(address);
                }
            }
        })?;
        let known = self.folios.is_some() && !self.hidden;
        let anonymous = size(mapping, "AnonHugePages");
        let bloat = match &self.memory {
            _ if anonymous == 0 => Some(0),
            Some(memory) if known => Some(zeros(memory, &superpages)),
            _ => None,
        };
        Ok(Area {
            permissions: mapping.perms.as_str(),
            name: name(&mapping.pathname),
            resident: resident(mapping),
            superpages: users::superpages(mapping),
            hugetlb: hugetlb(mapping),
            by_order: known.then_some(by_order),
            bloat,
            addresses,
        })
    }
}

/// Bytes of base pages that are all zeros in superpages of a process.
fn zeros(memory: &File, superpages: &[u64]) -> u64 {
    let mut bytes = vec![0; SUPERPAGE as usize];
    let mut zero = 0;
    for &address in superpages {
        // What has gone since wastes nothing.
        if memory.read_exact_at(&mut bytes, address).is_ok() {
            let pages = bytes.chunks_exact(BASE as usize);
            zero += BASE * pages.filter(|page| page.iter().all(|&byte| byte == 0)).count() as u64;
        }
    }
    zero
}

fn name(path: &MMapPath) -> String {
    match path {
        MMapPath::Path(path) => path.display().to_string(),
        MMapPath::Heap => "[heap]".into(),
        MMapPath::Stack => "[stack]".into(),
        MMapPath::Vdso => "[vdso]".into(),
        MMapPath::Vvar => "[vvar]".into(),
        MMapPath::Vsyscall => "[vsyscall]".into(),
        MMapPath::Anonymous => "[anonymous]".into(),
        MMapPath::Vsys(key) => format!("/SYSV{key:08x}"),
        MMapPath::TStack(thread) => format!("[stack:{thread}]"),
        MMapPath::Other(name) => format!("[{}]", name.trim_matches(['[', ']'])),
        MMapPath::Rollup => "[rollup]".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ranges_come_first() {
        let contiguity = Contiguity::of(vec![1, 88, 1, 9, 1]);
        assert_eq!(contiguity.ranges, [88, 9, 1, 1, 1]);
        assert_eq!([88, 90, 97, 99, 100].map(|percent| contiguity.ranges_for(percent)), [1, 2, 2, 4, 5]);
        assert_eq!(Contiguity::default().ranges_for(99), 0);
    }
}
