//! `reach text run`: runs a program with its code in superpages.

use crate::args::this_linux::TextRunArgs;
use crate::failure::{Failure, VerbResult};
use reach_core::Shown;
use reach_live::run;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Executes the program in place of `reach`, with the preload library that moves its code. Returns only on failure.
pub fn run(args: &TextRunArgs, quiet: bool) -> VerbResult {
    let path = run::find(&args.command[0])?;
    run::check(&path)?;
    let library = run::library()?;
    // The preload library reads these words from REACH_TEXT_RUN.
    let mut options = vec!["on"];
    options.extend((!args.no_padding).then_some("padding"));
    options.extend(args.children.then_some("children"));
    options.extend((!quiet).then_some("report"));
    let mut preload = library.into_os_string();
    let mut command = Command::new(&path);
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        command.env("REACH_TEXT_PRELOAD", &before);
        preload = [preload, before].join(&OsString::from(":"));
    }
    command.arg0(&args.command[0]).args(&args.command[1..]);
    command.env("REACH_TEXT_RUN", options.join(",")).env("LD_PRELOAD", preload);
    let error = command.exec();
    Err(Failure::Failed(format!("{}: cannot be executed: {}", path.shown(), crate::units::message(&error))))
}
