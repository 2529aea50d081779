//! Examines the pages of a running process: sizes, residency, bloat of superpages, and contiguity.

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
    /// Virtual addresses.
    pub addresses: Range<u64>,
    /// Permissions, as in `r-xp`.
    pub permissions: String,
    /// The path of the mapped file, or a name in brackets.
    pub name: String,
    /// Resident bytes.
    pub resident: u64,
    /// Bytes mapped with superpages of 2 MB.
    pub superpages: u64,
    /// Bytes in hugetlb pages.
    pub hugetlb: u64,
    /// Resident bytes by the order of their folio, however it is mapped. `None` if the kernel hides frames.
    pub by_order: Option<[u64; ORDERS]>,
    /// Bytes of base pages inside anonymous superpages that hold only zeros, and so were probably never written. `None` if
    /// the kernel hides frames or memory.
    pub bloat: Option<u64>,
}

/// Ranges of memory that are contiguous in virtual and in physical addresses, with one protection. RMM maps each with one
/// range-TLB entry (Karakostas et al. 2015, section 3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contiguity {
    /// Lengths of the ranges in base pages, longest first.
    pub ranges: Vec<u64>,
}

impl Contiguity {
    /// Returns the number of resident base pages.
    pub fn pages(&self) -> u64 {
        self.ranges.iter().sum()
    }

    /// Returns how many of the longest ranges hold at least `percent` % of the memory.
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

    /// Sorts the lengths of ranges, given in any order.
    fn of(mut ranges: Vec<u64>) -> Contiguity {
        ranges.sort_unstable_by(|a, b| b.cmp(a));
        Contiguity { ranges }
    }
}

/// The memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// Name of its program.
    pub name: String,
    /// Mappings with resident pages, in address order.
    pub areas: Vec<Area>,
    /// Contiguity of its memory. `None` if the kernel hides frames.
    pub contiguity: Option<Contiguity>,
}

impl Pages {
    /// Examines a process while it runs. Changes meanwhile may be missed.
    ///
    /// # Errors
    /// If there is no such process, or it belongs to another user.
    pub fn of(pid: i32) -> io::Result<Pages> {
        let (name, smaps) = read(pid).map_err(io_error)?;
        let mut scan = Scan {
            table: PageMap::of(Some(pid))?,
            folios: Folios::open().ok(),
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
            ranges: Vec::new(),
            hidden: false,
        };
        let mut areas = Vec::new();
        for mapping in smaps.iter().filter(|mapping| resident(mapping) > 0) {
            areas.push(scan.area(mapping)?);
        }
        let contiguity = (scan.folios.is_some() && !scan.hidden).then(|| Contiguity::of(scan.ranges));
        Ok(Pages { name, areas, contiguity })
    }
}

/// Returns the operating system's error behind an error of `/proc`.
pub(crate) fn io_error(error: ProcError) -> io::Error {
    match error {
        ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        error => io::Error::other(error),
    }
}

/// Reads the name and the mappings of a process.
pub(crate) fn read(pid: i32) -> ProcResult<(String, Vec<MemoryMap>)> {
    let process = Process::new(pid)?;
    Ok((process.stat()?.comm, process.smaps()?.into_iter().collect()))
}

/// Returns a field of `/proc/PID/smaps`, in bytes; 0 if it is missing.
pub(crate) fn field(mapping: &MemoryMap, key: &str) -> u64 {
    mapping.extension.map.get(key).copied().unwrap_or(0)
}

fn hugetlb(mapping: &MemoryMap) -> u64 {
    field(mapping, "Shared_Hugetlb") + field(mapping, "Private_Hugetlb")
}

fn resident(mapping: &MemoryMap) -> u64 {
    field(mapping, "Rss") + hugetlb(mapping)
}

/// The state of a scan over the mappings of a process.
struct Scan {
    table: PageMap,
    folios: Option<Folios>,
    memory: Option<File>,
    /// Lengths of the contiguous ranges so far, in base pages.
    ranges: Vec<u64>,
    /// Whether the kernel hid the frame of a resident page.
    hidden: bool,
}

impl Scan {
    /// Examines one mapping.
    fn area(&mut self, mapping: &MemoryMap) -> io::Result<Area> {
        let addresses = mapping.address.0..mapping.address.1;
        let mut by_order = [0; ORDERS];
        let mut superpages = Vec::new();
        // The frame that would continue the range.
        let mut next = None;
        // Addresses above user space (vsyscall) have no entries in the pagemap file.
        let entries = if addresses.end < 1 << 63 { addresses.clone() } else { 0..0 };
        let (folios, ranges, hidden) = (&mut self.folios, &mut self.ranges, &mut self.hidden);
        self.table.read(entries, |start, entries| {
            for (address, entry) in (start..).step_by(BASE as usize).zip(entries) {
                let Some(frame) = entry.frame() else {
                    *hidden |= Entry::present(*entry);
                    next = None;
                    continue;
                };
                match ranges.last_mut() {
                    Some(range) if next == Some(frame) => *range += 1,
                    _ => ranges.push(1),
                }
                next = Some(frame + 1);
                // A frame without page flags, as of a device, counts as a base page.
                let order = folios.as_mut().and_then(|folios| folios.order(frame).ok()).unwrap_or(0);
                by_order[usize::from(order)] += BASE;
                if order == 9 && address.is_multiple_of(SUPERPAGE) && frame.is_multiple_of(512) {
                    superpages.push(address);
                }
            }
        })?;
        let known = self.folios.is_some() && !self.hidden;
        let anonymous = field(mapping, "AnonHugePages");
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

/// Returns the bytes of all-zero base pages in the superpages at these addresses of a process.
fn zeros(memory: &File, superpages: &[u64]) -> u64 {
    let mut bytes = vec![0; SUPERPAGE as usize];
    let mut zero = 0;
    for &address in superpages {
        // A superpage that is gone meanwhile wastes nothing.
        if memory.read_exact_at(&mut bytes, address).is_ok() {
            let pages = bytes.chunks_exact(BASE as usize);
            zero += BASE * pages.filter(|page| page.iter().all(|&byte| byte == 0)).count() as u64;
        }
    }
    zero
}

/// Names a mapping as /proc/PID/maps does.
pub(crate) fn name(path: &MMapPath) -> String {
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
    fn ranges_for_counts_the_longest_ranges() {
        let contiguity = Contiguity::of(vec![1, 88, 1, 9, 1]);
        assert_eq!(contiguity.ranges, [88, 9, 1, 1, 1]);
        assert_eq!([88, 90, 97, 99, 100].map(|percent| contiguity.ranges_for(percent)), [1, 2, 2, 4, 5]);
        assert_eq!(Contiguity::default().ranges_for(99), 0);
    }
}
