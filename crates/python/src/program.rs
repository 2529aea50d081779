//! Programs: recordings, traces of other tools, synthetic programs, and arrays.

use crate::error::{of_trace, refused};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use reach_core::Chunk;
use reach_trace::file::{Metadata, Writer};
use reach_trace::foreign::{Arrays, Bytes, Columns};
use reach_trace::{Source, TraceError, synthetic};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempPath;

/// A program that can be simulated any number of times.
#[pyclass(frozen, module = "reach")]
pub struct Program {
    name: String,
    origin: Origin,
}

/// Where references come from.
pub enum Origin {
    /// A file, which is removed with the program if it is temporary.
    File(PathBuf, Option<TempPath>),
    /// The specification of a synthetic program.
    Synthetic(String),
    /// Columns of numbers.
    Arrays(Columns),
}

impl Program {
    /// Returns the program, if it can be read.
    pub fn new(name: Option<String>, origin: Origin) -> Result<Program, TraceError> {
        let program = Program { name: name.unwrap_or_default(), origin };
        let source = program.source()?;
        Ok(Program { name: source.name().to_owned(), ..program })
    }

    /// Returns the program's references, from the first on.
    pub fn source(&self) -> Result<Box<dyn Source>, TraceError> {
        match &self.origin {
            Origin::File(path, _) => reach_trace::open(path),
            Origin::Synthetic(spec) => synthetic::parse(spec),
            Origin::Arrays(columns) => Ok(Box::new(Arrays::new(&self.name, columns.clone()))),
        }
    }
}

#[pymethods]
impl Program {
    /// Opens a file.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Program> {
        Program::new(None, Origin::File(path, None)).map_err(of_trace)
    }

    /// Makes a synthetic program.
    #[staticmethod]
    fn synthetic(spec: String) -> PyResult<Program> {
        Program::new(None, Origin::Synthetic(spec)).map_err(of_trace)
    }

    /// Makes a program of columns, whose bytes are read in place.
    #[staticmethod]
    fn from_columns(
        name: String,
        addresses: PyBackedBytes,
        kinds: PyBackedBytes,
        sizes: PyBackedBytes,
        others: [Option<PyBackedBytes>; 3],
    ) -> PyResult<Program> {
        let bytes = |bytes: PyBackedBytes| Arc::new(bytes) as Bytes;
        let [instructions, processes, threads] = others.map(|column| column.map(bytes));
        let (addresses, kinds, sizes) = (bytes(addresses), bytes(kinds), bytes(sizes));
        let columns = Columns { addresses, kinds, sizes, instructions, processes, threads };
        let columns = columns.checked().map_err(of_trace)?;
        Program::new(Some(name), Origin::Arrays(columns)).map_err(of_trace)
    }

    /// The name in results.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The file; `None` where there is none, or only a temporary one.
    #[getter]
    fn path(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File(path, None) => Some(path),
            _ => None,
        }
    }

    /// Writes a recording of the program.
    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        if path.exists() && !force {
            return Err(refused(format!("{}: exists already; give another name, or force=True", path.display())));
        }
        py.detach(|| self.write(&path)).map_err(of_trace)
    }
}

impl Program {
    fn write(&self, path: &Path) -> Result<(), TraceError> {
        let mut source = self.source()?;
        let tool = concat!("reach ", env!("CARGO_PKG_VERSION")).to_owned();
        let metadata = Metadata { program: self.name.clone(), tool, ..Metadata::default() };
        let mut writer = Writer::create(path, &metadata)?;
        let mut chunk = Chunk::default();
        while source.fill(&mut chunk)? {
            writer.write(&chunk, source.blocks())?;
        }
        writer.finish(&source.ending()).map(drop)
    }
}
