// Figures of `reach where`: who pays for translation, where and when.

/** Owners of each list, rows of each heat map, and mappings that have one. */
const OWNERS = 15;
const ADDRESSES = 48;
const MAPPINGS = 4;
/** Bytes of an extent, the 2 MB that costs are summed by. */
const EXTENT = 2 * 1024 * 1024;

/** Returns the figures: a list for each kind of owner, then the pictures of addresses. */
function ownerFigures(rows) {
  const lists = rows.filter((row) => row.by !== "time");
  const found = distinct(lists, (row) => row.by).map((by) => owners(by, lists.filter((row) => row.by === by)));
  const places = [...heatMaps(rows.filter((row) => row.by === "time")), ...touched(lists.filter((row) => row.by === "extent"))];
  return [...found, ...places].filter((figure) => figure !== null);
}

/** What an owner costs: cycles that the core waits, or walks where time is not simulated. */
function cost(row) {
  return row.cycles ?? row.walks;
}

function costName(rows) {
  return rows.some((row) => row.cycles !== null) ? "cycles that the core waits" : "page walks";
}

const OWNER_COLUMNS = [
  ["owner", (v) => v.owner],
  ["cycles", (v) => exact(v.cycles)],
  ["walk cycles", (v) => exact(v.walk_cycles)],
  ["walks", (v) => exact(v.walks)],
  ["L1 TLB misses", (v) => exact(v.l1_tlb_misses)],
];

function owners(by, rows) {
  const first = rows.slice(0, OWNERS).map((row, at) => ({ name: shown(row.owner), cost: cost(row), at: String(at) }));
  if (!first.length) return null;
  const rest = rows.slice(OWNERS);
  if (rest.length) first.push({ name: `${exact(rest.length)} more`, cost: d3.sum(rest, cost), at: "rest" });
  return {
    id: `by-${by}`,
    title: `Cost of translation by ${by}`,
    about: `A bar for each ${by}: ${costName(rows)} for its translations. Those that cost most come first.`,
    values: rows,
    columns: OWNER_COLUMNS,
    plot: (width) => ({
      height: first.length * 36 + 46,
      marginLeft: 8,
      marginRight: 60,
      x: { label: costName(rows), grid: true, tickFormat: short, ticks: Math.max(2, Math.floor(width / 120)) },
      y: { domain: first.map((v) => v.at), axis: null },
      marks: [
        Plot.barX(first, { y: "at", x: "cost", fill: "#e4572e", insetTop: 17, insetBottom: 3, title: (v) => `${v.name}: ${exact(v.cost)}` }),
        labelsAbove(first, width, 9),
        Plot.text(first, { y: "at", x: "cost", dx: 5, dy: 7, textAnchor: "start", text: (v) => short(v.cost) }),
        Plot.ruleX([0]),
      ],
    }),
  };
}

/** Names above their bars, as long as the picture is wide. */
function labelsAbove(values, width, up) {
  return Plot.text(values, {
    y: "at",
    frameAnchor: "left",
    textAnchor: "start",
    dx: 2,
    dy: -up,
    text: "name",
    lineWidth: (width - 20) / 11,
    textOverflow: "ellipsis",
    paintOrder: "stroke",
  });
}

/** Splits the name of an extent into its address and its mapping; null for what has no address. */
function place(owner) {
  const found = /^(0x[0-9a-f]+) in ([^]*)$/.exec(owner);
  return found && { address: Number(found[1]), mapping: found[2] };
}

/** Returns the rows that have an address, by mapping; those with most of `of` come first. */
function byMapping(rows, of) {
  const placed = rows.flatMap((row) => {
    const at = place(row.owner);
    return at ? [{ ...row, ...at }] : [];
  });
  const groups = [...d3.group(placed, (row) => row.mapping)];
  return groups.sort(([, a], [, b]) => d3.sum(b, of) - d3.sum(a, of));
}

/** Sums the misses of neighbours until a mapping has few rows, all of the same size. */
function cells(rows) {
  let each = EXTENT;
  const row = (address) => Math.floor(address / each) * each;
  while (new Set(rows.map(({ address }) => row(address))).size > ADDRESSES) each *= 2;
  const sums = d3.flatRollup(
    rows,
    (of) => d3.sum(of, (v) => v.l1_tlb_misses),
    (v) => row(v.address),
    (v) => v.from_reference,
    (v) => v.to_reference,
  );
  return { each, values: sums.map(([address, from, to, misses]) => ({ address, from, to, misses })) };
}

const hex = (address) => `0x${address.toString(16)}`;

