//! A name in a folder that is held open, and files that get it when they are complete.
//!
//! A new file has no name until then. The kernel frees it when the process ends, so that a kill at any moment leaves what was
//! there before, or the complete new file.

mod steps;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use steps::{Ended, Original, Steps, id};

/// A name in a folder that is held open, so that its path cannot change.
pub struct Place {
    folder: OwnedFd,
    name: CString,
}

impl Place {
    /// Holds the name in a folder.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn new(folder: impl AsFd, name: &OsStr) -> io::Result<Place> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
        Ok(Place { folder, name: CString::new(name.as_bytes())? })
    }

    /// Removes the temporary names that killed runs have left for this name. What cannot be removed stays.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sweep(&self) -> io::Result<()> {
        let prefix = self.prefix();
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let pid = name.to_bytes().strip_prefix(prefix.as_slice());
            if let Some(pid) = pid.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
                && !is_alive(pid)
                && self.is_unlocked(name)
            {
                let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Returns the beginning of temporary names for this name. A process ID follows.
    fn prefix(&self) -> Vec<u8> {
        [b".", self.name.as_bytes(), b".reach-"].concat()
    }

    /// Returns the temporary name of this process.
    fn temporary(&self) -> io::Result<CString> {
        Ok(CString::new([self.prefix(), std::process::id().to_string().into_bytes()].concat())?)
    }

    /// Returns whether a name means a regular file that no run has locked. Processes of other containers have other IDs, but
    /// their locks are seen.
    fn is_unlocked(&self, name: &CStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let is_file = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_file();
        // A device or pipe is not opened.
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_file)
            && rustix::fs::openat(&self.folder, name, flags, Mode::empty()).is_ok_and(|file| lock(&file).is_ok())
    }
}

/// Locks a file, so that other runs see that this one is at work on it. The last descriptor releases the lock.
fn lock(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// A new file for a place.
pub struct NewFile<'p> {
    place: &'p Place,
    file: File,
    /// Its temporary name. `None` where the file system has files without names.
    temporary: Option<CString>,
}

