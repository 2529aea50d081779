//! `reach trace`: shows, verifies, prints and converts traces.

use crate::args::catalog::{TraceFormat, TraceVerb};
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::progress::Progress;
use crate::{output, tabulate, units};
use reach_core::Shown;
use reach_trace::verbs::Target;
use reach_trace::{TraceError, verbs};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Runs one of the verbs of `reach trace`.
pub fn trace(verb: TraceVerb, quiet: bool) -> VerbResult {
    match verb {
        TraceVerb::Info { file } => {
            let info = shown(quiet, |watch| verbs::info(&file, watch)).map_err(Failure::failed)?;
            output::print(&tabulate::fitted(&info.to_string()))?;
            info.ending.missing.iter().for_each(print_error);
            Ok(u8::from(!info.ending.missing.is_empty()))
        }
        TraceVerb::Check { files } => check(&files, quiet),
        TraceVerb::Dump { file, from, count } => {
            let until = count.map_or(u64::MAX, |count| from.saturating_add(count));
            let mut out = std::io::stdout().lock();
            // A progress bar would interrupt the text on the same terminal.
            let quiet = quiet || out.is_terminal();
            match shown(quiet, |watch| verbs::dump(&file, from..until, &mut out, watch)) {
                Err(error) if error.is_broken_pipe() => Err(Failure::PipeClosed),
                done => done.map(|()| 0).map_err(Failure::failed),
            }
        }
        TraceVerb::Convert { file, output, to, force } => {
            output::refuse_to_replace(&output, force)?;
            let target = match to {
                TraceFormat::Reach => Target::Reach,
                TraceFormat::ChampSim => Target::ChampSim,
                TraceFormat::DrMemtrace => Target::DrMemtrace,
            };
            let converted = shown(quiet, |watch| verbs::convert(&file, &output, target, watch));
            let converted = converted.map_err(|error| explain(error, &output))?;
            let references = units::short(converted.refs as f64);
            let bytes = units::memory(converted.bytes);
            remark(quiet, format!("converted {references} references to {}: {bytes}", output.shown()));
            Ok(0)
        }
    }
}

/// Runs `verb` with a progress bar.
fn shown<T>(quiet: bool, mut verb: impl FnMut(verbs::Watch) -> Result<T, TraceError>) -> Result<T, TraceError> {
    let mut progress = Progress::new(false, quiet);
    let done = verb(&mut |references, measure| progress.show(references, measure));
    progress.end();
    done
}

fn check(files: &[PathBuf], quiet: bool) -> VerbResult {
    let mut status = 0;
    for path in files {
        match shown(quiet, |watch| verbs::check(path, watch)) {
            Ok(checked) => {
                let parts = [
                    units::plural(checked.refs, "reference", "references"),
                    units::plural(checked.events, "event", "events"),
                ];
                if !quiet {
                    output::print(&format!("{}: valid, {}\n", path.shown(), parts.join(", ")))?;
                }
            }
            Err(error) => {
                print_error(error);
                status = 1;
            }
        }
    }
    Ok(status)
}

/// Turns an error of a conversion into a failure: one of `output` as a failure to write, any other as it is.
fn explain(error: TraceError, output: &PathBuf) -> Failure {
    match error {
        TraceError::Io { path, source } if path == *output => Failure::writing(&path, source),
        TraceError::Incomplete(missing) if output.is_file() => Failure::Failed(format!(
            "{missing}; {} holds the part that can be read, marked as incomplete",
            output.shown()
        )),
        other => Failure::failed(other),
    }
}
