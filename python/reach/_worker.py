"""What the workers of a sweep do."""

from __future__ import annotations

import os
import time

from distributed import WorkerPlugin

import reach
from reach import _dataset

FOLDER = "reach-recordings"
"""Where a worker keeps recordings, in its own folder."""


class Recordings(WorkerPlugin):
    """Gives each worker the recordings once, also one that joins later or takes the place of one that died."""

    name = FOLDER

    def __init__(self, files):
        self._files = files

    def setup(self, worker):
        folder = os.path.join(worker.local_directory, FOLDER)
        os.makedirs(folder, exist_ok=True)
        for name, content in self._files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


def simulate(batch, version):
    """Simulates a batch. Returns the rows of its points and the seconds that it took."""
    if reach.__version__ != version:
        raise RuntimeError(f"a worker has version {reach.__version__} of reach, expected {version}; install the same everywhere")
    begun = time.monotonic()
    machines = list(batch.machines.values())
    result = reach.compare(_program(batch.program), machines=machines, systems=batch.systems, progress=False, **batch.options)
    return _dataset.table(result, batch.keys, batch.options), time.monotonic() - begun


def _program(given):
    if given.spec is not None:
        return reach.synthetic(given.spec)
    path = given.path
    if path is None:
        from distributed import get_worker

        path = os.path.join(get_worker().local_directory, FOLDER, given.digest)
    return reach.open(path)
