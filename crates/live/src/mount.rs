//! Covers a file with a promoted copy on tmpfs, for file systems without large folios. The copy is mounted over the file, for
//! programs that start later in the same mount namespace. The file itself does not change.
//!
//! Everything goes by descriptor: the copy is mounted over the open file, and the mount of an open file is removed. A user
//! who renames folders or flips symbolic links meanwhile does not change which file that is. Each cover has a tmpfs of its own
//! without a name, so that the only way to the copy leads through the place of the original, with the same permissions.

mod table;
mod tree;

use crate::error::{LiveError, LiveErrorKind};
use crate::held::HeldFile;
use crate::host;
use crate::image::Image;
use crate::lease::Lease;
use crate::promote::{self, Outcome, Request};
use rustix::mount::UnmountFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use table::Seen;
use tree::Tree;

/// Covers `image`'s file with a promoted copy. Everybody may do with the copy what the original's permissions allow, except
/// writing. The mount forbids what the file's own mount forbids.
///
/// # Errors
/// If that is impossible. The file is then not covered.
pub fn cover(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let plain = |message: &str| Err(LiveError::plain(&image.path, message));
    if !host::is_root() {
        return plain("can only be covered by root, because that is a mount");
    }
    promote::check(image)?;
    match table::seen(&image.file).map_err(failed("cannot be checked for mounts"))? {
        Seen::Uncovered => {}
        Seen::Elsewhere => return plain("is mounted in another namespace, and can only be covered there"),
        Seen::Cover | Seen::CoverBelow => return plain("is covered already; uncover it with --restore first"),
    }
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    if metadata.mode() & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        return plain("has setuid, setgid or capabilities, and is not copied");
    }
    // Writers wait until the cover is in place or abandoned. Some file systems grant no leases.
    let lease = Lease::take_if_granted(&image.file).map_err(failed("cannot be protected from writers"))?;
    let Some(lease) = lease else { return Err(LiveError::new(&image.path, LiveErrorKind::BeingWritten)) };
    let tree = Tree::of(image, request)?;
    tree.restrict_as(&image.file).map_err(failed("has a copy whose mount cannot be restricted"))?;
    tree.put_over(&image.file).map_err(failed("cannot be mounted over"))?;
    match table::seen(&tree).map_err(failed("cannot be checked for mounts"))? {
        Seen::Cover if lease.holds() => Ok(tree.outcome),
        Seen::Cover => {
            detach(&tree).map_err(failed("cannot be uncovered"))?;
            plain("was opened for writing while it was copied, and is not covered; try again")
        }
        Seen::CoverBelow => plain("is covered, but something else was mounted over it at the same time"),
        Seen::Uncovered | Seen::Elsewhere => plain("is not covered, although the kernel has reported no error"),
    }
}

/// Uncovers a file: programs that start later use the file itself, and running ones keep the copy. Returns whether the file
/// was covered.
///
/// # Errors
/// If the copy cannot be unmounted, or something else is mounted over it.
pub fn uncover(file: &HeldFile) -> Result<bool, LiveError> {
    let failed = |doing| LiveError::io(file.path(), doing);
    let seen = || table::seen(file).map_err(failed("cannot be checked for mounts"));
    match seen()? {
        Seen::Uncovered | Seen::Elsewhere => return Ok(false),
        Seen::CoverBelow => {
            let message = "is covered by a copy, over which something else is mounted; unmount that first";
            return Err(LiveError::plain(file.path(), message));
        }
        Seen::Cover => {}
    }
    detach(file).map_err(failed("cannot be uncovered"))?;
    match seen()? {
        Seen::Elsewhere => Ok(true),
        _ => Err(LiveError::plain(file.path(), "is still covered, although the kernel has reported no error")),
    }
}

/// Removes the mount of an open file, the root of which it is. Processes that use it keep it.
fn detach(file: impl AsFd) -> io::Result<()> {
    // This link of the kernel leads to the file of the descriptor on its own mount, and resolves no name.
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::mount::unmount(link, UnmountFlags::DETACH)?)
}