/** Misses by address and time, a picture for each mapping. */
function heatMaps(rows) {
  const maps = byMapping(rows, (row) => row.l1_tlb_misses).slice(0, MAPPINGS);
  const drawn = maps.map(([mapping, of]) => ({ mapping: shown(mapping), ...cells(of) }));
  const most = Math.max(2, d3.max(drawn, ({ values }) => d3.max(values, (v) => v.misses)) ?? 0);
  const shade = d3.scaleSequentialLog(d3.interpolateInferno).domain([0.5, most]);
  const steps = distinct(d3.range(5).map((at) => Math.round(most ** (at / 4))), (x) => x);
  const end = d3.max(rows, (row) => row.to_reference);
  return drawn.map(({ mapping, each, values }, at) => {
    const addresses = distinct(values, (v) => v.address).sort((a, b) => a - b);
    const labels = addresses.map(hex);
    return {
      id: `heat-${at + 1}`,
      title: `L1 TLB misses by address and time: ${mapping}`,
      about: `A row is ${bytes(each)} of addresses, a column a span of references. The brighter a cell, the more misses; rows without any are left out.`,
      values,
      columns: [
        ["address", (v) => hex(v.address)],
        ["from reference", (v) => exact(v.from)],
        ["to reference", (v) => exact(v.to)],
        ["L1 TLB misses", (v) => exact(v.misses)],
      ],
      legend: steps.map((misses) => ({ name: `${short(misses)} misses`, color: shade(misses) })),
      plot: (width) => ({
        height: addresses.length * 13 + 50,
        marginLeft: labelRoom(labels, width),
        x: { label: "references", domain: [0, end], tickFormat: short, ticks: Math.max(2, Math.floor(width / 120)) },
        y: { domain: addresses, padding: 0, axis: null },
        marks: [
          Plot.frame({ fill: "#000004", stroke: null }),
          Plot.axisY({ label: null, tickSize: 0, tickFormat: hex, fontSize: 10 }),
          Plot.barX(values, {
            x1: "from",
            x2: "to",
            y: "address",
            fill: (v) => shade(v.misses),
            insetRight: -0.3,
            title: (v) => `${hex(v.address)}, references ${short(v.from)} to ${short(v.to)}: ${exact(v.misses)} misses`,
          }),
        ],
      }),
    };
  });
}

/** What each extent costs, beside the part of it that is touched: what a superpage gains, and what it wastes. */
function touched(rows) {
  const values = rows.filter((row) => row.touched_bytes !== null && row.touched_bytes !== undefined && place(row.owner));
  if (!values.length) return [];
  const mappings = byMapping(values, cost).map(([mapping]) => mapping).slice(0, 6);
  const colors = ["#3b6fb6", "#e4572e", "#5b8e7d", "#e4a03a", "#735cdd", "#b8336a"];
  const color = (v) => colors[mappings.indexOf(place(v.owner).mapping)] ?? "#9aa5b1";
  const legend = mappings.map((name, at) => ({ name: cut(shown(name), 44), color: colors[at] }));
  if (byMapping(values, cost).length > mappings.length) legend.push({ name: "others", color: "#9aa5b1" });
  return [
    {
      id: "touched",
      title: "Cost and touched memory of each 2 MB",
      about: "A dot for each 2 MB of addresses. The higher it is, the more a superpage saves; the farther left, the more memory it wastes.",
      values,
      columns: [...OWNER_COLUMNS, ["touched bytes", (v) => exact(v.touched_bytes)]],
      legend,
      plot: (width) => ({
        height: 320,
        marginLeft: 50,
        x: { label: "bytes of touched pages", domain: [0, EXTENT], ticks: d3.range(5).map((at) => (at * EXTENT) / 4), tickFormat: bytes },
        y: { label: costName(rows), type: "symlog", grid: true, tickFormat: short, ticks: powers(d3.max(values, cost)) },
        marks: [
          Plot.ruleY([0]),
          Plot.dot(values, { x: "touched_bytes", y: cost, fill: color, fillOpacity: 0.8, r: 3.5, title: (v) => `${shown(v.owner)}: ${exact(cost(v))}, ${bytes(v.touched_bytes)}` }),
        ],
      }),
    },
  ];
}

/** Zero and the powers of ten up to `most`, no more than eight. */
function powers(most) {
  const count = Math.ceil(Math.log10(Math.max(10, most)));
  const step = Math.ceil(count / 7);
  return [0, ...d3.range(0, count + 1, step).map((power) => 10 ** power)];
}

function cut(name, length) {
  return name.length <= length ? name : `${name.slice(0, length - 1)}…`;
}
