"""The notebook: its policy does what its text says, and its cells run."""

import json

import pytest
from conftest import EXAMPLES

import reach

CELLS = json.loads((EXAMPLES / "dense.ipynb").read_text(encoding="utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def dense():
    names = {"reach": reach}
    exec(next(code for code in CODE if code.startswith("class Dense")), names)
    return names["Dense"]


def test_the_rule_needs_one_copy_for_memory_that_is_filled_from_its_beginning():
    result = reach.compare(reach.synthetic("touch:bytes=16M,passes=2"), "zen4", ["base", dense()], timing="counts")
    faults = {system: result.value("page_faults", system=system) for system in ("base", "dense")}
    # 90 % of the first 2 MB, then one fault for each further 2 MB.
    assert faults["base"] - faults["dense"] == 4096 - 461 - 7
    assert result.value("peak_resident_bytes", system="dense") - result.value("peak_resident_bytes", system="base") < 4 << 20


def test_the_rule_gives_nothing_to_memory_that_is_used_here_and_there():
    program = reach.synthetic("gups:bytes=64M,updates=2K")
    result = reach.compare(program, "zen4", ["base", dense()], timing="counts")
    for metric in ("page_faults", "peak_resident_bytes"):
        assert result.value(metric, system="dense") == result.value(metric, system="base")


@pytest.mark.slow
def test_all_cells_run(capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    names = {}
    for code in CODE:
        exec(code, names)
    printed = capsys.readouterr().out
    assert "dense" in printed and all(program in printed for program in ("gcc", "python3", "perl", "sort", "xz"))
