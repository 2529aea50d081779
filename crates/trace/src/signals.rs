//! Signals that end Reach's work early, but not at once.
//!
//! SIGINT and SIGQUIT from the terminal go to the whole foreground group: while a live program runs, they are for the
//! program. SIGTERM and SIGHUP may be sent to Reach alone, which then passes them on to a live program. Any other source ends
//! at SIGINT, SIGTERM and SIGHUP, and the references read so far count. A second of these signals ends Reach at once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The signals that the handler has counted, by their numbers.
static COUNTS: [AtomicU32; SIGNALS] = [const { AtomicU32::new(0) }; SIGNALS];
/// Of these, the signals that a process has sent, rather than the kernel for the terminal.
static SENT: [AtomicU32; SIGNALS] = [const { AtomicU32::new(0) }; SIGNALS];
/// The signals that ask Reach to end, of all counters: bit n stands for signal n.
static ENDING: AtomicU32 = AtomicU32::new(0);
/// The time of the first signal that asked Reach to end, in milliseconds; 0 while none has come.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// One more than the greatest standard signal.
const SIGNALS: usize = 32;
/// Signals that come within this time of the first are the same request, in milliseconds. `timeout` signals its child and
/// then the child's group, and shells do so at a hang-up.
const SAME_REQUEST: u64 = 250;

/// Counts signals in place of their usual effect, until it is dropped. Signals that were ignored stay ignored.
pub(crate) struct SignalCounter {
    /// The previous action of each signal.
    previous: Vec<(libc::c_int, libc::sigaction)>,
    /// The values of [`COUNTS`] when they were read last.
    seen: [u32; SIGNALS],
    /// The values of [`SENT`] when they were read last.
    seen_sent: [u32; SIGNALS],
}

/// Counts a signal. A second request to end restores the signal's default action and lets it act.
extern "C" fn count(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let at = signal as usize % SIGNALS;
    let now = milliseconds();
    let first = FIRST.load(Relaxed);
    if first != 0 && now.saturating_sub(first) > SAME_REQUEST {
        // SAFETY: both calls may be made in a handler. The signal is blocked in it, and acts when it returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    if ENDING.load(Relaxed) >> at & 1 != 0 {
        let _ = FIRST.compare_exchange(0, now, Relaxed, Relaxed);
    }
    // SAFETY: the kernel passes a pointer to the description of the signal.
    let sent = unsafe { !info.is_null() && (*info).si_code <= 0 };
    SENT[at].fetch_add(u32::from(sent), Relaxed);
    COUNTS[at].fetch_add(1, Relaxed);
}

/// Returns the time of the monotonic clock, never 0. May be called in a handler.
fn milliseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    1 + time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

fn read(counts: &[AtomicU32; SIGNALS]) -> [u32; SIGNALS] {
    std::array::from_fn(|signal| counts[signal].load(Relaxed))
}

impl SignalCounter {
    /// Begins to count `signals`. Those of them that are also in `ending` ask Reach to end.
    pub(crate) fn install(signals: &[libc::c_int], ending: &[libc::c_int]) -> SignalCounter {
        ENDING.fetch_or(ending.iter().map(|signal| 1 << signal).sum(), Relaxed);
        FIRST.store(0, Relaxed);
        let (seen, seen_sent) = (read(&COUNTS), read(&SENT));
        let install = |&signal: &libc::c_int| {
            // SAFETY: the structures are plain data that the kernel fills or reads; the handler touches atomics only, and
            // calls what handlers may call.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
                    return None;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = count as *const () as usize;
                new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
                (libc::sigaction(signal, &new, std::ptr::null_mut()) == 0).then_some((signal, old))
            }
        };
        SignalCounter { previous: signals.iter().filter_map(install).collect(), seen, seen_sent }
    }

    /// Returns a signal that has come since the last call, or since the installation.
    pub(crate) fn any_new(&mut self) -> Option<libc::c_int> {
        let now = read(&COUNTS);
        let differs = (0..SIGNALS).find(|&signal| now[signal] != self.seen[signal]);
        self.seen = now;
        differs.map(|signal| signal as libc::c_int)
    }

    /// Returns the first of `signals` that has come since the installation, or since [`SignalCounter::any_new`].
    pub(crate) fn first_of(&self, signals: &[libc::c_int]) -> Option<libc::c_int> {
        let came = |signal: &&libc::c_int| COUNTS[**signal as usize].load(Relaxed) != self.seen[**signal as usize];
        signals.iter().find(came).copied()
    }

    /// Returns whether a process has sent `signal` since the last call for it, or since the installation.
    pub(crate) fn was_sent(&mut self, signal: libc::c_int) -> bool {
        let now = SENT[signal as usize].load(Relaxed);
        std::mem::replace(&mut self.seen_sent[signal as usize], now) != now
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

/// Waits for the first SIGINT, SIGTERM or SIGHUP. A second one has its usual effect.
pub struct Interruption {
    counter: SignalCounter,
    signal: Option<libc::c_int>,
}

impl Default for Interruption {
    fn default() -> Interruption {
        const ALL: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        Interruption { counter: SignalCounter::install(&ALL, &ALL), signal: None }
    }
}

impl Interruption {
    /// Returns the first of the signals that came since this was made; `None` while none has.
    pub fn came(&mut self) -> Option<i32> {
        self.signal = self.signal.or_else(|| self.counter.any_new());
        self.signal
    }
}
