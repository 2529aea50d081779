//! A system in Python: an instance of a subclass of `reach.System` for each simulation.

use crate::error::{failed, refused};
use crate::event::{Event, Miss};
use crate::page::Fault;
use crate::vm::{Loan, Vm};
use crate::watch::Watch;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use reach_core::{Bytes, Cycles, TlbEvent, Vpn};
use reach_os::OutOfMemory;
use reach_systems::{Resolved, System, SystemError};
use std::sync::Arc;

/// The error that stands for an exception in Rust. The exception itself is kept in [`Watch`].
const RAISED: OutOfMemory = OutOfMemory { wanted: Bytes(0), memory: Bytes(0) };

/// The hooks that a class overrides. Others are Rust's defaults, which call no Python.
#[derive(Clone, Copy, Default)]
struct Hooks {
    boot: bool,
    event: bool,
    fault: bool,
    first_write: bool,
    tick: bool,
    next_tick: bool,
    handle: bool,
}

/// A system in Python.
struct PythonSystem {
    name: String,
    /// `None` where making the instance has raised.
    object: Option<Py<PyAny>>,
    vm: Option<Py<Vm>>,
    loan: Arc<Loan>,
    hooks: Hooks,
    watch: Arc<Watch>,
    /// The last value of `next_tick`.
    next: Option<Cycles>,
}

/// Reads a subclass of `reach.System`, of which each simulation makes an instance, or an instance, of which each takes a copy.
pub fn resolve(given: &Bound<'_, PyAny>, watch: &Arc<Watch>) -> PyResult<Resolved> {
    let py = given.py();
    let module = py.import("reach._system")?;
    let base = module.getattr("System")?.cast_into::<PyType>()?;
    let class = match given.cast::<PyType>() {
        Ok(class) if class.is_subclass(&base)? => class.clone(),
        _ if given.is_instance(&base)? => given.get_type(),
        _ => {
            let found = given.get_type().name()?;
            let expected = "expected a name, or a subclass or an instance of reach.System";
            return Err(refused(format!("system: {expected}, found {found}")));
        }
    };
    let overrides = |hook: &str| Ok::<_, PyErr>(!class.getattr(hook)?.is(&base.getattr(hook)?));
    let hooks = Hooks {
        boot: overrides("boot")?,
        event: overrides("event")?,
        fault: overrides("fault")?,
        first_write: overrides("first_write")?,
        tick: overrides("tick")?,
        next_tick: overrides("next_tick")?,
        handle: overrides("handle")?,
    };
    let name: String = module.getattr("name_of")?.call1((given,))?.extract()?;
    let facts: Vec<(String, String)> = module.getattr("facts_of")?.call1((given,))?.extract()?;
    let settings = facts.into_iter().filter_map(|(key, value)| {
        let known = ["class", "page_table", "source", "state"];
        known.into_iter().find(|known| *known == key).map(|known| (known, value))
    });
    let (given, label, watch) = (given.clone().unbind(), name.clone(), watch.clone());
    let make = move || {
        let built = Python::attach(|py| {
            let object = py.import("reach._system")?.getattr("instance_of")?.call1((given.bind(py),))?.unbind();
            let loan = Arc::new(Loan::default());
            Ok::<_, PyErr>((object, Py::new(py, Vm(loan.clone()))?, loan))
        });
        let (name, watch) = (label.clone(), watch.clone());
        let (object, vm, loan) = match built {
            Ok((object, vm, loan)) => (Some(object), Some(vm), loan),
            Err(error) => {
                watch.fail(error);
                (None, None, Arc::default())
            }
        };
        Box::new(PythonSystem { name, object, vm, loan, hooks, watch, next: None }) as Box<dyn System>
    };
    Ok(Resolved::custom(&name, settings.collect::<Vec<_>>(), make))
}

impl PythonSystem {
    /// Calls a hook with the memory manager. An exception ends the run.
    fn hook(
        &mut self,
        vm: &mut reach_os::Vm,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, &Bound<'_, Vm>) -> PyResult<()>,
    ) -> Result<(), OutOfMemory> {
        let PythonSystem { object, vm: handle, loan, hooks, watch, .. } = &*self;
        let (Some(object), Some(handle)) = (object, handle) else { return Err(RAISED) };
        if watch.is_stopped() {
            return Err(RAISED);
        }
        let next = Python::attach(|py| {
            let (object, handle) = (object.bind(py), handle.bind(py));
            let _entered = watch.enter(py);
            let called = {
                let _lending = loan.lend(vm);
                call(py, object, handle)
            };
            called.and_then(|()| if hooks.next_tick { next_tick(object) } else { Ok(None) })
        });
        match next {
            Ok(next) => {
                self.next = next;
                Ok(())
            }
            Err(error) => {
                self.watch.fail(error);
                Err(RAISED)
            }
        }
    }
}

/// Asks for the time of the next tick.
fn next_tick(object: &Bound<'_, PyAny>) -> PyResult<Option<Cycles>> {
    let next = object.call_method0("next_tick")?;
    if next.is_none() {
        return Ok(None);
    }
    match next.extract::<u64>() {
        Ok(cycles) => Ok(Some(Cycles(cycles))),
        Err(_) => Err(failed(format!("next_tick returned {}: expected cycles since boot, or None", next.repr()?))),
    }
}

impl System for PythonSystem {
    fn name(&self) -> &str {
        &self.name
    }

    fn boot(&mut self, vm: &mut reach_os::Vm) -> Result<(), SystemError> {
        let is_called = self.hooks.boot;
        let booted = self.hook(vm, |_, object, vm| match is_called {
            true => object.call_method1("boot", (vm,)).map(drop),
            false => Ok(()),
        });
        let what = "its boot has raised an exception".to_owned();
        booted.map_err(|_| SystemError::Options { system: self.name.clone(), what })
    }

    fn event(&mut self, event: &reach_core::Event, vm: &mut reach_os::Vm) -> Result<(), OutOfMemory> {
        if self.hooks.event {
            let event = Event(event.clone());
            return self.hook(vm, |_, object, vm| object.call_method1("event", (event, vm)).map(drop));
        }
        match vm.apply(event)? {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: reach_core::Fault, vm: &mut reach_os::Vm) -> Result<(), OutOfMemory> {
        match self.hooks.fault {
            true => self.hook(vm, |_, object, vm| object.call_method1("fault", (Fault(fault), vm)).map(drop)),
            false => vm.demand_fault(fault),
        }
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut reach_os::Vm) -> Result<(), OutOfMemory> {
        let is_called = self.hooks.first_write;
        self.hook(vm, |_, object, vm| match is_called {
            true => object.call_method1("first_write", (vpn.0, vm)).map(drop),
            false => vm.call_method1("first_write", (vpn.0,)).map(drop),
        })
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut reach_os::Vm) -> Result<(), OutOfMemory> {
        self.hook(vm, |py, object, vm| {
            let events = PyList::new(
                py,
                events.iter().map(|event| Py::new(py, Miss::from(event))).collect::<PyResult<Vec<_>>>()?,
            )?;
            object.call_method1("handle", (events, vm)).map(drop)
        })
    }

    fn tick(&mut self, now: Cycles, vm: &mut reach_os::Vm) -> Result<(), OutOfMemory> {
        match self.hooks.tick {
            true => self.hook(vm, |_, object, vm| object.call_method1("tick", (now.0, vm)).map(drop)),
            false => Ok(()),
        }
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.next
    }

    fn handles_misses(&self) -> bool {
        self.hooks.handle
    }
}
