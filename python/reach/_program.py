"""Programs: recordings, traces of other tools, synthetic programs, and arrays."""

from __future__ import annotations

import os
import sys
from array import array

from reach import _reach

_CODES = {"Q": 8, "I": 4, "B": 1}


class Program:
    """A program, which can be simulated any number of times.

    Made by `record`, `open`, `synthetic` and `Program.from_arrays`.
    """

    def __init__(self, native):
        if not isinstance(native, _reach.Program):
            raise TypeError("a program is made by reach.record, reach.open, reach.synthetic or reach.Program.from_arrays")
        self._native = native

    @property
    def name(self):
        """The name in results."""
        return self._native.name

    @property
    def path(self):
        """The file (pathlib.Path) of a recording or trace; None for other programs and temporary recordings."""
        return self._native.path

    def save(self, path, *, force=False):
        """Writes a recording (`.reach`), which `open` and the command's `--trace` read. Replaces a file only with `force`."""
        self._native.save(os.fspath(path), force)

    def __repr__(self):
        return f"<reach.Program {self.name!r}>"

    @staticmethod
    def from_arrays(addresses, kinds, sizes, instructions=None, threads=None, processes=None, *, name="arrays"):
        """Makes a program of arrays of shape (n,): NumPy arrays, or anything else with the buffer protocol, or sequences.

        addresses: virtual addresses in bytes; bits above 48 are ignored.
        kinds: 0 for an instruction, 1 for a load, 2 for a store. Accesses follow their instruction.
        sizes: bytes of the instruction (1 to 64) or access (1 to 65536).
        instructions: for traces without instructions' addresses, how many instructions ran since the element before, up to and
            including the one that accesses. They are fetched from a loop in one page of code at 0x400000.
        threads, processes: numbers of any kind; each new number is a new thread or address space.

        The rows are those of the same trace read from a file in text form (docs/traces.md). The arrays are copied once.
        """
        given = {"addresses": addresses, "sizes": sizes, "kinds": kinds}
        columns = {column: _column(column, given[column], code) for column, code in zip(given, "QIB")}
        others = [
            None if values is None else _column(column, values, code)
            for column, values, code in [
                ("instructions", instructions, "I"),
                ("processes", processes, "Q"),
                ("threads", threads, "Q"),
            ]
        ]
        native = _reach.Program.from_columns(name, columns["addresses"], columns["kinds"], columns["sizes"], others)
        return Program(native)


def _column(name, values, code):
    """Returns the values as the bytes of unsigned little-endian numbers of one size."""
    try:
        view = memoryview(values)
    except TypeError:
        view = None
    if view is not None and view.format in (code, "L" if code == "Q" else code):
        if view.ndim != 1:
            raise ValueError(f"{name}: {view.ndim} dimensions, expected 1")
        return view.tobytes() if view.itemsize == _CODES[code] else _packed(name, view, code)
    if "numpy" in sys.modules and isinstance(values, sys.modules["numpy"].ndarray):
        return _numpy_column(name, values, code)
    return _packed(name, values, code)


def _packed(name, values, code):
    """Packs numbers one by one."""
    try:
        return array(code, values).tobytes()
    except (TypeError, OverflowError, ValueError) as error:
        bits = 8 * _CODES[code]
        raise ValueError(f"{name}: {error}; expected whole numbers from 0 to 2^{bits}-1") from None


def _numpy_column(name, values, code):
    """Converts a NumPy array whose numbers have another type; checks that none changes."""
    numpy = sys.modules["numpy"]
    if values.ndim != 1:
        raise ValueError(f"{name}: {values.ndim} dimensions, expected 1")
    if values.dtype.kind not in "iub":
        raise ValueError(f"{name}: {values.dtype}, expected whole numbers")
    most = (1 << 8 * _CODES[code]) - 1
    if len(values) and (int(values.min()) < 0 or int(values.max()) > most):
        raise ValueError(f"{name}: {values.min()} to {values.max()}, expected 0 to {most}")
    return numpy.ascontiguousarray(values, dtype=f"<u{_CODES[code]}").tobytes()


def open(path):
    """Opens a recording of `record` or `reach record`, or a trace of another tool (docs/traces.md)."""
    return Program(_reach.Program.open(os.fspath(path)))


def synthetic(spec):
    """Makes a synthetic program, such as `gups:bytes=64M`. `reach program list` names all of them."""
    return Program(_reach.Program.synthetic(spec))
