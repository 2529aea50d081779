// Figures of rows with one metric each: compare and run, and their miss curves.

/** The labels of cycles from the program's own work to the operating system's, with their colours. */
const CYCLES = [
  ["compute", "#9aa5b1"],
  ["branch", "#c5a46b"],
  ["cache", "#6a8caf"],
  ["l2_tlb_hit", "#f2c14e"],
  ["walk", "#e4572e"],
  ["handler", "#b8336a"],
  ["itlb_l2_tlb_hit", "#f7d488"],
  ["itlb_walk", "#f08a5d"],
  ["itlb_stall", "#d7263d"],
  ["fault", "#5b8e7d"],
  ["copy", "#2d6a4f"],
  ["remap", "#8cb369"],
  ["daemon", "#735cdd"],
  ["kernel", "#b497d6"],
];
/** What misses and walks are, from the first level on. */
const MISSES = [
  ["l1i_tlb_misses", "L1 TLB misses, fetches"],
  ["l1d_tlb_misses", "L1 TLB misses, data"],
  ["l2_tlb_hits", "hits in later TLB levels"],
  ["walks", "page walks"],
];
const MEMORY = [
  ["peak_resident_bytes", "peak resident memory", bytes],
  ["page_table_bytes", "peak page tables", bytes],
  ["page_faults", "page faults", short],
];

/** Returns the figures of all machines. `points` are rows of memory over time. */
function metricFigures(rows, points) {
  const all = rows.filter((row) => row.process === "all");
  const machines = distinct(all, (row) => row.machine);
  return machines.flatMap((machine, at) => {
    const of = all.filter((row) => row.machine === machine);
    const systems = distinct(of, (row) => row.system);
    const found = new Map(of.map((row) => [JSON.stringify([row.system, row.metric]), row]));
    const get = (system, metric) => found.get(JSON.stringify([system, metric]));
    const scope = { id: machines.length > 1 ? `-${at + 1}` : "", machine: shown(machine), systems, get, rows: of };
    scope.points = points.filter((point) => point.machine === machine);
    const figures = [speedups, cycles, misses, memory, pageSizes, memoryOverTime, ...curves(scope)];
    return figures.map((figure) => figure(scope)).filter((figure) => figure !== null);
  });
}

/** Speedups with their intervals. Their axis does not begin at 0: a speedup is compared with 1. */
function speedups({ id, machine, systems, get }) {
  const values = systems.flatMap((system) => {
    const row = get(system, "speedup");
    if (!row) return [];
    const error = row.error ?? null;
    return [{ system: shown(system), speedup: row.value, error, low: row.value - (error ?? 0), high: row.value + (error ?? 0) }];
  });
  if (values.length < 2) return null;
  const labels = values.map((value) => value.system);
  return {
    id: `speedup${id}`,
    title: `Speedup over ${labels[0]}, ${machine}`,
    about: "A dot for each system; the line through it is the 95 % interval of the sample. Right of 1 is faster.",
    values,
    columns: [["system", (v) => v.system], ["speedup", (v) => exact(v.speedup)], ["±", (v) => exact(v.error)]],
    plot: (width) => ({
      height: values.length * BAR + 50,
      marginLeft: labelRoom(labels, width),
      marginRight: 92,
      x: { label: "speedup", nice: true, grid: true, ticks: Math.max(2, Math.floor(width / 110)) },
      y: { domain: labels },
      marks: [
        names(labels, width),
        Plot.ruleX([1], { strokeDasharray: "3,3", strokeOpacity: 0.6 }),
        Plot.ruleY(values, { y: "system", x1: "low", x2: "high", stroke: "#3b6fb6", strokeWidth: 2.5 }),
        Plot.dot(values, { y: "system", x: "speedup", r: 4, fill: "#3b6fb6", title: (v) => `${v.system}: ${within(v.speedup, v.error)}` }),
        Plot.text(values, { y: "system", x: "high", dx: 8, textAnchor: "start", text: (v) => within(v.speedup, v.error) }),
      ],
    }),
  };
}

