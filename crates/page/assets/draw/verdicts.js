// Figures of papers and of measured hardware: their numbers beside ours.

const VERDICTS = [
  ["met", "#2f855a"],
  ["missed", "#d7263d"],
  ["not decisive", "#9aa5b1"],
  ["not judged", "#735cdd"],
];
const SERIES = ["#3b6fb6", "#e4572e", "#5b8e7d", "#e4a03a", "#735cdd", "#b8336a", "#9aa5b1", "#2b9eb3"];

/** Returns a figure for each section and unit, then the figures of the paper, then memory over time. */
function verdictFigures(rows) {
  const numbers = rows.filter((row) => "verdict" in row && row.ours !== null);
  const key = (row) => JSON.stringify([row.paper ?? row.set, row.section ?? "", row.unit]);
  const groups = [...d3.group(numbers, key).values()].map(numbersFigure);
  const bars = [...d3.group(rows.filter((row) => "figure" in row), (row) => row.figure).values()].map(paperFigure);
  const lines = d3.group(rows.filter((row) => "series" in row), (row) => `${row.experiment}: ${row.series}`);
  return [...groups, ...bars, ...[...lines.values()].map(seriesFigure)];
}

/** Returns the number of the paper or of the hardware; null if there is none. */
function theirs(row) {
  return row.published ?? row.measured ?? null;
}

/** Returns the interval of our number, then that of theirs, where they have one. */
function intervals(row) {
  const given = row.low != null && row.high != null ? [row.low, row.high] : null;
  if (!("measured" in row)) return [given, null];
  return [row.error != null ? [row.ours - row.error, row.ours + row.error] : null, given];
}

function numbersFigure(rows, number) {
  const [{ unit }] = rows;
  const name = "section" in rows[0] ? `section ${rows[0].section || "(none)"}` : rows[0].set;
  const who = "measured" in rows[0] ? "measured" : "published";
  const values = rows.map((row, at) => {
    const [ours, other] = intervals(row);
    return { ...row, at: String(at), name: shown(row.item), theirs: theirs(row), ourInterval: ours, theirInterval: other };
  });
  const color = (v) => new Map(VERDICTS).get(v.verdict) ?? "currentColor";
  const present = VERDICTS.filter(([verdict]) => values.some((v) => v.verdict === verdict));
  const all = values.flatMap((v) => [v.theirs, v.ours, v.null, ...(v.ourInterval ?? []), ...(v.theirInterval ?? [])]);
  const drawn = all.filter((x) => x !== null && x !== undefined);
  // Numbers of a section may be far apart: a logarithmic axis tells them apart, too.
  const wide = d3.min(drawn) > 0 && d3.max(drawn) / d3.min(drawn) > 30;
  const interval = (of) => values.filter((v) => v[of]);
  const say = (v) => `${v.name}: ours ${exact(v.ours)}, ${who} ${exact(v.theirs)} ${v.unit}; ${v.verdict}`;
  return {
    id: `numbers-${number + 1}`,
    title: `${shown(name)} (${shown(unit)})`,
    about: `For each number, a ring for the ${who} value, a dot for ours, and a cross for its value where nothing has an effect.`,
    values,
    columns: [
      ["item", (v) => v.name],
      [who, (v) => exact(v.theirs)],
      ["ours", (v) => exact(v.ours)],
      ["tolerance", (v) => v.tolerance],
      ["no effect", (v) => exact(v.null)],
      ["verdict", (v) => v.verdict],
    ],
    legend: [
      { name: who, symbol: d3.symbolCircle },
      ...present.map(([verdict, color]) => ({ name: `ours: ${verdict}`, color, symbol: d3.symbolCircle })),
      ...(values.some((v) => v.null != null) ? [{ name: "no effect", color: "#9aa5b1", symbol: d3.symbolTimes }] : []),
    ],
    plot: (width) => ({
      height: values.length * 36 + 46,
      marginLeft: 10,
      marginRight: 20,
      x: { label: shown(unit), type: wide ? "log" : "linear", grid: true, nice: true, ...(d3.max(drawn) < 10_000 ? {} : { tickFormat: short }), ticks: Math.max(2, Math.floor(width / 120)) },
      y: { domain: values.map((v) => v.at), axis: null },
      marks: [
        Plot.ruleY(interval("theirInterval"), { y: "at", x1: (v) => v.theirInterval[0], x2: (v) => v.theirInterval[1], strokeWidth: 5, strokeOpacity: 0.25, dy: 7 }),
        Plot.ruleY(interval("ourInterval"), { y: "at", x1: (v) => v.ourInterval[0], x2: (v) => v.ourInterval[1], stroke: color, strokeWidth: 2, dy: 7 }),
        Plot.dot(values.filter((v) => v.null != null), { y: "at", x: "null", symbol: "times", stroke: "#9aa5b1", r: 4, dy: 7 }),
        Plot.dot(values.filter((v) => v.theirs !== null), { y: "at", x: "theirs", r: 6, strokeWidth: 1.5, dy: 7 }),
        Plot.dot(values, { y: "at", x: "ours", r: 3.5, fill: color, dy: 7, title: say }),
        labelsAbove(values, width, 8),
      ],
    }),
  };
}

