//! Faults, regions and mapped pages, as hooks see them.

use crate::error::refused;
use pyo3::prelude::*;
use reach_core::{FaultCause, Kind, MappedPage, Protection, Role, Vpn};
use reach_os::{FrameKind, PageView, Vm};

/// Returns the name of a kind of reference.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fetch => "fetch",
        Kind::Load => "load",
        Kind::Store => "store",
    }
}

/// A page fault of the running process.
#[pyclass(frozen, module = "reach")]
pub struct Fault(pub reach_core::Fault);

#[pymethods]
impl Fault {
    /// Makes a fault that a program has not caused, to populate memory.
    #[staticmethod]
    fn of(page: u64, kind: &str, cause: &str) -> PyResult<Fault> {
        let kind = [Kind::Fetch, Kind::Load, Kind::Store].into_iter().find(|one| kind_name(*one) == kind);
        let cause = match cause {
            "not-present" => Some(FaultCause::NotPresent),
            "protection" => Some(FaultCause::Protection),
            _ => None,
        };
        let (Some(kind), Some(cause)) = (kind, cause) else {
            return Err(refused("expected fetch, load or store, and not-present or protection"));
        };
        Ok(Fault(reach_core::Fault { vpn: Vpn(page), kind, cause }))
    }

    /// The base page referred to: its address divided by the size of a base page.
    #[getter]
    fn page(&self) -> u64 {
        self.0.vpn.0
    }

    /// "fetch", "load" or "store".
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(self.0.kind)
    }

    /// "not-present", or "protection" where a translation forbids the reference.
    #[getter]
    fn cause(&self) -> &'static str {
        match self.0.cause {
            FaultCause::NotPresent => "not-present",
            FaultCause::Protection => "protection",
        }
    }

    fn __repr__(&self) -> String {
        format!("<reach.Fault page={:#x} kind={:?} cause={:?}>", self.page(), self.kind(), self.cause())
    }
}

/// Contiguous virtual memory with the same rights and the same contents.
#[pyclass(frozen, module = "reach")]
pub struct Region(pub reach_os::Region);

#[pymethods]
impl Region {
    /// The first byte.
    #[getter]
    fn start(&self) -> u64 {
        self.0.start
    }

    /// One past the last byte.
    #[getter]
    fn end(&self) -> u64 {
        self.0.end
    }

    /// Whether it is private memory without a file.
    #[getter]
    fn anonymous(&self) -> bool {
        self.0.anonymous()
    }

    /// Whether it maps a file.
    #[getter]
    fn file(&self) -> bool {
        self.0.file
    }

    /// Whether stores go to the object itself.
    #[getter]
    fn shared(&self) -> bool {
        self.0.shared
    }

    /// "mmap", "heap", "stack" or "image".
    #[getter]
    fn role(&self) -> &'static str {
        match self.0.role {
            Role::Mmap => "mmap",
            Role::Heap => "heap",
            Role::Stack => "stack",
            Role::Image => "image",
        }
    }

    /// The program's advice (MADV_HUGEPAGE: True, MADV_NOHUGEPAGE: False); None without one.
    #[getter]
    fn huge(&self) -> Option<bool> {
        self.0.huge
    }

    /// The page size that the program asked for in bytes (MAP_HUGETLB); 0 where it did not.
    #[getter]
    fn huge_size(&self) -> u64 {
        if self.0.huge_shift == 0 { 0 } else { 1 << self.0.huge_shift }
    }

    /// Whether loads are allowed.
    #[getter]
    fn read(&self) -> bool {
        self.0.protection.read
    }

    /// Whether stores are allowed.
    #[getter]
    fn write(&self) -> bool {
        self.0.protection.write
    }

    /// Whether fetches are allowed.
    #[getter]
    fn execute(&self) -> bool {
        self.0.protection.execute
    }

    fn __repr__(&self) -> String {
        format!("<reach.Region {:#x}-{:#x} {}>", self.0.start, self.0.end, self.role())
    }
}

/// A base page as the regions in it define it.
#[pyclass(frozen, module = "reach")]
pub struct View(pub PageView);

#[pymethods]
impl View {
    /// The region that the page belongs to.
    #[getter]
    fn region(&self) -> Region {
        Region(self.0.region)
    }

    /// Whether loads are allowed.
    #[getter]
    fn read(&self) -> bool {
        self.0.protection.read
    }

    /// Whether stores are allowed.
    #[getter]
    fn write(&self) -> bool {
        self.0.protection.write
    }

    /// Whether fetches are allowed.
    #[getter]
    fn execute(&self) -> bool {
        self.0.protection.execute
    }
}

/// Access rights: those of a view or of a region.
#[derive(FromPyObject)]
pub enum Rights<'py> {
    View(PyRef<'py, View>),
    Region(PyRef<'py, Region>),
}

impl Rights<'_> {
    /// Returns the rights.
    pub fn protection(&self) -> Protection {
        match self {
            Rights::View(view) => view.0.protection,
            Rights::Region(region) => region.0.protection,
        }
    }
}

/// A mapped page.
#[pyclass(frozen, get_all, module = "reach")]
pub struct Page {
    /// The first base page.
    page: u64,
    /// Bytes.
    size: u64,
    /// The first frame, in base pages of physical memory.
    frame: u64,
    /// "anonymous", "file" or "zero": what its first frame holds.
    contents: &'static str,
    /// Translations that point to its first frame.
    maps: u32,
    /// Whether stores are allowed.
    writable: bool,
    /// Whether fetches are allowed.
    executable: bool,
    /// Whether it was referenced since the mark was last cleared.
    accessed: bool,
    /// Whether it was written since the mark was last cleared.
    dirty: bool,
    /// Whether its first store calls `first_write`.
    watched: bool,
}

impl Page {
    /// Returns what `vm` knows of a mapped page.
    pub fn of(mapped: MappedPage, vm: &Vm) -> Page {
        let MappedPage { vpn, pte } = mapped;
        let frame = vm.frames().get(pte.pfn());
        Page {
            page: vpn.0,
            size: pte.shift().bytes(),
            frame: pte.pfn().0,
            contents: match frame.kind {
                FrameKind::Zero => "zero",
                FrameKind::File => "file",
                _ => "anonymous",
            },
            maps: frame.maps,
            writable: pte.writable(),
            executable: pte.executable(),
            accessed: pte.accessed(),
            dirty: pte.dirty(),
            watched: pte.watched(),
        }
    }
}

#[pymethods]
impl Page {
    fn __repr__(&self) -> String {
        format!("<reach.Page {:#x} of {} bytes at frame {:#x}>", self.page, self.size, self.frame)
    }
}

/// Base pages that the program wants populated.
#[pyclass(frozen, get_all, module = "reach")]
pub struct Populate {
    /// The first base page.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Whether they are touched by stores.
    pub write: bool,
}