impl<'p> NewFile<'p> {
    /// Creates a file without a name, open for reading and writing, which only its owner may read and write.
    ///
    /// # Errors
    /// If the file system has no such files, or the folder cannot be written.
    pub fn unnamed(place: &'p Place) -> io::Result<NewFile<'p>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.folder, ".", flags, Mode::RUSR | Mode::WUSR)?;
        Ok(NewFile { place, file: file.into(), temporary: None })
    }

    /// As [`NewFile::unnamed`]. On file systems without unnamed files (NFS, FAT, FUSE), the file has a temporary name, which a
    /// kill leaves behind for [`Place::sweep`].
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn create(place: &'p Place) -> io::Result<NewFile<'p>> {
        match NewFile::unnamed(place) {
            Err(error) if is_unsupported(&error) => {}
            other => return other,
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let temporary = place.temporary()?;
        let file = rustix::fs::openat(&place.folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        // Not all of these file systems have locks; then the process ID alone tells.
        let _ = lock(&file);
        Ok(NewFile { place, file: file.into(), temporary: Some(temporary) })
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Opens the file again for reading only, and closes it for writing: the kernel executes no file that is open for writing.
    ///
    /// # Errors
    /// If its permissions forbid to read it.
    pub fn close_for_writing(&mut self) -> io::Result<()> {
        self.file = File::open(link(&self.file))?;
        if self.temporary.is_some() {
            let _ = lock(&self.file);
        }
        Ok(())
    }

    /// Gives the file its name. `replace` says whether it may take that of another file.
    ///
    /// # Errors
    /// If there is such a file and it may not. What was there stays.
    pub fn finish(mut self, replace: bool) -> io::Result<()> {
        let (folder, name) = (&self.place.folder, &self.place.name);
        match (self.temporary.take(), replace) {
            (Some(temporary), _) => {
                let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
                let renamed = match rustix::fs::renameat_with(folder, &temporary, folder, name, flags) {
                    // Not all file systems have this flag. The caller has looked for the name before.
                    Err(Errno::INVAL) if !replace => rustix::fs::renameat(folder, &temporary, folder, name),
                    other => other,
                };
                self.temporary = renamed.is_err().then_some(temporary);
                renamed?;
            }
            (None, false) => {
                rustix::fs::linkat(rustix::fs::CWD, link(&self.file), folder, name, AtFlags::SYMLINK_FOLLOW)?;
            }
            (None, true) => {
                self.swap(None)?;
            }
        }
        sync(folder);
        Ok(())
    }

    /// Gives the file, which is unnamed, the name of `original`, on which the caller has a lease. Returns whether it has it now;
    /// if not, the name meant another file, or a process has opened the original for writing, and all is as it was.
    ///
    /// # Errors
    /// If the file system cannot exchange names. All is as it was.
    pub(crate) fn exchange(self, original: &File) -> io::Result<bool> {
        let leased = original.as_raw_fd();
        let done = self.swap(Some(Original { leased, id: id(leased, None)? }))?;
        sync(&self.place.folder);
        Ok(done)
    }

    fn swap(&self, original: Option<Original>) -> io::Result<bool> {
        // Held by the child, too.
        lock(&self.file)?;
        let steps = Steps {
            folder: self.place.folder.as_raw_fd(),
            name: &self.place.name,
            temporary: &self.place.temporary()?,
            link: &CString::new(link(&self.file))?,
            copy: id(self.file.as_raw_fd(), None)?,
            original,
        };
        match steps.in_child()? {
            Ended::Done => Ok(true),
            Ended::Changed => Ok(false),
            Ended::Killed => {
                let done = steps.is_done();
                steps.remove_temporary();
                if done { Ok(true) } else { Err(io::ErrorKind::Interrupted.into()) }
            }
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.place.folder, temporary, AtFlags::empty());
        }
    }
}

/// Returns the name of an open file for system calls that take a path.
fn link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Writes the names of a folder to disk. Some file systems cannot.
fn sync(folder: &OwnedFd) {
    let _ = rustix::fs::fsync(folder);
}

/// Returns whether an error says that a file system has no unnamed files.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn place(folder: &tempfile::TempDir) -> Place {
        Place::new(File::open(folder.path()).unwrap(), OsStr::new("name")).unwrap()
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_no_name_before_it_is_finished_and_only_its_own_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder);
        let Ok(mut new) = NewFile::unnamed(&place) else {
            eprintln!("skipped: no unnamed files in {}", folder.path().display());
            return;
        };
        new.file().write_all(b"first").unwrap();
        assert!(names(&folder).is_empty());
        new.close_for_writing().unwrap();
        assert!(new.file().write_all(b"more").is_err());
        new.finish(false).unwrap();
        assert_eq!(
            (names(&folder), fs::read(folder.path().join("name")).unwrap()),
            (vec!["name".into()], b"first".into())
        );

        let second = NewFile::unnamed(&place).unwrap();
        second.file().write_all(b"second").unwrap();
        assert_eq!(second.finish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"first");
        let third = NewFile::unnamed(&place).unwrap();
        third.file().write_all(b"third").unwrap();
        third.finish(true).unwrap();
        assert_eq!(
            (names(&folder), fs::read(folder.path().join("name")).unwrap()),
            (vec!["name".into()], b"third".into())
        );
    }

    #[test]
    fn an_exchange_that_displaces_another_file_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder);
        fs::write(folder.path().join("name"), "newer").unwrap();
        fs::write(folder.path().join("original"), "original").unwrap();
        let Ok(copy) = NewFile::unnamed(&place) else { return };
        copy.file().write_all(b"copy").unwrap();
        let original = File::open(folder.path().join("original")).unwrap();
        assert!(!copy.exchange(&original).unwrap());
        assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"newer");
        assert_eq!(names(&folder).len(), 2);
    }

    #[test]
    fn a_file_with_a_temporary_name_loses_it_when_it_is_dropped_or_finished() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder);
        let named = || {
            let temporary = place.temporary().unwrap();
            let path = folder.path().join(temporary.to_str().unwrap());
            NewFile { place: &place, file: File::create_new(path).unwrap(), temporary: Some(temporary) }
        };
        let dropped = named();
        assert_eq!(names(&folder).len(), 1);
        drop(dropped);
        assert!(names(&folder).is_empty());
        named().finish(false).unwrap();
        assert_eq!(names(&folder), ["name"]);
        assert!(named().finish(false).is_err());
        named().finish(true).unwrap();
        assert_eq!(names(&folder), ["name"]);
    }
}
