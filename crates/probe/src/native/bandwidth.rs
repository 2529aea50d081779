//! What all threads of this computer read from memory in a second.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that each thread reads again and again, if memory allows: more than its part of any cache.
const BYTES: u64 = 128 << 20;
/// How long all of them read.
const TIME: Duration = Duration::from_millis(120);
/// Parts of its bytes that a thread reads side by side: a single one does not keep enough lines in flight.
const STREAMS: usize = 12;
/// Words of a line, and of each part between two looks at the clock.
const LINE: usize = 8;
const PIECE: usize = 512 * LINE;

/// Returns the millions of bytes that as many threads read in a second as this computer runs at once, together. They take up
/// to `memory` bytes. The error says why there is no number.
pub(super) fn all(memory: u64) -> Result<f64, String> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let bytes = BYTES.min(memory / threads as u64);
    if bytes < BYTES / 2 {
        return Err(format!("{threads} threads would need {} MB of memory", (threads as u64 * BYTES / 2) >> 20));
    }
    let ready = Barrier::new(threads);
    let read = |ready: &Barrier| {
        // Written, so that each page has memory of its own.
        let words = vec![1u64; bytes as usize / 8];
        ready.wait();
        let begin = Instant::now();
        let parts: Vec<&[u64]> = words.chunks_exact(words.len() / STREAMS).take(STREAMS).collect();
        let mut count = 0;
        for start in (0..words.len() / STREAMS / PIECE).cycle().map(|piece| piece * PIECE) {
            let lines = (start..start + PIECE).step_by(LINE);
            let sum = |sum: u64, at: usize| parts.iter().fold(sum, |sum, part| sum.wrapping_add(part[at]));
            black_box(lines.fold(0, sum));
            count += PIECE * STREAMS * 8;
            if begin.elapsed() >= TIME {
                break;
            }
        }
        count as f64 / begin.elapsed().as_secs_f64() / 1e6
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| thread::Builder::new().spawn_scoped(scope, || read(&ready)))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let rates = running.into_iter().map(|thread| thread.join().map_err(|_| "a thread ended early".to_owned()));
        rates.sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_read_some_gigabytes_in_a_second_and_refuse_to_read_from_caches() {
        assert!(all(u64::MAX).unwrap() > 100.0);
        assert!(all(1 << 20).unwrap_err().contains("MB of memory"));
    }
}
