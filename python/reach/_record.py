"""Recordings: a program is run once, under an emulator that reports every memory reference."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings

from reach import _reach
from reach._command import PLUGIN
from reach._progress import Progress
from reach._program import Program


def record(
    argv,
    path=None,
    *,
    force=False,
    limit=None,
    fast_forward=None,
    aslr=None,
    cwd=None,
    env=None,
    output=None,
    progress=None,
):
    """Runs a program with all its children, and returns its recording as a `Program`.

    argv: the program and its arguments: a list of texts.
    path: the file to write, such as "gcc.reach"; replaced only with `force`. Default: a temporary file that goes with the `Program`.
    limit, fast_forward: references to record at most, and to skip at the beginning: numbers, or texts such as "10M".
    aslr: a seed above 0 gives the program random addresses, as Linux does.
    cwd: its working directory.
    env: variables for it, beside those that it inherits: a dictionary.
    output: a file for its standard output and error; its standard input is then empty.
    progress: as `compare` takes it.

    The program runs 15 to 60 times slower. It needs QEMU's user-mode emulator with plugins. How it failed, and what was not
    recorded, are warnings. Ctrl-C kills the program and ends the recording without a file.
    """
    if isinstance(argv, (str, bytes)):
        raise TypeError("argv: expected a list of texts, such as ['gcc', '-c', 'a.c']")
    argv = [os.fspath(word) for word in argv]
    if path is not None and os.path.exists(path) and not force:
        raise ValueError(f"{os.fspath(path)}: exists already; give another name, or force=True")
    settings = {"limit": limit, "fast_forward": fast_forward, "aslr": aslr}
    if cwd is not None:
        settings["cwd"] = os.path.abspath(cwd)
    if env is not None:
        settings["env"] = list(env.items())
    if not _is_terminal():
        # Ctrl-C does not reach it there, and descendants must end with it.
        settings["own_group"] = True
    with tempfile.TemporaryDirectory(prefix="reach-") as folder:
        shown = os.path.join(folder, "output")
        if output is not None:
            settings["output"] = os.path.abspath(output)
        elif not _is_inherited():
            settings["output"] = shown
        try:
            with Progress(argv[0] if argv else "", progress) as progress:
                native, _, remarks = _reach.record(
                    argv, None if path is None else os.path.abspath(path), str(_plugin()), settings, progress.callback
                )
        finally:
            if settings.get("output") == shown and os.path.exists(shown):
                with open(shown, encoding="utf-8", errors="replace") as file:
                    sys.stdout.write(file.read())
    for remark in remarks:
        warnings.warn(remark, RuntimeWarning, stacklevel=2)
    return Program(native)


def _plugin():
    """Returns the capture plugin: the user's choice, or the one in this package."""
    return os.environ.get("REACH_PLUGIN") or PLUGIN


def _is_terminal():
    """Whether standard input is a terminal, which the program may read."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def _is_inherited():
    """Whether what a child process writes to its standard output appears where Python's does: not in a notebook."""
    try:
        return sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False
