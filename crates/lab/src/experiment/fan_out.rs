//! One producer and many consumers: each consumer takes every item in order, on any number of threads.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The consumers and their queues.
struct State<T, C> {
    /// Each consumer with the items that wait for it; `None` while a thread runs the consumer.
    queues: Vec<(Option<C>, VecDeque<Arc<T>>)>,
    /// The producer has no more items.
    ended: bool,
    /// An error occurred, so all work stops.
    failed: bool,
}

/// The state that threads share.
struct Queues<T, C> {
    state: Mutex<State<T, C>>,
    changed: Condvar,
    /// The most items that wait for one consumer.
    depth: usize,
}

impl<T, C> Queues<T, C> {
    fn lock(&self) -> MutexGuard<'_, State<T, C>> {
        self.state.lock().expect("a thread that holds this lock does not panic")
    }
}

/// Passes every item of `produce` to every consumer in order, and returns the consumers. At most `depth` items wait for a
/// consumer. The caller's thread produces and `threads` threads consume; with 0 threads, the caller consumes when a queue
/// is full. After the last item the caller helps to consume. The first error ends everything.
pub fn fan_out<T, C, E>(
    consumers: Vec<C>,
    threads: usize,
    depth: usize,
    mut produce: impl FnMut() -> Result<Option<T>, E>,
    consume: impl Fn(&mut C, &T) -> Result<(), E> + Sync,
) -> Result<Vec<C>, E>
where
    T: Send + Sync,
    C: Send,
    E: Send,
{
    let shared = Queues {
        state: Mutex::new(State {
            queues: consumers.into_iter().map(|c| (Some(c), VecDeque::new())).collect(),
            ended: false,
            failed: false,
        }),
        changed: Condvar::new(),
        depth: depth.max(1),
    };
    let work = || -> Result<(), E> {
        let _failure = PanicIsFailure(&shared);
        while serve(&shared, &consume, true)? {}
        Ok(())
    };
    let result = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut result = Ok(());
        loop {
            match produce() {
                Ok(Some(item)) => result = offer(&shared, item, &consume, threads == 0),
                Ok(None) => break,
                Err(error) => result = Err(error),
            }
            if result.is_err() || shared.lock().failed {
                shared.lock().failed = true;
                break;
            }
        }
        shared.lock().ended = true;
        shared.changed.notify_all();
        if result.is_ok() {
            result = work();
        }
        for worker in workers {
            match worker.join() {
                Ok(outcome) => result = result.and(outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    });
    result?;
    let state = shared.state.into_inner().expect("no thread is left");
    Ok(state.queues.into_iter().map(|(consumer, _)| consumer.expect("every consumer was handed back")).collect())
}

/// Tells all threads to stop if this one panics: nobody would take the items of its consumer.
struct PanicIsFailure<'a, T, C>(&'a Queues<T, C>);

impl<T, C> Drop for PanicIsFailure<'_, T, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().failed = true;
            self.0.changed.notify_all();
        }
    }
}

/// Queues `item` for all consumers when no queue is full. Until then the thread waits, or consumes if `help`.
fn offer<T, C, E>(
    shared: &Queues<T, C>,
    item: T,
    consume: &(impl Fn(&mut C, &T) -> Result<(), E> + Sync),
    help: bool,
) -> Result<(), E> {
    let item = Arc::new(item);
    loop {
        let mut state = shared.lock();
        let full = state.queues.iter().any(|(_, queue)| queue.len() >= shared.depth);
        if !full || state.failed {
            for (_, queue) in &mut state.queues {
                queue.push_back(Arc::clone(&item));
            }
            shared.changed.notify_all();
            return Ok(());
        }
        if help {
            drop(state);
            serve(shared, consume, false)?;
        } else {
            drop(shared.changed.wait(state).expect("a thread that holds this lock does not panic"));
        }
    }
}

/// Runs the consumer with the longest queue on all its items. Returns false when there is nothing to do: now, or, if
/// `wait`, ever.
fn serve<T, C, E>(
    shared: &Queues<T, C>,
    consume: &(impl Fn(&mut C, &T) -> Result<(), E> + Sync),
    wait: bool,
) -> Result<bool, E> {
    let mut state = shared.lock();
    let (at, mut consumer, items) = loop {
        if state.failed {
            return Ok(false);
        }
        let queues = state.queues.iter().enumerate();
        let ready = queues.filter(|(_, (c, queue))| c.is_some() && !queue.is_empty());
        if let Some((at, _)) = ready.max_by_key(|(_, (_, queue))| queue.len()) {
            let (consumer, queue) = &mut state.queues[at];
            break (at, consumer.take().expect("filtered above"), std::mem::take(queue));
        }
        let idle = state.queues.iter().all(|(_, queue)| queue.is_empty());
        if !wait || (state.ended && idle) {
            return Ok(false);
        }
        state = shared.changed.wait(state).expect("a thread that holds this lock does not panic");
    };
    drop(state);
    shared.changed.notify_all();
    let mut outcome = Ok(());
    for item in items {
        outcome = consume(&mut consumer, &item);
        if outcome.is_err() {
            break;
        }
    }
    let mut state = shared.lock();
    state.queues[at].0 = Some(consumer);
    state.failed |= outcome.is_err();
    drop(state);
    shared.changed.notify_all();
    outcome.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_consumer_takes_every_item_in_order_on_any_number_of_threads() {
        for threads in 0..5 {
            for depth in [1, 3, 100] {
                let mut next = 0;
                let produce = || {
                    next += 1;
                    Ok::<_, ()>((next <= 200).then_some(next))
                };
                let consume = |taken: &mut Vec<u32>, item: &u32| {
                    taken.push(*item);
                    Ok(())
                };
                let all = fan_out(vec![Vec::new(); 7], threads, depth, produce, consume).unwrap();
                assert!(all.iter().all(|taken| taken.iter().copied().eq(1..=200)), "{threads} threads, depth {depth}");
            }
        }
    }

    #[test]
    fn a_consumer_that_panics_ends_everything() {
        let consume = |_: &mut u32, item: &u32| -> Result<(), ()> {
            assert!(*item < 50, "fifty");
            Ok(())
        };
        let mut next = 0;
        let produce = || {
            next += 1;
            Ok((next <= 10_000).then_some(next))
        };
        let run = std::panic::AssertUnwindSafe(|| fan_out(vec![0; 2], 2, 3, produce, consume));
        assert!(std::panic::catch_unwind(run).is_err());
    }

    #[test]
    fn the_first_error_ends_everything() {
        for threads in 0..3 {
            let consume = |taken: &mut u32, item: &u32| {
                *taken += 1;
                if *item == 50 { Err("fifty") } else { Ok(()) }
            };
            let mut next = 0;
            let produce = || {
                next += 1;
                Ok(Some(next))
            };
            assert_eq!(fan_out(vec![0; 3], threads, 4, produce, consume), Err("fifty"));
            let broken = || Err::<Option<u32>, _>("source");
            assert_eq!(fan_out(vec![0; 3], threads, 4, broken, |_, _| Ok(())), Err("source"));
        }
    }
}
