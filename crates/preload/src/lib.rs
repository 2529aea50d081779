//! The library that `reach text run` loads into a program before it starts: it copies the code of the program and of its
//! libraries to anonymous superpages, and moves these to the place of the code (copy and remap: Zhou et al. 2023, section 8).
//!
//! Whatever fails leaves the program as it was. `maps` reads what is mapped, `plan` says which windows of 2 MB can be moved,
//! `movement` moves them. Nothing here may disturb its host: no threads, no signals, and descriptors are closed.

mod maps;
mod movement;
mod plan;

use maps::Mapping;
use std::ffi::{CStr, CString};
use std::time::Instant;

/// What the launcher says: words, separated by commas. Without it, nothing is done.
const ORDERS: &CStr = c"REACH_TEXT_RUN";
/// What was to be preloaded before.
const PRELOAD_BEFORE: &CStr = c"REACH_TEXT_PRELOAD";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // A panic must not end the program.
    let _ = std::panic::catch_unwind(run);
}

fn run() {
    let Some(orders) = variable(ORDERS) else { return };
    let said = |word: &str| orders.split(',').any(|order| order == word);
    if !said("children") {
        leave_no_trace();
    }
    let begun = Instant::now();
    let result = promote(said("padding"));
    if said("report") {
        match result {
            Ok(moved) => eprintln!(
                "reach: {} of {} regions of 2 MB of code moved to superpages in {:.0} ms{}",
                moved.done,
                moved.possible,
                1000.0 * begun.elapsed().as_secs_f64(),
                if moved.why.is_empty() { String::new() } else { format!(" ({})", moved.why) },
            ),
            Err(why) => eprintln!("reach: no code moved to superpages: {why}"),
        }
    }
}

fn variable(name: &CStr) -> Option<String> {
    // SAFETY: the name is terminated; the value stays as long as nobody changes the environment, which is now.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}

/// Takes this library and its orders out of the environment, so that children start without it.
fn leave_no_trace() {
    let before = variable(PRELOAD_BEFORE).and_then(|value| CString::new(value).ok());
    // SAFETY: the program has not begun: nobody else reads or changes the environment.
    unsafe {
        match before {
            Some(before) => libc::setenv(c"LD_PRELOAD".as_ptr(), before.as_ptr(), 1),
            None => libc::unsetenv(c"LD_PRELOAD".as_ptr()),
        };
        libc::unsetenv(PRELOAD_BEFORE.as_ptr());
        libc::unsetenv(ORDERS.as_ptr());
    }
}

fn promote(padding: bool) -> Result<movement::Moved, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|error| format!("/proc: {error}"))?.count();
    if threads != 1 {
        return Err(format!("{threads} threads run already"));
    }
    let maps = maps::read().map_err(|error| format!("/proc/self/smaps: {error}"))?;
    let here = start as *const () as usize;
    let own = maps.iter().find(|mapping| mapping.contains(here)).map(Mapping::file);
    let windows = plan::windows(&maps, own, padding);
    movement::all(&windows)
}
