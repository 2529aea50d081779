"""`reach sweep FILE`: a sweep as a TOML file says it."""

from __future__ import annotations

import argparse
import inspect
import sys

from reach._reach import Error
from reach._sweep import sweep

_NEEDED = ["programs", "machines", "systems", "output"]
_KEYS = [name for name, given in inspect.signature(sweep).parameters.items() if given.kind != given.VAR_KEYWORD]


def main(words):
    """Runs the sweep of a file. Returns the exit status: 1 if a point failed, 2 if the file or the words are wrong."""
    parser = argparse.ArgumentParser(
        prog="reach sweep",
        description="Simulates every program of FILE on every machine under every system, on many workers (docs/sweeps.md).",
    )
    parser.add_argument("file", metavar="FILE", help="what to simulate, as TOML")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="the data set, instead of the file's")
    parser.add_argument("--workers", type=int, metavar="N", help="workers, instead of the file's")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    args = parser.parse_args(words)
    try:
        given = _read(args.file)
        given.update({name: value for name in ["output", "workers"] if (value := getattr(args, name)) is not None})
        missing = [name for name in _NEEDED if name not in given]
        if missing:
            raise ValueError(f"{args.file}: {missing[0]} is missing; a sweep has {', '.join(_NEEDED)}")
        done = sweep(**given, progress=False if args.quiet else None)
    except KeyboardInterrupt:
        print("reach: interrupted: the data set has the batches that had ended; the same command goes on", file=sys.stderr)
        return 130
    except (ValueError, TypeError) as error:
        print(f"reach: {error}", file=sys.stderr)
        return 2
    except (Error, ImportError, OSError) as error:
        print(f"reach: {error}", file=sys.stderr)
        return 1
    print(done)
    return 1 if done.failed else 0


def _read(path):
    """Returns the arguments of `sweep` that a file gives."""
    try:
        import tomllib
    except ImportError:  # Python 3.10 and older
        import tomli as tomllib
    with open(path, "rb") as file:
        try:
            table = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {error}") from None
    options = table.pop("options", {})
    known = [name for name in _KEYS if name != "progress"]
    for name in table:
        if name not in known:
            raise ValueError(f"{path}: unknown key {name!r}; known are {', '.join(known)} and the table options")
    return {**options, **table}
