//! Mounts that only one thread and its children see.

#![allow(dead_code)]

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Runs `test` in a thread with a mount namespace of its own. Returns `None`, and prints a sentence, if that is not permitted.
pub fn in_namespace<T: Send>(test: impl FnOnce() -> T + Send) -> Option<T> {
    let run = || {
        // SAFETY: the call takes flags only, and concerns this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            eprintln!("skipped: mounts need root");
            return None;
        }
        rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
        Some(test())
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// A line of the list of mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub place: String,
    pub options: String,
    pub kind: String,
    pub source: String,
}

/// Returns the mounts that this thread sees.
pub fn mounts() -> Vec<Mount> {
    let list = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ").unwrap();
        let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
        let text = |field: &str| field.to_owned();
        Mount { place: text(left[4]), options: text(left[5]), kind: text(right[0]), source: text(right[1]) }
    };
    list.lines().map(parse).collect()
}

/// Returns the places of covers, and of anything else that the command has mounted.
pub fn covers() -> Vec<String> {
    mounts().into_iter().filter(|mount| mount.source == "reach-text").map(|mount| mount.place).collect()
}

/// Mounts a tmpfs.
pub fn mount_tmpfs(source: &CStr, place: &Path, options: &CStr) {
    rustix::mount::mount(source, place, "tmpfs", MountFlags::empty(), Some(options)).unwrap();
}

/// Mounts `from` over `to`, again, with what `flags` forbid.
pub fn bind(from: &Path, to: &Path, flags: MountFlags) {
    rustix::mount::mount_bind(from, to).unwrap();
    if !flags.is_empty() {
        rustix::mount::mount_remount(to, flags | MountFlags::BIND, c"").unwrap();
    }
}

/// Unmounts what is mounted at `place`.
pub fn unmount(place: &Path) {
    rustix::mount::unmount(place, UnmountFlags::DETACH).unwrap();
}

/// Holds a file, whatever its name becomes.
pub fn hold(path: &Path) -> OwnedFd {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
}

/// Returns a link to a held file.
pub fn link(held: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", held.as_raw_fd())
}