/** All cycles by label, one bar for each system. */
function cycles({ id, machine, systems, get }) {
  const labels = CYCLES.filter(([label]) => systems.some((system) => get(system, `cycles.${label}`)?.value > 0));
  const values = systems.flatMap((system) =>
    labels.flatMap(([label]) => {
      const row = get(system, `cycles.${label}`);
      return row ? [{ system: shown(system), label, cycles: row.value }] : [];
    }),
  );
  if (!values.length) return null;
  return {
    ...stacked(values, "cycles", "label", systems.map(shown), labels, short),
    id: `cycles${id}`,
    title: `Cycles by label, ${machine}`,
    about: "A bar for each system. Its parts are the labels of cycles, which add up to all cycles of the program.",
    columns: [["system", (v) => v.system], ["label", (v) => v.label], ["cycles", (v) => exact(v.cycles)]],
  };
}

/** Stacked bars, one for each system. `parts` are pairs of a name and a colour. */
function stacked(values, amount, part, systems, parts, format) {
  const order = parts.map(([name]) => name);
  const most = d3.max(d3.rollup(values, (of) => d3.sum(of, (v) => v[amount]), (v) => v.system).values());
  const ticks = (count) => (amount === "bytes" ? byteTicks(most, count) : count);
  return {
    values,
    legend: parts.map(([name, color]) => ({ name, color })),
    plot: (width) => ({
      height: systems.length * BAR + 50,
      marginLeft: labelRoom(systems, width),
      x: { label: amount, grid: true, tickFormat: format, ticks: ticks(Math.max(2, Math.floor(width / 110))) },
      y: { domain: systems },
      color: { domain: order, range: parts.map(([, color]) => color) },
      marks: [
        names(systems, width),
        Plot.barX(values, {
          x: amount,
          y: "system",
          fill: part,
          order,
          insetTop: 2,
          insetBottom: 2,
          title: (v) => `${v.system}, ${v[part]}: ${exact(v[amount])}`,
        }),
        Plot.ruleX([0]),
      ],
    }),
  };
}

/** Bars in panels, each with a scale of its own: the longest bar of a panel fills it. */
function panels(values, kinds, systems) {
  const most = d3.rollup(values, (of) => d3.max(of, (v) => v.value), (v) => v.kind);
  const format = new Map(kinds.map(([, kind, format]) => [kind, format ?? short]));
  const shares = values.map((v) => ({ ...v, share: most.get(v.kind) > 0 ? v.value / most.get(v.kind) : 0 }));
  const present = distinct(shares, (v) => v.kind);
  return (width) => ({
    height: present.length * (systems.length * (BAR - 2) + 26) + 20,
    marginLeft: labelRoom(systems, width),
    marginRight: 70,
    marginTop: 24,
    marginBottom: 10,
    x: { axis: null, domain: [0, 1] },
    y: { domain: systems },
    fy: { domain: present, axis: null, padding: 26 / (systems.length * (BAR - 2) + 26) },
    marks: [
      names(systems, width),
      Plot.text(present, { fy: (kind) => kind, text: (kind) => kind, frameAnchor: "top-left", dy: -13, fontWeight: 600 }),
      Plot.barX(shares, {
        fy: "kind",
        y: "system",
        x: "share",
        fill: "#3b6fb6",
        insetTop: 2,
        insetBottom: 2,
        title: (v) => `${v.system}, ${v.kind}: ${exact(v.value)}`,
      }),
      Plot.text(shares, { fy: "kind", y: "system", x: "share", dx: 5, textAnchor: "start", text: (v) => (format.get(v.kind) ?? short)(v.value) }),
    ],
  });
}

/** The value of each of `kinds` under each system. */
function kindValues({ systems, get }, kinds) {
  return kinds.flatMap(([metric, kind]) =>
    systems.flatMap((system) => {
      const row = get(system, metric);
      return row ? [{ system: shown(system), kind, metric, value: row.value }] : [];
    }),
  );
}

