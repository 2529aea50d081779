"""Types of the package; the docstrings are those of the modules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Union, final

# Only those who call what returns them need them.
import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
import polars  # type: ignore[import-not-found, unused-ignore]
import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
from matplotlib.axes import Axes  # type: ignore[import-not-found, unused-ignore]

from reach import _reach as _reach

__version__: str

_Path = Union[str, PathLike[str]]
_Count = Union[int, str]
_Machine = Union[str, PathLike[str], Mapping[str, Any]]
_System = Union[str, type[System], System]
_Progress = Union[bool, Callable[[int, int, Union[int, None]], object], None]
_Timing = Literal["ooo", "inorder", "counts"]
_Label = Literal["fault", "copy", "remap", "daemon", "handler"]
_Kind = Literal["fetch", "load", "store"]

class Error(Exception):
    """A run that failed. The text says what was found, where, and what to do."""

class OutOfMemory(Error):
    """Simulated memory is used up."""

class Program:
    """A program, which can be simulated any number of times."""

    def __init__(self, native: Any) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path | None: ...
    def save(self, path: _Path, *, force: bool = False) -> None: ...
    @staticmethod
    def from_arrays(
        addresses: Any,
        kinds: Any,
        sizes: Any,
        instructions: Any = None,
        threads: Any = None,
        processes: Any = None,
        *,
        name: str = "arrays",
    ) -> Program:
        """Arrays of shape (n,): addresses and sizes in bytes; kinds 0 (instruction), 1 (load), 2 (store)."""

def open(path: _Path) -> Program: ...
def synthetic(spec: str) -> Program: ...
def record(
    argv: Sequence[_Path],
    path: _Path | None = None,
    *,
    force: bool = False,
    limit: _Count | None = None,
    fast_forward: _Count | None = None,
    aslr: int | None = None,
    cwd: _Path | None = None,
    env: Mapping[str, str] | None = None,
    output: _Path | None = None,
    progress: _Progress = None,
) -> Program: ...
def compare(
    program: Program,
    machines: _Machine | Sequence[_Machine] | None = None,
    systems: _System | Sequence[_System] | None = None,
    *,
    progress: _Progress = None,
    timing: _Timing | None = None,
    memory: _Count | None = None,
    seed: int | None = None,
    precision: float | str | None = None,
    whole: bool | None = None,
    sample: bool | str | None = None,
    limit: _Count | None = None,
    fast_forward: _Count | None = None,
    fragment: str | None = None,
    cold: bool | None = None,
    kernel: bool | None = None,
    cores: int | None = None,
    smt: int | None = None,
    align_code: Literal["programs", "all"] | None = None,
    threads: int | None = None,
) -> Result: ...
def run(
    program: Program,
    machine: _Machine | None = None,
    system: _System = "base",
    *,
    progress: _Progress = None,
    timing: _Timing | None = None,
    memory: _Count | None = None,
    seed: int | None = None,
    precision: float | str | None = None,
    whole: bool | None = None,
    sample: bool | str | None = None,
    limit: _Count | None = None,
    fast_forward: _Count | None = None,
    fragment: str | None = None,
    cold: bool | None = None,
    kernel: bool | None = None,
    cores: int | None = None,
    smt: int | None = None,
    align_code: Literal["programs", "all"] | None = None,
    threads: int | None = None,
) -> Result: ...

class Result:
    """The rows of an experiment: one metric of one simulation each."""

    def __init__(self, native: Any, call: str) -> None: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...
    @property
    def header(self) -> dict[str, Any]: ...
    @property
    def plot(self) -> _Plot: ...
    def value(
        self, metric: str, *, system: str | None = None, machine: str | None = None, process: str = "all"
    ) -> int | float: ...
    def to_jsonl(self) -> str: ...
    def to_arrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def save_html(self, path: _Path, *, force: bool = False) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def _repr_html_(self) -> str: ...

@dataclass(frozen=True)
class Sweep:
    """What a sweep did."""

    output: str
    points: int
    known: int
    computed: int
    failed: tuple[tuple[str, str], ...]
    seconds: float
    workers: int
    efficiency: float | None
    def to_arrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...

def sweep(
    programs: Program | _Path | Sequence[Program | _Path],
    machines: _Machine | Sequence[_Machine],
    systems: str | Sequence[str],
    *,
    output: _Path,
    settings: Sequence[Mapping[str, Any]] | None = None,
    seeds: Sequence[int] | None = None,
    cluster: Any = None,
    workers: int | None = None,
    batch: int = 12,
    progress: bool | Callable[[int, int], object] | None = None,
    timing: _Timing | None = None,
    memory: _Count | None = None,
    precision: float | str | None = None,
    whole: bool | None = None,
    sample: bool | str | None = None,
    limit: _Count | None = None,
    fast_forward: _Count | None = None,
    fragment: str | None = None,
    cold: bool | None = None,
    kernel: bool | None = None,
    cores: int | None = None,
    smt: int | None = None,
    align_code: Literal["programs", "all"] | None = None,
    threads: int | None = None,
) -> Sweep: ...

class _Plot:
    def speedup(self, ax: Axes | None = None) -> Axes: ...
    def cycles(self, ax: Axes | None = None) -> Axes: ...

class System:
    """An operating-system design in Python. Override hooks."""

    name: str | None
    def boot(self, vm: Vm) -> None: ...
    def event(self, event: Event, vm: Vm) -> None: ...
    def fault(self, fault: Fault, vm: Vm) -> None: ...
    def first_write(self, page: int, vm: Vm) -> None: ...
    def handle(self, misses: list[Miss], vm: Vm) -> None: ...
    def tick(self, now: int, vm: Vm) -> None: ...
    def next_tick(self) -> int | None: ...
    def populate(self, populate: Populate, vm: Vm) -> None: ...

@final
class Fault:
    """A page fault of the running process. `page` is a number of base pages."""

    @property
    def page(self) -> int: ...
    @property
    def kind(self) -> _Kind: ...
    @property
    def cause(self) -> Literal["not-present", "protection"]: ...
    @staticmethod
    def of(page: int, kind: _Kind, cause: Literal["not-present", "protection"]) -> Fault: ...

@final
class Region:
    """Contiguous virtual memory with the same rights and contents; `start`, `end` and `huge_size` in bytes."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def anonymous(self) -> bool: ...
    @property
    def file(self) -> bool: ...
    @property
    def shared(self) -> bool: ...
    @property
    def role(self) -> Literal["mmap", "heap", "stack", "image"]: ...
    @property
    def huge(self) -> bool | None: ...
    @property
    def huge_size(self) -> int: ...
    @property
    def read(self) -> bool: ...
    @property
    def write(self) -> bool: ...
    @property
    def execute(self) -> bool: ...

