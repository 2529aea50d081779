//! Offers to build an emulator that has the instructions that a program lacked.

use crate::failure::print_error;
use reach_core::Shown;
use reach_trace::{Cause, Ending};
use std::env;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::Command;

/// The script that builds the emulator, in the folder of the project.
const SCRIPT: &str = "scripts/build-qemu.sh";

/// Asks, once and for all, whether to build a newer emulator, if a program that was captured needs one, and builds it by
/// consent. Asks only where standard input and standard error are terminals, and only if the newer emulator would be used. Never
/// asks root, for whom the script that it found might be anybody's.
pub fn offer_newer(ending: &Ending) {
    let lacks = |cause: &Option<Cause>| matches!(cause, Some(Cause::LacksAvx { newer_has: true, .. }));
    let terminals = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !terminals
        || reach_live::host::is_root()
        || !ending.exits.iter().any(|end| lacks(&end.cause))
        || env::var_os("REACH_QEMU").is_some()
    {
        return;
    }
    let (Some(script), Some(asked)) = (script(), asked_before()) else { return };
    if asked.exists() {
        return;
    }
    let mut answer = String::new();
    let _ = write!(io::stderr(), "reach: build QEMU 10 now (five minutes, a network, 1 GB of disk)? [y/N] ");
    let _ = io::stdin().read_line(&mut answer);
    // Where the answer cannot be kept, the question comes again, which is no reason to fail.
    let _ = asked.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&asked, answer.trim()));
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        return print_error("not built; `make qemu` builds it later");
    }
    match Command::new(&script).status() {
        Ok(status) if status.success() => print_error("QEMU is built; run the command again"),
        Ok(status) => print_error(format!("{}: {status}; docs/qemu.md has other ways to get one", script.shown())),
        Err(error) => print_error(format!("{}: {error}", script.shown())),
    }
}

/// Returns the script in the project that this executable was built in; `None` where it is installed elsewhere.
fn script() -> Option<PathBuf> {
    let executable = env::current_exe().and_then(|path| path.canonicalize()).ok()?;
    executable.ancestors().skip(2).map(|folder| folder.join(SCRIPT)).find(|script| script.is_file())
}

/// Returns the file that says that the question was asked; `None` where there is no cache folder.
fn asked_before() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("reach/asked-to-build-qemu"))
}
