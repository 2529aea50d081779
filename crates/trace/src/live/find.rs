//! Finding the program, an emulator that has plugins, and the plugin.

use crate::TraceError;
use reach_core::ring::{Executable, inspect_executable};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program to run.
pub(super) struct Found {
    /// The image to load.
    pub(super) path: PathBuf,
    /// Arguments that take the place of argument zero.
    pub(super) before: Vec<OsString>,
}

/// An emulator.
pub(super) struct Qemu {
    pub(super) path: PathBuf,
    /// Its processor model.
    pub(super) cpu: &'static str,
}

/// The names that distributions give the emulator.
const NAMES: [&str; 2] = ["qemu-x86_64", "qemu-x86_64-static"];

/// What to do for an emulator.
const ADVICE: &str = "install QEMU's user-mode emulator with plugins (Debian 12: `apt-get install \
                      --no-install-recommends qemu-user`; others: build QEMU with `--enable-plugins \
                      --target-list=x86_64-linux-user`) and name it in REACH_QEMU";

fn in_path(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.into_iter().map(move |folder| folder.join(name)).collect::<Vec<_>>().into_iter()
}

/// Looks for the program as execvp does.
pub(super) fn program(name: &OsStr) -> Result<Found, TraceError> {
    let shown = name.to_string_lossy();
    let candidates: Vec<PathBuf> =
        if name.as_bytes().contains(&b'/') { vec![name.into()] } else { in_path(name).collect() };
    let mut refused = None;
    for path in candidates {
        match inspect_executable(&path) {
            Ok(Executable::Traceable { path, before }) => return Ok(Found { path, before }),
            Ok(Executable::Foreign(why)) => {
                return Err(TraceError::Capture(format!("{}: cannot be captured: {why}", path.display())));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let why = "neither an ELF program nor a script with a `#!` line; name its interpreter";
                return Err(TraceError::Capture(format!("{}: {why}", path.display())));
            }
            Err(source) => refused = Some(TraceError::Io { path, source }),
        }
    }
    Err(refused.unwrap_or_else(|| match name.as_bytes().contains(&b'/') {
        true => TraceError::Capture(format!("{shown}: no such program")),
        false => TraceError::Capture(format!("{shown}: no such program in PATH; give its path")),
    }))
}

/// Looks for an emulator that has plugins.
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
    let mut without = None;
    for path in cached.chain(NAMES.iter().flat_map(|name| in_path(OsStr::new(name)))) {
        if path.is_file() {
            match probe(&path) {
                Ok(qemu) => return Ok(qemu),
                Err(error) => without = without.or(Some(error)),
            }
        }
    }
    Err(without
        .unwrap_or_else(|| TraceError::Capture(format!("no qemu-x86_64 found to run the program under; {ADVICE}"))))
}

/// Asks an emulator for its version and for plugins.
fn probe(path: &Path) -> Result<Qemu, TraceError> {
    let ask = |option: &str| {
        let output = Command::new(path).arg(option).stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (help, version) = match (ask("-h"), ask("-version")) {
        (Ok(help), Ok(version)) => (help, version),
        (Err(source), _) | (_, Err(source)) => return Err(TraceError::Io { path: path.into(), source }),
    };
    if !help.contains("-plugin") {
        return Err(TraceError::Capture(format!(
            "{}: this emulator was built without plugins; {ADVICE}",
            path.display()
        )));
    }
    let path = path.canonicalize().map_err(|source| TraceError::Io { path: path.into(), source })?;
    Ok(Qemu { path, cpu: cpu(major(&version)) })
}

fn major(version: &str) -> u32 {
    let number = version.split_whitespace().find_map(|word| word.split_once('.')?.0.parse().ok());
    number.unwrap_or(0)
}

/// A processor with what current distributions ask for. Without fast string instructions, which libraries would use for
/// copying and which are emulated byte by byte; and without AVX before QEMU 8, where it computes wrongly.
fn cpu(major: u32) -> &'static str {
    if major < 8 { "max,-erms,-fsrm,-avx,-avx2,-f16c,-fma" } else { "max,-erms,-fsrm" }
}

/// Looks for the plugin.
pub(super) fn plugin(given: Option<&Path>) -> Result<PathBuf, TraceError> {
    const NAME: &str = "libreach_plugin.so";
    let todo = "build it (`cargo build -p reach-plugin`) or name it in REACH_PLUGIN";
    let named = given.map(Path::to_owned).or_else(|| env::var_os("REACH_PLUGIN").map(PathBuf::from));
    if let Some(path) = named {
        return path.canonicalize().map_err(|e| TraceError::Capture(format!("{}: {e}; {todo}", path.display())));
    }
    let executable = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // Beside `reach`; where cargo puts it for tests and examples; where a package would.
    let places = ["", "deps", "..", "../deps", "../lib/reach"].map(|place| folder.join(place).join(NAME));
    let found = places.iter().find_map(|path| path.canonicalize().ok());
    found
        .ok_or_else(|| TraceError::Capture(format!("the capture plugin {NAME} is not in {}; {todo}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_qemu_says() {
        assert_eq!(major("qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022"), 7);
        assert_eq!(major("qemu-x86_64 version 10.0.13"), 10);
        assert_eq!(major("nothing of the kind"), 0);
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = program(OsStr::new("reach-no-such-program")).err().unwrap();
        assert_eq!(error.to_string(), "reach-no-such-program: no such program in PATH; give its path");
    }
}
