//! Free memory that the host of a virtual machine has taken back.
//!
//! Where the balloon driver reports free pages, the host gets them within seconds, and a page that is used again waits at its first
//! touch until the host has found memory: microseconds for 4 KB, milliseconds for 2 MB. A program that is measured again and again
//! pays for that at random, depending on what ran before it.

use crate::control_group::Limits;
use procfs::{Current, Meminfo};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bit of virtio's balloon that says that free pages are reported (VIRTIO 1.2, §5.5.3).
const REPORTING: usize = 5;

/// Returns whether the host takes free memory back.
fn host_takes_free_memory() -> bool {
    takes_free_memory(Path::new("/sys/bus/virtio/drivers/virtio_balloon"))
}

/// `driver` has a link to each device, whose features are a digit for each bit, the lowest first.
fn takes_free_memory(driver: &Path) -> bool {
    let devices = fs::read_dir(driver).into_iter().flatten().flatten();
    let features = devices.filter_map(|device| fs::read(device.path().join("features")).ok());
    features.into_iter().any(|bits| bits.get(REPORTING) == Some(&b'1'))
}

/// Memory that a run may need beyond twice the peak of its largest process, in bytes.
const MARGIN: u64 = 64 << 20;

/// The memory that a program needs, as its runs so far tell.
#[derive(Debug, Default)]
pub struct Backing {
    /// The highest peak of a run's largest process, in bytes; 0 before the first run.
    peak: AtomicU64,
}

impl Backing {
    /// Notes the peak of a run, in bytes.
    pub fn note(&self, peak: u64) {
        self.peak.fetch_max(peak, Ordering::Relaxed);
    }

    /// Returns the memory that the next run may need, in bytes, with a margin for its other processes. 0 before the first run.
    pub fn room(&self) -> u64 {
        match self.peak.load(Ordering::Relaxed) {
            0 => 0,
            peak => 2 * peak + MARGIN,
        }
    }

    /// Lets the host of a virtual machine give the memory that the next run may need, so that the run does not wait for it. Call
    /// right before the run. The kernel may make huge pages for that by compaction.
    pub fn back(&self) {
        back(self.room());
    }
}

/// Makes sure that the host has given `bytes` of the free memory that is used next, but no more than half of it, or of what the
/// control group may have. Does nothing where the host takes no memory back.
fn back(bytes: u64) {
    if bytes == 0 || !host_takes_free_memory() {
        return;
    }
    let free = Meminfo::current().map_or(0, |memory| memory.mem_free);
    let most = Limits::read().memory.unwrap_or(u64::MAX).min(free) / 2;
    // Kernels before 5.14 cannot; the program waits for its memory there.
    let _ = touch(bytes.min(most) as usize);
}

/// Touches and frees `bytes` bytes of memory. Fails where the kernel cannot populate a mapping (before Linux 5.14), or has no memory.
fn touch(bytes: usize) -> rustix::io::Result<()> {
    // SAFETY: the mapping is new, and nothing refers to it but these calls.
    unsafe {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let start = mmap_anonymous(ptr::null_mut(), bytes, access, flags)?;
        // Huge pages are what a program that asks for them gets next; base pages come from parts of them. Not all kernels have them.
        let _ = madvise(start, bytes, Advice::LinuxHugepage);
        let touched = madvise(start, bytes, Advice::LinuxPopulateWrite);
        munmap(start, bytes)?;
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_digit_says_that_free_pages_are_reported() {
        let driver = tempfile::tempdir().unwrap();
        assert!(!takes_free_memory(driver.path()));
        let device = driver.path().join("virtio0");
        fs::create_dir(&device).unwrap();
        for (features, takes) in [("01100101000", true), ("01100001000", false), ("0110", false)] {
            fs::write(device.join("features"), features).unwrap();
            assert_eq!(takes_free_memory(driver.path()), takes, "{features}");
        }
    }

    #[test]
    fn there_is_room_for_the_largest_run_so_far() {
        let backing = Backing::default();
        assert_eq!(backing.room(), 0);
        [10, 30, 20].iter().for_each(|megabytes| backing.note(megabytes << 20));
        assert_eq!(backing.room(), 124 << 20);
    }

    #[test]
    fn memory_is_touched_and_free_again() {
        let process = || procfs::process::Process::myself().unwrap();
        let (faults, before) = (process().stat().unwrap().minflt, process().statm().unwrap().resident);
        touch(64 << 20).unwrap();
        // In huge pages, at least.
        assert!(process().stat().unwrap().minflt >= faults + 32);
        assert!(process().statm().unwrap().resident < before + (32 << 20) / 4096);
    }
}
