//! Finds the program, an emulator with plugins, and the plugin. As root, only emulators and plugins that nobody else can change
//! are used ([`trust`]).

use super::{environment, trust};
use crate::TraceError;
use reach_core::Shown;
use reach_core::ring::{Executable, inspect_executable};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that was found.
pub(super) struct FoundProgram {
    /// The image to load.
    pub(super) path: PathBuf,
    /// The arguments that replace argument zero; none for an ELF program.
    pub(super) leading_args: Vec<OsString>,
}

/// An emulator.
#[derive(Clone)]
pub(super) struct Qemu {
    pub(super) path: PathBuf,
    /// The processor model to emulate.
    pub(super) cpu: &'static str,
    /// The version as the emulator gives it, such as `7.2.22`; empty where it is not recognised.
    pub(super) version: String,
    /// Whether it emulates AVX and AVX2.
    pub(super) has_avx: bool,
    /// Whether it passes its environment on in reverse order.
    pub(super) reverses_environment: bool,
}

/// The names that distributions give the emulator.
const NAMES: [&str; 2] = ["qemu-x86_64", "qemu-x86_64-static"];

/// The remedy where no emulator is found.
const ADVICE: &str = "install QEMU's user-mode emulator with plugins (Debian 12: `apt-get install \
                      --no-install-recommends qemu-user`; others: build QEMU with `--enable-plugins \
                      --target-list=x86_64-linux-user`) and name it in REACH_QEMU";

/// Returns the paths that a file of this name would have in the folders of `PATH`.
fn in_path(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.into_iter().map(move |folder| folder.join(name)).collect::<Vec<_>>().into_iter()
}

/// Checks that /proc is that of this process's PID namespace. Traced processes open the shared memory through it.
pub(super) fn proc() -> Result<(), TraceError> {
    let found = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    match found == Some(std::process::id()) {
        true => Ok(()),
        false => Err(TraceError::Capture(
            "capture needs /proc of its own PID namespace: mount it (mount -t proc proc /proc), or start the namespace with \
             one (unshare --mount-proc)"
                .into(),
        )),
    }
}

/// Looks for the program as execvp does. Fails where it is not found or cannot be captured.
pub(super) fn program(name: &OsStr) -> Result<FoundProgram, TraceError> {
    let shown = name.to_string_lossy();
    let candidates: Vec<PathBuf> =
        if name.as_bytes().contains(&b'/') { vec![name.into()] } else { in_path(name).collect() };
    let mut io_error = None;
    for path in candidates {
        match inspect_executable(&path) {
            Ok(Executable::Traceable { path, before }) => return Ok(FoundProgram { path, leading_args: before }),
            Ok(Executable::Foreign(why)) => {
                return Err(TraceError::Capture(format!("{}: cannot be captured: {why}", path.shown())));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let why = "neither an ELF program nor a script with a `#!` line; name its interpreter";
                return Err(TraceError::Capture(format!("{}: {why}", path.shown())));
            }
            Err(source) => io_error = Some(TraceError::Io { path, source }),
        }
    }
    Err(io_error.unwrap_or_else(|| match name.as_bytes().contains(&b'/') {
        true => TraceError::Capture(format!("{shown}: no such program")),
        false => TraceError::Capture(format!("{shown}: no such program in PATH; give its path")),
    }))
}

