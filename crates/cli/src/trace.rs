//! `reach trace`: what a trace is, whether it is whole, its text, and other formats.

use crate::args::catalog::TraceVerb;
use crate::failure::{Done, Failure, complain};
use crate::progress::Progress;
use crate::{output, record, units};
use reach_trace::{TraceError, verbs};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Informs, checks, dumps or converts.
pub fn trace(verb: TraceVerb, quiet: bool) -> Done {
    match verb {
        TraceVerb::Info { file } => {
            let info = shown(quiet, |watch| verbs::info(&file, watch)).map_err(Failure::failed)?;
            output::print(&info.to_string())?;
            Ok(0)
        }
        TraceVerb::Check { files } => check(&files, quiet),
        TraceVerb::Dump { file, from, count } => {
            let until = count.map_or(u64::MAX, |count| from.saturating_add(count));
            let mut out = std::io::stdout().lock();
            // Text in a terminal needs no bar within it.
            let quiet = quiet || out.is_terminal();
            match shown(quiet, |watch| verbs::dump(&file, from..until, &mut out, watch)) {
                Err(error) if error.is_broken_pipe() => Err(Failure::PipeClosed),
                done => done.map(|()| 0).map_err(Failure::failed),
            }
        }
        TraceVerb::Convert { file, output, force } => {
            record::spare(&output, force)?;
            let converted = shown(quiet, |watch| verbs::convert(&file, &output, watch));
            let converted = converted.map_err(|error| explain(error, &output))?;
            if !quiet {
                eprintln!(
                    "reach: {} references in {}: {}",
                    units::short(converted.refs as f64),
                    output.display(),
                    units::memory(converted.bytes)
                );
            }
            Ok(0)
        }
    }
}

/// Does something with a trace and shows how far it is.
fn shown<T>(quiet: bool, mut verb: impl FnMut(verbs::Watch) -> Result<T, TraceError>) -> Result<T, TraceError> {
    let mut progress = Progress::new(false, quiet);
    let done = verb(&mut |references, measure| progress.show(references, measure));
    progress.end();
    done
}

fn check(files: &[PathBuf], quiet: bool) -> Done {
    let mut status = 0;
    for path in files {
        match shown(quiet, |watch| verbs::check(path, watch)) {
            Ok(checked) => {
                let parts = [
                    units::plural(checked.refs, "reference", "references"),
                    units::plural(checked.events, "event", "events"),
                ];
                if !quiet {
                    output::print(&format!("{}: good, {}\n", path.display(), parts.join(", ")))?;
                }
            }
            Err(error) => {
                complain(error);
                status = 1;
            }
        }
    }
    Ok(status)
}

/// Errors of writing know what to do; the others name the trace that was read.
fn explain(error: TraceError, output: &PathBuf) -> Failure {
    match error {
        TraceError::Io { path, source } if path == *output => Failure::writing(&path, source),
        other => Failure::failed(other),
    }
}
