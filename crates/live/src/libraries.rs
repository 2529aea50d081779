//! The libraries that a program loads, as its dynamic loader finds them.

use crate::error::LiveError;
use crate::image::Image;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Asks a program's dynamic loader which libraries it would load, and the loader itself. Nothing of the program runs:
/// only a loader that belongs to the system is asked.
///
/// # Errors
/// When the loader is none of the system's, or fails: a library may be missing.
pub fn of(image: &Image) -> Result<Vec<PathBuf>, LiveError> {
    let Some(loader) = &image.elf.interpreter else { return Ok(Vec::new()) };
    list(loader, image)
}

/// What `loader` would load for an image.
pub(crate) fn list(loader: &Path, image: &Image) -> Result<Vec<PathBuf>, LiveError> {
    let path = &image.path;
    if image.elf.audited {
        let what = "names auditing libraries (DT_AUDIT), which its dynamic loader would run; it is not asked";
        return Err(LiveError::plain(path, what));
    }
    if !trusted(loader) {
        let what = format!("its dynamic loader {} is none of the system's, and is not asked", loader.display());
        return Err(LiveError::plain(path, what));
    }
    let listed = Command::new(loader).arg("--list").arg(path).stdin(Stdio::null()).env_remove("LD_PRELOAD").output();
    let output = listed.map_err(LiveError::io(loader, "cannot be run"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("no reason given").to_owned();
        return Err(LiveError::plain(path, format!("cannot be loaded: {said}")));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    if let Some(missing) = listed.lines().find(|line| line.contains("not found")) {
        return Err(LiveError::plain(path, format!("a library is missing: {}", missing.trim())));
    }
    Ok(listed.lines().filter_map(listed_path).collect())
}

/// `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; the kernel's own library has no path.
fn listed_path(line: &str) -> Option<PathBuf> {
    let (named, _) = line.trim().rsplit_once(" (")?;
    let path = named.rsplit_once(" => ").map_or(named, |(_, path)| path);
    path.starts_with('/').then(|| path.into())
}

/// Root's, under a loader's name, in a folder of the system.
fn trusted(loader: &Path) -> bool {
    let Ok(real) = loader.canonicalize() else { return false };
    let name = loader.file_name().unwrap_or_default().to_string_lossy();
    let system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/gnu/store"];
    (name.starts_with("ld-") || name.starts_with("ld."))
        && system.iter().any(|folder| real.starts_with(folder))
        && real.metadata().is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader_are_understood() {
        let paths: Vec<_> = [
            "\tlinux-vdso.so.1 (0x00007f6fc718f000)",
            "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f6fc7098000)",
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f6fc7191000)",
            "\tstatically linked",
            "",
        ]
        .into_iter()
        .filter_map(listed_path)
        .collect();
        assert_eq!(paths, [Path::new("/lib/x86_64-linux-gnu/libm.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]);
    }

    #[test]
    fn loaders_of_others_are_not_run() {
        assert!(!trusted(Path::new("/tmp/ld-linux-x86-64.so.2")));
        assert!(!trusted(Path::new("/usr/bin/env")));
        assert!(!trusted(Path::new("ld-linux.so")));
    }
}
