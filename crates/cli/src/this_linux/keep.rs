//! `reach text keep`: promotes files again and again.

use crate::args::this_linux::KeepArgs;
use crate::failure::{Failure, VerbResult};
use crate::output;
use reach_core::Shown;
use reach_live::held::HeldFile;
use reach_live::keep::{Bounds, EndSignals, Keeper};
use std::io::Read;
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

/// Greatest size of a list of files, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// Reads paths, one a line; `#` starts a comment. For root, only root may write the list: its files are worked on as root.
fn listed_files(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let held = HeldFile::regular(list)?;
    held.require_trust()?;
    let mut text = String::new();
    let read = held.reading()?.take(MAX_LIST + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::reading(list, error))?;
    if text.len() as u64 > MAX_LIST {
        return Err(Failure::Failed(format!("{}: is larger than 1 MB; a list has one path a line", list.shown())));
    }
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(PathBuf::from).collect())
}
