//! Exec: the process becomes a new emulator with the same plugin, if the new program can be traced. The emulator's own
//! exec would run the program natively and untraced.

use crate::lane::{self, MAPPING};
use crate::{guest, writer};
use reach_core::ring::{Executable, Message, ProcessIdentity, inspect_executable};
use std::ffi::{CString, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Makes the process, which calls exec, a new emulator. `path` is the address of the path, relative to directory
/// `dirfd`. Returns if that is not possible; the emulator's own exec then runs as usual.
pub fn attempt(vcpu: u32, dirfd: i32, path: u64, args: u64, environment: u64, flags: u64) {
    let Some(path) = guest::string(path, libc::PATH_MAX as usize).and_then(|path| resolve(dirfd, path, flags)) else {
        return;
    };
    let (Some(mut args), Some(environment)) = (guest::strings(args), guest::strings(environment)) else { return };
    let (path, before) = match inspect_executable(&path) {
        Ok(Executable::Traceable { path, before }) => (path, before),
        Ok(Executable::Foreign(reason)) => return give_up(vcpu, &path, &reason),
        Err(_) => return,
    };
    let Some(emulator) = writer::emulator() else { return };
    // The process may have lost access to the emulator.
    if let Err(reason) = emulator.check_access() {
        return give_up(vcpu, &path, &reason);
    }
    if !before.is_empty() {
        args.splice(..args.len().min(1), before);
    }
    // No other thread forks while this one has the lock, so nothing else inherits the descriptor.
    MAPPING.take();
    // The reader may have been killed, or the process may have lost access to it.
    let descriptor = match writer::hand_over(emulator) {
        Ok(descriptor) => descriptor,
        Err(reason) => {
            MAPPING.release();
            return give_up(vcpu, &path, &reason);
        }
    };
    let after_exec = Some(descriptor.as_raw_fd() as u32);
    let identity = ProcessIdentity { process: writer::number(), thread: lane::thread(vcpu), after_exec };
    let (shared, guest_only) = emulator.environment(environment);
    let arguments = emulator.arguments(identity, &guest_only, &path, &args);

    lane::fence(vcpu);
    lane::publish(vcpu);
    become_program(&arguments, &shared);
    let error = std::io::Error::last_os_error();
    MAPPING.release();
    give_up(vcpu, &path, &format!("the emulator did not start: {error}"));
}

/// Tells the user that the program at `path` runs untraced.
fn give_up(vcpu: u32, path: &Path, reason: &str) {
    lane::send(vcpu, &Message::Notice(format!("{} runs untraced: {reason}", path.display())));
    lane::publish(vcpu);
}

/// Executes the program `arguments[0]`. Returns only when exec fails.
fn become_program(arguments: &[OsString], environment: &[OsString]) {
    let strings = |all: &[OsString]| {
        let all = all.iter().map(|one| CString::new(one.as_bytes()));
        all.collect::<Result<Vec<_>, _>>().unwrap_or_default()
    };
    let (arguments, environment) = (strings(arguments), strings(environment));
    let pointers = |all: &[CString]| all.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let Some(program) = arguments.first() else { return };
    // SAFETY: both lists end with a null pointer, and their strings outlive the call.
    unsafe { libc::execve(program.as_ptr(), pointers(&arguments).as_ptr(), pointers(&environment).as_ptr()) };
}

/// Returns the file that execveat would execute; `None` to leave it to the emulator.
fn resolve(dirfd: i32, path: OsString, flags: u64) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    let itself = [
        PathBuf::from("/proc/self/exe"),
        PathBuf::from("/proc/thread-self/exe"),
        PathBuf::from(format!("/proc/{}/exe", std::process::id())),
    ];
    if itself.contains(&path) {
        return Some(writer::program().into());
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW as u64 != 0 {
        return None;
    }
    let directory = || std::fs::read_link(format!("/proc/self/fd/{dirfd}")).ok();
    if path.as_os_str().is_empty() {
        return if flags & libc::AT_EMPTY_PATH as u64 != 0 { if_named(directory()?) } else { None };
    }
    if let Some(fd) = descriptor(&path) {
        return if_named(std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?);
    }
    if path.is_absolute() || dirfd == libc::AT_FDCWD { Some(path) } else { Some(directory()?.join(path)) }
}

/// Returns the number in `/proc/self/fd/N`. The path needs resolving, because exec may close the descriptor.
fn descriptor(path: &Path) -> Option<u32> {
    path.strip_prefix("/proc/self/fd").or_else(|_| path.strip_prefix("/dev/fd")).ok()?.to_str()?.parse().ok()
}

/// Returns the path if it names an existing file. A new emulator cannot open a deleted file, or one in memory only.
fn if_named(path: PathBuf) -> Option<PathBuf> {
    (path.is_absolute() && path.exists()).then_some(path)
}
