//! Interrupts from the terminal. They reach the whole foreground group, and Reach ends nothing at once for them: while a
//! live program runs they are for the program; any other source ends there, and what was read until then counts.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// While this lives, its signals only count. Signals that were ignored stay so.
pub(crate) struct Interrupts {
    before: Vec<(libc::c_int, libc::sigaction)>,
    seen: u32,
}

extern "C" fn count(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

impl Interrupts {
    pub(crate) fn hold(signals: &[libc::c_int]) -> Interrupts {
        let hold = |&signal: &libc::c_int| {
            // SAFETY: the structures are plain data that the kernel fills or reads; the handler touches one atomic.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
                    return None;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = count as *const () as usize;
                new.sa_flags = libc::SA_RESTART;
                (libc::sigaction(signal, &new, std::ptr::null_mut()) == 0).then_some((signal, old))
            }
        };
        Interrupts { before: signals.iter().filter_map(hold).collect(), seen: COUNT.load(Ordering::Relaxed) }
    }

    /// Whether one has come since the last question.
    pub(crate) fn any(&mut self) -> bool {
        let now = COUNT.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, now) != now
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: puts back what was there.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

/// Says whether SIGINT has come. Once it has, another does what it did before.
pub struct Interruption(Option<Interrupts>);

impl Default for Interruption {
    fn default() -> Interruption {
        Interruption(Some(Interrupts::hold(&[libc::SIGINT])))
    }
}

impl Interruption {
    /// Whether it has come since this was made.
    pub fn came(&mut self) -> bool {
        self.0.take_if(Interrupts::any);
        self.0.is_none()
    }
}
