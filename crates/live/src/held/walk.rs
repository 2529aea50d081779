//! Resolves a path folder by folder. No component is resolved twice, and none by the kernel alone.
//!
//! Each component is opened in the folder above with `O_PATH | O_NOFOLLOW`. For a single name, this is `openat2` with
//! `RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`, and in addition it opens a symbolic link itself. The link is then read from
//! its descriptor and resolved in the same way, if the folder it lies in allows that.

use super::status::Status;
use super::trust::{self, Distrust, Folder};
use super::{HeldFile, Place};
use crate::error::{LiveError, LiveErrorKind};
use crate::host;
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Greatest number of symbolic links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// A component of the path that was opened.
struct Step {
    name: OsString,
    descriptor: OwnedFd,
    status: Status,
    /// Whether it is trusted, with everything above it.
    trust: Result<Folder, Distrust>,
}

/// Resolves `path`, and holds what it names.
pub(super) fn walk(path: &Path) -> Result<HeldFile, LiveError> {
    let found = |error| LiveError::io(path, "cannot be found")(error);
    let mut rest = components(&std::path::absolute(path).map_err(found)?);
    let root = open_root().map_err(found)?;
    let mut steps = Vec::new();
    let (mut links, mut by_link) = (0, None);
    while let Some(name) = rest.pop_front() {
        let above = steps.last().unwrap_or(&root);
        if above.status.kind != FileType::Directory {
            return Err(found(rustix::io::Errno::NOTDIR.into()));
        }
        if name == ".." {
            steps.pop();
            continue;
        }
        let step = enter(above, name, !rest.is_empty(), &join(&steps)).map_err(found)?;
        if step.status.kind != FileType::Symlink {
            steps.push(step);
            continue;
        }
        if let Err(distrust) = step.trust {
            if host::is_root() {
                let link = join(&steps).join(step.name);
                return Err(LiveError::new(path, LiveErrorKind::Link { link, distrust }));
            }
            by_link.get_or_insert(distrust);
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(found(rustix::io::Errno::LOOP.into()));
        }
        let target = rustix::fs::readlinkat(&step.descriptor, "", Vec::new()).map_err(|error| found(error.into()))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            steps.clear();
        }
        let mut target = components(&target);
        target.append(&mut rest);
        rest = target;
    }
    Ok(finish(root, steps, by_link))
}

/// Returns the names in a path, `..` included.
fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

/// Returns the path of the steps.
fn join(steps: &[Step]) -> PathBuf {
    [OsStr::new("/")].into_iter().chain(steps.iter().map(|step| step.name.as_os_str())).collect()
}

fn open_root() -> io::Result<Step> {
    let descriptor = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let status = Status::of(&descriptor)?;
    let trust = trust::examine(Folder::OnlyRoot, &descriptor, &status, Path::new("/"))?;
    Ok(Step { name: OsString::new(), descriptor, status, trust })
}

/// Opens the entry `name` of the folder `above`, whose path is `place`. A symbolic link is opened itself.
fn enter(above: &Step, name: OsString, is_folder: bool, place: &Path) -> io::Result<Step> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat(&above.descriptor, &name, flags, Mode::empty());
    // Only a request for a folder makes the kernel mount one on demand (autofs).
    let descriptor = match is_folder {
        true => match open(flags | OFlags::DIRECTORY) {
            Err(rustix::io::Errno::NOTDIR) => open(flags)?,
            other => other?,
        },
        false => open(flags)?,
    };
    let status = Status::of(&descriptor)?;
    let trust = match &above.trust {
        Ok(folder) => trust::examine(*folder, &descriptor, &status, &place.join(&name))?,
        Err(distrust) => Err(distrust.clone()),
    };
    Ok(Step { name, descriptor, status, trust })
}

/// Keeps the last step and its folder.
fn finish(root: Step, mut steps: Vec<Step>, by_link: Option<Distrust>) -> HeldFile {
    let path = join(&steps);
    let last = steps.pop();
    let (last, folder) = match last {
        Some(last) => (last, Some(steps.pop().unwrap_or(root).descriptor)),
        None => (root, None),
    };
    let trust = match (by_link, last.trust) {
        (Some(distrust), _) | (None, Err(distrust)) => Err(distrust),
        (None, Ok(Folder::OnlyRoot)) => Ok(()),
        (None, Ok(Folder::Sticky)) => Err(Distrust { path: path.clone(), why: trust::writers(&last.status) }),
    };
    let place = folder.map(|folder| Place { folder, name: last.name });
    HeldFile { path, descriptor: last.descriptor, status: last.status, place, trust }
}
