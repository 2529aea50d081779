//! The Python package `reach`: programs, experiments and systems in Python (docs/python.md).
//!
//! `python/reach` is the package as users see it; its docstrings and stubs say what each function takes. This crate is its
//! native part:
//! - `program`, `record`, `machine`, `options`: what an experiment takes, from Python's values;
//! - `run`: an experiment on a thread of its own, with signals and progress; `outcome`: its results;
//! - `system`: a system in Python; `vm`: what its hooks work on; `event`, `page`: what they are told.
//!
//! Nothing of the simulation is here. Rows are those of the command line for the same experiment.

mod error;
mod event;
mod machine;
mod options;
mod outcome;
mod page;
mod program;
mod record;
mod run;
mod simulate;
mod system;
mod vm;
mod watch;

use pyo3::prelude::*;

/// The native part of the package.
#[pymodule]
mod _reach {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const PAGE_TABLES: [&str; reach_core::PageTableKind::ALL.len()] = reach_core::PageTableKind::NAMES;

    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::event::{Event, Miss};
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::page::{Fault, Page, Populate, Region, View};
    #[pymodule_export]
    use super::program::Program;
    #[pymodule_export]
    use super::record::record;
    #[pymodule_export]
    use super::simulate::{configuration, page, simulate};
    #[pymodule_export]
    use super::vm::{OutOfMemory, Vm};
}
