// Rows of results as they are embedded, and how values are shown.

/** Makes rows of groups of columns (columns.rs), in their order. */
function unpacked(groups) {
  const rows = [];
  for (const { numbers, columns } of groups) {
    const cells = columns.map(([name, column]) => {
      if ("all" in column) return [name, () => column.all];
      if ("at" in column) return [name, (at) => column.of[column.at[at]]];
      return [name, (at) => column.each[at]];
    });
    numbers.forEach((number, at) => {
      rows[number] = Object.fromEntries(cells.map(([name, cell]) => [name, cell(at)]));
    });
  }
  return rows;
}

/** Returns the values of `of` in `rows`, each once, in the order in which they come. */
function distinct(rows, of) {
  return [...new Set(rows.map(of))];
}

/** Escapes what would order the text around a name anew, or would not be seen. */
function shown(name) {
  const hidden = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
  return String(name).replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** Formats a number exactly, with separators. */
function exact(x) {
  if (x === null || x === undefined) return "–";
  return Number.isInteger(x) ? x.toLocaleString("en-US") : String(x);
}

/** Formats a count with three digits and a letter: 2.68M. */
function short(x) {
  if (Math.abs(x) < 1000) return d3.format(".3~r")(x);
  return d3.format(".3~s")(x).replace("G", " G").replace("M", " M").replace("k", " K").replace("T", " T");
}

/** Formats a number of bytes with three digits: 1.8 MB. */
function bytes(x) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const at = x < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(x) / 10));
  return `${d3.format(".3~r")(x / 1024 ** at)} ${units[at]}`;
}

/** Ticks of an axis of bytes up to `most`: at most `count` steps, each a power of two. */
function byteTicks(most, count) {
  let step = 1;
  while (most / step > count) step *= 2;
  return d3.range(0, most + 1, step);
}

/** Formats a value with as many decimals as its error shows. */
function within(value, error) {
  if (error === null || error === undefined) return d3.format(".4~r")(value);
  const decimals = error > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error)))) : 3;
  const fixed = d3.format(`.${decimals}f`);
  return `${fixed(value)} ±${fixed(error)}`;
}

/** Returns the size of a page in bytes: "2M" is 2097152. */
function pageBytes(size) {
  const found = /^(\d+)([KMGT]?)$/.exec(size);
  return found ? Number(found[1]) * 1024 ** " KMGT".indexOf(found[2] || " ") : NaN;
}
