//! The huge pages that this Linux gives: its settings, under the kernel's names.

use crate::settings::{Setting, chosen};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the settings of transparent huge pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The kernel's settings. A kernel that lacks a feature has no settings of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// The memory that may have transparent huge pages: `always`, `madvise` or `never`. `None`: the kernel has none.
    pub enabled: Option<String>,
    /// The shared memory that may have them: `never`, `within_size`, `advise`, `always`, or a word for tests of the kernel. `None`: the
    /// kernel has no such setting.
    pub shmem_enabled: Option<String>,
    /// How hard a page fault tries to get one: `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub defrag: Option<String>,
    /// Whether first loads share a huge page of zeroes.
    pub use_zero_page: bool,
    /// The memory that may have blocks smaller than a huge page, by size in KB: `always`, `inherit` or `madvise`. Sizes that are
    /// off are left out.
    pub multi_size: BTreeMap<u64, String>,
    /// Whether khugepaged makes such blocks, too, which Linux does from 7.2 on: it counts them by size.
    pub collapses_blocks: bool,
    /// The numbers that govern khugepaged, such as `max_ptes_none`.
    pub khugepaged: BTreeMap<String, u64>,
}

impl HugePages {
    /// Reads the settings of this kernel.
    pub fn read() -> HugePages {
        HugePages::read_in(Path::new(THP))
    }

    fn read_in(folder: &Path) -> HugePages {
        let word = |path: &Path| fs::read_to_string(path).ok().map(|text| chosen(&text).to_owned());
        let entries = |folder: &Path| {
            let read = fs::read_dir(folder).into_iter().flatten().flatten();
            read.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        };
        // The huge page itself has the settings above.
        let sizes = entries(folder).filter_map(|(name, path)| {
            let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some((size, path)).filter(|(size, _)| *size < 2048)
        });
        let sizes: BTreeMap<u64, PathBuf> = sizes.collect();
        let scope = |path: &PathBuf| word(&path.join("enabled")).filter(|on| on != "never");
        let numbers =
            entries(&folder.join("khugepaged")).filter_map(|(name, path)| Some((name, word(&path)?.parse().ok()?)));
        HugePages {
            enabled: word(&folder.join("enabled")),
            shmem_enabled: word(&folder.join("shmem_enabled")),
            defrag: word(&folder.join("defrag")),
            use_zero_page: word(&folder.join("use_zero_page")).is_some_and(|on| on == "1"),
            collapses_blocks: sizes.values().any(|path| path.join("stats/collapse_alloc").exists()),
            multi_size: sizes.iter().filter_map(|(size, path)| Some((*size, scope(path)?))).collect(),
            khugepaged: numbers.collect(),
        }
    }

    /// Returns the settings as they are while a setting of all programs has this value.
    pub fn with(mut self, setting: Setting, value: &str) -> HugePages {
        match setting {
            Setting::Thp => self.enabled = Some(value.to_owned()),
            Setting::Mthp64K => {
                self.multi_size.insert(64, value.to_owned());
            }
            Setting::HugetlbOvercommit | Setting::HugetlbPool => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_under_the_kernels_names_and_a_kernel_without_them_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("enabled", "always [madvise] never\n");
        write("shmem_enabled", "always within_size [advise] never deny force\n");
        write("defrag", "always defer [defer+madvise] madvise never\n");
        write("use_zero_page", "1\n");
        write("hugepages-64kB/enabled", "[always] inherit madvise never\n");
        write("hugepages-32kB/enabled", "always inherit madvise [never]\n");
        write("hugepages-2048kB/enabled", "always [inherit] madvise never\n");
        write("khugepaged/max_ptes_none", "511\n");
        let read = HugePages::read_in(folder.path());
        assert_eq!((read.enabled.as_deref(), read.defrag.as_deref()), (Some("madvise"), Some("defer+madvise")));
        assert_eq!(read.shmem_enabled.as_deref(), Some("advise"));
        assert!(read.use_zero_page);
        assert_eq!(read.multi_size, [(64, "always".to_owned())].into());
        assert_eq!(read.khugepaged, [("max_ptes_none".to_owned(), 511)].into());
        assert!(!read.collapses_blocks);
        write("hugepages-64kB/stats/collapse_alloc", "0\n");
        assert!(HugePages::read_in(folder.path()).collapses_blocks);
        assert_eq!(HugePages::read_in(&folder.path().join("none")), HugePages::default());
        assert_eq!(read.with(Setting::Thp, "always").enabled.as_deref(), Some("always"));
    }
}
