//! The files that the program maps, by their descriptors. Program and emulator share descriptors.

use reach_core::ring::FileKey;
use std::mem::MaybeUninit;

/// The kind of file system that holds a file, as far as the kernel maps its files in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// A file whose pages are written back, on whatever file system. Devices are taken for such files as well.
    Disk,
    /// Memory that only looks like a file: tmpfs (/dev/shm, memfd_create) and ramfs.
    Memory,
    /// hugetlbfs, with the binary logarithm of its page size.
    HugePages(u8),
}

/// Returns the file system of a descriptor; [`FileSystem::Disk`] where it is unknown.
pub fn file_system(fd: i32) -> FileSystem {
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel initialises the structure when it returns 0, and only then is it read.
    let about = unsafe { (libc::fstatfs(fd, about.as_mut_ptr()) == 0).then(|| about.assume_init()) };
    /// `RAMFS_MAGIC`, which the libc crate lacks.
    const RAMFS: i64 = 0x8584_58f6;
    match about.map(|about| (about.f_type, about.f_bsize as u64)) {
        Some((libc::TMPFS_MAGIC | RAMFS, _)) => FileSystem::Memory,
        Some((libc::HUGETLBFS_MAGIC, page)) => FileSystem::HugePages(page.trailing_zeros() as u8),
        _ => FileSystem::Disk,
    }
}

/// Returns the file of a descriptor. `None` for plain memory (/dev/zero) and for errors.
pub fn key(fd: i32) -> Option<FileKey> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel initialises the structure when it returns 0, and only then is it read.
    let about = unsafe { (libc::fstat(fd, about.as_mut_ptr()) == 0).then(|| about.assume_init()) }?;
    if about.st_mode & libc::S_IFMT == libc::S_IFCHR && about.st_rdev == libc::makedev(1, 5) {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    Some(FileKey {
        device: about.st_dev,
        inode: about.st_ino,
        len: about.st_size as u64,
        path: path.to_string_lossy().into_owned(),
        in_memory: file_system(fd) != FileSystem::Disk,
    })
}
