//! Starts the program under the emulator.

use super::Options;
use super::find::{FoundProgram, Qemu};
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

/// Returns the program and its arguments on one line.
pub(super) fn name(options: &Options) -> String {
    let words = std::iter::once(&options.program).chain(&options.args);
    let words: Vec<_> = words.map(|word| word.to_string_lossy().replace(char::is_control, " ")).collect();
    words.join(" ")
}

/// Starts the program as process 0 with thread 0 of the ring.
pub(super) fn spawn(
    memory: &Memory,
    qemu: &Qemu,
    plugin: PathBuf,
    found: &FoundProgram,
    options: &Options,
) -> Result<Child, TraceError> {
    // Relative paths would name other files in another working directory.
    let absolute = |path: PathBuf| match options.folder {
        Some(_) => std::path::absolute(&path).map_err(|source| TraceError::Io { path, source }),
        None => Ok(path),
    };
    let (plugin, image) = (absolute(plugin)?, absolute(found.path.clone())?);
    let qemu = Qemu { path: absolute(qemu.path.clone())?, ..qemu.clone() };
    let emulator = Emulator {
        qemu: qemu.path.clone(),
        cpu: qemu.cpu.into(),
        plugin,
        ring: memory.path(),
        layout: options.layout_seed,
    };
    let header = memory.ring().header();
    header.next_process.store(1, Ordering::Relaxed);
    header.next_thread.store(1, Ordering::Relaxed);
    if !memory.ring().set_options(&emulator.to_bytes()) {
        return Err(TraceError::Capture("the paths of emulator and plugin are too long; move them".into()));
    }
    let leading = match found.leading_args.as_slice() {
        [] => std::slice::from_ref(&options.program),
        args => args,
    };
    let args: Vec<OsString> = leading.iter().chain(&options.args).cloned().collect();
    let variables = env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let (inherited, moved) = Emulator::environment(variables.collect());
    let first = ProcessIdentity { process: 0, thread: 0, after_exec: false };
    let arguments = emulator.arguments(first, &moved, &image, &args);

    let failed = |source| TraceError::Io { path: qemu.path.clone(), source };
    let (arguments, environment) = (c_strings(arguments).map_err(failed)?, c_strings(inherited).map_err(failed)?);
    let exec = move || {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&arguments), pointers(&environment));
        // SAFETY: both lists end in null, and their strings outlive the call.
        unsafe { libc::execve(argv[0], argv.as_ptr(), envp.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    let mut command = Command::new(&qemu.path);
    if let Some(folder) = &options.folder {
        command.current_dir(folder);
    }
    if options.own_group {
        command.process_group(0);
    }
    if let Some(path) = &options.output {
        let created = File::create(path).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, error) = created.map_err(|source| TraceError::Io { path: path.clone(), source })?;
        command.stdin(Stdio::null()).stdout(out).stderr(error);
    }
    // The standard library would sort the environment, and the program can see its order.
    // SAFETY: between fork and exec, the closure only allocates and calls execve. It runs in the only thread of the child,
    // and the C library supports allocation after fork.
    unsafe { command.pre_exec(exec) };
    command.spawn().map_err(failed)
}

/// Converts strings for C. Fails where one has a zero byte.
fn c_strings(strings: Vec<OsString>) -> io::Result<Vec<CString>> {
    let strings = strings.into_iter().map(|string| CString::new(string.into_vec()));
    Ok(strings.collect::<Result<_, _>>()?)
}
