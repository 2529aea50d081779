//! Abilities of this kernel, and their denial in tests.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// An ability that a test can deny, by naming it in `REACH_LIVE_WITHOUT`: large-folios, frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Folios of 2 MB for files on disk.
    LargeFolios,
    /// Frames and folios visible to root.
    Frames,
}

/// The environment variable that denies abilities, separated by commas.
pub const WITHOUT: &str = "REACH_LIVE_WITHOUT";

/// Returns whether an ability is denied.
pub fn denied(ability: Ability) -> bool {
    let name = match ability {
        Ability::LargeFolios => "large-folios",
        Ability::Frames => "frames",
    };
    std::env::var(WITHOUT).is_ok_and(|all| all.split(',').any(|word| word == name))
}

/// Fails if an ability is denied.
pub(crate) fn require(ability: Ability) -> io::Result<()> {
    if denied(ability) { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}

/// Returns the kernel's release, such as `6.18.0`.
pub fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "of unknown release".into(), |text| text.trim().into())
}

/// Returns the bytes of the kernel's transparent superpages. `None` if it has none.
pub fn superpage() -> Option<u64> {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?.trim().parse().ok()
}

/// The type of a file's file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    /// In memory: files are collapsed to superpages in place.
    Tmpfs,
    /// Any other, by name.
    Other(&'static str),
}

impl FileSystem {
    /// Returns the type of the file system that holds `file`.
    ///
    /// # Errors
    /// The errors of fstatfs.
    pub fn of(file: &File) -> io::Result<FileSystem> {
        // SAFETY: statfs is plain data, which fstatfs fills.
        let kind = unsafe {
            let mut stat: libc::statfs = std::mem::zeroed();
            if libc::fstatfs(file.as_raw_fd(), &mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.f_type as u32
        };
        Ok(match kind {
            0x0102_1994 => FileSystem::Tmpfs,
            0xef53 => FileSystem::Other("ext4"),
            0x5846_5342 => FileSystem::Other("xfs"),
            0x9123_683e => FileSystem::Other("btrfs"),
            0x794c_7630 => FileSystem::Other("overlay"),
            0xe0f5_e1e2 => FileSystem::Other("erofs"),
            0x7371_7368 => FileSystem::Other("squashfs"),
            0x6969 => FileSystem::Other("nfs"),
            0x6573_5546 => FileSystem::Other("fuse"),
            0xf2f5_2010 => FileSystem::Other("f2fs"),
            0x2fc1_2fc1 => FileSystem::Other("zfs"),
            _ => FileSystem::Other("this file system"),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            FileSystem::Tmpfs => "tmpfs",
            FileSystem::Other(name) => name,
        }
    }
}

/// Returns the effective user and group of this process.
pub fn user() -> (u32, u32) {
    // SAFETY: these take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Returns whether the effective user is root.
pub fn is_root() -> bool {
    user().0 == 0
}

/// Returns whether a file has an extended attribute.
pub(crate) fn has_attribute(file: &File, name: &CStr) -> bool {
    // SAFETY: the name is terminated; with a length of 0, the call returns the size and writes nothing.
    unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
