//! Examines a file on its descriptor: identity, type, owner, mode, mount.

use rustix::fs::{AtFlags, FileType, StatxFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A file as `stat` identifies it. Files that exist at the same time differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Number of its device.
    pub device: u64,
    /// Number of its inode on that device.
    pub inode: u64,
}

/// What the kernel says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its identity.
    pub id: FileId,
    /// Its type.
    pub kind: FileType,
    /// User ID of its owner.
    pub owner: u32,
    /// ID of its group.
    pub group: u32,
    /// Permissions, with setuid, setgid and sticky: the lower 12 bits of its mode.
    pub mode: u32,
    /// Number of names (hard links).
    pub names: u32,
    /// Size in bytes.
    pub size: u64,
    /// ID of the mount that it was reached by, as in `/proc/self/mountinfo`. 0 if unknown (before Linux 5.8).
    pub mount: u64,
}

impl Status {
    /// Examines a descriptor, which may be one of `O_PATH`.
    ///
    /// # Errors
    /// The errors of statx.
    pub fn of(file: impl AsFd) -> io::Result<Status> {
        Status::at(file.as_fd(), OsStr::new(""), AtFlags::EMPTY_PATH)
    }

    /// Examines a name in a folder.
    ///
    /// # Errors
    /// The errors of statx.
    pub fn at(folder: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<Status> {
        let found = rustix::fs::statx(folder, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
        let mode = u32::from(found.stx_mode);
        Ok(Status {
            id: FileId { device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino },
            kind: FileType::from_raw_mode(mode),
            owner: found.stx_uid,
            group: found.stx_gid,
            mode: mode & 0o7777,
            names: found.stx_nlink,
            size: found.stx_size,
            mount: if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 { found.stx_mnt_id } else { 0 },
        })
    }
}
