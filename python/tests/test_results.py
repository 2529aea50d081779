"""Results are those of the command, in every form that they can take."""

import json

import pytest
from conftest import PROGRAM, command, lines

import reach

SYSTEMS = ["base", "linux-thp:enabled=madvise", "ideal"]


def options_of(options):
    """Returns options of a function as those of the command."""
    for name, value in options.items():
        yield f"--{name.replace('_', '-')}"
        if value is not True:
            yield str(value)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"timing": "inorder", "seed": 7, "memory": "1G"},
        {"timing": "counts", "limit": "100k", "cold": True},
        {"whole": True, "fast_forward": 5000, "threads": 1},
        {"sample": "every=20k,measure=200,warm=200"},
        {"precision": "0.5%", "fragment": "scattered=0.9"},
        {"timing": "inorder", "cores": 2},
    ],
)
def test_rows_and_header_are_those_of_the_command(options):
    machines = ["zen4", "skylake-sp:tlb.l2.entries=3072"]
    result = reach.compare(reach.synthetic(PROGRAM), machines=machines, systems=SYSTEMS, **options)
    named = [word for machine in machines for word in ("--machine", machine)]
    named += [word for system in SYSTEMS for word in ("--system", system)]
    printed = command("compare", "-q", "--program", PROGRAM, *named, "--format", "jsonl", *options_of(options))
    assert result.to_jsonl() == printed
    header, *rows = lines(printed)
    assert result.header == header and result.rows == rows


def test_the_default_systems_are_those_of_the_command():
    result = reach.compare(reach.synthetic(PROGRAM), machines="zen4", timing="counts")
    printed = command("compare", "-q", "--program", PROGRAM, "--machine", "zen4", "--timing", "counts", "--format", "jsonl")
    assert result.to_jsonl() == printed


def test_run_is_the_verb_run():
    result = reach.run(reach.synthetic(PROGRAM), "alpha-21264", "navarro-2002", timing="inorder")
    printed = command(
        "run", "-q", "--program", PROGRAM, "--machine", "alpha-21264", "--system", "navarro-2002", "--timing", "inorder",
        "--format", "jsonl",
    )  # fmt: skip
    assert result.to_jsonl() == printed
    assert result.value("page_faults") == next(row["value"] for row in result.rows if row["metric"] == "page_faults")


def test_a_machine_is_a_name_a_text_or_a_dictionary():
    program = reach.synthetic(PROGRAM)
    text = 'name = "mine"\nabout = "a variant"\nsources = []\nbased_on = "zen4"\n[tlb.l2d]\nentries = [1536, "E", "halved"]\n'
    table = {
        "name": "mine",
        "about": "a variant",
        "sources": [],
        "based_on": "zen4",
        "tlb": {"l2d": {"entries": [1536, "E", "halved"]}},
    }
    results = [reach.run(program, machine, timing="counts") for machine in (text, table, "zen4:tlb.l2d.entries=1536")]
    values = [[row["value"] for row in result.rows] for result in results]
    assert values[0] == values[1] == values[2]
    assert results[0].header["machines"][0]["hash"] == results[2].header["machines"][0]["hash"]
    assert {row["machine"] for row in results[1].rows} == {"mine"}


def test_frames_have_the_values_of_the_rows():
    polars, pandas, pyarrow = map(pytest.importorskip, ("polars", "pandas", "pyarrow"))
    program = reach.synthetic("web:requests=3000")
    result = reach.compare(program, "zen4", SYSTEMS, sample="every=20k,measure=200,warm=200")
    arrow, frame, other = result.to_arrow(), result.to_polars(), result.to_pandas()
    assert isinstance(arrow, pyarrow.Table) and isinstance(frame, polars.DataFrame) and isinstance(other, pandas.DataFrame)
    columns = ["machine", "system", "program", "process", "metric", "unit", "value", "error"]
    assert arrow.column_names == frame.columns == list(other.columns) == columns
    expected = [{"error": None, **row, "value": float(row["value"])} for row in result.rows]
    assert any(row["error"] is not None for row in expected)
    expected = [{name: row[name] for name in columns} for row in expected]
    assert arrow.to_pylist() == frame.to_dicts() == expected
    assert [None if error != error else error for error in other["error"]] == [row["error"] for row in expected]


