//! Shows progress on standard error if that is a terminal.

use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reach_trace::Progress as Measure;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Least time between two updates of the bar.
const EVERY: Duration = Duration::from_millis(200);

/// A progress bar. Hidden if standard error is no terminal, or with `--quiet`.
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Instant,
    live: bool,
}

impl Progress {
    /// Starts the bar. The length of a `live` program is unknown, so it gets a spinner instead.
    pub fn new(live: bool, quiet: bool) -> Progress {
        let shown = !quiet && std::io::stderr().is_terminal();
        let now = Instant::now();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let template = if live { "{spinner} {msg}" } else { "{bar:24} {percent:>3} %  {msg}  {eta} left" };
            let style = ProgressStyle::with_template(template).expect("the templates are valid");
            bar.with_style(style.progress_chars("━━╌").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "))
        });
        Progress { bar, started: now, shown: now, live }
    }

    /// Shows that `references` have been read. `measure` is the source's own measure of progress.
    pub fn show(&mut self, references: u64, measure: Measure) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < EVERY {
            return;
        }
        self.shown = Instant::now();
        if self.live && terminal_is_raw() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return;
        }
        let rate = references as f64 / self.started.elapsed().as_secs_f64();
        let mut message = format!("{} references  {}/s", units::short(references as f64), units::short(rate));
        match measure.total {
            Some(total) => {
                bar.set_length(total);
                bar.set_position(measure.done);
            }
            None => {
                message += &format!("  {}", units::time(self.started.elapsed()));
                bar.tick();
            }
        }
        bar.set_message(message);
    }

    /// Removes the bar from the terminal.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns whether a program has put the terminal into raw mode, as editors do: a bar would garble its screen.
fn terminal_is_raw() -> bool {
    // SAFETY: termios is plain data; tcgetattr writes it, and only it.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(libc::STDERR_FILENO, &mut settings) == 0 && settings.c_lflag & libc::ICANON == 0
    }
}
