"""Programs: recordings, files, synthetic programs and arrays."""

import array
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import PROGRAM, command, lines

import reach


def signal_after(seconds):
    """Sends SIGINT to this process later."""
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def elements(count):
    """Returns a trace as lists: kinds, addresses, sizes and threads."""
    kinds, addresses, sizes, threads = [], [], [], []
    for at in range(count):
        thread = at // 100 % 3
        for kind, address, size in [
            (0, 0x401000 + at % 500 * 3, 3),
            (1, (at * 4097 * 4096) % (1 << 28), 8),
            (2, 1 << 30 | at * 64 % (1 << 22), 300 if at % 50 == 0 else 16),
        ]:
            kinds.append(kind)
            addresses.append(address)
            sizes.append(size)
            threads.append(thread)
    return kinds, addresses, sizes, threads


def written_as_text(path, trace):
    """Writes a trace in text form."""
    with open(path, "w", encoding="ascii") as file:
        file.write("# reach-text 1\n")
        for kind, address, size, thread in zip(*trace):
            file.write(f"T 0 {thread}\n{'ILS'[kind]} {address:x} {size}\n")
        file.write("E\n")
    return path


@pytest.mark.parametrize("form", ["numpy", "narrow numpy", "array", "list", "strided"])
def test_arrays_give_the_rows_of_the_same_trace_in_a_file(tmp_path, form):
    trace = elements(3000)
    path = written_as_text(tmp_path / "arrays", trace)
    kinds, addresses, sizes, threads = trace
    if form in ("numpy", "narrow numpy", "strided"):
        numpy = pytest.importorskip("numpy")
        types = ["u1", "u8", "u4", "u8"] if form == "numpy" else ["i8", "i8", "u2", "u1"]
        columns = [numpy.array(column, dtype=kind) for column, kind in zip(trace, types)]
        if form == "strided":
            columns = [numpy.repeat(column, 2)[::2] for column in columns]
        kinds, addresses, sizes, threads = columns
    elif form == "array":
        kinds, addresses = array.array("B", kinds), array.array("Q", addresses)
        sizes, threads = array.array("I", sizes), array.array("L", threads)
    program = reach.Program.from_arrays(addresses, kinds, sizes, threads=threads)
    for timing in ("ooo", "inorder", "counts"):
        options = {"machines": "zen4", "systems": ["base", "linux-thp"], "timing": timing}
        assert reach.compare(program, **options).to_jsonl() == reach.compare(reach.open(path), **options).to_jsonl()
    printed = command(
        "compare", "-q", "--trace", str(path), "--machine", "zen4", "--system", "base", "--timing", "counts",
        "--format", "jsonl",
    )  # fmt: skip
    assert reach.compare(program, "zen4", "base", timing="counts").rows == lines(printed)[1:]


def test_counted_instructions_are_instructions_of_the_program():
    program = reach.Program.from_arrays([4096, 8192, 12288], [1, 2, 1], [8, 8, 8], instructions=[10, 1, 2000])
    result = reach.run(program, "zen4", timing="counts")
    assert (result.value("instructions"), result.value("loads"), result.value("stores")) == (2011, 2, 1)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (([0], [3], [8]), "kinds[0]: 3, expected 0"),
        (([0], [1], [0]), "sizes[0]: 0, expected 1 to 65536"),
        (([0], [1, 1], [8, 8]), "addresses: 1 elements, expected 2"),
        (([-1], [1], [8]), "addresses: "),
        (([0.5], [1], [8]), "addresses: "),
        (([0], ["load"], [8]), "kinds: "),
        (([0], [0], [4], [1]), "leave one of both out"),
    ],
)
def test_columns_that_cannot_be_are_refused_with_their_place(columns, text):
    with pytest.raises(ValueError) as raised:
        reach.Program.from_arrays(*columns)
    assert str(raised.value).startswith(text) or text in str(raised.value)


def test_numpy_columns_that_do_not_fit_are_refused():
    numpy = pytest.importorskip("numpy")
    for wrong in (numpy.array([1 << 33]), numpy.array([1.5]), numpy.zeros((2, 2), dtype="u4")):
        with pytest.raises(ValueError, match="sizes: "):
            reach.Program.from_arrays(numpy.zeros(1, dtype="u8"), numpy.ones(1, dtype="u1"), wrong)


