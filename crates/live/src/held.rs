//! Holds files by descriptor, so that what was checked is what is used.
//!
//! A path is resolved once, folder by folder (`walk`). Each step opens with `O_PATH`, to which no device or pipe reacts. The
//! type, the owner and every folder above are examined on these descriptors, and all later work goes by descriptor:
//! [`HeldFile::reading`] opens the same file again through `/proc/self/fd`, [`AsFd`] serves the system calls that take
//! `AT_EMPTY_PATH`. The path remains for messages only. Whoever renames a folder or flips a symbolic link meanwhile changes
//! nothing.

pub mod status;
pub mod trust;
mod walk;

use crate::error::{LiveError, LiveErrorKind};
use crate::host;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use status::{FileId, Status};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use trust::Distrust;

/// The folder of a held file, and the file's name in it.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: OsString,
}

/// A file, folder, device or pipe that is held by an `O_PATH` descriptor.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    descriptor: OwnedFd,
    status: Status,
    /// `None` for `/`, and for files that were not reached by a path.
    place: Option<Place>,
    trust: Result<(), Distrust>,
}

impl HeldFile {
    /// Resolves `path` and holds what it names, of any type, without opening it for reading. Follows symbolic links; for
    /// root, only those in folders that only root can write.
    ///
    /// # Errors
    /// If there is no such file, a folder above may not be searched, or root meets a symbolic link of another user.
    pub fn open(path: &Path) -> Result<HeldFile, LiveError> {
        walk::walk(path)
    }

    /// As [`HeldFile::open`], for a regular file.
    ///
    /// # Errors
    /// As for `open`, and if it is a folder, a device or a pipe.
    pub fn regular(path: &Path) -> Result<HeldFile, LiveError> {
        let held = HeldFile::open(path)?;
        match held.status.kind {
            FileType::RegularFile => Ok(held),
            _ => Err(LiveError::new(path, LiveErrorKind::NotAFile)),
        }
    }

    /// Holds the file behind a link of the kernel, such as `/proc/PID/map_files/…`, which leads to a file and not to a name.
    /// `path` names it in messages. It has no place, and is not trusted.
    ///
    /// # Errors
    /// If the link leads nowhere, or may not be followed.
    pub fn behind(link: &Path, path: &Path) -> Result<HeldFile, LiveError> {
        let descriptor = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let descriptor = descriptor.map_err(io::Error::from).map_err(LiveError::io(path, "cannot be opened"))?;
        let status = Status::of(&descriptor).map_err(LiveError::io(path, "cannot be examined"))?;
        let trust = Err(Distrust { path: path.into(), why: trust::Why::NoPath });
        Ok(HeldFile { path: path.into(), descriptor, status, place: None, trust })
    }

    /// Holds an open file. `path` names it in messages. It has no place, and is not trusted. The new descriptor cannot write
    /// the file, whatever `file` can.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn of(path: &Path, file: &File) -> Result<HeldFile, LiveError> {
        HeldFile::behind(&link(file.as_fd()), path)
    }

    /// Returns the path by which it was found, without symbolic links. For messages: the path may name another file by now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its device and inode.
    pub fn id(&self) -> FileId {
        self.status.id
    }

    /// Returns its type, owner, mode and mount, as they were when it was opened.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Examines it again.
    ///
    /// # Errors
    /// The errors of statx.
    pub fn status_now(&self) -> io::Result<Status> {
        Status::of(&self.descriptor)
    }

    /// Checks that only root can write it, or change what its path names: it and every folder above belong to root, and
    /// nobody else can write them. [`trust`] has the exact rule.
    ///
    /// # Errors
    /// Names the first folder or file that others can change, and who they are.
    pub fn trust(&self) -> Result<(), &Distrust> {
        self.trust.as_ref().map(|&()| ())
    }

    /// As [`HeldFile::trust`], for root only: other users trust whom they like.
    ///
    /// # Errors
    /// If the user is root, and others can change the file or its path.
    pub fn require_trust(&self) -> Result<(), LiveError> {
        match &self.trust {
            Err(distrust) if host::is_root() => {
                Err(LiveError::new(&self.path, LiveErrorKind::Untrusted(distrust.clone())))
            }
            _ => Ok(()),
        }
    }

    /// Opens it for reading. Does not wait for the writer of a pipe or for the end of a lease.
    ///
    /// # Errors
    /// If it is no regular file, or may not be read.
    pub fn reading(&self) -> Result<File, LiveError> {
        if self.status.kind != FileType::RegularFile {
            return Err(LiveError::new(&self.path, LiveErrorKind::NotAFile));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = rustix::fs::open(self.link(), flags, Mode::empty()).map_err(io::Error::from);
        let file = File::from(opened.map_err(LiveError::io(&self.path, "cannot be opened"))?);
        let status = Status::of(&file).map_err(LiveError::io(&self.path, "cannot be examined"))?;
        match status.id == self.status.id && status.kind == FileType::RegularFile {
            true => Ok(file),
            // Something that is no procfs is mounted at /proc.
            false => Err(LiveError::plain(&self.path, "is another file when opened through /proc/self/fd")),
        }
    }

    /// Returns the name of its descriptor for system calls that take a path, `/proc/self/fd/N`. Valid while `self` lives, in
    /// this process and in children before they execute a program.
    pub fn link(&self) -> PathBuf {
        link(self.descriptor.as_fd())
    }

    /// Returns the folder that it was found in, as an `O_PATH` descriptor, and its name there. `None` for `/`, and for files
    /// that were not reached by a path.
    pub fn place(&self) -> Option<(BorrowedFd<'_>, &OsStr)> {
        self.place.as_ref().map(|place| (place.folder.as_fd(), place.name.as_os_str()))
    }

    /// Returns whether its name in its folder still refers to it. `false` for files without a place.
    ///
    /// # Errors
    /// The errors of statx, other than a missing name.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let Some((folder, name)) = self.place() else { return Ok(false) };
        match Status::at(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok(named.id == self.status.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn link(descriptor: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

impl AsFd for HeldFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
