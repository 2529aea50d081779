//! Gives a copy the attributes of its original, and verifies that it has them: owner, permissions, access lists (ACLs) and all
//! other extended attributes, times.

use crate::error::LiveError;
use rustix::fs::{Timestamps, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The largest list of names, and the largest value, that the kernel returns.
const LARGEST: usize = 64 << 10;

/// Permission of anybody to write, in a mode. In a file with an access list, the group's is the mask of the list, which bounds
/// what every entry but the owner's and the others' grants.
const WRITE: u32 = 0o222;

/// Which permissions a copy keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    Whole,
    /// All but those to write.
    ReadOnly,
}

/// Gives `copy` the attributes of `original`, which has `metadata`. `path` names the original in messages.
///
/// # Errors
/// If the copy cannot have one of them; the message names it.
pub(crate) fn keep(
    path: &Path,
    original: &File,
    metadata: &Metadata,
    copy: &File,
    mode: Mode,
) -> Result<(), LiveError> {
    let failed = |doing| LiveError::io(path, doing);
    let mode = match mode {
        Mode::Whole => metadata.mode() & 0o7777,
        Mode::ReadOnly => metadata.mode() & 0o7777 & !WRITE,
    };
    // A change of the owner clears permissions, and an access list changes the mode, which therefore comes last.
    let given = std::os::unix::fs::fchown(copy, Some(metadata.uid()), Some(metadata.gid()));
    given.map_err(failed("has an owner that its copy cannot have"))?;
    keep_extended(path, original, copy)?;
    let allowed = copy.set_permissions(Permissions::from_mode(mode));
    allowed.map_err(failed("has permissions that its copy cannot have"))?;
    let time = |seconds, nanoseconds| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    let dated = rustix::fs::futimens(copy, &times).map_err(io::Error::from);
    dated.map_err(failed("has times that its copy cannot have"))?;
    let now = copy.metadata().map_err(failed("has a copy that cannot be examined"))?;
    let expected = (metadata.uid(), metadata.gid(), mode, metadata.mtime(), metadata.mtime_nsec());
    match (now.uid(), now.gid(), now.mode() & 0o7777, now.mtime(), now.mtime_nsec()) == expected {
        true => Ok(()),
        false => Err(LiveError::plain(path, "has an owner, permissions or times that its copy does not keep")),
    }
}

fn keep_extended(path: &Path, original: &File, copy: &File) -> Result<(), LiveError> {
    let listed = |file| extended(file).map_err(LiveError::io(path, "has extended attributes that cannot be read"));
    let refused = |name: &[u8], error: Errno| {
        let (name, error) = (String::from_utf8_lossy(name).into_owned(), io::Error::from(error));
        LiveError::plain(path, format!("has the extended attribute {name:?}, which its copy cannot have: {error}"))
    };
    let wanted = listed(original)?;
    // A folder gives new files its default access list.
    for name in listed(copy)?.keys().filter(|name| !wanted.contains_key(*name)) {
        rustix::fs::fremovexattr(copy, name.as_slice()).map_err(|error| refused(name, error))?;
    }
    for (name, value) in &wanted {
        let set = rustix::fs::fsetxattr(copy, name.as_slice(), value, XattrFlags::empty());
        set.map_err(|error| refused(name, error))?;
    }
    let now = listed(copy)?;
    match wanted.keys().chain(now.keys()).find(|name| now.get(*name) != wanted.get(*name)) {
        None => Ok(()),
        Some(name) => Err(refused(name, Errno::OPNOTSUPP)),
    }
}

/// Returns the extended attributes that this user sees.
fn extended(file: &File) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0u8; LARGEST];
    let length = match rustix::fs::flistxattr(file, &mut names) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; LARGEST];
        let length = rustix::fs::fgetxattr(file, name, &mut value)?;
        value.truncate(length);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}
