"""The examples of the documentation print what its pages say."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import EXAMPLES

import reach

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "examples"),
    [("python.md", 11), ("tutorial-researcher.md", 8), ("sweeps.md", 4), ("adding-a-design.md", 3)],
)
def test_a_page_shows_real_output(page, examples, tmp_path, monkeypatch):
    pytest.importorskip("distributed" if page == "sweeps.md" else "numpy")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False)
    assert tried >= examples and failed == 0


def test_the_example_says_that_all_rows_are_the_same(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "linux_thp.py", "gups:bytes=64M,updates=20K"], capture_output=True, text=True, cwd=tmp_path
    )
    last = done.stdout.splitlines()[-1].split()
    assert done.returncode == 0 and last[0] == last[2] and int(last[0]) > 100, done.stdout + done.stderr


def test_everything_public_has_a_docstring_and_a_type():
    stubs = (Path(reach.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    for name in reach.__all__:
        item = getattr(reach, name)
        assert name.startswith("__") or item.__doc__, name
        if isinstance(item, type) and name not in ("Error", "OutOfMemory"):
            methods = [method for method in vars(item) if not method.startswith("_") and method not in ("name", "page_table")]
            for method in methods:
                assert getattr(item, method).__doc__ or method == "name", f"{name}.{method}"
                assert f"def {method}(" in stubs, f"{name}.{method}"


def test_stubs_agree_with_the_package(tmp_path):
    pytest.importorskip("mypy")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nignore_missing_imports = True\ndisable_error_code = import-untyped\n")
    check = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", settings, "--ignore-missing-stub"]
    done = subprocess.run([*check, "--ignore-disjoint-bases", "reach"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
