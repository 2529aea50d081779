"""The command `reach`: the program in this package, executed in place of Python."""

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "_bin"
"""The folder of the command, the capture plugin and the library that moves code."""

PLUGIN = FOLDER / "libreach_plugin.so"
"""The plugin by which the emulator reports what a program refers to."""


def main() -> None:
    """Executes the command with this process's arguments; it finds its libraries beside itself."""
    command = FOLDER / "reach"
    # For the verbs that are written in Python.
    os.environ["REACH_PYTHON"] = sys.executable
    try:
        os.execv(command, ["reach", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"reach: {command}: {error.strerror}; install the package again")
