"""The data set of a sweep: a folder of Parquet files, one a batch, that only grows."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

COLUMNS = ["key", "seed", "options"]
"""The columns before those of a result's rows."""


class DataSet:
    """A folder of results that this process alone extends, while its `with` block runs."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._lock = None

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / ".lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise ValueError(f"{self.folder}: another sweep writes to it; wait for its end, or give another folder") from None
        for left in self.folder.glob(".*.part"):
            # Of a sweep that was killed.
            left.unlink()
        return self

    def __exit__(self, *_):
        self._lock.close()

    def keys(self):
        """Returns the keys of all points that it has."""
        import pyarrow.parquet

        known = set()
        for path in self.folder.glob("*.parquet"):
            try:
                known.update(pyarrow.parquet.read_table(path, columns=["key"])["key"].unique().to_pylist())
            except (pyarrow.ArrowInvalid, KeyError) as error:
                raise ValueError(f"{path}: no file of a sweep: {error}; move it away") from None
        return known

    def append(self, name, table):
        """Adds the rows of a batch, whole or not at all."""
        import pyarrow.parquet

        part, path = self.folder / f".{name}.part", self.folder / f"{name}.parquet"
        pyarrow.parquet.write_table(table, part, compression="zstd")
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)


def table(result, keys, options):
    """Returns the rows of a batch's points as a `pyarrow.Table` with the key of each, and the header in its metadata."""
    import pyarrow
    import pyarrow.compute

    rows = result.to_arrow()
    of = [keys.get(pair) for pair in zip(rows["machine"].to_pylist(), rows["system"].to_pylist())]
    header = result.header
    count = rows.num_rows
    text = json.dumps({k: v for k, v in options.items() if k != "seed"}, sort_keys=True)
    columns = [
        pyarrow.array(of, pyarrow.string()),
        pyarrow.array([header["seed"]] * count, pyarrow.uint64()),
        pyarrow.array([text] * count, pyarrow.string()).dictionary_encode(),
    ]
    for at, (name, column) in enumerate(zip(COLUMNS, columns)):
        rows = rows.add_column(at, name, column)
    rows = rows.filter(pyarrow.compute.is_valid(rows["key"]))
    return rows.replace_schema_metadata({"reach": json.dumps(header)})
