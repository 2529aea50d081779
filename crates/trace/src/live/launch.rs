//! Starts the program under the emulator.

use super::Options;
use super::find::{FoundProgram, Qemu};
use super::memory::SharedMemory;
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
    memory: &SharedMemory,
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
        grants_hugetlb: options.grants_hugetlb,
        aligns_shared: options.aligns_shared,
        reverses_environment: qemu.reverses_environment,
    };
    let header = memory.ring().header();
    header.next_process.store(1, Ordering::Relaxed);
    header.next_thread.store(1, Ordering::Relaxed);
    let leading = match found.leading_args.as_slice() {
        [] => std::slice::from_ref(&options.program),
        args => args,
    };
    let args: Vec<OsString> = leading.iter().chain(&options.args).cloned().collect();
    let given = |name: &OsString| options.environment.iter().any(|(other, _)| other == name);
    let inherited = env::vars_os().filter(|(name, _)| !given(name));
    let variables = inherited.chain(options.environment.iter().cloned()).map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let (inherited, moved) = emulator.environment(variables.collect());
    let first = ProcessIdentity { process: 0, thread: 0, after_exec: None };
    let arguments = emulator.arguments(first, &moved, &image, &args);

    let failed = |source| TraceError::Io { path: qemu.path.clone(), source };
    let (arguments, environment) = (Strings::new(arguments).map_err(failed)?, Strings::new(inherited).map_err(failed)?);
    let exec = move || {
        // SAFETY: both lists end in null, and their strings live as long as the lists, beyond the call.
        unsafe { libc::execve(arguments.first(), arguments.list(), environment.list()) };
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
    // SAFETY: between fork and exec, the closure makes one system call on lists that were made before, and allocates nothing.
    unsafe { command.pre_exec(exec) };
    command.spawn().map_err(failed)
}

/// Strings for C, and the list of their addresses that execve takes.
struct Strings {
    /// The strings, by addresses that own them; null at the end.
    addresses: Vec<*mut libc::c_char>,
}

// SAFETY: the strings belong to this value, which never changes them.
unsafe impl Send for Strings {}
// SAFETY: as above.
unsafe impl Sync for Strings {}

impl Strings {
    /// Fails where a string has a zero byte.
    fn new(strings: Vec<OsString>) -> io::Result<Strings> {
        let mut all = Strings { addresses: Vec::with_capacity(strings.len() + 1) };
        for string in strings {
            all.addresses.push(CString::new(string.into_vec())?.into_raw());
        }
        all.addresses.push(std::ptr::null_mut());
        Ok(all)
    }

    /// Returns the first string; null if there is none.
    fn first(&self) -> *const libc::c_char {
        self.addresses[0]
    }

    /// Returns the list.
    fn list(&self) -> *const *const libc::c_char {
        self.addresses.as_ptr().cast()
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        for &address in self.addresses.iter().filter(|address| !address.is_null()) {
            // SAFETY: `into_raw` gave the address, which was never changed, and is taken back once.
            drop(unsafe { CString::from_raw(address) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn lists_for_execve_end_in_null_and_keep_their_strings() {
        let strings = Strings::new(vec!["one".into(), "".into(), "A=ü".into()]).unwrap();
        // SAFETY: the list has three strings and a null pointer.
        let read = |at: usize| unsafe {
            (!(*strings.list().add(at)).is_null()).then(|| CStr::from_ptr(*strings.list().add(at)))
        };
        assert_eq!([0, 1, 2, 3].map(read), [Some(c"one"), Some(c""), Some(c"A=ü"), None]);
        assert_eq!(strings.first(), read(0).unwrap().as_ptr());
        assert!(Strings::new(vec!["a".into(), "b\0c".into()]).is_err());
    }
}
