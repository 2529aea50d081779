"""Reach: what address translation costs a program, and what each known remedy would change.

    import reach

    program = reach.synthetic("gups:bytes=64M,updates=100K")
    result = reach.compare(program, machines=["zen4"], systems=["base", "linux-thp"])
    result.to_polars()

A *program* is a recording (`record`, `open`), a synthetic program (`synthetic`) or arrays (`Program.from_arrays`). A *machine* is
a preset's name, the text of a machine file or a dictionary. A *system* is a name with options, as on the command line, or a
subclass of `System`. `compare` simulates a program on every machine under every system, and `run` on one machine under one
system; both return a `Result`. `sweep` does so for many, on many workers. A run that fails raises `Error`; an argument that cannot be, `ValueError`.
"""

from reach import _processor

_processor.check()

from reach._experiment import compare, run  # noqa: E402
from reach._program import Program, open, synthetic  # noqa: E402
from reach._reach import VERSION as __version__  # noqa: E402
from reach._reach import Error, Event, Fault, Miss, OutOfMemory, Page, Populate, Region, View, Vm  # noqa: E402
from reach._record import record  # noqa: E402
from reach._result import Result  # noqa: E402
from reach._sweep import Sweep, sweep  # noqa: E402
from reach._system import System  # noqa: E402

__all__ = [
    "Error",
    "Event",
    "Fault",
    "Miss",
    "OutOfMemory",
    "Page",
    "Populate",
    "Program",
    "Region",
    "Result",
    "Sweep",
    "System",
    "View",
    "Vm",
    "__version__",
    "compare",
    "open",
    "record",
    "run",
    "sweep",
    "synthetic",
]