const KIND_COLUMNS = [["system", (v) => v.system], ["metric", (v) => v.metric], ["value", (v) => exact(v.value)]];

function misses(scope) {
  const { id, machine, systems } = scope;
  const values = kindValues(scope, MISSES);
  if (!values.length) return null;
  const kinds = distinct(values, (v) => v.kind);
  // One system has nothing to be compared with: its levels are.
  const single = values.map((v) => ({ ...v, system: v.kind, kind: v.system }));
  return {
    id: `misses${id}`,
    title: `TLB misses by level, ${machine}`,
    about:
      systems.length > 1
        ? "A panel for each level, from the first on; within one, a bar for each system. Panels have scales of their own."
        : "A bar for each level, from the first on.",
    values,
    columns: KIND_COLUMNS,
    plot: systems.length > 1 ? panels(values, MISSES, systems.map(shown)) : panels(single, [], kinds),
  };
}

function memory(scope) {
  const { id, machine, systems } = scope;
  const values = kindValues(scope, MEMORY);
  if (systems.length < 2 || !values.length) return null;
  return {
    id: `memory${id}`,
    title: `Memory and page faults, ${machine}`,
    about: "Panels for resident memory and page tables at their peaks, and for page faults; within one, a bar for each system.",
    values,
    columns: KIND_COLUMNS,
    plot: panels(values, MEMORY, systems.map(shown)),
  };
}

/** Memory by the size of its pages, when most of it was resident. */
function pageSizes({ id, machine, systems, get, rows }) {
  const prefix = "superpages_at_peak.";
  const sizes = distinct(rows.filter((row) => row.metric.startsWith(prefix)), (row) => row.metric.slice(prefix.length));
  sizes.sort((a, b) => pageBytes(a) - pageBytes(b));
  const values = systems.flatMap((system) => {
    const resident = get(system, "peak_resident_bytes");
    if (!resident) return [];
    const large = sizes.map((size) => {
      const pages = get(system, prefix + size)?.value ?? 0;
      return { system: shown(system), size, pages, bytes: pages * pageBytes(size) };
    });
    const rest = Math.max(0, resident.value - d3.sum(large, (v) => v.bytes));
    return [{ system: shown(system), size: "base pages", pages: null, bytes: rest }, ...large];
  });
  if (!sizes.length || !values.some((v) => v.bytes > 0)) return null;
  const parts = sizeColors(sizes);
  const used = parts.filter(([size]) => values.some((v) => v.size === size && v.bytes > 0));
  return {
    ...stacked(values, "bytes", "size", systems.map(shown), used, bytes),
    id: `page-sizes${id}`,
    title: `Page sizes at the peak of memory, ${machine}`,
    about: "A bar for each system: resident memory at its peak, by the size of the pages that map it.",
    columns: [
      ["system", (v) => v.system],
      ["page size", (v) => v.size],
      ["pages", (v) => exact(v.pages)],
      ["bytes", (v) => exact(v.bytes)],
    ],
  };
}

/** Pairs base pages and larger sizes with their colours. */
function sizeColors(sizes) {
  const colors = ["#9aa5b1", "#5b8e7d", "#e4a03a", "#d7263d", "#735cdd", "#3b6fb6"];
  return ["base pages", ...sizes].map((size, at) => [size, colors[at % colors.length]]);
}

