//! `reach text promote`.

use super::show::orders;
use crate::args::this_linux::PromoteArgs;
use crate::failure::{Done, Failure, complain};
use crate::output;
use crate::units::{memory, plural};
use reach_live::error::{LiveError, StopReason};
use reach_live::image::Image;
use reach_live::promote::{self, Outcome, Request, State};
use reach_live::{host, libraries, mount, replace};
use std::path::{Path, PathBuf};

/// Promotes or restores all files. One that fails does not keep the others from being done.
pub fn promote(args: &PromoteArgs) -> Done {
    let mut status = 0;
    for path in &args.files {
        let mut done = one(args, path);
        if done.is_ok() && args.libraries {
            done = with_libraries(args, path);
        }
        match done {
            Ok(true) => {}
            Ok(false) => status = 1,
            Err(Failure::Failed(what) | Failure::Usage(what)) => {
                complain(what);
                status = 1;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(status)
}

fn one(args: &PromoteArgs, path: &Path) -> Result<bool, Failure> {
    if args.restore { restore(path) } else { promote_one(args, path) }
}

/// The libraries of a program, those that have something to promote.
fn with_libraries(args: &PromoteArgs, path: &Path) -> Result<bool, Failure> {
    let mut all = true;
    for library in libraries::of(&Image::open(path)?)? {
        let image = Image::open(&library)?;
        if image.promotable().is_empty() {
            output::print(&format!("{}: no region of 2 MB that is all code\n", library.display()))?;
            continue;
        }
        all &= one(args, &library).or_else(|failure| match failure {
            Failure::Failed(what) => {
                complain(what);
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
    if args.replace && matches!(&outcome, Err(LiveError { why: StopReason::InUse { .. }, .. })) {
        outcome = replace::replace(&image, request);
    }
    let small = outcome.as_ref().is_ok_and(|outcome| outcome.failed > 0 && outcome.promoted + outcome.already == 0);
    if small {
        outcome = if args.mount { mount::cover(&image, request) } else { Err(too_small(&image)?) };
    }
    let outcome = outcome?;
    // What has taken the place of the file, if something has.
    let after = State::of(&Image::open(&image.path)?)?;
    output::print(&report(&image.path, &before, &after, &outcome))?;
    Ok(outcome.busy + outcome.failed == 0)
}

/// Why nothing came of it, by what the page cache has made of the file.
fn too_small(image: &Image) -> Result<LiveError, Failure> {
    let largest = State::of(image)?.by_order.and_then(|bytes| bytes.iter().rposition(|&bytes| bytes > 0));
    let seen = largest.map_or(String::new(), |order| format!(" (now of {} at most)", memory(4096 << order)));
    let why = format!(
        "{} on Linux {} reads it in folios smaller than 2 MB{seen}: nothing is promoted; `--mount` puts a copy on tmpfs over \
         it, and `reach text run` copies it at the start of each process",
        image.file_system.name(),
        host::kernel(),
    );
    Ok(LiveError { path: image.path.clone(), why: StopReason::Plain(why) })
}

fn report(path: &Path, before: &State, after: &State, outcome: &Outcome) -> String {
    let mut lines = vec![path.display().to_string(), state("before", before), state("after ", after)];
    let regions = |n: usize| plural(n as u64, "region", "regions");
    if outcome.below_threshold > 0 {
        lines.push(format!("  {} with fewer clusters in memory than the threshold", regions(outcome.below_threshold)));
    }
    if outcome.busy > 0 {
        lines.push(format!("  {} in use with smaller pages", regions(outcome.busy)));
    }
    if outcome.failed > 0 {
        let what = "read in smaller pages: memory may be short or fragmented; try again later";
        lines.push(format!("  {} {what}", regions(outcome.failed)));
    }
    lines.join("\n") + "\n"
}

fn state(when: &str, state: &State) -> String {
    let folios = match &state.by_order {
        Some(bytes) if state.resident > 0 => format!(", in folios of {}", orders(bytes)),
        _ => String::new(),
    };
    format!(
        "  {when}  {} of {} regions mapped as superpages; {} of code in memory{folios}",
        state.superpages,
        state.regions,
        memory(state.resident),
    )
}

fn restore(path: &Path) -> Result<bool, Failure> {
    let path: PathBuf = path.to_owned();
    let uncovered = mount::uncover(&path)?;
    let image = Image::open(&path)?;
    let before = State::of(&image)?;
    promote::restore(&image)?;
    let after = State::of(&image)?;
    let mut text = report(&image.path, &before, &after, &Outcome::default());
    if uncovered {
        text += "  the copy that was mounted over it is gone\n";
    }
    output::print(&text)?;
    Ok(true)
}
