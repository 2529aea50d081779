"""Progress of long work: a bar of tqdm where that is installed, or a function of the user's."""

from __future__ import annotations

import sys
import time

_PATIENCE = 2.0
"""Seconds of work before a bar appears without being asked for."""


class Progress:
    """Shows progress while its `with` block runs."""

    def __init__(self, name, wanted):
        self._name, self._bar, self._begun = name, None, time.monotonic()
        self._make = None
        # A notebook's output is no terminal, and shows bars all the same. Elsewhere, None leaves the bar out of files.
        self._disable = False if wanted is True or "ipykernel" in sys.modules else None
        self._patience = 0.0 if wanted is True else _PATIENCE
        if callable(wanted):
            self.callback = wanted
        elif wanted is False or not self._find():
            self.callback = None
        else:
            self.callback = self._show

    def _find(self):
        """Finds tqdm, which draws a bar in a terminal or a notebook, whichever this is."""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return False
        self._make = tqdm
        return True

    def _show(self, references, done, total):
        if self._bar is None:
            if time.monotonic() - self._begun < self._patience:
                return
            name = self._name if len(self._name) <= 30 else self._name[:29] + "…"
            known = total is not None
            self._bar = self._make(
                total=total,
                desc=name,
                unit="" if known else " references",
                unit_scale=True,
                leave=False,
                disable=self._disable,
            )
        self._bar.update((done if total is not None else references) - self._bar.n)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
