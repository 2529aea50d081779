"""Results: rows of metrics, and what they can become."""

from __future__ import annotations

import json
import os

from reach import _reach, _tables


class Result:
    """The rows of an experiment: one metric of one simulation each.

    The columns are machine, system, program, process ("all", or one of several), metric, unit, value, and error (half the width of
    the 95 % confidence interval of a sampled rate). `reach explain` defines the metrics.
    """

    def __init__(self, native, call):
        self._native, self._call = native, call
        self._rows = None

    @property
    def rows(self):
        """The rows as dictionaries, as `--format jsonl` prints them: counts are int, ratios float; error only where there is one."""
        if self._rows is None:
            self._rows = self._native.rows
        return self._rows

    @property
    def header(self):
        """All that the results depend on, resolved, with its hash, and findings about the run."""
        return json.loads(self._native.header)

    def value(self, metric, *, system=None, machine=None, process="all"):
        """Returns the value of a metric: of the only simulation, or of the one with this system and machine."""
        found = [
            row
            for row in self.rows
            if row["metric"] == metric
            and row["process"] == process
            and system in (None, row["system"])
            and machine in (None, row["machine"])
        ]
        if len(found) != 1:
            raise ValueError(f"{metric}: {len(found)} rows, expected 1; give a metric of `rows`, and system and machine")
        return found[0]["value"]

    def to_jsonl(self):
        """Returns what `--format jsonl` prints: the header, then a row on each line."""
        return self._native.header + "\n" + self._native.json_lines()

    def __arrow_c_stream__(self, requested_schema=None):
        """Gives the rows as an Arrow stream, without a copy: `polars.DataFrame(result)`, `pyarrow.table(result)`, DuckDB.

        `value` is float64, in which counts above 2^53 are rounded; `error` is null where there is none.
        """
        return self._native.__arrow_c_stream__(requested_schema)

    def to_arrow(self):
        """Returns the rows as a `pyarrow.Table`."""
        return _needed("pyarrow", "to_arrow").table(self)

    def to_polars(self):
        """Returns the rows as a `polars.DataFrame`."""
        return _needed("polars", "to_polars").DataFrame(self)

    def to_pandas(self):
        """Returns the rows as a `pandas.DataFrame`."""
        pandas = _needed("pandas", "to_pandas")
        columns = ["machine", "system", "program", "process", "metric", "unit", "value", "error"]
        frame = pandas.DataFrame.from_records(self.rows, columns=columns)
        return frame.astype({"value": "float64", "error": "float64"})

    @property
    def plot(self):
        """Figures by matplotlib: `result.plot.speedup()`."""
        from reach._plot import Plot

        return Plot(self)

    def save_html(self, path, *, force=False):
        """Writes a page of figures and tables, as `--html` does. It needs no network. Replaces a file only with `force`."""
        page = self._page()
        try:
            with open(os.fspath(path), "w" if force else "x", encoding="utf-8") as file:
                file.write(page)
        except FileExistsError:
            raise ValueError(f"{os.fspath(path)}: exists already; give another name, or force=True") from None

    def _page(self):
        title, lead, tables = _tables.content(self.rows, self.header)
        rows = self._native.json_lines() + self._native.memory
        cells = [(table.caption, table.header, table.rows, table.notes) for table in tables]
        return _reach.page(title, lead, cells, rows, self._native.header, self._call)

    def _repr_html_(self):
        return _tables.html(self.rows, self.header)

    def __repr__(self):
        return _tables.text(self.rows, self.header)


def _needed(module, method):
    """Imports what a method needs and the package does not."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"Result.{method} needs {module}: pip install {module}") from None
