// Reads the rows, and makes the figures that they have.

const rows = unpacked(JSON.parse(document.getElementById("rows").textContent));
const section = document.getElementById("figures");
const figures = [
  ...metricFigures(
    rows.filter((row) => "metric" in row),
    rows.filter((row) => "resident_bytes" in row),
  ),
  ...ownerFigures(rows.filter((row) => "by" in row)),
  ...verdictFigures(rows.filter((row) => "verdict" in row || "figure" in row || "series" in row)),
];
figures.forEach((figure) => section.append(framed(figure)));

const saveRows = element("button", { type: "button" }, `Save ${exact(rows.length)} rows as JSON lines`);
saveRows.addEventListener("click", () => {
  const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  save("rows.jsonl", new Blob([lines], { type: "application/jsonl" }));
});
document.getElementById("repeat").append(element("p", { class: "tools" }, saveRows));
