// A figure: its heading, its drawing in the width that there is, its values as a table, and buttons that save it.

/** Height of a bar or a line of text, and widths of text, in pixels. */
const BAR = 20;
const LETTER = 6.3;
/** The most values that a table shows. */
const TABLE = 2000;

/** Makes an element. Text is text: it is never read as markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
}

/** The room for labels at the left: what they need, but not most of the width. */
function labelRoom(labels, width) {
  const longest = Math.max(0, ...labels.map((label) => label.length));
  return Math.round(Math.min(width * 0.4, Math.max(30, longest * LETTER + 14)));
}

/** An axis of names, cut off where there is no room. */
function names(labels, width) {
  return Plot.axisY({ label: null, tickSize: 0, lineWidth: labelRoom(labels, width) / 11, textOverflow: "ellipsis", fontSize: 11 });
}

/** Places the entries of a legend in lines of this width. */
function legendLines(entries, width) {
  let [x, line] = [0, 0];
  const places = entries.map(({ name }) => {
    const needs = name.length * LETTER + 26;
    if (x > 0 && x + needs > width) [x, line] = [0, line + 1];
    const place = { x, y: line * 18 };
    x += needs;
    return place;
  });
  return { places, height: entries.length ? (line + 1) * 18 + 6 : 0 };
}

/** Draws a legend into the picture itself, so that saved pictures have it. */
function drawLegend(svg, entries, { places }, top) {
  const legend = d3.select(svg).append("g").attr("aria-label", "legend").attr("transform", `translate(2,${top + 2})`);
  // Plot centres text.
  legend.attr("text-anchor", "start");
  entries.forEach(({ name, color, symbol }, at) => {
    const entry = legend.append("g").attr("transform", `translate(${places[at].x},${places[at].y})`);
    if (symbol) {
      const path = entry.append("path").attr("d", d3.symbol(symbol, 50)()).attr("transform", "translate(6,7)");
      path.attr("fill", symbol === d3.symbolTimes ? "none" : color).attr("stroke", color).attr("stroke-width", 1.5);
      if (!color) path.attr("fill", "none").attr("stroke", "currentColor");
    } else {
      entry.append("rect").attr("width", 12).attr("height", 12).attr("y", 1).attr("fill", color).attr("stroke", "currentColor").attr("stroke-opacity", 0.4);
    }
    entry.append("text").attr("x", 17).attr("y", 11).attr("font-size", 11).attr("fill", "currentColor").text(name);
  });
}

/** Draws a figure in this width. */
function drawing({ title, about, plot, legend = [] }, width) {
  const lines = legendLines(legend, width - 8);
  const options = plot(width);
  // The name of a vertical axis is at the top of the picture, and the legend is below it.
  const named = legend.length && options.y?.label ? 16 : 0;
  const top = (options.marginTop ?? 20) + named;
  const svg = Plot.plot({
    width,
    marginRight: 16,
    ...options,
    marginTop: top + lines.height,
    height: options.height + named + lines.height,
    ariaLabel: title,
    ariaDescription: about,
    style: { background: "none", fontFamily: "system-ui, sans-serif", fontSize: "11px" },
  });
  svg.setAttribute("role", "img");
  if (legend.length) drawLegend(svg, legend, lines, named);
  return svg;
}

/** Saves a file that the page has made. */
function save(name, blob) {
  const link = element("a", { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Returns a picture as a file of its own: black on white. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.cssText = "background: white; color: black; font-family: system-ui, sans-serif; font-size: 11px";
  const text = new XMLSerializer().serializeToString(copy);
  return new Blob([text], { type: "image/svg+xml" });
}

/** Saves a picture as PNG, with three dots for each pixel. */
function savePng(name, svg) {
  const [width, height] = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
  const image = new Image();
  const url = URL.createObjectURL(standalone(svg));
  image.onload = () => {
    const canvas = element("canvas", { width: width * 3, height: height * 3 });
    const context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob), "image/png");
    URL.revokeObjectURL(url);
  };
  image.src = url;
}

/** Makes the table of a figure's values. `columns` are pairs of a name and a function of a value. */
function valueTable(title, values, columns) {
  const head = element("tr", {}, ...columns.map(([name]) => element("th", { scope: "col" }, name)));
  const cell = (text) => element("td", {}, text);
  const row = (value) => element("tr", {}, ...columns.map(([, of]) => cell(shown(of(value)))));
  const body = element("tbody", {}, ...values.slice(0, TABLE).map(row));
  const table = element("table", {}, element("thead", {}, head), body);
  const wide = element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `Values: ${title}` }, table);
  if (values.length <= TABLE) return [wide];
  return [wide, element("p", { class: "note" }, `${exact(values.length - TABLE)} more are in the rows`)];
}

/**
 * Makes a figure and draws it whenever its width changes. `figure` has
 * - `id`, `title` and `about`: its name, and a sentence for those who do not see it;
 * - `values` and `columns`: what it shows, as a table;
 * - `plot`: a function of the width that returns options of Plot; `legend`: names with colours or symbols.
 */
function framed(figure) {
  const { id, title, about, values, columns } = figure;
  const place = element("div", { class: "plot" });
  const picture = () => place.querySelector("svg");
  const button = (kind, act) => {
    const made = element("button", { type: "button", "aria-label": `Save as ${kind}: ${title}` }, kind);
    made.addEventListener("click", act);
    return made;
  };
  const tools = element(
    "p",
    { class: "tools" },
    button("SVG", () => save(`${id}.svg`, standalone(picture()))),
    button("PNG", () => savePng(`${id}.png`, picture())),
  );
  const details = element("details", {}, element("summary", {}, "Values"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(...valueTable(title, values, columns));
  });
  const caption = element("figcaption", {}, element("h2", { id: `${id}-title` }, title), element("p", {}, about));
  const made = element("figure", { id, "aria-labelledby": `${id}-title` }, caption, place, tools, details);
  let drawn = 0;
  const draw = () => {
    const width = Math.floor(place.clientWidth);
    if (width > 0 && width !== drawn) {
      drawn = width;
      place.replaceChildren(drawing(figure, width));
    }
  };
  // Not at once: a figure that changes its height while sizes are observed is a complaint of the browser.
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(place);
  return made;
}
