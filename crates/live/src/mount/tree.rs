//! A promoted copy of a file on a file system of its own, as a mount that has no place yet.
//!
//! The copy never has a name that others can reach. It is made on a new tmpfs, in a mount namespace that only the thread
//! that makes it is in. What remains when the thread ends is one descriptor of a detached mount. Whenever the process is
//! killed, the kernel frees all of it.

use super::table::SOURCE;
use crate::attributes::{self, Mode};
use crate::copy::{copy_bytes, same_bytes};
use crate::error::LiveError;
use crate::image::Image;
use crate::layout::SUPERPAGE;
use crate::promote::{self, Outcome, Request};
use rustix::fs::{OFlags, StatVfsMountFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Name of the copy in its file system.
const NAME: &str = "copy";

/// Room for the folder and the file's metadata, in bytes.
const OVERHEAD: u64 = 1 << 20;

/// A detached mount whose root is a promoted copy.
pub(super) struct Tree {
    mount: OwnedFd,
    /// How much of the copy is superpages.
    pub(super) outcome: Outcome,
}

impl Tree {
    /// Copies and promotes `image`. Nobody can write the copy, and the file system under it is read-only.
    pub(super) fn of(image: &Image, request: Request) -> Result<Tree, LiveError> {
        // The namespace belongs to the thread, and ends with it.
        std::thread::scope(|scope| {
            let made = std::thread::Builder::new().name("copy".into()).spawn_scoped(scope, || make(image, request));
            let made = made.map_err(LiveError::io(&image.path, "cannot be copied by a thread"))?;
            made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Gives the mount what the mount of `place` forbids, and forbids writing, setuid and devices in any case.
    pub(super) fn restrict_as(&self, place: &File) -> io::Result<()> {
        let forbidden = rustix::fs::fstatvfs(place)?.f_flag;
        let mut set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        if forbidden.contains(StatVfsMountFlags::NOEXEC) {
            set |= libc::MOUNT_ATTR_NOEXEC;
        }
        let change = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
        // SAFETY: the path is terminated and empty, so the descriptor itself is meant; the kernel reads `change`, of which
        // the size is given, and keeps nothing.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                self.mount.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const change,
                size_of::<libc::mount_attr>(),
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Mounts the copy over `place`: over the open file itself, whatever its path means by now.
    pub(super) fn put_over(&self, place: &File) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(rustix::mount::move_mount(&self.mount, "", place, "", flags)?)
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.mount.as_fd()
    }
}

/// Makes the copy. Runs in a thread of its own, which is in a mount namespace of its own afterwards.
fn make(image: &Image, request: Request) -> Result<Tree, LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let metadata = image.file.metadata().map_err(failed("cannot be examined"))?;
    let folder = mount_tmpfs(image.elf.size).map_err(failed("cannot be copied to a file system of its own"))?;
    let create = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy = rustix::fs::openat(&folder, NAME, create, rustix::fs::Mode::RUSR).map_err(io::Error::from);
    let copy = File::from(copy.map_err(failed("cannot be copied"))?);
    copy_bytes(image, &copy).map_err(failed("cannot be copied to memory"))?;
    attributes::keep(&image.path, &image.file, &metadata, &copy, Mode::ReadOnly)?;
    // With a descriptor that can write, the file system could not become read-only.
    drop(copy);
    let open = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reading = rustix::fs::openat(&folder, NAME, open, rustix::fs::Mode::empty()).map_err(io::Error::from);
    let reading = File::from(reading.map_err(failed("has a copy that cannot be opened"))?);
    if !same_bytes(&image.file, &reading).map_err(failed("has a copy that cannot be compared"))? {
        return Err(LiveError::plain(&image.path, "has changed while it was copied, and was not covered; try again"));
    }
    let promoted = Image::from_file(&image.path, reading)?;
    let outcome = promote::promote(&promoted, Request { threshold: 0, ..request })?;
    if outcome.promoted + outcome.already == 0 {
        return Err(LiveError::plain(
            &image.path,
            "was not covered: its copy on tmpfs gets no superpages; memory may be fragmented",
        ));
    }
    make_read_only(&folder).map_err(failed("has a copy that cannot be made read-only"))?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = rustix::mount::open_tree(&folder, NAME, clone).map_err(io::Error::from);
    Ok(Tree { mount: mount.map_err(failed("has a copy that cannot be mounted"))?, outcome })
}

/// Mounts a new tmpfs with room for `bytes`, in a new mount namespace of this thread. Returns its root.
fn mount_tmpfs(bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: the call takes flags only. It gives this thread a namespace of its own, with a root and a working directory of
    // its own; other threads keep theirs.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let options = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, value: &str| rustix::mount::fsconfig_set_string(options.as_fd(), key, value);
    set("source", SOURCE)?;
    set("mode", "0700")?;
    set("huge", "always")?;
    set("size", &(bytes.next_multiple_of(SUPERPAGE) + OVERHEAD).to_string())?;
    rustix::mount::fsconfig_create(options.as_fd())?;
    let forbidden = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let root = rustix::mount::fsmount(options.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, forbidden)?;
    // Before Linux 6.15, only a mount with a place can be cloned. This thread's path look-ups start below it.
    rustix::mount::move_mount(&root, "", rustix::fs::CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(root)
}

/// Makes the file system of `root` read-only, for all of its mounts.
fn make_read_only(root: &OwnedFd) -> io::Result<()> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let options = rustix::mount::fspick(root, "", flags)?;
    rustix::mount::fsconfig_set_flag(options.as_fd(), "ro")?;
    Ok(rustix::mount::fsconfig_reconfigure(options.as_fd())?)
}
