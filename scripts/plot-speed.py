#!/usr/bin/env python3
"""Draws docs/speed.svg: references simulated a second by the size of memory that is used at random.

    target/release/reach-bench uniform-256M uniform-random uniform-4G uniform-32G uniform-256G uniform-1T
    python3 scripts/plot-speed.py                  # needs matplotlib; reads target/bench.jsonl
"""

import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

SIZES = {
    "uniform-256M": 1 / 4,
    "uniform-random": 1,
    "uniform-4G": 4,
    "uniform-32G": 32,
    "uniform-256G": 256,
    "uniform-1T": 1024,
}
TIMINGS = {"counts": "counts", "inorder": "in order", "ooo": "out of order"}

root = pathlib.Path(__file__).resolve().parent.parent
rows = [json.loads(line) for line in (root / "target/bench.jsonl").read_text().splitlines()]
rows = [row for row in rows if row["stream"] in SIZES]
machines = sorted({row["machine"] for row in rows})

plt.rcParams.update({"svg.hashsalt": "reach", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
figure, panels = plt.subplots(1, len(machines), figsize=(8, 3.2), sharey=True, squeeze=False)
for panel, machine in zip(panels[0], machines):
    for timing, name in TIMINGS.items():
        points = [row for row in rows if row["machine"] == machine and row["timing"] == timing]
        points.sort(key=lambda row: SIZES[row["stream"]])
        sizes = [SIZES[row["stream"]] for row in points]
        rates = [row["mrefs_per_s"] for row in points]
        spread = [
            [row["mrefs_per_s"] - row["lowest"] for row in points],
            [row["highest"] - row["mrefs_per_s"] for row in points],
        ]
        panel.errorbar(sizes, rates, spread, marker="o", capsize=2, label=name)
    panel.set(xscale="log", yscale="log", title=machine, xlabel="memory used at random, GB")
    panel.set_xticks(list(SIZES.values()), ["¼", "1", "4", "32", "256", "1024"], minor=False)
    panel.minorticks_off()
panels[0][0].set_ylabel("million references/s")
panels[0][0].legend(frameon=False)
figure.tight_layout()
figure.savefig(root / "docs/speed.svg", metadata={"Date": None})
