"""Helpers of the tests, which import the installed package and hold it against the command that it installs."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "web:requests=300"
"""A synthetic program with code, heap and files, small enough for every test."""

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))


def command(*arguments, check=True):
    """Runs the installed command, and returns its standard output."""
    reach = Path(sys.executable).parent / "reach"
    done = subprocess.run([reach, *arguments], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout if check else done


def by_metric(result, system):
    """Returns the values and errors of a system by process and metric, but for those that depend on its name and role."""
    skipped = ("finding.", "model.")
    return {
        (row["process"], row["metric"]): (row["value"], row.get("error"))
        for row in result.rows
        if row["system"] == system and not row["metric"].startswith(skipped)
    }


def lines(text):
    """Parses JSON, one a line."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Lets Ctrl-C raise where the tests run in the background, too, where shells ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def emulator():
    """Skips what captures programs where the emulator is missing."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed, which captures programs")


@pytest.fixture(scope="session")
def recording(emulator, tmp_path_factory):
    """A recording of a small real program with children."""
    import reach

    path = tmp_path_factory.mktemp("recording") / "shell.reach"
    return reach.record(["sh", "-c", "ls / | sort > /dev/null; head -c 8M /dev/zero | sort > /dev/null"], path)
