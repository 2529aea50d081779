//! SIGINT and SIGQUIT from a terminal reach the whole foreground group. They are for the program; the reader only
//! counts them, so that it reads on to the program's end.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// While this lives, the signals only count. Signals that were ignored stay so.
pub(super) struct Interrupts {
    before: [Option<libc::sigaction>; 2],
    seen: u32,
}

extern "C" fn count(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

impl Interrupts {
    pub(super) fn hold() -> Interrupts {
        let before = SIGNALS.map(|signal| {
            // SAFETY: the structures are plain data that the kernel fills or reads; the handler touches one atomic.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
                    return None;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = count as *const () as usize;
                new.sa_flags = libc::SA_RESTART;
                (libc::sigaction(signal, &new, std::ptr::null_mut()) == 0).then_some(old)
            }
        });
        Interrupts { before, seen: COUNT.load(Ordering::Relaxed) }
    }

    /// Whether one has come since the last question.
    pub(super) fn any(&mut self) -> bool {
        let now = COUNT.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, now) != now
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.iter().zip(&self.before) {
            if let Some(before) = before {
                // SAFETY: puts back what was there.
                unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
            }
        }
    }
}
