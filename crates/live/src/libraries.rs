//! Lists the libraries that a program loads, as its dynamic loader finds them.

use crate::error::LiveError;
use crate::image::Image;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lists the libraries that a program loads, the dynamic loader included. Runs only the loader, never the program, and only
/// a loader of the system. Static programs load none.
///
/// # Errors
/// If the loader is not the system's, or fails, as when a library is missing.
pub fn of(image: &Image) -> Result<Vec<PathBuf>, LiveError> {
    let Some(loader) = &image.elf.interpreter else { return Ok(Vec::new()) };
    list(loader, image)
}

/// Lists the libraries that `loader` loads for an image.
pub(crate) fn list(loader: &Path, image: &Image) -> Result<Vec<PathBuf>, LiveError> {
    let path = &image.path;
    if image.elf.audited {
        let message = "names auditing libraries (DT_AUDIT), whose code its dynamic loader would run; its libraries are not listed";
        return Err(LiveError::plain(path, message));
    }
    if !trusted(loader) {
        let message = format!("has the dynamic loader {}, which is not the system's and is not run", loader.display());
        return Err(LiveError::plain(path, message));
    }
    let listed = Command::new(loader).arg("--list").arg(path).stdin(Stdio::null()).env_remove("LD_PRELOAD").output();
    let output = listed.map_err(LiveError::io(loader, "cannot be run"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let reason = errors.lines().next().unwrap_or("the loader gives no reason").to_owned();
        return Err(LiveError::plain(path, format!("cannot be loaded: {reason}")));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    if let Some(missing) = listed.lines().find(|line| line.contains("not found")) {
        return Err(LiveError::plain(path, format!("lacks a library: {}", missing.trim())));
    }
    Ok(listed.lines().filter_map(listed_path).collect())
}

/// Parses `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`. `None` for the kernel's vDSO, which has no path.
fn listed_path(line: &str) -> Option<PathBuf> {
    let (named, _) = line.trim().rsplit_once(" (")?;
    let path = named.rsplit_once(" => ").map_or(named, |(_, path)| path);
    path.starts_with('/').then(|| path.into())
}

/// Returns whether a loader is the system's: owned by root, in a folder of the system, with a loader's name, and not
/// writable by others.
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
    fn paths_are_parsed_from_the_loaders_list() {
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
    fn loaders_outside_of_system_folders_are_not_trusted() {
        assert!(!trusted(Path::new("/tmp/ld-linux-x86-64.so.2")));
        assert!(!trusted(Path::new("/usr/bin/env")));
        assert!(!trusted(Path::new("ld-linux.so")));
    }
}