def test_a_notebook_shows_tables_and_escapes_names(tmp_path):
    program = reach.Program.from_arrays([4096], [1], [8], name="<script>alert(1)</script>")
    result = reach.compare(program, "zen4", ["base", "ideal"], timing="inorder")
    shown = result._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;" in shown and shown.count("<tr>") == 3
    assert "speedup: relative to base" in repr(result)
    page = tmp_path / "page.html"
    result.save_html(page)
    text = page.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text and result.header["hash"] in text and "reach.compare(program" in text
    with pytest.raises(ValueError, match="exists already"):
        result.save_html(page)
    result.save_html(page, force=True)


def test_figures_have_a_bar_for_each_system():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = reach.compare(reach.synthetic(PROGRAM), ["zen4", "skylake-sp"], SYSTEMS, timing="inorder")
    axes = result.plot.speedup()
    speedups = [row["value"] for row in result.rows if row["metric"] == "speedup" and row["process"] == "all"]
    assert [bar.get_width() for bar in axes.patches] == speedups
    assert [label.get_text() for label in axes.get_yticklabels()] == SYSTEMS
    assert len(result.plot.cycles().get_yticklabels()) == 6
    counted = reach.run(reach.synthetic(PROGRAM), "zen4", timing="counts")
    with pytest.raises(ValueError, match="no speedups"):
        counted.plot.speedup()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"machines": "zen9"}, "did you mean"),
        ({"machines": 'name = "x"\n[tlb]\n'}, "line"),
        ({"machines": {"name": "x"}}, "missing field"),
        ({"machines": 4}, "expected a name, the text of a machine file or a dictionary, found int"),
        ({"systems": "bsae"}, "did you mean \"base\""),
        ({"systems": 4}, "expected a name, or a subclass or an instance of reach.System, found int"),
        ({"memory": "lots"}, 'memory="lots": expected a number of bytes'),
        ({"timing": "slow"}, "expected counts, inorder or ooo"),
        ({"seed": -1}, "expected a whole number from 0"),
        ({"cold": "yes"}, "expected True or False"),
        ({"precision": 1, "whole": True}, "exclude each other"),
        ({"precision": 1, "timing": "counts"}, "precision is for samples"),
        ({"cores": 64}, "has 8 cores"),
    ],
)
def test_arguments_that_cannot_be_are_value_errors_with_the_commands_sentence(arguments, text):
    with pytest.raises(ValueError) as raised:
        reach.compare(reach.synthetic(PROGRAM), **{"machines": "zen4", **arguments})
    assert text in str(raised.value)


def test_runs_that_fail_raise_error():
    with pytest.raises(reach.Error, match="out of simulated memory"):
        reach.run(reach.synthetic("gups:bytes=64M,updates=20K"), "zen4", memory="16M")
    with pytest.raises(reach.Error, match="software-managed TLB"):
        reach.run(reach.synthetic(PROGRAM), "zen4", "romer-1995")
    with pytest.raises(TypeError, match="no option 'quantum'"):
        reach.run(reach.synthetic(PROGRAM), quantum=3)
    with pytest.raises(TypeError, match="expected a reach.Program"):
        reach.run("gups")


def test_progress_is_told_to_a_function():
    told = []
    reach.run(
        reach.synthetic("gups:bytes=64M,updates=1M"), "zen4", timing="inorder", progress=lambda *status: told.append(status)
    )
    assert told and all(done <= total for _, done, total in told)
    assert [status[0] for status in told] == sorted(status[0] for status in told)

    def refuses(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        reach.run(reach.synthetic("gups:bytes=64M,updates=100M"), "zen4", progress=refuses)


def test_a_bar_of_tqdm_is_shown_where_one_is_asked_for(capsys):
    pytest.importorskip("tqdm")
    program = reach.synthetic("gups:bytes=64M,updates=1M")
    for wanted, shows in ((True, True), (False, False)):
        reach.run(program, "zen4", timing="inorder", progress=wanted)
        assert ("gups:bytes=64M" in capsys.readouterr().err) == shows


def test_the_header_is_json_with_a_hash():
    header = reach.run(reach.synthetic(PROGRAM), "zen4", timing="counts").header
    assert len(header["hash"]) == 64 and header["version"] == reach.__version__
    assert json.dumps(header)