/** A figure of the paper: bars, or lines where it has many columns. */
function paperFigure(rows, number) {
  const columns = distinct(rows, (row) => row.column);
  const values = rows.map((row) => ({ ...row, system: shown(row.column), kind: shown(row.row) }));
  const common = {
    id: `figure-${number + 1}`,
    title: shown(rows[0].figure),
    values,
    columns: [["row", (v) => v.row], ["column", (v) => v.column], [shown(rows[0].unit), (v) => exact(v.value)]],
  };
  const kinds = distinct(values, (v) => v.kind);
  if (columns.length > 8) return { ...common, ...manyColumns(values, kinds, columns.map(shown), rows[0].unit) };
  const systems = columns.map(shown);
  return {
    ...common,
    about: "Ours, for a figure that is published without numbers: a panel for each row, and in it a bar for each column.",
    plot: (width) => ({
      height: kinds.length * (systems.length * (BAR - 4) + 26) + 50,
      marginLeft: labelRoom(systems, width),
      marginTop: 24,
      marginRight: 56,
      x: { label: shown(rows[0].unit), grid: true, tickFormat: short, ticks: Math.max(2, Math.floor(width / 120)) },
      y: { domain: systems },
      fy: { domain: kinds, axis: null, padding: 26 / (systems.length * (BAR - 4) + 26) },
      marks: [
        names(systems, width),
        Plot.text(kinds, { fy: (kind) => kind, text: (kind) => kind, frameAnchor: "top-left", dy: -13, fontWeight: 600 }),
        Plot.barX(values, { fy: "kind", y: "system", x: "value", fill: "#3b6fb6", insetTop: 1, insetBottom: 1, title: (v) => `${v.kind}, ${v.system}: ${exact(v.value)}` }),
        Plot.text(values, { fy: "kind", y: "system", x: "value", dx: 5, textAnchor: "start", text: (v) => short(v.value) }),
        Plot.ruleX([0]),
      ],
    }),
  };
}

function manyColumns(values, kinds, columns, unit) {
  const color = (kind) => SERIES[kinds.indexOf(kind) % SERIES.length];
  return {
    about: "Ours, for a figure that is published without numbers: a line for each row, through its columns.",
    legend: kinds.map((name) => ({ name, color: color(name) })),
    plot: (width) => {
      const step = Math.ceil(columns.length / Math.max(4, Math.floor(width / 70)));
      return {
        height: 320,
        marginLeft: 50,
        marginBottom: 90,
        x: { type: "point", domain: columns, label: null, ticks: columns.filter((_, at) => at % step === 0), tickRotate: -40 },
        y: { label: shown(unit), grid: true, tickFormat: short, zero: true },
        marks: [
          Plot.line(values, { x: "system", y: "value", z: "kind", stroke: (v) => color(v.kind), strokeWidth: 1.8 }),
          Plot.dot(values, { x: "system", y: "value", fill: (v) => color(v.kind), r: 2.4, title: (v) => `${v.kind}, ${v.system}: ${exact(v.value)}` }),
        ],
      };
    },
  };
}

/** A quantity over time, a line for each system. */
function seriesFigure(rows, number) {
  const [{ experiment, series, unit }] = rows;
  const systems = distinct(rows, (row) => row.system);
  const color = (system) => SERIES[systems.indexOf(system) % SERIES.length];
  const format = unit === "bytes" ? bytes : short;
  return {
    id: `series-${number + 1}`,
    title: `${shown(experiment)}: ${shown(series)} over time`,
    about: "A line for each system.",
    values: rows,
    columns: [["system", (v) => v.system], ["seconds", (v) => exact(v.seconds)], [unit, (v) => exact(v.value)]],
    legend: systems.map((name) => ({ name: shown(name), color: color(name) })),
    plot: (width) => ({
      height: 300,
      marginLeft: 56,
      x: { label: "seconds", ticks: Math.max(2, Math.floor(width / 100)) },
      y: { label: shown(unit), grid: true, zero: true, tickFormat: format },
      marks: [
        Plot.ruleY([0]),
        Plot.line(rows, { x: "seconds", y: "value", z: "system", stroke: (v) => color(v.system), sort: "seconds", strokeWidth: 1.8 }),
        Plot.dot(rows, { x: "seconds", y: "value", fill: (v) => color(v.system), r: 2, title: (v) => `${shown(v.system)}, ${exact(v.seconds)} s: ${exact(v.value)}` }),
      ],
    }),
  };
}