def test_a_saved_program_is_the_program(tmp_path):
    program = reach.synthetic(PROGRAM)
    path = tmp_path / "saved.reach"
    program.save(path)
    again = reach.open(path)
    assert again.name == program.name and again.path == path
    systems = ["base", "linux-thp"]
    rows = [reach.compare(one, "zen4", systems, timing="counts").rows for one in (program, again)]
    assert rows[0] == rows[1]
    with pytest.raises(ValueError, match="exists already"):
        program.save(path)


def test_what_is_no_program_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean `gups`"):
        reach.synthetic("gup")
    with pytest.raises(reach.Error, match="No such file"):
        reach.open(tmp_path / "none.reach")
    (tmp_path / "noise").write_bytes(b"noise")
    with pytest.raises(ValueError, match="no trace of a known format"):
        reach.open(tmp_path / "noise")
    with pytest.raises(TypeError, match="is made by"):
        reach.Program("gups")


def test_a_recording_is_that_of_the_command(emulator, tmp_path):
    path = tmp_path / "ls.reach"
    program = reach.record(["ls", "/"], path, output=tmp_path / "out")
    assert (tmp_path / "out").read_text() and program.path == path and program.name == "ls /"
    ours = reach.compare(program, "zen4", ["base", "ideal"]).to_jsonl()
    printed = command(
        "compare", "-q", "--trace", str(path), "--machine", "zen4", "--system", "base", "--system", "ideal", "--format", "jsonl"
    )
    assert ours == printed
    with pytest.raises(ValueError, match="exists already"):
        reach.record(["ls"], path)


def test_a_temporary_recording_goes_with_its_program(emulator, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = reach.record(["true"], limit=1000)
    assert reach.run(program, "zen4", timing="counts").value("page_faults") > 0
    assert program.path is None and [name.suffix for name in tmp_path.iterdir()] == [".reach"]
    del program
    assert not list(tmp_path.iterdir())


def test_how_a_recorded_program_failed_is_a_warning(emulator):
    with pytest.warns(RuntimeWarning, match="exit status 3"):
        reach.record(["sh", "-c", "exit 3"])
    with pytest.raises(reach.Error, match="no such program in PATH"):
        reach.record(["no-such-program"])
    with pytest.raises(TypeError, match="expected a list"):
        reach.record("ls /")


def test_interruption_ends_a_recording_its_program_and_leaves_no_file(emulator, tmp_path):
    timer, begun = signal_after(1.0), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        reach.record(["sh", "-c", "sleep 71; true"], tmp_path / "x.reach", output=tmp_path / "out")
    timer.join()
    assert time.monotonic() - begun < 20 and not (tmp_path / "x.reach").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("systems", [["base"], ["base", "linux-thp", "hugetlb-2m", "ideal"]])
def test_interruption_ends_a_simulation_promptly(systems):
    timer, begun = signal_after(1.0), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        reach.compare(reach.synthetic("gups:bytes=1G,updates=1G"), "zen4", systems)
    timer.join()
    assert time.monotonic() - begun < 15


def test_other_threads_run_while_one_simulates():
    counted = []

    def count():
        while not counted or counted[-1] < 100_000:
            counted.append(len(counted))
            if done.is_set():
                return

    done = threading.Event()
    thread = threading.Thread(target=count)
    thread.start()
    reach.run(reach.synthetic("gups:bytes=64M,updates=200K"), "zen4", timing="inorder")
    done.set()
    thread.join()
    assert len(counted) > 1000


def test_the_command_is_installed_and_captures(emulator, tmp_path):
    assert command("--version").strip() == f"reach {reach.__version__}"
    done = command("compare", "--machine", "zen4", "--system", "base", "--", "true", check=False)
    assert done.returncode == 0 and "base" in done.stdout, done.stderr
    module = subprocess.run([sys.executable, "-m", "reach", "system", "list"], capture_output=True, text=True, cwd=tmp_path)
    assert module.returncode == 0 and "linux-thp" in module.stdout
    assert shutil.which("reach", path=os.path.dirname(sys.executable))
