//! The mounts that this thread sees, as the kernel lists them, and which of them are covers.

use crate::held::status::Status;
use std::io;
use std::os::fd::AsFd;

/// The list, in the form of proc_pid_mountinfo(5).
const LIST: &str = "/proc/thread-self/mountinfo";

/// The type and the source of the file systems that hold covers. Users without rights mount nothing of this type.
const COVER: (&[u8], &[u8]) = (b"tmpfs", SOURCE.as_bytes());

/// The source of the file systems that hold covers.
pub(super) const SOURCE: &str = "reach-text";

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    parent: u64,
    is_cover: bool,
}

/// How a file is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// By a mount that is no cover.
    Uncovered,
    /// It is a cover.
    Cover,
    /// It is a cover, and something else is mounted over it.
    CoverBelow,
    /// Its mount is not in the list, as that of another mount namespace.
    Elsewhere,
}

/// Returns how an open file is mounted. Goes by the ID of the descriptor's mount, which stays the same while the descriptor is
/// open; names play no part.
pub(super) fn seen(file: impl AsFd) -> io::Result<Seen> {
    let id = Status::of(file)?.mount;
    if id == 0 {
        return Err(io::Error::other("mounts have no IDs before Linux 5.8"));
    }
    Ok(find(id, &std::fs::read(LIST)?))
}

fn find(id: u64, list: &[u8]) -> Seen {
    let mounts: Vec<Mount> = list.split(|&byte| byte == b'\n').filter_map(parse).collect();
    match mounts.iter().find(|mount| mount.id == id) {
        None => Seen::Elsewhere,
        Some(mount) if !mount.is_cover => Seen::Uncovered,
        Some(_) if mounts.iter().any(|mount| mount.parent == id) => Seen::CoverBelow,
        Some(_) => Seen::Cover,
    }
}

/// Parses a line. Works on bytes, because a user can choose names in it. `None` if the line has another form.
fn parse(line: &[u8]) -> Option<Mount> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let mut fields = line.split(|&byte| byte == b' ');
    let (id, parent) = (number(fields.next()?)?, number(fields.next()?)?);
    // Fields of a variable number end with a hyphen.
    let mut rest = fields.skip(3).skip_while(|field| *field != b"-").skip(1);
    Some(Mount { id, parent, is_cover: (rest.next()?, rest.next()?) == COVER })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
60 27 0:51 /copy /home/u/prog ro,nosuid - tmpfs reach-text ro,size=8192k
61 27 0:52 / /tmp/reach-text rw shared:7 master:1 - tmpfs reach-text\\040too rw
62 27 0:53 / /mnt/\xff\\040- rw - fuse reach-text rw
63 27 0:51 /copy /home/u/other ro - tmpfs reach-text ro
64 63 0:54 / /home/u/other rw - tmpfs x rw
";

    #[test]
    fn covers_are_told_from_other_mounts_by_type_and_source() {
        let all = [27, 60, 61, 62, 63, 64, 65].map(|id| find(id, EXAMPLE));
        use Seen::*;
        assert_eq!(all, [Uncovered, Cover, Uncovered, Uncovered, CoverBelow, Uncovered, Elsewhere]);
    }

    #[test]
    fn lines_of_another_form_are_passed_over() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"60 x 0:51 / / ro - tmpfs reach-text ro"), None);
        assert_eq!(parse(b"60 27 0:51 / / ro tmpfs reach-text ro"), None);
        assert_eq!(parse(b"60 27 0:51 / / ro -"), None);
    }

    #[test]
    fn the_root_of_this_process_is_mounted_and_is_no_cover() {
        let root = std::fs::File::open("/").unwrap();
        assert_ne!(seen(root).unwrap(), Seen::Cover);
    }
}
