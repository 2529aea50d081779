"""Sweeps: every point once, whatever happens to workers, and rows as `compare` gives them."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import reach

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

GUPS = "gups:bytes=4M,updates=20K"
COUNTS = {"timing": "counts"}


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=None, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def rows_of(table):
    columns = ["machine", "system", "metric", "value"]
    return {tuple(row[c] for c in columns) for row in table.to_pylist() if row["process"] == "all"}


def test_rows_are_those_of_compare(client, tmp_path):
    machines, systems = ["zen4", "skylake-e3-1240v5"], ["base", "linux-thp"]
    done = reach.sweep(GUPS, machines, systems, output=tmp_path, cluster=client, seeds=[1], **COUNTS)
    assert (done.points, done.known, done.computed, done.failed) == (4, 0, 4, ())
    result = reach.compare(reach.synthetic(GUPS), machines=machines, systems=systems, seed=1, **COUNTS)
    assert rows_of(done.to_arrow()) == rows_of(result.to_arrow())
    header = json.loads(done.to_arrow().schema.metadata[b"reach"])
    assert header["timing"] == "counts"


def test_a_sweep_is_resumed_and_extended_and_nothing_is_computed_twice(client, tmp_path):
    def sweep(machines, systems, seeds):
        return reach.sweep(GUPS, machines, systems, output=tmp_path, cluster=client, seeds=seeds, **COUNTS)

    assert sweep(["zen4"], ["base"], [1, 1]).computed == 1, "the same point twice is one"
    again = sweep(["zen4"], ["base"], [1])
    assert (again.known, again.computed, again.efficiency) == (1, 0, None)
    more = sweep(["zen4", "skylake-e3-1240v5"], ["base", "linux-thp"], [1, 2])
    assert (more.points, more.known, more.computed) == (8, 1, 7)
    keys = more.to_arrow()
    points = {(r["machine"], r["system"], r["seed"], r["key"]) for r in keys.to_pylist()}
    assert len(points) == len({key for *_, key in points}) == 8
    metrics = [(r["key"], r["process"], r["metric"]) for r in keys.to_pylist()]
    assert len(metrics) == len(set(metrics)), "a row occurs once"


def test_a_changed_program_has_other_points(client, tmp_path):
    path = tmp_path / "a.reach"
    for updates, known in [("10K", 0), ("20K", 0), ("20K", 1)]:
        reach.synthetic(f"gups:bytes=4M,updates={updates}").save(path, force=True)
        done = reach.sweep(path, ["zen4"], ["base"], output=tmp_path / "set", cluster=client, **COUNTS)
        assert (done.known, done.computed) == (known, 1 - known)


def test_a_point_that_fails_costs_no_other(client, tmp_path):
    settings = [{"limit": "1K"}, {"limit": "2K", "memory": "1M"}]
    done = reach.sweep(GUPS, ["zen4"], ["base", "linux-thp"], output=tmp_path, cluster=client, settings=settings, **COUNTS)
    assert done.computed == 2 and len(done.failed) == 2
    point, why = done.failed[0]
    assert "memory=1M" in point and why, "the reason says what is wrong"
    again = reach.sweep(GUPS, ["zen4"], ["base"], output=tmp_path, cluster=client, settings=settings, **COUNTS)
    assert again.known == 1 and len(again.failed) == 1, "failed points are tried again"


def test_recordings_are_sent_to_workers_that_see_no_files(client, tmp_path, monkeypatch):
    from reach import _cluster

    path = tmp_path / "a.reach"
    reach.synthetic(GUPS).save(path)
    kept = _cluster.client

    def blind(cluster, workers):
        import contextlib

        @contextlib.contextmanager
        def given():
            with kept(cluster, workers) as (client, _):
                yield client, False

        return given()

    monkeypatch.setattr(_cluster, "client", blind)
    done = reach.sweep(path, ["zen4"], ["base"], output=tmp_path / "set", cluster=client, **COUNTS)
    assert done.computed == 1 and done.failed == ()


def test_a_worker_that_is_killed_costs_nothing(tmp_path):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=None, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
            killed = threading.Event()

            def kill(done, total):
                if done >= total // 4 and not killed.is_set():
                    killed.set()
                    os.kill(pids[0], signal.SIGKILL)

            seeds = list(range(20))
            systems = ["base", "linux-thp"]
            done = reach.sweep(
                "gups:bytes=8M,updates=200K", ["zen4"], systems, output=tmp_path, cluster=client, seeds=seeds, progress=kill
            )
            assert killed.is_set()
    assert (done.points, done.computed, done.failed) == (40, 40, ())
    rows = [(r["key"], r["process"], r["metric"]) for r in done.to_arrow().to_pylist()]
    assert len(rows) == len(set(rows)) and len({key for key, *_ in rows}) == 40


def test_two_sweeps_do_not_write_to_one_folder(tmp_path):
    from reach._dataset import DataSet

    with DataSet(tmp_path), pytest.raises(ValueError, match="another sweep writes to it"):
        reach.sweep(GUPS, ["zen4"], ["base"], output=tmp_path, **COUNTS)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"machines": ["zen9"]}, "zen9"),
        ({"systems": ["nothing"]}, "nothing"),
        ({"systems": [reach.System]}, "expected names"),
        ({"programs": "missing.reach"}, "no such file"),
        ({"programs": "gups:bites=4M"}, "bites"),
        ({"cluster": "cloud"}, "expected local, slurm, pbs, kubernetes"),
        ({"colour": 3}, "no option 'colour'"),
        ({"machines": [{"name": "m"}]}, "m"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tmp_path, given, message):
    whole = {"programs": GUPS, "machines": ["zen4"], "systems": ["base"], "output": tmp_path, **COUNTS, **given}
    with pytest.raises((ValueError, TypeError), match=message):
        reach.sweep(**whole)


def test_files_that_are_none_of_a_sweep_are_left_alone(tmp_path):
    (tmp_path / "x.parquet").write_text("not a table")
    with pytest.raises(ValueError, match="move it away"):
        reach.sweep(GUPS, ["zen4"], ["base"], output=tmp_path, **COUNTS)


def test_clusters_are_made_as_dask_is_configured(tmp_path, monkeypatch):
    import types

    scaled = []

    class Cluster(distributed.LocalCluster):
        def __init__(self):
            super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=None)

        def scale(self, n):
            scaled.append(n)
            super().scale(n)

    monkeypatch.setitem(sys.modules, "dask_jobqueue", types.SimpleNamespace(SLURMCluster=Cluster))
    done = reach.sweep(GUPS, ["zen4"], ["base"], output=tmp_path, cluster="slurm", workers=1, **COUNTS)
    assert done.computed == 1 and scaled[0] == 1
    with pytest.raises(ImportError, match="pip install dask-kubernetes"):
        reach.sweep(GUPS, ["skylake-e3-1240v5"], ["base"], output=tmp_path, cluster="kubernetes", **COUNTS)


FILE = """
programs = ["gups:bytes=4M,updates=20K"]
machines = ["zen4"]
systems = ["base", "linux-thp"]
seeds = [1, 2]
output = "set"
workers = 1
[options]
timing = "counts"
"""


def command(folder, *words):
    return subprocess.run([sys.executable, "-m", "reach", "sweep", *words], cwd=folder, capture_output=True, text=True)


def test_the_command_runs_a_file(tmp_path):
    (tmp_path / "sweep.toml").write_text(FILE)
    done = command(tmp_path, "sweep.toml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 points: 0 known before, 4 computed, 0 failed; ")
    again = command(tmp_path, "sweep.toml")
    assert again.stdout == "4 points: 4 known before, 0 computed, 0 failed\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("programs = [", "sweep.toml: "),
        (FILE.replace("seeds", "sedes"), "unknown key 'sedes'"),
        (FILE.replace('output = "set"', ""), "output is missing"),
        (FILE.replace("timing", "timings"), "no option 'timings'"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path, text, message):
    (tmp_path / "sweep.toml").write_text(text)
    done = command(tmp_path, "sweep.toml")
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1
    missing = command(tmp_path, "missing.toml")
    assert missing.returncode == 1 and "missing.toml" in missing.stderr
