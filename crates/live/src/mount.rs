//! Covers a file with a promoted copy on tmpfs, for file systems without large folios. A bind mount puts the copy over the
//! file, for programs that start later in the same mount namespace. The file itself does not change.

use crate::error::LiveError;
use crate::host;
use crate::image::Image;
use crate::promote::{self, Outcome, Request};
use crate::replace::{copy_attributes, copy_bytes, same_bytes};
use procfs::process::Process;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The mount point of the tmpfs that holds the copies.
pub const FOLDER: &str = "/run/reach-text";

/// The source name of that tmpfs in the list of mounts.
const SOURCE: &str = "reach-text";

/// Covers `image`'s file with a promoted copy.
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
    if is_covered(&image.path)? {
        return plain("is covered already; uncover it with --restore first");
    }
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    if metadata.mode() & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        return plain("has setuid, setgid or capabilities, and is not copied");
    }
    prepare().map_err(|error| LiveError::io(Path::new(FOLDER), "cannot be prepared")(error))?;
    let path = copy_of(&image.path);
    let made = File::options().read(true).write(true).create_new(true).open(&path);
    let made = match made {
        // A killed run has left it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::fs::remove_file(&path)
            .and_then(|()| File::options().read(true).write(true).create_new(true).open(&path)),
        other => other,
    };
    let copy = made.map_err(failed("cannot be copied"))?;
    let covered = mount_copy(image, copy, &path, request);
    if covered.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    covered
}

/// Fills `copy`, promotes it, and mounts it read-only over the file.
fn mount_copy(image: &Image, copy: File, path: &Path, request: Request) -> Result<Outcome, LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    copy_bytes(image, &copy).map_err(failed("cannot be copied to memory"))?;
    copy_attributes(&image.file, &metadata, &copy)
        .map_err(failed("has an owner, mode or attributes that cannot be copied"))?;
    drop(copy);
    let reading = File::open(path).map_err(failed("has a copy that cannot be opened"))?;
    if !same_bytes(&image.file, &reading).map_err(failed("has a copy that cannot be compared"))? {
        return Err(LiveError::plain(&image.path, "has changed while it was copied, and was not covered; try again"));
    }
    let request = Request { threshold: 0, ..request };
    let outcome = promote::promote(&Image::from_file(path, reading)?, request)?;
    if outcome.promoted + outcome.already == 0 {
        return Err(LiveError::plain(
            &image.path,
            "was not covered: its copy on tmpfs gets no superpages; memory may be fragmented",
        ));
    }
    rustix::mount::mount_bind(path, &image.path).map_err(io::Error::from).map_err(failed("cannot be mounted over"))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = rustix::mount::mount_remount(&image.path, flags, c"") {
        let _ = rustix::mount::unmount(&image.path, UnmountFlags::DETACH);
        return Err(failed("has a cover that cannot be made read-only")(error.into()));
    }
    Ok(outcome)
}

/// Uncovers a file: programs that start later use the file itself, and running ones keep the copy. Returns whether the file
/// was covered.
///
/// # Errors
/// If the copy cannot be unmounted.
pub fn uncover(path: &Path) -> Result<bool, LiveError> {
    let path = &path.canonicalize().map_err(LiveError::io(path, "cannot be found"))?;
    if !is_covered(path)? {
        return Ok(false);
    }
    let unmounted = rustix::mount::unmount(path, UnmountFlags::DETACH).map_err(io::Error::from);
    unmounted.map_err(LiveError::io(path, "cannot be uncovered"))?;
    let _ = std::fs::remove_file(copy_of(path));
    // Unmount the tmpfs with its last copy. The kernel keeps copies that processes still use.
    if std::fs::read_dir(FOLDER).is_ok_and(|mut copies| copies.next().is_none())
        && rustix::mount::unmount(FOLDER, UnmountFlags::empty()).is_ok()
    {
        let _ = std::fs::remove_dir(FOLDER);
    }
    Ok(true)
}

/// Returns whether a copy is mounted over `path`.
///
/// # Errors
/// If the mounts cannot be listed.
pub fn is_covered(path: &Path) -> Result<bool, LiveError> {
    mounted(path).map_err(LiveError::io(path, "cannot be checked for mounts"))
}

/// Returns whether the mount seen at `place` is from the tmpfs of copies.
fn mounted(place: &Path) -> io::Result<bool> {
    let mounts = Process::myself().and_then(|me| me.mountinfo()).map_err(io::Error::other)?;
    // Of several mounts at one place, the last is visible.
    let last = mounts.into_iter().rfind(|mount| mount.mount_point == place);
    Ok(last.is_some_and(|mount| mount.fs_type == "tmpfs" && mount.mount_source.as_deref() == Some(SOURCE)))
}

/// Mounts the tmpfs for the copies, unless it is mounted.
fn prepare() -> io::Result<()> {
    let folder = Path::new(FOLDER);
    match std::fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if mounted(folder)? {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(SOURCE, folder, "tmpfs", flags, Some(c"mode=0755,huge=always"))?;
    // Mounts of copies do not propagate to other namespaces.
    Ok(rustix::mount::mount_change(folder, MountPropagationFlags::PRIVATE)?)
}

/// Returns the path of the copy that covers `path`. It depends on the path alone, because the file there may be the copy.
fn copy_of(path: &Path) -> PathBuf {
    Path::new(FOLDER).join(path.to_string_lossy().trim_start_matches('/').replace('%', "%25").replace('/', "%2f"))
}
