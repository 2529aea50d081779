//! Loading a program without running it: the kernel maps it, and it is stopped before its first instruction.

use crate::elf::Kind;
use crate::error::LiveError;
use crate::image::Image;
use crate::libraries;
use crate::users::{self, Mapped};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The code that the kernel maps for the program `path`.
///
/// # Errors
/// When it cannot be executed.
pub fn load(path: &Path) -> Result<Vec<Mapped>, LiveError> {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec, this makes one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().map_err(LiveError::io(path, "cannot be executed"))?;
    let pid = child.id() as i32;
    let mut status = 0;
    // SAFETY: waits for a child of ours until it has stopped, and takes its status.
    let stopped = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) } == pid && libc::WIFSTOPPED(status);
    let mapped = if stopped { users::code_of(pid) } else { Err(io::Error::other("it ended while it was loaded")) };
    let _ = child.kill();
    let _ = child.wait();
    mapped.map_err(LiveError::io(path, "cannot be loaded"))
}

/// Loads a program, or a library, that was made from another, and looks whether it is as good: its loader finds the same
/// libraries, and the kernel maps its code where superpages are possible.
///
/// # Errors
/// What is not as it should be.
pub fn verify_copy(original: &Image, copy: &Path) -> Result<(), LiveError> {
    let image = Image::open(copy)?;
    let loader = match &original.elf.interpreter {
        Some(loader) => Some(loader.clone()),
        None if original.elf.kind == Kind::Library => own_loader(),
        None => None,
    };
    if let Some(loader) = loader {
        let others = |image: &Image| {
            let listed = libraries::list(&loader, image)?;
            Ok::<_, LiveError>(listed.into_iter().filter(|library| *library != image.path).collect::<Vec<_>>())
        };
        let expected = others(original)?;
        if others(&image).ok() != Some(expected) {
            let what =
                "does not find the original's libraries; if these are found relative to it, write the copy beside it";
            return Err(LiveError::plain(copy, what));
        }
    }
    if original.elf.kind == Kind::Library {
        return Ok(());
    }
    let mapped = load(&image.path)?;
    let program = mapped.iter().find(|file| file.path == image.path);
    match program {
        Some(program) if program.user.congruent => Ok(()),
        Some(_) => {
            Err(LiveError::plain(copy, "the kernel does not align it to 2 MB: it may be too old (before Linux 5.10)"))
        }
        None => Err(LiveError::plain(copy, "the kernel maps no code of it")),
    }
}

/// The dynamic loader of this program: libraries need not name theirs.
fn own_loader() -> Option<PathBuf> {
    Image::open(Path::new("/proc/self/exe")).ok()?.elf.interpreter
}
