//! Covering a file with a promoted copy on tmpfs, where the file's own file system has no large folios: a bind mount puts the
//! copy at the file's place, for programs that start later in the same mount namespace. The file itself is not touched.

use crate::error::LiveError;
use crate::host;
use crate::image::Image;
use crate::promote::{self, Outcome, Request};
use crate::replace::{copy_to, like, same};
use procfs::process::Process;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the copies are, on a tmpfs of their own.
pub const FOLDER: &str = "/run/reach-text";

/// The name under which that tmpfs is listed.
const SOURCE: &str = "reach-text";

/// Covers `image`'s file with a promoted copy.
///
/// # Errors
/// When that is not possible; nothing is covered then.
pub fn cover(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let plain = |what: &str| Err(LiveError::plain(&image.path, what));
    if !host::is_root() {
        return plain("only root can mount a copy over it");
    }
    promote::check(image)?;
    if is_covered(&image.path)? {
        return plain("is covered by a copy already; uncover it with --restore first");
    }
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    if metadata.mode() & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        return plain("gives rights to those who run it (setuid, setgid or capabilities); no copy of it is mounted");
    }
    prepare().map_err(|error| LiveError::io(Path::new(FOLDER), "cannot be prepared")(error))?;
    let path = copy_of(&image.path);
    let made = File::options().read(true).write(true).create_new(true).open(&path);
    let made = match made {
        // Left by a run that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::fs::remove_file(&path)
            .and_then(|()| File::options().read(true).write(true).create_new(true).open(&path)),
        other => other,
    };
    let copy = made.map_err(failed("no copy can be made"))?;
    let covered = mount_copy(image, copy, &path, request);
    if covered.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    covered
}

fn mount_copy(image: &Image, copy: File, path: &Path, request: Request) -> Result<Outcome, LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    copy_to(image, &copy).map_err(failed("cannot be copied to memory"))?;
    like(&image.file, &metadata, &copy).map_err(failed("its owner, mode and attributes cannot be kept"))?;
    drop(copy);
    let reading = File::open(path).map_err(failed("the copy cannot be opened"))?;
    if !same(&image.file, &reading).map_err(failed("the copy cannot be compared"))? {
        return Err(LiveError::plain(&image.path, "has changed while it was copied; nothing was mounted"));
    }
    let request = Request { threshold: 0, ..request };
    let outcome = promote::promote(&Image::from_file(path, reading)?, request)?;
    if outcome.promoted + outcome.already == 0 {
        return Err(LiveError::plain(
            &image.path,
            "its copy on tmpfs cannot be held in superpages; nothing was mounted",
        ));
    }
    rustix::mount::mount_bind(path, &image.path)
        .map_err(io::Error::from)
        .map_err(failed("nothing can be mounted over it"))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = rustix::mount::mount_remount(&image.path, flags, c"") {
        let _ = rustix::mount::unmount(&image.path, UnmountFlags::DETACH);
        return Err(failed("its cover cannot be made read-only")(error.into()));
    }
    Ok(outcome)
}

/// Uncovers a file: programs that start later get the file itself; what runs keeps the copy until it ends. `false` when it
/// was not covered.
///
/// # Errors
/// When the mount cannot be undone.
pub fn uncover(path: &Path) -> Result<bool, LiveError> {
    let path = &path.canonicalize().map_err(LiveError::io(path, "cannot be found"))?;
    if !is_covered(path)? {
        return Ok(false);
    }
    let unmounted = rustix::mount::unmount(path, UnmountFlags::DETACH).map_err(io::Error::from);
    unmounted.map_err(LiveError::io(path, "cannot be uncovered"))?;
    let _ = std::fs::remove_file(copy_of(path));
    // The last one; what a process still has open stays until that ends.
    if std::fs::read_dir(FOLDER).is_ok_and(|mut copies| copies.next().is_none())
        && rustix::mount::unmount(FOLDER, UnmountFlags::empty()).is_ok()
    {
        let _ = std::fs::remove_dir(FOLDER);
    }
    Ok(true)
}

/// Whether a copy of ours is mounted at `path`.
///
/// # Errors
/// When mounts cannot be listed.
pub fn is_covered(path: &Path) -> Result<bool, LiveError> {
    mounted(path).map_err(LiveError::io(path, "its mounts cannot be listed"))
}

fn mounted(place: &Path) -> io::Result<bool> {
    let mounts = Process::myself().and_then(|me| me.mountinfo()).map_err(io::Error::other)?;
    // The last of those at one place is the one that is seen.
    let last = mounts.into_iter().rfind(|mount| mount.mount_point == place);
    Ok(last.is_some_and(|mount| mount.fs_type == "tmpfs" && mount.mount_source.as_deref() == Some(SOURCE)))
}

/// The tmpfs for the copies.
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
    // Others need not see what is mounted and unmounted here.
    Ok(rustix::mount::mount_change(folder, MountPropagationFlags::PRIVATE)?)
}

/// The copy of a file. What is at `path` may be the cover: the name depends on the place alone.
fn copy_of(path: &Path) -> PathBuf {
    Path::new(FOLDER).join(path.to_string_lossy().trim_start_matches('/').replace('%', "%25").replace('/', "%2f"))
}
