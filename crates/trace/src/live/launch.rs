//! Starting the emulator on the program.

use super::Options;
use super::find::{Found, Qemu};
use super::memory::Memory;
use crate::TraceError;
use reach_core::ring::{Emulator, ProcessIdentity};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::{env, io};

/// The program and its arguments on one line.
pub(super) fn name(options: &Options) -> String {
    let words = std::iter::once(&options.program).chain(&options.args);
    let words: Vec<_> = words.map(|word| word.to_string_lossy().replace(char::is_control, " ")).collect();
    words.join(" ")
}

/// Starts process 0 with thread 0.
pub(super) fn spawn(
    memory: &Memory,
    qemu: &Qemu,
    plugin: PathBuf,
    found: &Found,
    options: &Options,
) -> Result<Child, TraceError> {
    // In another folder, relative paths would name other files.
    let whole = |path: PathBuf| match options.folder {
        Some(_) => std::path::absolute(&path).map_err(|source| TraceError::Io { path, source }),
        None => Ok(path),
    };
    let (plugin, image) = (whole(plugin)?, whole(found.path.clone())?);
    let qemu = Qemu { path: whole(qemu.path.clone())?, cpu: qemu.cpu };
    let emulator = Emulator { qemu: qemu.path.clone(), cpu: qemu.cpu.into(), plugin, ring: memory.path() };
    let header = memory.ring().header();
    header.next_process.store(1, Ordering::Relaxed);
    header.next_thread.store(1, Ordering::Relaxed);
    if !memory.ring().set_options(&emulator.to_bytes()) {
        return Err(TraceError::Capture("the paths of emulator and plugin are too long; move them".into()));
    }
    let before = if found.before.is_empty() { std::slice::from_ref(&options.program) } else { &found.before };
    let args: Vec<OsString> = before.iter().chain(&options.args).cloned().collect();
    let variables = env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let (own, moved) = Emulator::environment(variables.collect());
    let first = ProcessIdentity { process: 0, thread: 0, after_exec: false };
    let arguments = emulator.arguments(first, &moved, &image, &args);

    let failed = |source| TraceError::Io { path: qemu.path.clone(), source };
    let (arguments, own) = (strings(arguments).map_err(failed)?, strings(own).map_err(failed)?);
    let run = move || {
        let pointers = |all: &[CString], to: &mut [*const libc::c_char]| {
            to.iter_mut().zip(all).for_each(|(pointer, one)| *pointer = one.as_ptr());
        };
        let (mut argv, mut envp) = (vec![std::ptr::null(); arguments.len() + 1], vec![std::ptr::null(); own.len() + 1]);
        pointers(&arguments, &mut argv);
        pointers(&own, &mut envp);
        // SAFETY: both lists end in null and their strings outlive the call.
        unsafe { libc::execve(argv[0], argv.as_ptr(), envp.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    let mut command = Command::new(&qemu.path);
    if let Some(folder) = &options.folder {
        command.current_dir(folder);
    }
    if options.own {
        command.process_group(0);
    }
    if let Some(path) = &options.output {
        let created = File::create(path).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, error) = created.map_err(|source| TraceError::Io { path: path.clone(), source })?;
        command.stdin(Stdio::null()).stdout(out).stderr(error);
    }
    // The standard library would sort the environment; its order is the program's to see.
    // SAFETY: between fork and exec the closure only allocates, as the only thread of a child whose C library supports
    // that after fork, and calls execve.
    unsafe { command.pre_exec(run) };
    command.spawn().map_err(failed)
}

fn strings(all: Vec<OsString>) -> io::Result<Vec<CString>> {
    let all = all.into_iter().map(|one| CString::new(one.into_vec()));
    Ok(all.collect::<Result<_, _>>()?)
}
