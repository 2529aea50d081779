//! The results of an experiment: rows, header, and the rows as an Arrow stream.

use crate::error::failed;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use reach_core::shown_json;
use reach_lab::metrics::{self, Definition};
use reach_lab::{Header, Report, Row, Timing, Value, memory_rows};
use std::sync::Arc;

/// The results of an experiment.
#[pyclass(frozen, module = "reach")]
pub struct Outcome {
    rows: Vec<Row>,
    /// As JSON.
    #[pyo3(get)]
    header: String,
    /// Memory over time: rows as JSON, one a line.
    #[pyo3(get)]
    memory: String,
}

/// Returns a value as one line of JSON, as the command line prints it.
fn json(value: &impl serde::Serialize) -> PyResult<String> {
    Ok(shown_json(&serde_json::to_string(value).map_err(failed)?).into_owned())
}

impl Outcome {
    /// Collects the results of `report`.
    pub fn new(header: &Header, report: &Report, timing: Timing) -> PyResult<Outcome> {
        let mut rows = report.rows();
        if timing == Timing::Counts {
            let takes_time = |row: &Row| metrics::definition(&row.metric).is_some_and(Definition::takes_time);
            rows.retain(|row| !takes_time(row));
        }
        let points = report.outcomes.iter().flat_map(|outcome| memory_rows(outcome, &report.program));
        let memory = points.map(|point| json(&point)).collect::<PyResult<Vec<_>>>()?.join("\n");
        Ok(Outcome { rows, header: json(header)?, memory })
    }

    /// Returns the rows as a batch of columns.
    fn batch(&self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let text = |of: fn(&Row) -> &str| Arc::new(StringArray::from_iter_values(self.rows.iter().map(of))) as ArrayRef;
        let columns: [(&str, ArrayRef); 8] = [
            ("machine", text(|row| &row.machine)),
            ("system", text(|row| &row.system)),
            ("program", text(|row| &row.program)),
            ("process", text(|row| &row.process)),
            ("metric", text(|row| &row.metric)),
            ("unit", text(|row| row.unit)),
            ("value", Arc::new(Float64Array::from_iter_values(self.rows.iter().map(|row| row.value.as_f64())))),
            ("error", Arc::new(Float64Array::from_iter(self.rows.iter().map(|row| row.error)))),
        ];
        let field = |(name, column): &(&str, ArrayRef)| {
            Field::new(*name, column.data_type().clone(), *column.data_type() == DataType::Float64 && *name == "error")
        };
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
    }
}

#[pymethods]
impl Outcome {
    /// The rows as dictionaries.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let row = |row: &Row| {
            let fields = PyDict::new(py);
            let texts = [
                ("machine", row.machine.as_str()),
                ("system", &row.system),
                ("program", &row.program),
                ("process", &row.process),
                ("metric", &row.metric),
                ("unit", row.unit),
            ];
            texts.into_iter().try_for_each(|(name, text)| fields.set_item(name, text))?;
            let value = match row.value {
                Value::Count(count) => count.into_bound_py_any(py)?,
                Value::Ratio(ratio) => ratio.into_bound_py_any(py)?,
            };
            fields.set_item("value", value)?;
            row.error.map_or(Ok(()), |error| fields.set_item("error", error))?;
            Ok(fields)
        };
        PyList::new(py, self.rows.iter().map(row).collect::<PyResult<Vec<_>>>()?)
    }

    /// The rows as JSON, one a line, without the header.
    fn json_lines(&self) -> PyResult<String> {
        self.rows.iter().map(|row| Ok(json(row)? + "\n")).collect()
    }

    /// The rows as an Arrow stream (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to give its own schema.
        let _ = requested_schema;
        let batch = self.batch().map_err(failed)?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        // A consumer moves the stream out and clears its `release`, so that dropping it here does nothing then.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
