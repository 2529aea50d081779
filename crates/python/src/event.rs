//! Events of the program, and of software-filled TLBs, as hooks see them.

use crate::page::kind_name;
use pyo3::prelude::*;
use reach_core::{Advice, Event as Core, Mark, Span, TlbEvent};

/// An event between two references.
#[pyclass(frozen, module = "reach")]
pub struct Event(pub Core);

impl Event {
    /// Returns the span of addresses that the event concerns.
    fn span(&self) -> Option<Span> {
        match &self.0 {
            Core::Map(map) => Some(map.span),
            Core::Unmap(span) | Core::Protect(span, _) | Core::Advise(span, _) => Some(*span),
            Core::Remap(remap) => Some(remap.from),
            _ => None,
        }
    }
}

#[pymethods]
impl Event {
    /// "file", "map", "unmap", "protect", "remap", "advise", "fork", "exec", "exit", "switch", "phase", "mark" or "system-call".
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.0 {
            Core::File { .. } => "file",
            Core::Map(_) => "map",
            Core::Unmap(_) => "unmap",
            Core::Protect(..) => "protect",
            Core::Remap(_) => "remap",
            Core::Advise(..) => "advise",
            Core::Fork { .. } => "fork",
            Core::Exec { .. } => "exec",
            Core::Exit => "exit",
            Core::Switch { .. } => "switch",
            Core::Phase(_) => "phase",
            Core::Mark(_) => "mark",
            Core::SystemCall(_) => "system-call",
        }
    }

    /// The first byte of the memory that it concerns; None where there is none.
    #[getter]
    fn start(&self) -> Option<u64> {
        self.span().map(|span| span.start.0)
    }

    /// The bytes of that memory; None where there is none.
    #[getter]
    fn length(&self) -> Option<u64> {
        self.span().map(|span| span.len)
    }

    /// The advice, as madvise names it: "huge", "no-huge", "dont-need", …; None for other events.
    #[getter]
    fn advice(&self) -> Option<&'static str> {
        let Core::Advise(_, advice) = &self.0 else { return None };
        Some(match advice {
            Advice::Huge => "huge",
            Advice::NoHuge => "no-huge",
            Advice::DontNeed => "dont-need",
            Advice::Free => "free",
            Advice::PopulateRead => "populate-read",
            Advice::PopulateWrite => "populate-write",
            Advice::Collapse => "collapse",
            Advice::DontFork => "dont-fork",
            Advice::WillNeed => "will-need",
        })
    }

    /// The path of an exec or a file, or the name of a phase; None for other events.
    #[getter]
    fn name(&self) -> Option<&str> {
        match &self.0 {
            Core::Exec { path } | Core::File { path, .. } => Some(path),
            Core::Phase(name) => Some(name),
            _ => None,
        }
    }

    /// The address space of a switch, or of a fork's child; None for other events.
    #[getter]
    fn process(&self) -> Option<u32> {
        match &self.0 {
            Core::Switch { asid, .. } => Some(asid.0),
            Core::Fork { child, .. } => Some(child.0),
            _ => None,
        }
    }

    /// The thread of a switch; None for other events.
    #[getter]
    fn thread(&self) -> Option<u32> {
        if let Core::Switch { thread, .. } = &self.0 { Some(thread.0) } else { None }
    }

    /// Whether what follows is measured, for a mark that begins or ends fast-forwarding; None for other events.
    #[getter]
    fn measured(&self) -> Option<bool> {
        match &self.0 {
            Core::Mark(Mark::Measure) => Some(true),
            Core::Mark(Mark::FastForward) => Some(false),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        format!("<reach.Event {:?}>", self.0)
    }
}

/// A miss, insertion or removal in a TLB that software fills.
#[pyclass(frozen, get_all, module = "reach")]
pub struct Miss {
    /// "miss", "inserted", "evicted" or "invalidated".
    what: &'static str,
    /// The address space.
    process: u32,
    /// The base page referred to, or the first of the entry.
    page: u64,
    /// Bytes of the page.
    size: u64,
    /// "fetch", "load" or "store" for a miss; None for others.
    kind: Option<&'static str>,
}

impl From<&TlbEvent> for Miss {
    fn from(event: &TlbEvent) -> Miss {
        let (what, asid, vpn, shift, kind) = match *event {
            TlbEvent::Miss { asid, vpn, kind, shift } => ("miss", asid, vpn, shift, Some(kind_name(kind))),
            TlbEvent::Removed { asid, vpn, shift, evicted: true } => ("evicted", asid, vpn, shift, None),
            TlbEvent::Removed { asid, vpn, shift, evicted: false } => ("invalidated", asid, vpn, shift, None),
            TlbEvent::Inserted { asid, vpn, shift } => ("inserted", asid, vpn, shift, None),
        };
        Miss { what, process: asid.0, page: vpn.0, size: shift.bytes(), kind }
    }
}
