//! Finds and checks what `reach text run` needs: the program, and the library that moves its code to superpages.

use crate::elf::ElfError;
use crate::error::{LiveError, LiveErrorKind};
use crate::held::HeldFile;
use crate::host;
use crate::image::Image;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Greatest depth of interpreters that are scripts, as in the kernel.
const MAX_INTERPRETERS: usize = 4;

/// Finds a program as a shell does: by path, or in `PATH`.
///
/// # Errors
/// If there is none that is executable.
pub fn find(name: &OsStr) -> Result<PathBuf, LiveError> {
    let path = Path::new(name);
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        return match executable(path) {
            true => Ok(path.into()),
            false if path.exists() => Err(LiveError::plain(path, "is not executable")),
            false => Err(LiveError::plain(path, "no such program")),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| executable(path));
    found.ok_or_else(|| LiveError::plain(path, "no such program in PATH; give its path"))
}

/// Opens the image that the kernel loads for a program: for a script, its interpreter.
///
/// # Errors
/// If this machine cannot run it.
pub fn image(path: &Path) -> Result<Image, LiveError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        match Image::open(&path) {
            Err(LiveError { kind: LiveErrorKind::Elf(ElfError::Script { interpreter }), .. }) => path = interpreter,
            other => return other,
        }
    }
    Err(LiveError::plain(&path, "is a script whose interpreters are nested too deeply (more than 4)"))
}

/// Checks that a library can be preloaded into a program.
///
/// # Errors
/// Names the obstacle.
pub fn check(path: &Path) -> Result<(), LiveError> {
    let image = image(path)?;
    if image.elf.is_static() {
        let message = "is a static program, which loads no libraries; use `reach text promote` or `align` instead";
        return Err(LiveError::plain(&image.path, message));
    }
    let mode = image.file.metadata().map_or(0, |metadata| metadata.mode());
    if mode & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        let message = "has setuid, setgid or capabilities, so its loader ignores preloaded libraries";
        return Err(LiveError::plain(&image.path, message));
    }
    Ok(())
}

/// Finds the library near the executable of `reach`.
///
/// # Errors
/// If there is none, its path cannot be passed to the dynamic loader, or the user is root and others can change it.
pub fn library() -> Result<PathBuf, LiveError> {
    const NAME: &str = "libreach_preload.so";
    let executable = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // Beside `reach`; where packages put it; where cargo puts it for tests, which are in such a folder.
    let of_cargo = folder.ends_with("deps") || folder.ends_with("examples");
    let places = ["", "deps", "../lib/reach"].iter().chain(["..", "../deps"].iter().filter(|_| of_cargo));
    let found = places.map(|place| folder.join(place).join(NAME)).find_map(|path| path.canonicalize().ok());
    let advice = "build it with `cargo build --release -p reach-preload`";
    let path =
        found.ok_or_else(|| LiveError::plain(Path::new(NAME), format!("is not in {}; {advice}", folder.display())))?;
    HeldFile::regular(&path)?.require_trust()?;
    if path.as_os_str().as_bytes().iter().any(|byte| b" :;".contains(byte)) {
        return Err(LiveError::plain(
            &path,
            "has a space, colon or semicolon in its path, which LD_PRELOAD cannot hold; move it elsewhere",
        ));
    }
    Ok(path)
}
