//! Starting a program with the library that moves its code to superpages.

use crate::elf::ElfError;
use crate::error::{LiveError, LiveErrorKind};
use crate::host;
use crate::image::Image;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Scripts of scripts, up to so many, as the kernel takes them.
const SCRIPTS: usize = 4;

/// Looks for a program as the shell does.
///
/// # Errors
/// When there is none.
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

/// The image that the kernel loads for a program: for a script, that of its interpreter.
///
/// # Errors
/// When there is none that this machine can run.
pub fn image(path: &Path) -> Result<Image, LiveError> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS {
        match Image::open(&path) {
            Err(LiveError { kind: LiveErrorKind::Elf(ElfError::Script { interpreter }), .. }) => path = interpreter,
            other => return other,
        }
    }
    Err(LiveError::plain(&path, "is a script of scripts of scripts"))
}

/// Whether a library can be loaded into a program at its start.
///
/// # Errors
/// Why not.
pub fn check(path: &Path) -> Result<(), LiveError> {
    let image = image(path)?;
    if image.elf.is_static() {
        let what =
            "is a static program, into which no library can be loaded; `reach text promote` and `align` work for it";
        return Err(LiveError::plain(&image.path, what));
    }
    let mode = image.file.metadata().map_or(0, |metadata| metadata.mode());
    if mode & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability") {
        let what = "gives rights to those who run it (setuid, setgid or capabilities): its loader takes no libraries from others";
        return Err(LiveError::plain(&image.path, what));
    }
    Ok(())
}

/// Looks for the library.
///
/// # Errors
/// When it is not where `reach` is, or its path cannot be given to the dynamic loader.
pub fn library() -> Result<PathBuf, LiveError> {
    const NAME: &str = "libreach_preload.so";
    let executable = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // Beside `reach`; where cargo puts it for tests; where a package would.
    let places = ["", "deps", "..", "../deps", "../lib/reach"].map(|place| folder.join(place).join(NAME));
    let found = places.iter().find_map(|path| path.canonicalize().ok());
    let todo = "build it: `cargo build --release -p reach-preload`";
    let path =
        found.ok_or_else(|| LiveError::plain(Path::new(NAME), format!("is not in {}; {todo}", folder.display())))?;
    if path.as_os_str().as_bytes().iter().any(|byte| b" :;".contains(byte)) {
        return Err(LiveError::plain(
            &path,
            "the dynamic loader takes no path with a space or colon; move it elsewhere",
        ));
    }
    Ok(path)
}
