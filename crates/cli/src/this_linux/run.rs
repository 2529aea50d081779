//! `reach text run`.

use crate::args::this_linux::TextRunArgs;
use crate::failure::{Done, Failure};
use reach_live::run;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the program, with the library that moves its code. Comes back only when that fails.
pub fn run(args: &TextRunArgs, quiet: bool) -> Done {
    let path = run::find(&args.command[0])?;
    run::check(&path)?;
    let library = run::library()?;
    let mut orders = vec!["on"];
    orders.extend((!args.no_padding).then_some("padding"));
    orders.extend(args.children.then_some("children"));
    orders.extend((!quiet).then_some("report"));
    let mut preload = library.into_os_string();
    let mut command = Command::new(&path);
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        command.env("REACH_TEXT_PRELOAD", &before);
        preload = [preload, before].join(&OsString::from(":"));
    }
    command.arg0(&args.command[0]).args(&args.command[1..]);
    command.env("REACH_TEXT_RUN", orders.join(",")).env("LD_PRELOAD", preload);
    let error = command.exec();
    Err(Failure::Failed(format!("{}: cannot be executed: {}", path.display(), crate::units::reason(&error))))
}