@final
class View:
    """A base page as the regions in it define it."""

    @property
    def region(self) -> Region: ...
    @property
    def read(self) -> bool: ...
    @property
    def write(self) -> bool: ...
    @property
    def execute(self) -> bool: ...

@final
class Page:
    """A mapped page: `page` and `frame` are numbers of base pages, `size` is bytes."""

    @property
    def page(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def frame(self) -> int: ...
    @property
    def contents(self) -> Literal["anonymous", "file", "zero"]: ...
    @property
    def maps(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    @property
    def executable(self) -> bool: ...
    @property
    def accessed(self) -> bool: ...
    @property
    def dirty(self) -> bool: ...
    @property
    def watched(self) -> bool: ...

@final
class Populate:
    """Base pages that the program wants populated: from `start` up to `end`."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def write(self) -> bool: ...

@final
class Event:
    """An event between two references."""

    @property
    def kind(self) -> str: ...
    @property
    def start(self) -> int | None: ...
    @property
    def length(self) -> int | None: ...
    @property
    def advice(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def process(self) -> int | None: ...
    @property
    def thread(self) -> int | None: ...
    @property
    def measured(self) -> bool | None: ...

@final
class Miss:
    """A miss, insertion or removal in a TLB that software fills."""

    @property
    def what(self) -> Literal["miss", "inserted", "evicted", "invalidated"]: ...
    @property
    def process(self) -> int: ...
    @property
    def page(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def kind(self) -> _Kind | None: ...

@final
class Vm:
    """The memory manager of the simulated operating system. Valid during a hook only."""

    @property
    def base(self) -> int: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def memory(self) -> int: ...
    @property
    def hertz(self) -> int: ...
    @property
    def scan_cost(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def free_blocks(self) -> list[int]: ...
    @property
    def largest_free(self) -> int: ...
    @property
    def contiguity(self) -> float: ...
    @property
    def counters(self) -> dict[str, int]: ...
    @property
    def reservations(self) -> tuple[int, int]: ...
    @property
    def process(self) -> int: ...
    @property
    def thread(self) -> int: ...
    @property
    def processes(self) -> list[int]: ...
    def page_of(self, address: int) -> int: ...
    def regions(self, process: int | None = None) -> list[Region]: ...
    def page(self, page: int, process: int | None = None) -> Page | None: ...
    def pages(self, page: int, count: int, process: int | None = None) -> list[Page]: ...
    def extent(self, page: int, size: int, region: Region, process: int | None = None) -> int | None: ...
    def suits(self, region: Region, page: int, size: int) -> bool: ...
    def fault_view(self, fault: Fault) -> View: ...
    def demand_fault(self, fault: Fault, view: View | None = None) -> None: ...
    def map_superpage(
        self, first: int, view: View, size: int, *, writable: bool = True, whole: bool = False
    ) -> bool: ...
    def map_folio(self, first: int, view: View, size: int) -> bool: ...
    def is_cached(self, region: Region, page: int) -> bool: ...
    def cache_folio(self, region: Region, page: int, size: int) -> bool: ...
    def map_cached(self, fault: Fault, view: View, size: int, *, whole: bool = False) -> bool: ...
    def reserved_fault(self, fault: Fault) -> None: ...
    def promote_around(self, page: int) -> None: ...
    def first_write(self, page: int) -> None: ...
    def apply(self, event: Event) -> Populate | None: ...
    def populating(self, on: bool) -> None: ...
    def allocate(self, size: int, region: Region, page: int) -> int | None: ...
    def release(self, frame: int, size: int) -> None: ...
    def zero(self, frame: int, size: int, *, label: _Label = "fault") -> None: ...
    def drop_idle_file_pages(self) -> None: ...
    def map(
        self,
        page: int,
        frame: int,
        size: int,
        rights: View | Region,
        *,
        writable: bool = True,
        label: _Label = "fault",
        process: int | None = None,
    ) -> None: ...
    def unmap(self, page: int, count: int, *, label: _Label = "daemon", process: int | None = None) -> None: ...
    def promote(
        self, page: int, size: int, *, label: _Label = "remap", process: int | None = None
    ) -> str | None: ...
    def demote(self, page: int, size: int, *, label: _Label = "remap", process: int | None = None) -> None: ...
    def migrate(
        self,
        page: int,
        frame: int,
        size: int,
        rights: View | Region,
        *,
        writable: bool = True,
        label: _Label = "copy",
        process: int | None = None,
    ) -> None: ...
    def protect(
        self,
        page: int,
        count: int,
        *,
        writable: bool | None = None,
        executable: bool | None = None,
        accessed: bool | None = None,
        dirty: bool | None = None,
        watched: bool | None = None,
        label: _Label = "daemon",
        process: int | None = None,
    ) -> None: ...
    def build_superpage(self, page: int, size: int, process: int | None = None) -> str | None: ...
    def charge(self, label: _Label, cycles: int) -> None: ...
    def charge_fault(self, kind: str, *, major: bool = False) -> None: ...
    def share_zeroes(self, on: bool) -> None: ...
    def use_reservations(self, sizes: Sequence[int] | None = None, *, threshold: int = 100) -> None: ...
