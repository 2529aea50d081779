"""Where the batches of a sweep run."""

from __future__ import annotations

import contextlib
import os

_KINDS = {
    "slurm": ("dask_jobqueue", "SLURMCluster", "dask-jobqueue"),
    "pbs": ("dask_jobqueue", "PBSCluster", "dask-jobqueue"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster", "dask-kubernetes"),
}
"""Kinds of clusters: module, class and package. Dask's own configuration files say what a job or pod gets."""


def cores():
    """Returns the cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def client(cluster, workers):
    """Gives a Dask client for `cluster` (docs/sweeps.md), and whether its workers see this computer's files."""
    import distributed

    if isinstance(cluster, distributed.Client):
        yield cluster, isinstance(cluster.cluster, distributed.LocalCluster)
        return
    with contextlib.ExitStack() as stack:
        local = cluster in (None, "local")
        if local:
            # Simulated memory is counted as the worker's, and does not grow without end: no limit.
            made = distributed.LocalCluster(n_workers=workers or cores(), threads_per_worker=1, memory_limit=None)
        elif cluster in _KINDS:
            made = _made(*_KINDS[cluster])
            made.scale(workers or 2)
        elif "://" in cluster:
            made = cluster
        else:
            known = ", ".join(["local", *_KINDS])
            raise ValueError(f"cluster: {cluster!r}: expected {known}, or the address of a scheduler such as tcp://host:8786")
        if not isinstance(made, str):
            stack.enter_context(made)
        yield stack.enter_context(distributed.Client(made)), local


def _made(module, name, package):
    import importlib

    try:
        return getattr(importlib.import_module(module), name)()
    except ImportError:
        raise ImportError(f"this cluster needs {package}: pip install {package}") from None
