"""Sweeps: many points, on many workers, into a data set that can be extended."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace

from reach import _cluster, _points
from reach._dataset import DataSet
from reach._experiment import _OPTIONS, _listed
from reach._reach import VERSION


@dataclass(frozen=True)
class Sweep:
    """What a sweep did. Its results are the Parquet files of `output`."""

    output: str
    """The folder of the data set."""
    points: int
    """Points in all."""
    known: int
    """Points that the data set had before."""
    computed: int
    """Points that were simulated now."""
    failed: tuple
    """Pairs of a point, as text, and the reason."""
    seconds: float
    """By the clock, the start of workers included."""
    workers: int
    """The most at once."""
    efficiency: float | None
    """Seconds that batches took, of those that the workers had; None if nothing was computed."""

    def to_arrow(self):
        """Returns all rows of the data set as a `pyarrow.Table`."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(self.output)

    def to_polars(self):
        """Returns all rows of the data set as a `polars.DataFrame`."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def __str__(self):
        text = f"{self.points} points: {self.known} known before, {self.computed} computed, {len(self.failed)} failed"
        if self.efficiency is not None:
            text += f"; {self.seconds:.1f} s on {self.workers} workers, {100 * self.efficiency:.0f} % of their time in simulations"
        return "\n".join([text, *(f"failed: {point}: {why}" for point, why in self.failed)])


def sweep(
    programs,
    machines,
    systems,
    *,
    output,
    settings=None,
    seeds=None,
    cluster=None,
    workers=None,
    batch=12,
    progress=None,
    **options,
):
    """Simulates every program on every machine under every system with every setting and seed, and returns a `Sweep`.

    programs: a `Program`, the path of a recording, or the text of a synthetic program; or a list of such.
    machines, systems: as `compare` takes them; systems by name only, and speedups are relative to the first.
    output: the folder of a Parquet data set. Points that it has are not computed again, so that a sweep can be stopped, resumed
        and extended.
    settings: a list of dictionaries of options, each of which replaces some of `options`.
    seeds: a list of seeds.
    cluster: None or "local" (this computer), "slurm", "pbs" or "kubernetes" (as Dask's configuration files say), the address of
        a scheduler, or a `distributed.Client`.
    workers: how many of them. Default: the cores of this computer, or 2 on other clusters.
    batch: points that share one pass over a program, at most.
    progress: True shows a bar if tqdm is installed (default: in a terminal or notebook), False shows nothing, and a function is
        called with points done and points to do.

    Options are those of `compare`; `threads` is 1 by default, because each worker has a core. A point that fails is in the
    `Sweep`'s `failed`, and is tried again by the next sweep into this folder.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise TypeError(f"sweep: no option {unknown[0]!r}; the options are {', '.join(_OPTIONS)}")
    systems = _listed(systems)
    for system in systems:
        if not isinstance(system, str):
            raise TypeError(f"systems: expected names, found {type(system).__name__}; a sweep's points must have a name")
    all_options = [
        {"threads": 1, **options, **setting, **({} if seed is None else {"seed": seed})}
        for setting in ([{}] if settings is None else settings)
        for seed in ([None] if seeds is None else seeds)
    ]
    try:
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"a sweep needs {error.name}: pip install 'reach-sim[sweep]'") from None
    inputs = _points.Inputs()
    programs = [inputs.of(program) for program in _listed(programs)]
    with DataSet(output) as data:
        known = data.keys()
        batches, points = _points.batches(programs, _listed(machines), systems, all_options, known, batch)
        return _Run(data, points, batches, progress).on(cluster, workers)


class _Run:
    """A sweep while it runs."""

    def __init__(self, data, points, batches, progress):
        self._data, self._points, self._batches = data, points, batches
        self._wanted = sum(len(batch.keys) for batch in batches)
        self._failed, self._busy, self._computed = [], 0.0, 0
        self._shown = _Shown(self._wanted, progress)

    def on(self, cluster, workers):
        """Runs all batches, and returns the `Sweep`."""
        begun, most = time.monotonic(), 0
        if self._batches:
            with _cluster.client(cluster, workers) as (client, sees_files), self._shown:
                most = self._compute(client, sees_files)
        seconds = time.monotonic() - begun
        efficiency = self._busy / (self._seconds * most) if self._computed else None
        known = self._points - self._wanted
        return Sweep(
            os.fspath(self._data.folder), self._points, known, self._computed, tuple(self._failed), seconds, most, efficiency
        )

    def _compute(self, client, sees_files):
        from distributed import as_completed

        from reach._worker import simulate

        batches = self._batches if sees_files else self._sent(client)
        client.wait_for_workers(1)
        most, begun = len(client.nthreads()), time.monotonic()
        running = {}

        def submit(batch):
            # Not pure: Dask would take a batch for one that failed before.
            future = client.submit(simulate, batch, VERSION, pure=False, key=f"batch-{len(running)}-{batch.name()[:8]}")
            running[future.key] = batch
            return future

        futures = as_completed([submit(batch) for batch in batches])
        for future in futures:
            batch = running[future.key]
            if future.status == "finished":
                rows, seconds = future.result()
                self._data.append(batch.name(), rows)
                self._busy += seconds
                self._computed += len(batch.keys)
            elif len(batch.keys) > 1:
                # Which of them failed?
                for alone in batch.alone():
                    futures.add(submit(alone))
                continue
            else:
                self._failed.append((_text(batch), str(future.exception()) or future.status))
            self._shown.add(len(batch.keys))
            most = max(most, len(client.nthreads()))
            future.release()
        self._seconds = time.monotonic() - begun
        return most

    def _sent(self, client):
        """Sends all recordings to the workers. Returns the batches with programs that lie there."""
        from reach._worker import Recordings

        files = {}
        for program in {batch.program for batch in self._batches if batch.program.path}:
            with open(program.path, "rb") as file:
                files[program.digest] = file.read()
        client.register_plugin(Recordings(files))
        return [replace(batch, program=replace(batch.program, path=None)) for batch in self._batches]


def _text(batch):
    (machine, system), *_ = batch.keys
    options = " ".join(f"{name}={value}" for name, value in batch.options.items() if name != "threads")
    return " ".join(filter(None, [batch.program.name, machine, system, options]))


class _Shown:
    """Shows how many points are done, while its `with` block runs."""

    def __init__(self, total, wanted):
        self._total, self._done, self._bar = total, 0, None
        self._callback = wanted if callable(wanted) else None
        in_notebook = "ipykernel" in sys.modules
        self._draws = wanted is True or (wanted is None and (sys.stderr.isatty() or in_notebook))

    def __enter__(self):
        if self._draws and self._callback is None:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return self
            self._bar = tqdm(total=self._total, desc="sweep", unit=" points")
        return self

    def add(self, points):
        self._done += points
        if self._callback is not None:
            self._callback(self._done, self._total)
        if self._bar is not None:
            self._bar.update(points)

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