/** Memory and page sizes over time: a panel for each system, all of one scale. */
function memoryOverTime({ id, machine, systems, points }) {
  const form = /^superpages\.(.+)$/;
  const sizes = distinct(points.flatMap((point) => Object.keys(point)), (name) => form.exec(name)?.[1]).filter(Boolean);
  sizes.sort((a, b) => pageBytes(a) - pageBytes(b));
  const values = points.flatMap((point) => {
    const part = (size, bytes) => ({ system: shown(point.system), instructions: point.instructions, size, bytes });
    const large = sizes.map((size) => part(size, (point[`superpages.${size}`] ?? 0) * pageBytes(size)));
    return [part("base pages", Math.max(0, point.resident_bytes - d3.sum(large, (v) => v.bytes))), ...large];
  });
  // Two points make the first line.
  if (new Set(values.map((v) => v.instructions)).size < 2) return null;
  const parts = sizeColors(sizes).filter(([size]) => values.some((v) => v.size === size && v.bytes > 0));
  const color = new Map(parts);
  const order = parts.map(([size]) => size);
  const panels = systems.map(shown).filter((system) => values.some((v) => v.system === system));
  const most = d3.max(points, (point) => point.resident_bytes);
  const share = 22 / 90;
  return {
    id: `over-time${id}`,
    title: `Memory and page sizes over time, ${machine}`,
    about: "A panel for each system: resident memory by the size of the pages that map it, after each million instructions or more.",
    values,
    columns: [
      ["system", (v) => v.system],
      ["instructions", (v) => exact(v.instructions)],
      ["page size", (v) => v.size],
      ["bytes", (v) => exact(v.bytes)],
    ],
    legend: parts.map(([name, color]) => ({ name, color })),
    plot: (width) => ({
      height: panels.length * 90 + 60,
      marginLeft: 62,
      marginTop: 24,
      x: { label: "instructions", tickFormat: short, ticks: Math.max(2, Math.floor(width / 120)) },
      y: { label: null, grid: true, tickFormat: bytes, ticks: byteTicks(most, 3) },
      fy: { domain: panels, axis: null, padding: share },
      marks: [
        Plot.areaY(values.filter((v) => color.has(v.size)), {
          fy: "system",
          x: "instructions",
          y: "bytes",
          z: "size",
          order,
          fill: (v) => color.get(v.size),
        }),
        Plot.text(panels, { fy: (system) => system, text: (system) => system, frameAnchor: "top-left", dy: -13, fontWeight: 600 }),
        Plot.ruleY([0]),
      ],
    }),
  };
}

/** Returns a function for the miss curve of each array that has one. */
function curves({ rows }) {
  const form = /^curve\.(.+)\.miss_ratio@(\d+)x(\d+)$/;
  const points = rows.flatMap((row) => {
    const found = form.exec(row.metric);
    if (!found) return [];
    const [, array, entries, ways] = found;
    return [{ array, entries: Number(entries), ways: entries === ways ? "full" : ways, ratio: row.value, system: shown(row.system) }];
  });
  return distinct(points, (point) => point.array).map((array) => ({ id, machine }) => {
    const values = points.filter((point) => point.array === array);
    const order = (ways) => (ways === "full" ? Infinity : Number(ways));
    const ways = distinct(values, (v) => v.ways).sort((a, b) => order(a) - order(b));
    const color = (name) => d3.interpolateViridis(0.9 * (1 - ways.indexOf(name) / Math.max(1, ways.length - 1)));
    const title = (v) => `${v.entries} entries, ${v.ways === "full" ? "fully associative" : `${v.ways} ways`}: ${(100 * v.ratio).toPrecision(4)} %`;
    return {
      id: `curve-${array}${id}`,
      title: `Miss curve of ${array}, ${machine}`,
      about: "The share of look-ups that miss, by the number of entries; a line for each number of ways.",
      values,
      columns: [["entries", (v) => v.entries], ["ways", (v) => v.ways], ["miss ratio", (v) => exact(v.ratio)]],
      legend: ways.map((name) => ({ name: name === "full" ? "full" : `${name} ways`, color: color(name) })),
      plot: (width) => ({
        height: 340,
        marginLeft: 46,
        x: { type: "log", base: 2, label: "entries", tickFormat: exact, ticks: width < 500 ? 4 : 8 },
        y: { label: "misses, % of look-ups", percent: true, grid: true, zero: true },
        marks: [
          Plot.ruleY([0]),
          Plot.line(values, { x: "entries", y: "ratio", z: "ways", stroke: (v) => color(v.ways), sort: "entries", strokeWidth: 1.8 }),
          Plot.dot(values, { x: "entries", y: "ratio", fill: (v) => color(v.ways), r: 2.6, title }),
        ],
      }),
    };
  });
}
