//! Exec. Left to the emulator, the new program would run by itself, untraced; so where it can be traced, the process
//! becomes a new emulator with the same plugin.

use crate::lane::{self, MAPPING};
use crate::{guest, process};
use reach_core::ring::{Emulator, Executable, Message, ProcessIdentity, inspect_executable};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The process calls exec on `path` (an address, relative to the directory `dirfd`). Returns if it cannot become a new
/// emulator; the emulator's own exec then does, or fails, as it would.
pub fn attempt(vcpu: u32, dirfd: i32, path: u64, args: u64, environment: u64, flags: u64) {
    let Some(path) = guest::string(path, libc::PATH_MAX as usize).and_then(|path| resolve(dirfd, path, flags)) else {
        return;
    };
    let (Some(mut args), Some(environment)) = (guest::strings(args), guest::strings(environment)) else { return };
    let (path, before) = match inspect_executable(&path) {
        Ok(Executable::Traceable { path, before }) => (path, before),
        Ok(Executable::Foreign(why)) => {
            let text = format!("{} runs untraced: {why}", path.display());
            lane::send(vcpu, &Message::Notice(text));
            return lane::publish(vcpu);
        }
        Err(_) => return,
    };
    let Some(emulator) = process::emulator() else { return };
    // The reader may have been killed, or be out of reach from where the process has gone.
    if let Err(why) = process::attachable(&emulator) {
        lane::send(vcpu, &Message::Notice(format!("{} runs untraced: {why}", path.display())));
        return lane::publish(vcpu);
    }
    if !before.is_empty() {
        args.splice(..args.len().min(1), before);
    }
    let identity = ProcessIdentity { process: process::number(), thread: lane::thread(vcpu), after_exec: true };
    let (own, moved) = Emulator::environment(environment);
    let arguments = emulator.arguments(identity, &moved, &path, &args);

    MAPPING.take();
    lane::fence(vcpu);
    lane::publish(vcpu);
    become_program(&arguments, &own);
    let why = std::io::Error::last_os_error();
    MAPPING.release();
    lane::send(vcpu, &Message::Notice(format!("{} runs untraced: the emulator did not start: {why}", path.display())));
    lane::publish(vcpu);
}

/// Returns only when exec fails.
fn become_program(arguments: &[OsString], environment: &[OsString]) {
    let strings = |all: &[OsString]| {
        let all = all.iter().map(|one| CString::new(one.as_bytes()));
        all.collect::<Result<Vec<_>, _>>().unwrap_or_default()
    };
    let (arguments, environment) = (strings(arguments), strings(environment));
    let pointers = |all: &[CString]| all.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let Some(program) = arguments.first() else { return };
    // SAFETY: both lists end in null and their strings outlive the call.
    unsafe { libc::execve(program.as_ptr(), pointers(&arguments).as_ptr(), pointers(&environment).as_ptr()) };
}

/// The file that execveat means; `None` when it is best left to the emulator.
fn resolve(dirfd: i32, path: OsString, flags: u64) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    let itself = [
        PathBuf::from("/proc/self/exe"),
        PathBuf::from("/proc/thread-self/exe"),
        PathBuf::from(format!("/proc/{}/exe", std::process::id())),
    ];
    if itself.contains(&path) {
        return Some(process::program().into());
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW as u64 != 0 {
        return None;
    }
    let directory = || std::fs::read_link(format!("/proc/self/fd/{dirfd}")).ok();
    if path.as_os_str().is_empty() {
        return if flags & libc::AT_EMPTY_PATH as u64 != 0 { still_there(directory()?) } else { None };
    }
    if let Some(fd) = descriptor(&path) {
        return still_there(std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?);
    }
    if path.is_absolute() || dirfd == libc::AT_FDCWD { Some(path) } else { Some(directory()?.join(path)) }
}

/// The number in `/proc/self/fd/N`: the descriptor may be closed by the exec itself.
fn descriptor(path: &Path) -> Option<u32> {
    path.strip_prefix("/proc/self/fd").or_else(|_| path.strip_prefix("/dev/fd")).ok()?.to_str()?.parse().ok()
}

/// A file without a name (deleted, or in memory only) cannot be handed to a new emulator.
fn still_there(path: PathBuf) -> Option<PathBuf> {
    (path.is_absolute() && path.exists()).then_some(path)
}
