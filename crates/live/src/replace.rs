//! Replaces a file in use with a promoted copy. Running programs keep the old file; programs that start later use the copy.
//! At every moment, the name refers to a complete file with the same bytes.

use crate::error::{LiveError, LiveErrorKind};
use crate::image::Image;
use crate::layout::SUPERPAGE;
use crate::lease::Lease;
use crate::promote::{self, Outcome, Request};
use rustix::fs::{AtFlags, Mode, OFlags, Timestamps, XattrFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Replaces `image`'s file with a promoted copy of the same bytes, owner, mode, times and extended attributes.
///
/// # Errors
/// If the file cannot be replaced, or the copy has no superpages. The file is then unchanged.
pub fn replace(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    promote::check(image)?;
    let failed = |doing| LiveError::io(&image.path, doing);
    let before = image.file.metadata().map_err(failed("cannot be examined"))?;
    if before.nlink() > 1 {
        let message = format!("has {} names (hard links); a copy would replace only one of them", before.nlink());
        return Err(LiveError::plain(&image.path, message));
    }
    // Writers wait until the copy is in place or abandoned.
    let lease = Lease::take(&image.file).map_err(failed("cannot be protected from writers"))?;
    let Some(lease) = lease else { return Err(LiveError::new(&image.path, LiveErrorKind::BeingWritten)) };
    let folder = Folder::of(&image.path).map_err(failed("is in a folder that cannot be opened"))?;
    let copy = folder.unnamed().map_err(failed("cannot be copied in its folder"))?;
    copy_bytes(image, &copy).map_err(failed("cannot be copied"))?;
    copy_attributes(&image.file, &before, &copy)
        .map_err(failed("has an owner, mode or attributes that cannot be copied"))?;
    copy.sync_all().map_err(failed("has a copy that cannot be written to disk"))?;
    // Opened again for reading only, so that no descriptor can write it.
    let link = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let reading = File::open(&link).map_err(failed("has a copy that cannot be opened"))?;
    drop(copy);
    if !same_bytes(&image.file, &reading).map_err(failed("has a copy that cannot be compared"))? {
        return Err(LiveError::plain(&image.path, "has changed while it was copied, and was not replaced; try again"));
    }
    let copied = Image::from_file(&image.path, reading)?;
    let outcome = promote::promote(&copied, request)?;
    if outcome.promoted + outcome.already == 0 {
        return Err(LiveError::plain(&image.path, "was not replaced: a copy gets no folios of 2 MB either"));
    }
    let now = image.file.metadata().map_err(failed("cannot be examined"))?;
    let still_named = folder.holds(&now).map_err(failed("cannot be examined"))?;
    if !lease.holds() || !still_named || identity(&now) != identity(&before) {
        return Err(LiveError::plain(&image.path, "has changed while it was copied, and was not replaced; try again"));
    }
    folder.put(&copied.file).map_err(failed("cannot be replaced by the copy"))?;
    Ok(outcome)
}

/// Returns what changes when a file is written or replaced: device, inode, length, and times of content and metadata.
fn identity(metadata: &Metadata) -> (u64, u64, u64, i64, i64, i64, i64) {
    let (m, c) = ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
    (metadata.dev(), metadata.ino(), metadata.len(), m.0, m.1, c.0, c.1)
}

/// The folder of a file, held open so that its path cannot change, and the file's name in it.
struct Folder {
    folder: OwnedFd,
    name: OsString,
}

impl Folder {
    /// Opens the folder of `path`.
    fn of(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path.parent().unwrap_or(Path::new("/")), flags, Mode::empty())?;
        Ok(Folder { folder, name: path.file_name().unwrap_or_default().to_owned() })
    }

    /// Creates a file without a name. The kernel frees it when the process ends, even if killed.
    fn unnamed(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, ".", flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Returns whether the name still refers to the file with `metadata`.
    fn holds(&self, metadata: &Metadata) -> io::Result<bool> {
        let named = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((named.st_dev, named.st_ino) == (metadata.dev(), metadata.ino()))
    }

    /// Gives `copy` a temporary name, and then renames it over the file in one step.
    fn put(&self, copy: &File) -> io::Result<()> {
        let link = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let name = format!(".{}.reach-{}", self.name.to_string_lossy(), std::process::id());
        rustix::fs::linkat(rustix::fs::CWD, link, &self.folder, &name, AtFlags::SYMLINK_FOLLOW)?;
        if let Err(error) = rustix::fs::renameat(&self.folder, &name, &self.folder, &self.name) {
            let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
            return Err(error.into());
        }
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

/// Copies the bytes of a file, in pieces of 4 MB so that the page cache can make folios of 2 MB.
pub(crate) fn copy_bytes(image: &Image, mut copy: &File) -> io::Result<()> {
    let mut piece = vec![0; 2 * SUPERPAGE as usize];
    let mut offset = 0;
    while offset < image.elf.size {
        let length = piece.len().min((image.elf.size - offset) as usize);
        image.file.read_exact_at(&mut piece[..length], offset)?;
        copy.write_all(&piece[..length])?;
        offset += length as u64;
    }
    Ok(())
}

/// Gives `copy` the owner, mode, extended attributes and times of `original`.
pub(crate) fn copy_attributes(original: &File, metadata: &Metadata, copy: &File) -> io::Result<()> {
    std::os::unix::fs::fchown(copy, Some(metadata.uid()), Some(metadata.gid()))?;
    copy.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
    let mut names = vec![0u8; 64 << 10];
    let length = match rustix::fs::flistxattr(original, &mut names) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 << 10];
        let length = rustix::fs::fgetxattr(original, name, &mut value)?;
        rustix::fs::fsetxattr(copy, name, &value[..length], XattrFlags::empty())?;
    }
    let time = |seconds, nanoseconds| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(rustix::fs::futimens(copy, &times)?)
}

/// Returns whether two files have the same bytes.
pub(crate) fn same_bytes(a: &File, b: &File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; SUPERPAGE as usize], vec![0; SUPERPAGE as usize]);
    let size = a.metadata()?.len();
    if size != b.metadata()?.len() {
        return Ok(false);
    }
    for offset in (0..size).step_by(left.len()) {
        let length = left.len().min((size - offset) as usize);
        a.read_exact_at(&mut left[..length], offset)?;
        b.read_exact_at(&mut right[..length], offset)?;
        if left[..length] != right[..length] {
            return Ok(false);
        }
    }
    Ok(true)
}
