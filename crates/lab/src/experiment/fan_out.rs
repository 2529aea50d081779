//! One producer, many consumers that each want everything in order, on as many threads as there are processors.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What is being passed on, and to whom.
struct State<T, C> {
    /// Each consumer with what it has not had yet; `None` while a thread has it in hand.
    queues: Vec<(Option<C>, VecDeque<Arc<T>>)>,
    ended: bool,
    failed: bool,
}

struct Shared<T, C> {
    state: Mutex<State<T, C>>,
    changed: Condvar,
    depth: usize,
}

impl<T, C> Shared<T, C> {
    fn lock(&self) -> MutexGuard<'_, State<T, C>> {
        self.state.lock().expect("a thread that holds this lock does not panic")
    }
}

/// Hands every item that `produce` gives to every consumer, in order, and returns the consumers. At most `depth` items
/// wait for any of them. `threads` do the consuming; the caller's thread produces, and consumes too when it has to wait
/// and `threads` is 0. The first error ends everything.
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
    let shared = Shared {
        state: Mutex::new(State {
            queues: consumers.into_iter().map(|c| (Some(c), VecDeque::new())).collect(),
            ended: false,
            failed: false,
        }),
        changed: Condvar::new(),
        depth: depth.max(1),
    };
    let work = || -> Result<(), E> {
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
            // The producer has nothing left to do but help.
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

/// Queues `item` for all, after waiting for room; the waiting thread consumes instead when `help`.
fn offer<T, C, E>(
    shared: &Shared<T, C>,
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

/// Takes the consumer that is furthest behind and gives it all that waits for it. `false` when there is nothing left
/// to do, now or (if `wait`) ever.
fn serve<T, C, E>(
    shared: &Shared<T, C>,
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
    fn everyone_gets_everything_in_order_on_any_number_of_threads() {
        for threads in 0..5 {
            for depth in [1, 3, 100] {
                let mut next = 0;
                let produce = || {
                    next += 1;
                    Ok::<_, ()>((next <= 200).then_some(next))
                };
                let consume = |had: &mut Vec<u32>, item: &u32| {
                    had.push(*item);
                    Ok(())
                };
                let all = fan_out(vec![Vec::new(); 7], threads, depth, produce, consume).unwrap();
                assert!(all.iter().all(|had| had.iter().copied().eq(1..=200)), "{threads} threads, depth {depth}");
            }
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in 0..3 {
            let consume = |had: &mut u32, item: &u32| {
                *had += 1;
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
