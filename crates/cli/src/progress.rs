//! Shows progress on standard error: a bar on a terminal, and otherwise a line now and then for work that takes long.

mod lines;

use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lines::Lines;
use reach_trace::Progress as Measure;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Least time between two updates of the bar.
const EVERY: Duration = Duration::from_millis(200);

/// Progress of some work. Shows nothing with `--quiet`.
pub struct Progress {
    shown: Shown,
    live: bool,
}

enum Shown {
    Nothing,
    Bar { bar: ProgressBar, started: Instant, updated: Instant },
    Lines(Lines),
}

impl Progress {
    /// Starts to show progress. The length of a `live` program is unknown, so it gets no estimate.
    pub fn new(live: bool, quiet: bool) -> Progress {
        let now = Instant::now();
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, false) => Shown::Lines(Lines::start(live)),
            (false, true) => Shown::Bar { bar: bar(live), started: now, updated: now },
        };
        Progress { shown, live }
    }

    /// Shows that `references` have been read. `measure` is the source's own measure of progress.
    pub fn show(&mut self, references: u64, measure: Measure) {
        let (bar, started, updated) = match &mut self.shown {
            Shown::Nothing => return,
            Shown::Lines(lines) => return lines.update(references, measure),
            Shown::Bar { bar, started, updated } => (bar, started, updated),
        };
        if updated.elapsed() < EVERY {
            return;
        }
        *updated = Instant::now();
        if self.live && terminal_is_raw() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return;
        }
        let rate = references as f64 / started.elapsed().as_secs_f64();
        let mut message = format!("{} references  {}/s", units::short(references as f64), units::short(rate));
        match measure.total {
            Some(total) => {
                bar.set_length(total);
                bar.set_position(measure.done);
            }
            None => {
                message += &format!("  {}", units::time(started.elapsed()));
                bar.tick();
            }
        }
        bar.set_message(message);
    }

    /// Removes the bar from the terminal, or ends the lines.
    pub fn end(self) {
        match self.shown {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.finish_and_clear(),
            Shown::Lines(lines) => lines.end(),
        }
    }
}

/// Returns a bar for a terminal, or a spinner for a live program.
fn bar(live: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    let template = if live { "{spinner} {msg}" } else { "{bar:24} {percent:>3} %  {msg}  {eta} left" };
    let style = ProgressStyle::with_template(template).expect("the templates are valid");
    bar.with_style(style.progress_chars("━━╌").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "))
}

/// Returns whether a program has put the terminal into raw mode, as editors do: a bar would garble its screen.
fn terminal_is_raw() -> bool {
    // SAFETY: termios is plain data; tcgetattr writes it, and only it.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(libc::STDERR_FILENO, &mut settings) == 0 && settings.c_lflag & libc::ICANON == 0
    }
}
