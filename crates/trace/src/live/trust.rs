//! Whether root may execute or load a file that was found by the environment or near the executable.
//!
//! As root, such a file belongs to root and lies where only root writes: the file and every folder above it belong to root, and
//! neither group nor others may write them. A folder with the sticky bit, such as `/tmp`, may lie above a folder of root,
//! because nobody else can take that folder away; a file directly in it is refused. File systems in user space (FUSE) are
//! refused: their servers answer what they like.
//!
//! The path is resolved first. On a path that only root can change, what was checked is what is used later by name.

use crate::TraceError;
use reach_core::Shown;
use rustix::fs::{FileType, Mode, Stat, lstat, statfs};
use std::fs;
use std::path::{Path, PathBuf};

/// `f_type` of file systems in user space.
const FUSE: u64 = 0x6573_5546;

/// Resolves the path of a file that is to be executed or loaded. For root, also checks that nobody else can change it.
///
/// # Errors
/// With what is wrong, and what to do about it. [`TraceError::Io`] where the path leads nowhere.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, TraceError> {
    let resolved = path.canonicalize().map_err(|source| TraceError::Io { path: path.into(), source })?;
    if is_root_above_others()
        && let Err(why) = only_root_changes(&resolved)
    {
        return Err(TraceError::Capture(format!(
            "{}: not used, because reach runs as root, and {why}; keep it where only root writes, or run reach as the user \
             whose program it is",
            path.shown()
        )));
    }
    Ok(resolved)
}

/// Returns whether this process is root, and has rights over other users' files. Root of a user namespace that maps nobody else
/// has only the rights of its user.
pub(super) fn is_root_above_others() -> bool {
    let maps_one = |map: String| {
        let counts: Option<Vec<u64>> = map.lines().map(|line| line.split_whitespace().nth(2)?.parse().ok()).collect();
        counts.is_some_and(|counts| counts == [1])
    };
    rustix::process::geteuid().is_root() && !fs::read_to_string("/proc/self/uid_map").is_ok_and(maps_one)
}

/// Checks that only root can change a file or what its resolved path names. Fails with who else can.
fn only_root_changes(resolved: &Path) -> Result<(), String> {
    let mut is_sticky = false;
    let mut parts: Vec<&Path> = resolved.ancestors().collect();
    parts.reverse();
    for part in parts {
        let examined = lstat(part).and_then(|status| Ok((status, statfs(part)?)));
        let (status, system) = examined.map_err(|error| format!("{} cannot be examined: {error}", part.shown()))?;
        let rule = if system.f_type as u64 == FUSE {
            Err("is on a file system in user space (FUSE)".into())
        } else {
            rule(&status, is_sticky)
        };
        is_sticky = rule.map_err(|why| format!("{} {why}", part.shown()))?;
    }
    Ok(())
}

/// Judges a folder or file. `in_sticky` says that it lies in a folder in which others can create names. Returns whether it is
/// such a folder itself.
fn rule(status: &Stat, in_sticky: bool) -> Result<bool, String> {
    let (is_folder, mode) = (FileType::from_raw_mode(status.st_mode).is_dir(), Mode::from_raw_mode(status.st_mode));
    if status.st_uid != 0 {
        return Err(format!("belongs to the user {}", status.st_uid));
    }
    if in_sticky && !is_folder {
        return Err("is in a folder to which others can add names".into());
    }
    if !mode.intersects(Mode::WGRP | Mode::WOTH) {
        return Ok(false);
    }
    match is_folder && mode.contains(Mode::SVTX) {
        true => Ok(true),
        false if mode.contains(Mode::WOTH) => Err("can be written by everybody".into()),
        false => Err(format!("can be written by the group {}", status.st_gid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn only_files_on_paths_of_root_are_trusted() {
        if !rustix::process::geteuid().is_root() || !is_root_above_others() {
            return eprintln!("skipped: only root can give files to others");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "").unwrap();
        let set = |path: &Path, mode: u32, owner: u32| {
            chown(path, Some(owner), None).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        let cases = [
            (0o755, 0, 0o755, 0, None),
            (0o755, 65534, 0o755, 0, Some("belongs to the user 65534")),
            (0o775, 0, 0o755, 0, Some("can be written by the group")),
            (0o757, 0, 0o755, 0, Some("can be written by everybody")),
            (0o755, 0, 0o755, 65534, Some("belongs to the user 65534")),
            (0o755, 0, 0o777, 0, Some("can be written by everybody")),
            (0o755, 0, 0o1777, 0, Some("others can add names")),
        ];
        for (mode, owner, folder_mode, folder_owner, expected) in cases {
            set(&file, mode, owner);
            set(folder.path(), folder_mode, folder_owner);
            for path in [&file, &link] {
                let why = resolve(path).err().map(|error| error.to_string());
                match (&why, expected) {
                    (None, None) => {}
                    (Some(why), Some(part)) => assert!(why.contains(part) && why.contains("only root writes"), "{why}"),
                    _ => panic!("{mode:o} {owner} in {folder_mode:o} {folder_owner}: {why:?}"),
                }
            }
        }
    }
}
