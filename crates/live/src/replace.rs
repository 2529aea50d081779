//! Replaces a file in use with a promoted copy. Running programs keep the old file; programs that start later use the copy.
//! At every moment, the name refers to a complete file with the same bytes and attributes.

use crate::attributes::{self, Mode};
use crate::copy::{copy_bytes, same_bytes};
use crate::error::{LiveError, LiveErrorKind};
use crate::host;
use crate::image::Image;
use crate::inode;
use crate::lease::Lease;
use crate::place::{NewFile, Place};
use crate::promote::{self, Outcome, Request};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Replaces `image`'s file with a promoted copy of the same bytes, holes, owner, permissions, times, extended attributes, inode
/// flags and project. Removes what an earlier run has left that was killed.
///
/// # Errors
/// If the file cannot be replaced, or the copy cannot have one of the attributes, or has no superpages. The file is then
/// unchanged.
pub fn replace(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    promote::check(image)?;
    let failed = |doing| LiveError::io(&image.path, doing);
    let changed = || LiveError::plain(&image.path, "has changed while it was copied, and was not replaced; try again");
    let before = image.file.metadata().map_err(failed("cannot be examined"))?;
    check(image, &before)?;
    let Some((folder, name)) = image.held.place() else {
        return Err(LiveError::plain(&image.path, "was not reached by a path, and cannot be replaced"));
    };
    let place = Place::new(folder, name).map_err(failed("is in a folder that cannot be opened"))?;
    place.sweep().map_err(failed("is in a folder that cannot be read"))?;
    // Writers wait until the copy is in place or abandoned.
    let lease = Lease::take(&image.file).map_err(failed("cannot be protected from writers"))?;
    let Some(lease) = lease else { return Err(LiveError::new(&image.path, LiveErrorKind::BeingWritten)) };
    let mut new = NewFile::unnamed(&place).map_err(failed("cannot be copied in its folder"))?;
    let copy = new.file();
    inode::keep(&image.path, &image.file, copy)?;
    copy_bytes(image, copy).map_err(failed("cannot be copied"))?;
    attributes::keep(&image.path, &image.file, &before, copy, Mode::Whole)?;
    copy.sync_all().map_err(failed("has a copy that cannot be written to disk"))?;
    // No descriptor can write the copy from here on.
    new.close_for_writing().map_err(failed("has a copy that cannot be opened"))?;
    if !same_bytes(&image.file, new.file()).map_err(failed("has a copy that cannot be compared"))? {
        return Err(changed());
    }
    let reading = new.file().try_clone().map_err(failed("has a copy that cannot be opened"))?;
    let copied = Image::from_file(&image.path, reading)?;
    let outcome = promote::promote(&copied, request)?;
    if outcome.promoted + outcome.already == 0 {
        return Err(LiveError::plain(&image.path, "was not replaced: a copy gets no folios of 2 MB either"));
    }
    let now = image.file.metadata().map_err(failed("cannot be examined"))?;
    if !lease.holds() || identity(&now) != identity(&before) {
        return Err(changed());
    }
    match new.exchange(&image.file).map_err(failed("cannot be replaced by the copy"))? {
        true => Ok(outcome),
        false => Err(changed()),
    }
}

/// Checks that a file has nothing that a copy in its place would lose, or gain for a moment under a second name.
fn check(image: &Image, metadata: &Metadata) -> Result<(), LiveError> {
    if metadata.nlink() > 1 {
        let message = format!("has {} names (hard links); a copy would replace only one of them", metadata.nlink());
        return Err(LiveError::plain(&image.path, message));
    }
    if metadata.mode() & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        let message =
            "has setuid, setgid or capabilities, and is not replaced, because the copy has a second name for a moment";
        return Err(LiveError::plain(&image.path, message));
    }
    inode::check(&image.path, &image.file)
}

/// Returns what changes when a file is written or replaced: device, inode, length, and times of content and metadata.
fn identity(metadata: &Metadata) -> (u64, u64, u64, i64, i64, i64, i64) {
    let (m, c) = ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
    (metadata.dev(), metadata.ino(), metadata.len(), m.0, m.1, c.0, c.1)
}
