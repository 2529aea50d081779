"""Figures by matplotlib, which is imported when the first is drawn."""

from __future__ import annotations


class Plot:
    """The figures of a result. Each method draws on `ax`, or on new axes, and returns the axes."""

    def __init__(self, result):
        self._result = result

    def speedup(self, ax=None):
        """Draws the speedup of each system, one bar for each machine, with 95 % confidence intervals."""
        rows = [row for row in self._result.rows if row["metric"] == "speedup" and row["process"] == "all"]
        if not rows:
            raise ValueError('there are no speedups: timing="counts" has none; use "ooo" or "inorder"')
        ax = self._bars(ax, rows, "speedup")
        ax.axvline(1.0, color="gray", linewidth=0.8)
        return ax

    def cycles(self, ax=None):
        """Draws cycles by label, stacked: one bar for each machine and system."""
        prefix = "cycles."
        rows = [row for row in self._result.rows if row["metric"].startswith(prefix) and row["process"] == "all"]
        if not rows:
            raise ValueError('there are no cycles: timing="counts" has none; use "ooo" or "inorder"')
        ax = _axes(ax)
        bars = list(dict.fromkeys(f"{row['machine']}  {row['system']}" for row in rows))
        left = dict.fromkeys(bars, 0.0)
        for label in dict.fromkeys(row["metric"] for row in rows):
            value = {f"{row['machine']}  {row['system']}": row["value"] for row in rows if row["metric"] == label}
            if any(value.values()):
                widths = [value.get(bar, 0.0) for bar in bars]
                ax.barh(bars, widths, left=[left[bar] for bar in bars], label=label[len(prefix) :])
                left = {bar: left[bar] + width for bar, width in zip(bars, widths)}
        ax.invert_yaxis()
        ax.set_xlabel("cycles")
        _legend(ax)
        return ax

    def _bars(self, ax, rows, label):
        ax = _axes(ax)
        systems = list(dict.fromkeys(row["system"] for row in rows))
        machines = list(dict.fromkeys(row["machine"] for row in rows))
        height = 0.8 / len(machines)
        for at, machine in enumerate(machines):
            own = {row["system"]: row for row in rows if row["machine"] == machine}
            places = [place + (at - (len(machines) - 1) / 2) * height for place in range(len(systems))]
            values = [own[system]["value"] for system in systems]
            errors = [own[system].get("error") or 0.0 for system in systems]
            ax.barh(places, values, height, xerr=errors if any(errors) else None, label=machine, capsize=2)
        ax.set_yticks(range(len(systems)), systems)
        ax.invert_yaxis()
        ax.set_xlabel(label)
        _legend(ax)
        return ax


def _legend(ax):
    """Adds a legend beside the bars, where it covers none."""
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _axes(ax):
    """Returns `ax`, or new axes."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("figures need matplotlib: pip install matplotlib") from None
    return pyplot.subplots(layout="constrained")[1]