/// Looks for an emulator with plugins. Fails with the reason why the first one that was found is not suitable.
pub(super) fn qemu(given: Option<&Path>) -> Result<Qemu, TraceError> {
    if let Some(path) = given.map(Path::to_owned).or_else(|| env::var_os("REACH_QEMU").map(PathBuf::from)) {
        return probe(&path);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let cached = cache.into_iter().flat_map(|folder| {
        let folder = folder.join("reach/qemu");
        NAMES.iter().flat_map(move |name| [folder.join(name), folder.join("bin").join(name)])
    });
    let mut first_error = None;
    for path in cached.chain(NAMES.iter().flat_map(|name| in_path(OsStr::new(name)))) {
        if path.is_file() {
            match probe(&path) {
                Ok(qemu) => return Ok(qemu),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
    }
    Err(first_error
        .unwrap_or_else(|| TraceError::Capture(format!("no qemu-x86_64 found to run the program under; {ADVICE}"))))
}

/// Checks that an emulator is trusted and has plugins, and reads its version.
fn probe(path: &Path) -> Result<Qemu, TraceError> {
    let resolved = trust::resolve(path)?;
    let ask = |option: &str| {
        let output = Command::new(&resolved).arg(option).stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (help, version) = match (ask("-h"), ask("-version")) {
        (Ok(help), Ok(version)) => (help, version),
        (Err(source), _) | (_, Err(source)) => return Err(TraceError::Io { path: path.into(), source }),
    };
    if !help.contains("-plugin") {
        return Err(TraceError::Capture(format!(
            "{}: this emulator was built without plugins; {ADVICE}",
            path.shown()
        )));
    }
    let version = version_in(&version);
    let has_avx = has_avx(major(&version));
    let reverses_environment = environment::is_reversed(&resolved);
    Ok(Qemu { path: resolved, cpu: cpu(has_avx), version, has_avx, reverses_environment })
}

/// Returns the version in the output of `-version`; empty where it is not recognised.
fn version_in(output: &str) -> String {
    let is_number = |word: &&str| word.split_once('.').is_some_and(|(major, _)| major.parse::<u32>().is_ok());
    output.split_whitespace().find(is_number).unwrap_or_default().to_owned()
}

/// Returns the major version; 0 where it is not recognised.
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns a processor model with the features that current distributions require. Excludes fast string instructions:
/// libraries would copy with them, and the emulator executes them byte by byte.
fn cpu(has_avx: bool) -> &'static str {
    if has_avx { "max,-erms,-fsrm" } else { "max,-erms,-fsrm,-avx,-avx2,-f16c,-fma" }
}

/// Returns whether QEMU of this major version has AVX and AVX2. Before version 8, it computes them wrongly.
fn has_avx(major: u32) -> bool {
    major >= 8
}

/// Looks for the plugin. Fails where it is not found.
pub(super) fn plugin(given: Option<&Path>) -> Result<PathBuf, TraceError> {
    const NAME: &str = "libreach_plugin.so";
    let todo = "build it (`cargo build -p reach-plugin`) or name it in REACH_PLUGIN";
    let named = given.map(Path::to_owned).or_else(|| env::var_os("REACH_PLUGIN").map(PathBuf::from));
    if let Some(path) = named {
        return trust::resolve(&path).map_err(|error| match error {
            TraceError::Io { source, .. } => TraceError::Capture(format!("{}: {source}; {todo}", path.shown())),
            other => other,
        });
    }
    let executable = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // Next to `reach`; where a package would put it; where cargo puts it for tests and examples, which are in such a folder.
    let of_cargo = folder.ends_with("deps") || folder.ends_with("examples");
    let places = ["", "deps", "../lib/reach"].iter().chain(["..", "../deps"].iter().filter(|_| of_cargo));
    let found = places.map(|place| folder.join(place).join(NAME)).find(|path| path.exists());
    let found = found.ok_or_else(|| {
        TraceError::Capture(format!("the capture plugin {NAME} is not in {}; {todo}", folder.shown()))
    })?;
    trust::resolve(&found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_emulator() {
        for (output, version, number) in [
            ("qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022", "7.2.22", 7),
            ("qemu-x86_64 version 10.0.13", "10.0.13", 10),
            ("nothing of the kind", "", 0),
        ] {
            assert_eq!((version_in(output).as_str(), major(&version_in(output))), (version, number));
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = program(OsStr::new("reach-no-such-program")).err().unwrap();
        assert_eq!(error.to_string(), "reach-no-such-program: no such program in PATH; give its path");
    }
}
