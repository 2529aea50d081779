//! Machines as Python gives them: a name, the text of a machine file, or a dictionary.

use crate::error::refused;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use reach_lab::machine::{Resolved, resolve, resolve_text};

/// Reads a machine. A text with a line break is that of a machine file; other texts are names, as on the command line.
pub fn machine(given: &Bound<'_, PyAny>) -> PyResult<Resolved> {
    if let Ok(text) = given.cast::<PyString>() {
        let text = text.to_cow()?;
        let read = if text.contains('\n') { resolve_text(&text) } else { resolve(&text) };
        return read.map_err(refused);
    }
    if let Ok(table) = given.cast::<PyDict>() {
        let json = given.py().import("json")?.call_method1("dumps", (table,))?.extract::<String>()?;
        let table: toml::Table = serde_json::from_str(&json)
            .map_err(|error| refused(format!("machine: the dictionary is no machine file: {error}")))?;
        let text = toml::to_string(&table).map_err(refused)?;
        return resolve_text(&text).map_err(refused);
    }
    if given.hasattr("__fspath__")? {
        let path = given.py().import("os")?.call_method1("fspath", (given,))?.extract::<String>()?;
        return resolve(&path).map_err(refused);
    }
    let found = given.get_type().name()?;
    Err(refused(format!("machine: expected a name, the text of a machine file or a dictionary, found {found}")))
}
