"""The main values of results as tables: text for terminals, HTML for notebooks, cells for pages."""

from __future__ import annotations

import html as markup
from typing import NamedTuple


class Table(NamedTuple):
    """The main values of one machine."""

    caption: str
    header: list
    rows: list
    notes: list


def _short(number):
    """Formats a count with a suffix: 570 M."""
    for unit, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= power:
            return f"{number / power:.3g} {unit}"
    return f"{number:.3g}"


def _memory(count):
    """Formats bytes in binary units: 36 MB."""
    for unit, power in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= power:
            return f"{count / power:.3g} {unit}"
    return f"{count} B"


def _with_error(row, decimals):
    error = row.get("error")
    text = f"{row['value']:.{decimals}f}"
    return text if not error else f"{text} ±{error:.{decimals}f}"


def _columns(values):
    """Returns header and cells of one simulation from its rows by metric; a metric that it lacks has no column."""

    # A miss that a walk assist answers is none the less a miss.
    misses = sum(values[metric]["value"] for metric in ("walks", "walk_assist.hits") if metric in values)
    yield "L2 TLB misses\nper 1000 instr", f"{1000 * misses / max(values['instructions']['value'], 1):.2f}"
    if "cycles" in values:
        yield "WCPI", _with_error(values["wcpi"], 3)
    yield "page\nfaults", f"{values['page_faults']['value']:,}"
    yield "peak\nmemory", _memory(values["peak_resident_bytes"]["value"])
    if "cycles" in values:
        yield "speedup", _with_error(values["speedup"], 3)


def content(rows, header):
    """Returns title, sentences and tables of these results."""
    simulations = {}
    for row in rows:
        if row["process"] == "all":
            simulations.setdefault((row["machine"], row["system"]), {})[row["metric"]] = row
    findings = header.get("findings", [])
    lead = [finding["text"] for finding in findings if "system" not in finding]
    tables = []
    for machine in dict.fromkeys(machine for machine, _ in simulations):
        lines, notes, names = [], [], ["system"]
        for (other, system), values in simulations.items():
            if other != machine:
                continue
            own = [found["text"] for found in findings if (found.get("machine"), found.get("system")) == (machine, system)]
            marks = "".join(f" [{len(notes) + at + 1}]" for at in range(len(own)))
            notes += [f"[{len(notes) + at + 1}] {text}" for at, text in enumerate(own)]
            cells = list(_columns(values))
            names = ["system", *(name for name, _ in cells)]
            lines.append([system + marks, *(cell for _, cell in cells)])
        tables.append(Table(machine, names, lines, notes))
    first = next(iter(simulations.values()), None)
    if first is None:
        return "", lead, tables
    references = first["loads"]["value"] + first["stores"]["value"]
    size = f"{_short(first['instructions']['value'])} instructions, {_short(references)} data references"
    if "cycles" in first:
        lead.append(f"speedup: relative to {next(iter(simulations))[1]}")
    return rows[0]["program"], [size, *lead], tables


def text(rows, header):
    """Returns the tables as text."""
    title, lead, tables = content(rows, header)
    lines = [title, *lead]
    for table in tables:
        names = [name.replace("\n", " ") for name in table.header]
        names[0] = table.caption
        grid = [names, *table.rows]
        widths = [max(len(row[at]) for row in grid) for at in range(len(names))]
        lines.append("")
        for row in grid:
            first, *others = (cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths)))
            lines.append("  ".join([first, *others]).rstrip())
        lines += table.notes
    return "\n".join(lines)


def html(rows, header):
    """Returns the tables as HTML that takes the colours of the notebook. Names are escaped: they come from outside."""
    title, lead, tables = content(rows, header)
    out = [f"<div><strong>{markup.escape(title)}</strong>", *(f"<div>{markup.escape(line)}</div>" for line in lead)]
    for table in tables:
        names = [table.caption, *table.header[1:]]
        head = "".join(f"<th scope='col'>{markup.escape(name).replace(chr(10), '<br>')}</th>" for name in names)
        out.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for first, *others in table.rows:
            cells = "".join(f"<td style='text-align:right'>{markup.escape(cell)}</td>" for cell in others)
            out.append(f"<tr><th scope='row' style='text-align:left'>{markup.escape(first)}</th>{cells}</tr>")
        out.append("</tbody></table>")
        out += [f"<div><small>{markup.escape(note)}</small></div>" for note in table.notes]
    out.append(f"<div><small>configuration {markup.escape(str(header.get('hash')))}</small></div></div>")
    return "\n".join(out)
