//! `reach text keep`: promotes files again and again.

use crate::args::this_linux::KeepArgs;
use crate::failure::{Failure, VerbResult};
use crate::output;
use reach_live::keep::{Bounds, EndSignals, Keeper};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keeps the files promoted until SIGTERM or SIGINT, or for one round with `--once`.
pub fn keep(args: &KeepArgs) -> VerbResult {
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let bounds = Bounds { threshold: args.threshold, bytes_per_round: args.work };
    let mut keeper = Keeper::new(bounds);
    loop {
        let mut files = args.files.clone();
        if let Some(list) = &args.list {
            files.extend(listed_files(list)?);
        }
        let mut written = Ok(());
        keeper.round(&files, |line| {
            if written.is_ok() {
                written = output::print(&format!("{line}\n"));
            }
        });
        written?;
        if args.once || signals.wait(Duration::from_secs(args.every)) {
            return Ok(0);
        }
    }
}

/// Reads paths, one a line; `#` starts a comment.
fn listed_files(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = std::fs::read_to_string(list).map_err(|error| Failure::reading(list, error))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(PathBuf::from).collect())
}
