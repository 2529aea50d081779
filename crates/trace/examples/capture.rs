//! Captures a program and prints what was captured: `cargo run --release --example capture -- PROG ARGS…`. `--events` prints
//! all events, `--check` looks for references to unmapped memory.

#[path = "../tests/common/space.rs"]
mod space;

use reach_core::{Chunk, Event, Kind};
use reach_trace::Source;
use reach_trace::live::{Live, Options};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1).peekable();
    let show = words.next_if(|word| word == "--events").is_some();
    let mut spaces = words.next_if(|word| word == "--check").map(|_| space::Spaces::default());
    let program = words.next().ok_or("usage: capture [--events] [--check] PROG ARGS…")?;
    let start = Instant::now();
    let mut live = Live::launch(Options { program, args: words.collect(), ..Options::default() })?;
    let (mut chunk, mut instructions, mut kinds, mut events, mut switches) = (Chunk::default(), 0u64, [0u64; 3], 0, 0);
    while live.fill(&mut chunk)? {
        for r in &chunk.refs {
            kinds[r.kind() as usize] += 1;
        }
        instructions += chunk.fetched.iter().map(|&id| u64::from(live.blocks().get(id).instructions)).sum::<u64>();
        events += chunk.events.len();
        switches += chunk.events.iter().filter(|(_, event)| matches!(event, Event::Switch { .. })).count();
        if let Some(spaces) = &mut spaces {
            spaces.apply(&chunk);
        }
        for (at, event) in chunk.events.iter().filter(|_| show) {
            eprintln!("{at:>8} {event:x?}");
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let status = live.wait()?;
    let [fetches, loads, stores] = kinds;
    let data = loads + stores;
    eprintln!(
        "{}: {status}; {seconds:.2} s, {:.1} M instructions ({:.1}/s), {:.1} M data references ({:.1}/s: {} loads, {} stores), {:.1} M \
         fetches, {} blocks, {events} events ({switches} switches)",
        live.name(),
        instructions as f64 / 1e6,
        instructions as f64 / 1e6 / seconds,
        data as f64 / 1e6,
        data as f64 / 1e6 / seconds,
        Kind::Load as u64 * loads,
        stores,
        fetches as f64 / 1e6,
        live.blocks().len(),
    );
    if let Some(spaces) = spaces {
        let (first, violations) = (spaces.first_violation.unwrap_or_default(), spaces.violations);
        eprintln!(
            "{violations} references without a mapping: {first}; {} forks, {} execs, {} exits",
            spaces.forks,
            spaces.execs.len(),
            spaces.exits
        );
    }
    let (reader, program) = (cpu_seconds(libc::RUSAGE_SELF), cpu_seconds(libc::RUSAGE_CHILDREN));
    eprintln!(
        "processor time: reader {reader:.2} s, program {program:.2} s ({:.1} M instructions/s, {:.1} M data references/s)",
        instructions as f64 / 1e6 / program,
        data as f64 / 1e6 / program
    );
    for loss in live.losses() {
        eprintln!("lost: {loss}");
    }
    Ok(())
}

/// Returns the user and system time so far, in seconds.
fn cpu_seconds(of: libc::c_int) -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure, for either `of`.
    let usage = unsafe {
        libc::getrusage(of, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
