//! Signals from the terminal. The terminal sends them to the whole foreground group, and Reach does not end at once.
//! While a live program runs, they are for the program. Any other source ends, and the references read so far count.

use std::sync::atomic::{AtomicU32, Ordering};

/// The signals that the handler has counted, of all kinds.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts signals in place of their usual effect, until it is dropped. Signals that were ignored stay ignored.
pub(crate) struct SignalCounter {
    /// The previous action of each signal.
    previous: Vec<(libc::c_int, libc::sigaction)>,
    /// The value of [`COUNT`] when it was read last.
    seen: u32,
}

extern "C" fn count(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

impl SignalCounter {
    /// Begins to count `signals`.
    pub(crate) fn install(signals: &[libc::c_int]) -> SignalCounter {
        let install = |&signal: &libc::c_int| {
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
        SignalCounter { previous: signals.iter().filter_map(install).collect(), seen: COUNT.load(Ordering::Relaxed) }
    }

    /// Returns whether a signal has come since the last call, or since the installation.
    pub(crate) fn any_new(&mut self) -> bool {
        let now = COUNT.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, now) != now
    }
}

impl Drop for SignalCounter {
    fn drop(&mut self) {
        for (signal, previous) in &self.previous {
            // SAFETY: restores an action that `sigaction` returned.
            unsafe { libc::sigaction(*signal, previous, std::ptr::null_mut()) };
        }
    }
}

/// Waits for the first SIGINT. Later ones have their usual effect again.
pub struct Interruption(
    /// `None` once the signal has come.
    Option<SignalCounter>,
);

impl Default for Interruption {
    fn default() -> Interruption {
        Interruption(Some(SignalCounter::install(&[libc::SIGINT])))
    }
}

impl Interruption {
    /// Returns whether SIGINT has come since this was made.
    pub fn came(&mut self) -> bool {
        self.0.take_if(SignalCounter::any_new);
        self.0.is_none()
    }
}
