//! `reach text promote`: promotes the code of files, or restores it.

use super::show::orders;
use crate::args::this_linux::PromoteArgs;
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{memory, plural};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_live::error::{LiveError, LiveErrorKind};
use reach_live::held::HeldFile;
use reach_live::image::Image;
use reach_live::promote::{self, Outcome, Request, State};
use reach_live::{host, libraries, mount, replace};
use std::path::Path;

/// Promotes or restores all files. A failure of one does not stop the others; the exit status is then 1.
pub fn promote(args: &PromoteArgs) -> VerbResult {
    let mut status = 0;
    for path in &args.files {
        let mut result = process_file(args, path);
        if result.is_ok() && args.libraries {
            result = process_libraries(args, path);
        }
        match result {
            Ok(true) => {}
            Ok(false) => status = 1,
            Err(Failure::Failed(message) | Failure::Usage(message)) => {
                print_error(message);
                status = 1;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(status)
}

/// Promotes or restores one file. Returns whether all of its regions are as requested.
fn process_file(args: &PromoteArgs, path: &Path) -> Result<bool, Failure> {
    if args.restore { restore(path) } else { promote_one(args, path) }
}

/// Promotes or restores the libraries of a program that have regions to promote.
fn process_libraries(args: &PromoteArgs, path: &Path) -> Result<bool, Failure> {
    let mut all = true;
    for library in libraries::of(&Image::open(path)?)?.iter().filter(|library| library.has_code) {
        if library.open()?.promotable().is_empty() {
            output::print(&format!("{}: has no region of 2 MB that is all code\n", library.path.shown()))?;
            continue;
        }
        all &= process_file(args, &library.path).or_else(|failure| match failure {
            Failure::Failed(message) => {
                print_error(message);
                Ok(false)
            }
            other => Err(other),
        })?;
    }
    Ok(all)
}

fn promote_one(args: &PromoteArgs, path: &Path) -> Result<bool, Failure> {
    let image = Image::open(path)?;
    promote::check(&image)?;
    let before = State::of(&image)?;
    let request = Request { threshold: args.threshold, around_users: false };
    let mut outcome = promote::promote(&image, request);
    if args.replace && matches!(&outcome, Err(LiveError { kind: LiveErrorKind::InUse { .. }, .. })) {
        outcome = replace::replace(&image, request);
    }
    let only_small =
        outcome.as_ref().is_ok_and(|outcome| outcome.failed > 0 && outcome.promoted + outcome.already == 0);
    if only_small {
        outcome = if args.mount { mount::cover(&image, request) } else { Err(no_large_folios(&image)?) };
    }
    let outcome = outcome?;
    // The path may name a replacement or a mounted copy now.
    let after = State::of(&Image::open(&image.path)?)?;
    output::print(&tabulate::fitted(&report(&image.path, &before, &after, &outcome)))?;
    Ok(outcome.busy + outcome.failed == 0)
}

/// Returns the error for a file system that reads the file in folios smaller than 2 MB.
fn no_large_folios(image: &Image) -> Result<LiveError, Failure> {
    let largest = State::of(image)?.by_order.and_then(|bytes| bytes.iter().rposition(|&bytes| bytes > 0));
    let seen = largest.map_or(String::new(), |order| format!(" (at most {} now)", memory(4096 << order)));
    let why = format!(
        "{} on Linux {} reads it in folios smaller than 2 MB{seen}: nothing is promoted; `--mount` mounts a copy on tmpfs \
         over it, and `reach text run` copies its code at the start of each process",
        image.file_system.name(),
        host::kernel(),
    );
    Ok(LiveError { path: image.path.clone(), kind: LiveErrorKind::Plain(why) })
}

fn report(path: &Path, before: &State, after: &State, outcome: &Outcome) -> String {
    let mut lines = vec![path.shown().into_owned(), state("before", before), state("after ", after)];
    let regions = |n: usize| plural(n as u64, "region", "regions");
    for (count, why) in [
        (outcome.below_threshold, "fewer clusters are in memory than --threshold asks for"),
        (outcome.busy, "running processes map it with smaller pages"),
        (outcome.failed, "the kernel read it in smaller folios; memory may be short or fragmented, so try again later"),
    ] {
        if count > 0 {
            lines.push(format!("  {} not promoted: {why}", regions(count)));
        }
    }
    lines.join("\n") + "\n"
}

fn state(when: &str, state: &State) -> String {
    let folios = match &state.by_order {
        Some(bytes) if state.resident > 0 => format!(": {}", orders(bytes)),
        _ => String::new(),
    };
    format!(
        "  {when}  {} of {} regions of 2 MB are superpages; {} of code in memory{folios}",
        state.superpages,
        state.regions,
        memory(state.resident),
    )
}

fn restore(path: &Path) -> Result<bool, Failure> {
    let held = HeldFile::regular(path)?;
    let uncovered = mount::uncover(&held)?;
    let image = Image::open(held.path())?;
    let before = State::of(&image)?;
    promote::restore(&image)?;
    let after = State::of(&image)?;
    let mut text = report(&image.path, &before, &after, &Outcome::default());
    if uncovered {
        text += "  the copy mounted over it is unmounted\n";
    }
    output::print(&tabulate::fitted(&text))?;
    Ok(true)
}
