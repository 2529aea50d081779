//! Settings of this Linux that decide over huge pages, and their safekeeping while they are changed.

mod guardian;

pub use guardian::{Guarded, guard};

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A setting of the kernel, for all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The memory that may have transparent huge pages.
    Thp,
    /// The memory that may have blocks of 64 KB (multi-size huge pages).
    Mthp64K,
    /// The pages of 2 MB that may be taken from free memory for hugetlb mappings, beyond those that are set aside.
    HugetlbOvercommit,
    /// The pages of 2 MB that are set aside for hugetlb mappings.
    HugetlbPool,
}

impl Setting {
    /// All settings.
    pub const ALL: [Setting; 4] = [Setting::Thp, Setting::Mthp64K, Setting::HugetlbOvercommit, Setting::HugetlbPool];

    /// Returns the file of the setting.
    pub const fn path(self) -> &'static str {
        match self {
            Setting::Thp => "/sys/kernel/mm/transparent_hugepage/enabled",
            Setting::Mthp64K => "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            Setting::HugetlbOvercommit => "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
            Setting::HugetlbPool => "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        }
    }

    /// Reads the setting: a word or a number.
    ///
    /// # Errors
    /// When this kernel does not have it.
    pub fn read(self) -> io::Result<String> {
        let text = fs::read_to_string(self.path())?;
        Ok(chosen(&text).to_owned())
    }

    fn write(self, value: &str) -> io::Result<()> {
        fs::write(self.path(), value)
    }

    /// Writes an old value again.
    ///
    /// Pages of the pool that a process uses become surplus pages, which the kernel frees when that process ends. If it ends while the
    /// pool shrinks, they are free and stay all the same, and a second write of the same number changes nothing. So they are first made a
    /// part of the pool again.
    fn restore(self, old: &str) -> io::Result<()> {
        // Processes that end take less.
        const ATTEMPTS: u32 = 200;
        self.write(old)?;
        let (Setting::HugetlbPool, Ok(wanted)) = (self, old.parse::<u64>()) else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            let now = self.read()?;
            if now.parse::<u64>().is_ok_and(|now| now <= wanted) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            self.write(&now)?;
            self.write(old)?;
        }
        Ok(())
    }

    fn of_path(path: &str) -> Option<Setting> {
        Setting::ALL.into_iter().find(|setting| setting.path() == path)
    }
}

/// Returns whether this process may change settings: whether it may write the file of one.
pub fn are_writable() -> bool {
    rustix::fs::access(Path::new(Setting::Thp.path()), rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns the word in brackets, as in `always [madvise] never`, or all of a text without brackets.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("always inherit madvise [never]\n"), "never");
        assert_eq!(chosen("0\n"), "0");
        assert_eq!(Setting::of_path(Setting::Mthp64K.path()), Some(Setting::Mthp64K));
        assert_eq!(Setting::of_path("/etc/passwd"), None);
    }
}
