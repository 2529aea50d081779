"""The points of a sweep, and batches of them: one pass over a program feeds all points of a batch."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reach import _reach
from reach._program import Program, synthetic


@dataclass(frozen=True)
class Input:
    """A program as workers get it: the text of a synthetic one, or a file."""

    name: str
    """As in results."""
    digest: str
    """SHA-256 of the text or file, in hexadecimal."""
    spec: str | None = None
    path: str | None = None


@dataclass
class Batch:
    """Points with one program and the same options."""

    program: Input
    options: dict[str, Any]
    machines: dict[str, Any]
    """By their names in results."""
    systems: list[str]
    """The first is what speedups are relative to."""
    keys: dict[tuple[str, str], str]
    """The key of each point, by machine and system. Other pairs of these are no points."""

    def name(self):
        """Returns the name of its file: that of its points."""
        return hashlib.sha256("".join(sorted(self.keys.values())).encode()).hexdigest()[:32]

    def alone(self):
        """Returns a batch for each point, so that one that fails costs no other."""
        for (machine, system), key in self.keys.items():
            systems = list(dict.fromkeys([self.systems[0], system]))
            yield Batch(self.program, self.options, {machine: self.machines[machine]}, systems, {(machine, system): key})


class Inputs:
    """The programs of a sweep. Those without a file get one, which goes with this value."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="reach-sweep-")

    def of(self, given):
        """Returns the input that a program, path or text stands for."""
        if isinstance(given, Program):
            return self._file(given, given.path or self._saved(given))
        text = os.fspath(given)
        if os.path.exists(text):
            from reach._program import open as opened

            return self._file(opened(text), text)
        if "/" in text or text.endswith(".reach"):
            raise ValueError(f"{text}: no such file")
        return Input(synthetic(text).name, hashlib.sha256(text.encode()).hexdigest(), spec=text)

    def _saved(self, program):
        path = Path(self._folder.name) / f"{len(os.listdir(self._folder.name))}.reach"
        program.save(path)
        return path

    def _file(self, program, path):
        sha = hashlib.sha256()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                sha.update(piece)
        return Input(program.name, sha.hexdigest(), path=os.path.abspath(path))


def batches(programs, machines, systems, settings, known, size):
    """Returns the batches of all points whose key is not in `known`, each point once, and how many points there are in all."""
    found, points = [], set()
    for options in settings:
        named = _named(machines, systems, options)
        for program in programs:
            # Machines that lack the same points share passes.
            groups = {}
            for machine, (_, hashes) in named.items():
                # A point is all that its rows depend on.
                keys = {s: hashlib.sha256(f"{program.digest} {h}".encode()).hexdigest()[:32] for s, h in hashes.items()}
                missing = {system: key for system, key in keys.items() if key not in known and key not in points}
                points.update(keys.values())
                if missing:
                    groups.setdefault(tuple(missing), {})[machine] = missing
            for wanted, members in groups.items():
                compared = list(dict.fromkeys([systems[0], *wanted]))
                each = max(1, size // len(wanted))
                names = list(members)
                for at in range(0, len(names), each):
                    chosen = {name: named[name][0] for name in names[at : at + each]}
                    keys = {(machine, system): key for machine in chosen for system, key in members[machine].items()}
                    found.append(Batch(program, options, chosen, compared, keys))
    return found, len(points)


def _named(machines, systems, options):
    """Returns the machines by their names in results, each with the hash of its configuration under each system."""
    named = {}
    for machine in machines:
        hashes = {}
        for system in systems:
            compared = list(dict.fromkeys([systems[0], system]))
            name, hashes[system] = _reach.configuration(machine, compared, options)
        if name in named:
            raise ValueError(f"two machines are called {name}; give each a name of its own")
        named[name] = machine, hashes
    return named
