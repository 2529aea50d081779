"""Experiments: a program on machines under systems."""

from __future__ import annotations

from reach import _reach
from reach._progress import Progress
from reach._program import Program
from reach._result import Result


def compare(program, machines=None, systems=None, *, progress=None, **options):
    """Simulates a program on every machine under every system, in one pass, and returns a `Result`.

    machines: presets' names with changed values (`zen4:tlb.l2d.entries=1536`), texts of machine files, or dictionaries. Default:
        the preset nearest to this computer's processor.
    systems: names with options (`linux-thp:enabled=madvise`), or subclasses or instances of `System`. Speedups are relative to the
        first. Default: those of `reach compare`, as its help lists them.
    progress: True shows a bar if tqdm is installed (default: work of more than two seconds), False shows nothing, and a function is
        called with references so far, how much of the source was read, and how much it has (None if that is unknown).

    Options are those of `reach compare`, as numbers or texts:

    timing: "ooo" (default), "inorder" or "counts".
    memory: simulated memory in bytes, such as "16G" (default).
    seed: of all random choices (default 1).
    precision: of speedups, in per cent: "1%" (default), 0.5.
    whole: True simulates all of the program in detail.
    sample: True, or settings such as "every=400k,measure=2k".
    limit: ends the program after so many references, such as "10M".
    fast_forward: references to skip, or a phase of the program.
    fragment: fragments free memory before the start, such as "scattered=0.8"
        or "blocks=/proc/buddyinfo".
    cold: True starts with a cold page cache.
    kernel: True executes the kernel's own code, too.
    cores, smt: cores, and hardware threads of each (default 1).
    align_code: "programs" or "all" moves code files to aligned addresses.
    threads: of this computer that simulate; results do not depend on it.

    The GIL is released while simulating, and Ctrl-C ends it.
    """
    return _simulate("compare", program, _listed(machines), _listed(systems), progress, options)


def run(program, machine=None, system="base", *, progress=None, **options):
    """Simulates a program on one machine under one system, and returns a `Result`. Options are those of `compare`."""
    return _simulate("run", program, [] if machine is None else [machine], [system], progress, options)


_OPTIONS = (
    "timing memory seed precision whole sample limit fast_forward fragment cold kernel cores smt align_code threads".split()
)


def _listed(given):
    """Returns a list of machines or systems; one alone is a list of one."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _simulate(verb, program, machines, systems, progress, options):
    if not isinstance(program, Program):
        raise TypeError(f"program: expected a reach.Program, found {type(program).__name__}; reach.open reads a file")
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise TypeError(f"{verb}: no option {unknown[0]!r}; the options are {', '.join(_OPTIONS)}")
    with Progress(program.name, progress) as shown:
        native = _reach.simulate(program._native, machines, systems, options, shown.callback)
    return Result(native, _call(verb, program, machines, systems, options))


def _call(verb, program, machines, systems, options):
    """Returns the call that repeats a run, as text."""

    def shown(item):
        return repr(item) if isinstance(item, str) and "\n" not in item else getattr(item, "__name__", "…")

    parts = [f"# {program.name}", f"reach.{verb}(program"]
    parts[1] += f", machines=[{', '.join(map(shown, machines))}]" if machines else ""
    parts[1] += f", systems=[{', '.join(map(shown, systems))}]" if systems else ""
    parts[1] += "".join(f", {name}={value!r}" for name, value in options.items())
    return "\n".join(parts) + ")"
