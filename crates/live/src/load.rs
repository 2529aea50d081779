//! Loads a program without running it: the kernel maps it, and it is stopped before its first instruction.

use crate::elf::Kind;
use crate::error::LiveError;
use crate::image::Image;
use crate::libraries;
use crate::traced;
use crate::users::{self, Identity, Mapped};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Returns the code that the kernel maps for a program. The program is executed by its descriptor.
///
/// # Errors
/// If it cannot be executed.
pub fn load(image: &Image) -> Result<Vec<Mapped>, LiveError> {
    let path = &image.path;
    let mut command = Command::new(image.held.link());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let parent = std::process::id();
    // SAFETY: between fork and exec, the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(move || traced::by_parent(parent)) };
    let mut child = command.spawn().map_err(LiveError::io(path, "cannot be executed"))?;
    let pid = child.id() as i32;
    let mut status = 0;
    // SAFETY: waits until a child of this process has stopped, and writes its status to a local variable.
    let stopped = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) } == pid && libc::WIFSTOPPED(status);
    let bound = stopped && traced::kill_on_exit(pid, 0).is_ok();
    let mapped = if bound { users::code_of(pid) } else { Err(io::Error::other("it ended before it was loaded")) };
    let _ = child.kill();
    let _ = child.wait();
    mapped.map_err(LiveError::io(path, "cannot be loaded"))
}

/// Verifies an aligned copy of a program or library. Its loader must find the same libraries as the original's, if the loader
/// is the GNU C library's, and the kernel must map a program's code at addresses that allow superpages.
///
/// # Errors
/// Names the difference.
pub fn verify_copy(original: &Image, copy: &Image) -> Result<(), LiveError> {
    let loader = original.elf.interpreter.as_deref();
    if loader.map_or(original.elf.kind == Kind::Library, libraries::is_known) {
        let libraries_of = |image: &Image| {
            let found = libraries::resolve(image, loader)?;
            Ok::<_, LiveError>(found.into_iter().map(|library| library.id).collect::<Vec<_>>())
        };
        let expected = libraries_of(original)?;
        if libraries_of(copy).ok() != Some(expected) {
            let message = "does not find the original's libraries; if the original finds them relative to its own path, write \
                           the copy to the same folder";
            return Err(LiveError::plain(&copy.path, message));
        }
    }
    if original.elf.kind == Kind::Library {
        return Ok(());
    }
    let identity = Identity::of(&copy.file).map_err(LiveError::io(&copy.path, "cannot be mapped"))?;
    let mapped = load(copy)?;
    match mapped.iter().find(|file| identity.is(&file.first)) {
        Some(program) if program.user.congruent => Ok(()),
        Some(_) => Err(LiveError::plain(
            &copy.path,
            "is not aligned to 2 MB by this kernel, which may be older than Linux 5.10",
        )),
        None => Err(LiveError::plain(&copy.path, "has no code that the kernel maps")),
    }
}
