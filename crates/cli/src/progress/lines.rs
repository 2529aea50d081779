//! Lines of progress for standard error that is no terminal: the first after 5 seconds, then one every 10 seconds. A thread
//! writes them, so that they come also while the work waits for a program.

use crate::own_line::{self, Stream};
use crate::units;
use reach_trace::Progress as Measure;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Environment variable with the milliseconds before each line, for tests.
const MILLISECONDS: &str = "REACH_PROGRESS_MS";

/// How far the work has come.
#[derive(Clone, Copy, Default)]
struct State {
    references: u64,
    measure: Measure,
}

/// Writes lines until it ends.
pub struct Lines {
    state: Arc<Mutex<State>>,
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Starts the thread. If there can be none, no lines are written.
    pub fn start(live: bool) -> Lines {
        let state = Arc::new(Mutex::new(State::default()));
        let (end, ended) = mpsc::channel();
        let (seen, started) = (Arc::clone(&state), Instant::now());
        let write = move || {
            let [mut wait, every] = times();
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let state = *seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let line = format!("reach: {}\n", line(state, started.elapsed(), live));
                let _ = own_line::write(Stream::Error, &line, |line| std::io::stderr().write_all(line.as_bytes()));
                wait = every;
            }
        };
        Lines { state, end, thread: std::thread::Builder::new().spawn(write).ok() }
    }

    /// Sets how far the work has come.
    pub fn update(&self, references: u64, measure: Measure) {
        *self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = State { references, measure };
    }

    /// Ends the thread.
    pub fn end(mut self) {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the time before the first line, and that between two lines.
fn times() -> [Duration; 2] {
    let given = std::env::var(MILLISECONDS).ok().and_then(|text| text.parse().ok());
    match given {
        Some(milliseconds) => [Duration::from_millis(milliseconds); 2],
        None => [Duration::from_secs(5), Duration::from_secs(10)],
    }
}

/// Returns a line about work that has come this far after `elapsed`.
fn line(State { references, measure }: State, elapsed: Duration, live: bool) -> String {
    let rate = units::short(references as f64 / elapsed.as_secs_f64().max(1e-9));
    let read = format!("{} references", units::short(references as f64));
    match measure {
        _ if references == 0 && measure.done == 0 => {
            let what = if live { "waiting for the program's first references" } else { "nothing has been read" };
            format!("{what} after {}", units::time(elapsed))
        }
        Measure { done, total: Some(total) } if done > 0 && !live => {
            let percent = (100.0 * done as f64 / total.max(1) as f64).min(100.0);
            // Passing over a program's beginning says little of the time that the rest takes.
            let time = if percent < 1.0 {
                format!("after {}", units::time(elapsed))
            } else {
                let left = elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64);
                format!("{} left", units::time(left))
            };
            format!("{percent:.0} %, {read}, {rate}/s, {time}")
        }
        _ => format!("{read} so far, {rate}/s, after {}", units::time(elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_estimate_the_rest_where_the_total_is_known() {
        let at = |references, done, total, live| {
            line(State { references, measure: Measure { done, total } }, Duration::from_secs(20), live)
        };
        assert_eq!(at(400_000_000, 40, Some(100), false), "40 %, 400 M references, 20.0 M/s, 30.0 s left");
        assert_eq!(at(400_000_000, 400_000_000, None, true), "400 M references so far, 20.0 M/s, after 20.0 s");
        assert_eq!(at(0, 0, Some(100), false), "nothing has been read after 20.0 s");
        assert_eq!(at(0, 0, None, true), "waiting for the program's first references after 20.0 s");
        assert_eq!(at(400_000_000, 1, Some(1000), false), "0 %, 400 M references, 20.0 M/s, after 20.0 s");
        // A source may pass the total that it expected.
        assert!(at(1000, 120, Some(100), false).starts_with("100 %, "));
    }
}
