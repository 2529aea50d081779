//! The memory that the control group of this process may have, by the kernel's files of versions 1 and 2.

use procfs::process::Process;
use std::fs;
use std::path::Path;

/// Where control groups are mounted on distributions: version 2 there, or in `unified` beside version 1.
const MOUNTED: &str = "/sys/fs/cgroup";
/// Version 1 writes a number of about this size where there is no limit.
const NONE: u64 = 1 << 62;

/// Limits in bytes, the least of a group and all above it. `None`: there is none, or it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of memory, page cache and tables included.
    pub memory: Option<u64>,
    /// Of hugetlb pages of 2 MB.
    pub hugetlb: Option<u64>,
}

impl Limits {
    /// Reads the limits of this process.
    pub fn read() -> Limits {
        let groups = Process::myself().and_then(|process| process.cgroups());
        let groups = groups.map(|groups| groups.0).unwrap_or_default();
        let mut all = Limits::default();
        for group in groups {
            let has = |name: &str| group.controllers.iter().any(|controller| controller == name);
            let found = match () {
                () if group.hierarchy == 0 => Limits {
                    memory: [MOUNTED, "/sys/fs/cgroup/unified"]
                        .iter()
                        .find_map(|at| least(at, &group.pathname, "memory.max")),
                    hugetlb: least(MOUNTED, &group.pathname, "hugetlb.2MB.max"),
                },
                () if has("memory") => Limits {
                    memory: least("/sys/fs/cgroup/memory", &group.pathname, "memory.limit_in_bytes"),
                    hugetlb: None,
                },
                () if has("hugetlb") => Limits {
                    memory: None,
                    hugetlb: least("/sys/fs/cgroup/hugetlb", &group.pathname, "hugetlb.2MB.limit_in_bytes"),
                },
                () => Limits::default(),
            };
            all.memory = [all.memory, found.memory].into_iter().flatten().min();
            all.hugetlb = [all.hugetlb, found.hugetlb].into_iter().flatten().min();
        }
        all
    }
}

/// Returns the least number in `file` of the group at `path` below `mounted`, and of those above it. Version 2 writes `max` where there
/// is none.
fn least(mounted: &str, path: &str, file: &str) -> Option<u64> {
    let path = Path::new(path.trim_start_matches('/'));
    let limit = |group: &Path| {
        let text = fs::read_to_string(Path::new(mounted).join(group).join(file)).ok()?;
        text.trim().parse().ok().filter(|&bytes| bytes < NONE)
    };
    path.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mounted = folder.path().to_str().unwrap();
        let write = |group: &str, text: &str| {
            let path = folder.path().join(group);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("memory.max"), text).unwrap();
        };
        write("a/b/c", "max\n");
        write("a/b", "2000\n");
        write("a", "1000\n");
        write("", "9223372036854771712\n");
        write("a/small", "500\n");
        assert_eq!(least(mounted, "/a/b/c", "memory.max"), Some(1000));
        assert_eq!(least(mounted, "/a/small", "memory.max"), Some(500));
        assert_eq!(least(mounted, "/", "memory.max"), None);
        // In a container, the path may be one outside of what is mounted.
        assert_eq!(least(mounted, "/elsewhere/x", "memory.max"), None);
        assert_eq!(least(mounted, "/a", "hugetlb.2MB.max"), None);
    }
}
