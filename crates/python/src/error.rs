//! Exceptions: `reach.Error` for runs that fail, `ValueError` for arguments that cannot be.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use reach_core::shown_lines;
use reach_trace::TraceError;
use std::any::Any;
use std::fmt::Display;

create_exception!(reach, Error, PyException, "A run that failed. The text says what was found, where, and what to do.");

/// Returns the exception for a run that failed.
pub fn failed(error: impl Display) -> PyErr {
    Error::new_err(shown_lines(&error.to_string()).into_owned())
}

/// Returns the exception for an argument that cannot be.
pub fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(shown_lines(&error.to_string()).into_owned())
}

/// Returns the exception for a program that cannot be read.
pub fn of_trace(error: TraceError) -> PyErr {
    match error {
        TraceError::Invalid(what) => refused(what),
        other => failed(other),
    }
}

/// Returns the exception for a panic, which is a defect of Reach or of what a system did to memory.
pub fn panicked(payload: &(dyn Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    failed(format!("internal error: {}; please report it", text.unwrap_or("a panic without a message")))
}
