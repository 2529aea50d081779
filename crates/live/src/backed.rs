//! Free memory that the host of a virtual machine has taken back.
//!
//! Where the balloon driver reports free pages, the host gets them within seconds, and a page that is used again waits at its first
//! touch until the host has found memory: microseconds for 4 KB, milliseconds for 2 MB. A program that is measured again and again
//! pays for that at random, depending on what ran before it.

use procfs::{Current, Meminfo};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs;
use std::path::Path;
use std::ptr;

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

/// Makes sure that the host has given `bytes` of the free memory that is used next, but no more than half of it. Touches and frees
/// that much, which is why it should come right before the memory is needed. Does nothing where the host takes no memory back.
pub fn back(bytes: u64) {
    if bytes == 0 || !host_takes_free_memory() {
        return;
    }
    let free = Meminfo::current().map_or(0, |memory| memory.mem_free);
    let bytes = bytes.min(free / 2) as usize;
    // SAFETY: the mapping is new, and nothing refers to it but these calls. Where one fails, memory stays as it is.
    unsafe {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let Ok(start) = mmap_anonymous(ptr::null_mut(), bytes, access, flags) else { return };
        // Huge pages are what a program that asks for them gets next; base pages come from parts of them.
        let _ = madvise(start, bytes, Advice::LinuxHugepage);
        let _ = madvise(start, bytes, Advice::LinuxPopulateWrite);
        let _ = munmap(start, bytes);
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
    fn memory_that_was_backed_is_free_again() {
        let resident = || procfs::process::Process::myself().unwrap().statm().unwrap().resident;
        let before = resident();
        back(64 << 20);
        assert!(resident() < before + (32 << 20) / 4096);
    }
}
