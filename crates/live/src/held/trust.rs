//! The trust rule: as root, whatever is loaded, executed or honoured from the environment belongs to root and lies where only
//! root writes.
//!
//! A path is trusted if all of this holds for the file, for each folder above it, and for each folder in which a symbolic link
//! was followed:
//! 1. it belongs to root;
//! 2. neither its group nor others may write it. An access list (POSIX ACL) grants nobody more than the group's permissions
//!    of the mode show, so it needs no look of its own;
//! 3. its file system is not one in user space (FUSE), whose server answers what it likes.
//!
//! A sticky folder of root, such as `/tmp`, is an exception to the second: others can create names in it, but cannot take
//! away root's. A folder of root in it is trusted. A file in it is not, because others can create hard links to files of root.

use super::status::Status;
use rustix::fs::FileType;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Permission of the group to write, in a mode.
const GROUP_WRITE: u32 = 0o020;
/// Permission of all others to write, in a mode.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// `f_type` of file systems in user space.
const FUSE: u64 = 0x6573_5546;

/// What others than root can change of a path: the first folder or file from the root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", .path.display())]
pub struct Distrust {
    /// The folder or file.
    pub path: PathBuf,
    /// Who can change it.
    pub why: Why,
}

/// Who can change a folder or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The user with this ID.
    #[error("belongs to uid {0}")]
    Owner(u32),
    /// The group with this ID, or users in an access list.
    #[error("can be written by gid {0}, or by users in its access list")]
    Group(u32),
    /// Everybody.
    #[error("can be written by everybody")]
    Everybody,
    /// A file in a sticky folder, to which everybody can add names.
    #[error("is in a folder to which others can add names")]
    Sticky,
    /// The server of a file system in user space.
    #[error("is on a file system in user space (FUSE)")]
    UserSpace,
    /// It was not reached by a path.
    #[error("was not reached by a path")]
    NoPath,
}

/// What is known of a folder when its entries are examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// Only root changes its entries.
    OnlyRoot,
    /// Others add entries, but change none of root's.
    Sticky,
}

/// Examines an entry of a folder, `path` in messages. Returns what it is as a folder.
pub(super) fn examine(
    folder: Folder,
    entry: impl AsFd,
    status: &Status,
    path: &Path,
) -> io::Result<Result<Folder, Distrust>> {
    let on_fuse = rustix::fs::fstatfs(entry)?.f_type as u64 == FUSE;
    Ok(rule(folder, status, on_fuse).map_err(|why| Distrust { path: path.into(), why }))
}

fn rule(folder: Folder, status: &Status, on_fuse: bool) -> Result<Folder, Why> {
    let is_folder = status.kind == FileType::Directory;
    match status.mode {
        _ if status.owner != 0 => Err(Why::Owner(status.owner)),
        _ if on_fuse => Err(Why::UserSpace),
        _ if folder == Folder::Sticky && !is_folder => Err(Why::Sticky),
        // The mode of a symbolic link says that everybody may write it, and nobody can.
        _ if status.kind == FileType::Symlink => Ok(Folder::OnlyRoot),
        mode if mode & (GROUP_WRITE | OTHERS_WRITE) == 0 => Ok(Folder::OnlyRoot),
        mode if is_folder && mode & STICKY != 0 => Ok(Folder::Sticky),
        _ => Err(writers(status)),
    }
}

/// Returns who can write a file or folder of root, given that others can.
pub(super) fn writers(status: &Status) -> Why {
    if status.mode & OTHERS_WRITE != 0 { Why::Everybody } else { Why::Group(status.group) }
}

#[cfg(test)]
mod tests {
    use super::super::status::FileId;
    use super::*;

    fn status(kind: FileType, owner: u32, mode: u32) -> Status {
        let id = FileId { device: 1, inode: 1 };
        Status { id, kind, owner, group: 7, mode, names: 1, size: 0, mount: 1 }
    }

    #[test]
    fn only_what_root_alone_writes_is_trusted() {
        use FileType::{Directory as D, RegularFile as F};
        use Folder::{OnlyRoot, Sticky};
        let cases = [
            (OnlyRoot, F, 0, 0o755, Ok(OnlyRoot)),
            (OnlyRoot, F, 0, 0o4755, Ok(OnlyRoot)),
            (OnlyRoot, F, 1000, 0o555, Err(Why::Owner(1000))),
            (OnlyRoot, F, 0, 0o775, Err(Why::Group(7))),
            (OnlyRoot, F, 0, 0o757, Err(Why::Everybody)),
            // The sticky bit of a file means nothing.
            (OnlyRoot, F, 0, 0o1777, Err(Why::Everybody)),
            (OnlyRoot, D, 0, 0o1777, Ok(Sticky)),
            (OnlyRoot, D, 0, 0o1775, Ok(Sticky)),
            (OnlyRoot, D, 0, 0o777, Err(Why::Everybody)),
            (OnlyRoot, D, 65534, 0o1777, Err(Why::Owner(65534))),
            (Sticky, F, 0, 0o755, Err(Why::Sticky)),
            (Sticky, D, 0, 0o755, Ok(OnlyRoot)),
            (Sticky, D, 65534, 0o755, Err(Why::Owner(65534))),
            (Sticky, D, 0, 0o1777, Ok(Sticky)),
        ];
        for (folder, kind, owner, mode, expected) in cases {
            assert_eq!(rule(folder, &status(kind, owner, mode), false), expected, "{kind:?} {owner} {mode:o}");
        }
        assert_eq!(rule(OnlyRoot, &status(F, 0, 0o755), true), Err(Why::UserSpace));
    }
}
