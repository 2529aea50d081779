//! What faults on pages of files cost that are in memory.
//!
//! The kernel answers a read fault with all pages of a file in memory that lie around it, up to 64 KB. So a file with one page in each
//! 64 KB shows a fault with a single page, and one with all pages shows what the others add.

use super::kernel::shortest;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Bytes of the smallest page, and of a page's surroundings.
const PAGE: usize = 4096;
const AROUND: usize = 16 * PAGE;
/// Faults of a repetition.
const FAULTS: usize = 512;

/// What faults on files cost.
pub(super) struct FileFaults {
    /// Cycles of a fault that maps one page, with trap and entry.
    pub fault: f64,
    /// Cycles of each further page that a fault maps, with its entry. The error says why there is none.
    pub around: Result<f64, String>,
}

/// Measures faults on a file in memory that has no name.
///
/// # Errors
/// When the kernel refuses the file or its mapping.
pub(super) fn measure() -> io::Result<FileFaults> {
    let single = File::new(AROUND)?;
    let fault = single.cycles()?;
    drop(single);
    let full = File::new(PAGE)?;
    let around = match full.faults()? {
        FAULTS => Ok((full.cycles()? - fault) / (AROUND / PAGE - 1) as f64),
        faults => Err(format!("the kernel took {faults} faults for {FAULTS} parts of 64 KB; expected one for each")),
    };
    Ok(FileFaults { fault, around })
}

/// A file in memory.
struct File(OwnedFd);

impl File {
    /// Makes a file with a page at each multiple of `distance`.
    fn new(distance: usize) -> io::Result<File> {
        // SAFETY: the name is a constant that ends with a zero byte.
        let descriptor = unsafe { libc::memfd_create(c"reach-probe".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        file.set_len((FAULTS * AROUND) as u64)?;
        for at in (0..FAULTS * AROUND).step_by(distance) {
            std::os::unix::fs::FileExt::write_all_at(&file, &[1], at as u64)?;
        }
        Ok(File(file.into()))
    }

    /// Returns the cycles of the first read of each 64 KB.
    fn cycles(&self) -> io::Result<f64> {
        let all = shortest(
            || FileMapping::new(&self.0),
            |mapping| {
                mapping.read(AROUND);
                Ok(())
            },
        )?;
        Ok(all / FAULTS as f64)
    }

    /// Returns the faults of reading all pages in turn.
    fn faults(&self) -> io::Result<usize> {
        let mapping = FileMapping::new(&self.0)?;
        let before = faults()?;
        mapping.read(PAGE);
        Ok((faults()? - before) as usize)
    }
}

/// Returns the faults of this thread that needed no disk.
fn faults() -> io::Result<i64> {
    // SAFETY: zeros are a valid value of this structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is this function's own.
    match unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } {
        0 => Ok(usage.ru_minflt),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A mapping of a file that goes away with its value. None of its pages is mapped at first.
struct FileMapping(*mut u8);

impl FileMapping {
    fn new(file: &OwnedFd) -> io::Result<FileMapping> {
        let length = FAULTS * AROUND;
        let (rights, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(FileMapping(start.cast())) }
    }

    /// Reads a byte at each multiple of `distance`.
    fn read(&self, distance: usize) {
        for at in (0..FAULTS * AROUND).step_by(distance) {
            // SAFETY: the mapping and its file are as long.
            unsafe { self.0.add(at).read_volatile() };
        }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.0.cast(), FAULTS * AROUND) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_on_a_file_takes_cycles_and_each_page_around_it_few_of_them() {
        let found = measure().unwrap();
        assert!(found.fault > 50.0, "{}", found.fault);
        if let Ok(around) = found.around {
            assert!(around < found.fault, "{around} {}", found.fault);
        }
    }
}
