//! Runs an experiment on a thread of its own, so that the caller's can take signals and show progress meanwhile.

use crate::error::{failed, of_trace, panicked};
use crate::watch::Watch;
use pyo3::prelude::*;
use reach_lab::{Experiment, ExperimentError, Header, Report, Status};
use reach_trace::Source;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two looks at signals and progress.
const LOOK: Duration = Duration::from_millis(50);

/// The time after which a hook that ignores an interruption is interrupted again.
const AGAIN: Duration = Duration::from_secs(2);

/// The stack of the thread, as large as that of a program's first thread: the experiment reads programs on it.
const STACK: usize = 8 << 20;

/// Does `work` on a thread of its own, without the GIL. Meanwhile calls `look` on this thread now and then. A signal's handler or
/// `look` may raise; then `stop` is called and `work` must end soon.
pub fn beside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    mut stop: impl FnMut(Python<'_>),
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let run = move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // Nobody listens to a run that was given up.
        let _ = sender.send(outcome);
    };
    let thread = thread::Builder::new().name("reach".into()).stack_size(STACK).spawn(run).map_err(failed)?;
    let receiver = Mutex::new(receiver);
    let wait =
        |time| receiver.lock().map_or(Err(RecvTimeoutError::Disconnected), |receiver| receiver.recv_timeout(time));
    let (mut raised, mut stopped): (Option<PyErr>, Option<Instant>) = (None, None);
    let outcome = loop {
        match py.detach(|| wait(LOOK)) {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let seen = py.check_signals().and_then(|()| if raised.is_none() { look(py) } else { Ok(()) });
        if let Err(error) = seen {
            raised.get_or_insert(error);
        }
        if raised.is_some() && stopped.is_none_or(|before| before.elapsed() > AGAIN) {
            stop(py);
            stopped = Some(Instant::now());
        }
    };
    py.detach(|| thread.join()).map_err(|payload| panicked(&*payload))?;
    match (raised, outcome) {
        (Some(error), _) => Err(error),
        (None, Some(Ok(value))) => Ok(value),
        (None, Some(Err(payload))) => Err(panicked(&*payload)),
        (None, None) => Err(failed("internal error: the simulation ended without a result; please report it")),
    }
}

/// Runs the experiment on `source`. Calls `progress` with the references so far, how much of the source was read, and how much it
/// has (`None` where that is unknown).
pub fn run(
    py: Python<'_>,
    mut experiment: Experiment,
    mut source: Box<dyn Source>,
    progress: Option<Bound<'_, PyAny>>,
    watch: &Arc<Watch>,
) -> PyResult<(Header, Report)> {
    experiment.stop = Some(watch.stop.clone());
    let status = Arc::new(Mutex::new(None::<Status>));
    let latest = status.clone();
    let work = move || {
        let note = |status: Status| {
            if let Ok(mut latest) = latest.lock() {
                *latest = Some(status);
            }
            true
        };
        // An attached thread keeps its state while it is detached, so that hooks on it attach quickly.
        let report = Python::attach(|py| py.detach(|| experiment.run(&mut *source, note)))?;
        Ok::<_, ExperimentError>((experiment.header(&report), report))
    };
    let look = |_: Python<'_>| {
        let (Some(progress), Some(status)) = (&progress, status.lock().ok().and_then(|mut status| status.take()))
        else {
            return Ok(());
        };
        progress.call1((status.references, status.progress.done, status.progress.total)).map(drop)
    };
    let stop = |py: Python<'_>| {
        watch.stop.store(true, Ordering::Relaxed);
        watch.interrupt_hooks(py);
    };
    let outcome = beside(py, work, look, stop)?;
    if let Some(error) = watch.take() {
        return Err(error);
    }
    outcome.map_err(|error| match error {
        ExperimentError::Trace(error) => of_trace(error),
        other => failed(other),
    })
}
