//! The library that `reach text run` preloads into a program. It copies the code of the program and of its libraries to
//! anonymous superpages, and remaps these to the addresses of the code (copy and remap: Zhou et al. 2023, section 8).
//!
//! If anything fails, the program runs with its code as it was. `maps` reads the mappings, `plan` finds the regions to
//! move, and `movement` moves them. A region is 2 MB at an address that is a multiple of 2 MB. The library must not
//! disturb its program: it starts no threads, changes no signals, and closes its descriptors.

mod maps;
mod movement;
mod plan;

use maps::Mapping;
use std::ffi::{CStr, CString};
use std::time::Instant;

/// The variable with the launcher's options, separated by commas. Without it, the library does nothing.
const OPTIONS: &CStr = c"REACH_TEXT_RUN";
/// The variable with the user's own value of LD_PRELOAD.
const PRELOAD_BEFORE: &CStr = c"REACH_TEXT_PRELOAD";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // A panic must not end the program.
    let _ = std::panic::catch_unwind(run);
}

fn run() {
    let Some(options) = variable(OPTIONS) else { return };
    let has = |name: &str| options.split(',').any(|option| option == name);
    if !has("children") {
        restore_environment();
    }
    let begun = Instant::now();
    let result = promote(has("padding"));
    if has("report") {
        match result {
            Ok(moved) => eprintln!(
                "reach: {} of {} regions of 2 MB of code moved to superpages in {:.0} ms{}",
                moved.done,
                moved.possible,
                1000.0 * begun.elapsed().as_secs_f64(),
                moved.failure.map_or(String::new(), |failure| format!(" ({failure})")),
            ),
            Err(why) => eprintln!("reach: no code moved to superpages: {why}"),
        }
    }
}

/// Returns the value of an environment variable.
fn variable(name: &CStr) -> Option<String> {
    // SAFETY: the name is terminated. The value is copied at once, and no other thread exists that could change it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}

/// Removes this library and its options from the environment, so that children start without it.
fn restore_environment() {
    let before = variable(PRELOAD_BEFORE).and_then(|value| CString::new(value).ok());
    // SAFETY: the program has not started, so no other thread reads or changes the environment.
    unsafe {
        match before {
            Some(before) => libc::setenv(c"LD_PRELOAD".as_ptr(), before.as_ptr(), 1),
            None => libc::unsetenv(c"LD_PRELOAD".as_ptr()),
        };
        libc::unsetenv(PRELOAD_BEFORE.as_ptr());
        libc::unsetenv(OPTIONS.as_ptr());
    }
}

/// Moves the code of the program and its libraries to superpages.
fn promote(padding: bool) -> Result<movement::Moved, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|error| format!("/proc: {error}"))?.count();
    if threads != 1 {
        return Err(format!("the program has {threads} threads already"));
    }
    let maps = maps::read().map_err(|error| format!("/proc/self/smaps: {error}"))?;
    let here = start as *const () as usize;
    let own = maps.iter().find(|mapping| mapping.contains(here)).map(Mapping::file);
    movement::move_all(&plan::regions(&maps, own, padding))
}
