//! `--html`: pages in a real browser. Figures are drawn without a complaint, at the width of a telephone too; they have names, and
//! their values are those of the rows.

use crate::browser::Browser;
use crate::common::{failure, folder, path, stdout};
use reach_core::Chunk;
use reach_trace::file::{Metadata, Writer};
use reach_trace::{Ending, Source, synthetic};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const COMPARED: [&str; 12] = [
    "compare",
    "-q",
    "-m",
    "zen4",
    "-s",
    "base",
    "-s",
    "linux-thp",
    "-s",
    "hugetlb-2m",
    "-p",
    "gups:bytes=64M,updates=300000",
];

/// Runs a verb with a page and rows, and returns the paths of both.
fn made(folder: &TempDir, args: &[&str]) -> (String, String) {
    let (page, rows) = (path(folder, "page.html"), path(folder, "rows.jsonl"));
    stdout(&[args, &["--force", "--html", &page, "-o", &rows]].concat());
    (page, rows)
}

fn lines(rows: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(rows).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a page shows, found out by a script in it.
struct Shown(Value);

/// Reads the figures; opens their tables.
const LOOK: &str = "(async () => {
  const figures = [...document.querySelectorAll('figure')];
  figures.forEach((figure) => { figure.querySelector('details').open = true; });
  await new Promise((done) => setTimeout(done, 100));
  return figures.map((figure) => {
    const svg = figure.querySelector('svg');
    const cells = (row) => [...row.children].map((cell) => cell.textContent);
    const box = svg.getBoundingClientRect();
    return {
      id: figure.id,
      marks: svg.querySelectorAll('rect, circle, path, line').length,
      titles: [...svg.querySelectorAll('title')].map((title) => title.textContent),
      widths: [...svg.querySelectorAll('g[aria-label=bar] rect')].map((bar) => [bar.textContent, Number(bar.getAttribute('width'))]),
      broken: /NaN|undefined/.test(svg.outerHTML),
      wide: box.right > document.documentElement.clientWidth,
      table: [...figure.querySelectorAll('details tr')].map(cells),
    };
  });
})()";

/// Opens `page` in windows of two widths, light and dark, and on paper, and returns the figures of the last.
fn looked_at(browser: &mut Browser, page: &str, least: usize) -> Vec<Shown> {
    let mut figures = Vec::new();
    for (width, scheme) in [(1000, "light"), (360, "dark")] {
        browser.open(page, width, scheme);
        let room = browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]");
        assert!(room[0].as_u64() <= Some(width.into()), "{page}: {room} of {width} pixels");
        figures = browser.evaluate(LOOK).as_array().unwrap().iter().cloned().map(Shown).collect();
        assert!(figures.len() >= least, "{page}: {} figures", figures.len());
        for Shown(figure) in &figures {
            assert!(figure["marks"].as_u64() > Some(1), "{figure}");
            assert_eq!(figure["broken"], false, "{figure}");
            assert_eq!(figure["wide"], false, "{figure}");
        }
        let names = browser.accessible();
        let of = |role: &str| names.iter().filter(|(other, _)| other == role).map(|(_, name)| name).collect::<Vec<_>>();
        for role in ["figure", "image"] {
            assert_eq!(of(role).len(), figures.len(), "{role}: {names:?}");
        }
        let mut named = [of("figure"), of("image"), of("button")].concat();
        assert!(named.iter().all(|name| !name.is_empty()), "{named:?}");
        named.truncate(figures.len());
        named.sort();
        named.dedup();
        assert_eq!(named.len(), figures.len(), "figures have different names");
        assert_eq!(browser.complaints, [""; 0], "{page}");
    }
    figures
}

impl Shown {
    fn titles(&self) -> Vec<&str> {
        self.0["titles"].as_array().unwrap().iter().map(|title| title.as_str().unwrap()).collect()
    }

    /// Returns the rows of its table, without their header.
    fn table(&self) -> Vec<Vec<&str>> {
        let rows = self.0["table"].as_array().unwrap().iter().skip(1);
        rows.map(|row| row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect()).collect()
    }
}

fn find<'a>(figures: &'a [Shown], id: &str) -> &'a Shown {
    figures.iter().find(|Shown(figure)| figure["id"] == id).unwrap_or_else(|| panic!("there is no figure {id}"))
}

/// Reads a number with separators.
fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Returns whether a number in the page is that of a row. `serde_json` may read the last bit of a fraction differently.
fn same(shown: f64, row: f64) -> bool {
    (shown - row).abs() <= 1e-15 * row.abs()
}

#[test]
fn a_comparison_is_drawn_and_has_the_values_of_its_rows() {
    let folder = folder();
    let (page, rows) = made(&folder, &COMPARED);
    let Some(mut browser) = Browser::start() else { return };
    let figures = looked_at(&mut browser, &page, 5);
    let rows = lines(&rows);
    let value = |system: &str, metric: &str| {
        let is = |row: &&Value| row["process"] == "all" && row["system"] == system && row["metric"] == metric;
        rows.iter().find(is).unwrap_or_else(|| panic!("{system} {metric}"))["value"].as_f64().unwrap()
    };
    let speedups = find(&figures, "speedup").table();
    assert_eq!(speedups.len(), 3);
    for row in &speedups {
        assert!(same(number(row[1]), value(row[0], "speedup")), "{row:?}");
    }
    // Bars are as long as their cycles.
    let cycles = find(&figures, "cycles");
    let bars = cycles.0["widths"].as_array().unwrap();
    let scale = |bar: &Value| {
        let (title, width) = (bar[0].as_str().unwrap(), bar[1].as_f64().unwrap());
        let (name, cycles) = title.split_once(": ").unwrap();
        let (system, label) = name.split_once(", ").unwrap();
        assert_eq!(number(cycles), value(system, &format!("cycles.{label}")), "{title}");
        (number(cycles), width)
    };
    let bars: Vec<_> = bars.iter().map(scale).collect();
    let (cycles, width) = bars.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!(bars.len() > 6 && width > 50.0, "{bars:?}");
    bars.iter().for_each(|(c, w)| assert!((w / width - c / cycles).abs() < 0.01, "{c} {w}: {cycles} {width}"));
    for (id, systems) in [("misses", 12), ("memory", 9)] {
        let table = find(&figures, id).table();
        assert_eq!(table.len(), systems, "{id}");
        table.iter().for_each(|row| assert_eq!(number(row[2]), value(row[0], row[1]), "{row:?}"));
    }
    let pages = find(&figures, "page-sizes").table();
    let huge = pages.iter().find(|row| row[0] == "hugetlb-2m" && row[1] == "2M").unwrap();
    assert_eq!(number(huge[2]), value("hugetlb-2m", "superpages_at_peak.2M"));
}

/// Presses a button, and returns the file that it saves, as text or as its size.
fn saved(browser: &mut Browser, button: &str, read: &str) -> Value {
    let script = format!(
        "new Promise((done) => {{
          const url = URL.createObjectURL;
          const wanted = {read:?} === 'size' ? 'image/png' : '';
          URL.createObjectURL = (blob) => {{
            if (blob.type === wanted || !wanted) {{
              URL.createObjectURL = url;
              done({read:?} === 'size' ? blob.size : blob.text());
            }}
            return url(blob);
          }};
          document.querySelector({button:?}).click();
        }})"
    );
    browser.evaluate(&script)
}

#[test]
fn a_page_saves_its_rows_and_its_figures() {
    let folder = folder();
    let (page, rows) = made(&folder, &COMPARED);
    let Some(mut browser) = Browser::start() else { return };
    let downloads = serde_json::json!({ "behavior": "deny" });
    browser.call("Page.setDownloadBehavior", downloads);
    browser.open(&page, 700, "light");
    let text = saved(&mut browser, "#repeat .tools button", "text");
    let found: Vec<Value> = text.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> = found.into_iter().filter(|row| row.get("metric").is_some()).collect();
    let expected: Vec<_> = lines(&rows).into_iter().skip(1).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // A number has one form in JavaScript: 1.0 is 1 there.
        assert_eq!(found["value"].as_f64(), expected["value"].as_f64());
        assert_eq!(found.get("error").map(Value::as_f64), expected.get("error").map(Value::as_f64));
        for name in ["machine", "system", "program", "process", "metric", "unit"] {
            assert_eq!(found[name], expected[name]);
        }
    }
    let svg = saved(&mut browser, "#cycles .tools button:first-child", "text");
    let svg = svg.as_str().unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
    assert!(svg.contains(">compute</text>"), "it has its legend: {svg}");
    let png = saved(&mut browser, "#cycles .tools button:last-child", "size");
    assert!(png.as_u64() > Some(5_000), "{png}");
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn a_program_cannot_write_into_the_page() {
    const ATTACK: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
    let folder = folder();
    let trace = path(&folder, "attack.reach");
    let metadata = Metadata { program: ATTACK.into(), tool: "reach 1.0".into(), ..Metadata::default() };
    let mut writer = Writer::create(&trace, &metadata).unwrap();
    let mut source = synthetic::parse("gups:bytes=8M,updates=10000").unwrap();
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk).unwrap() {
        writer.write(&chunk, source.blocks()).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    let (page, _) = made(&folder, &["compare", "-q", "-m", "zen4", "-s", "base", "-s", "ideal", "-t", &trace]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;/script&gt;") && !text.contains("<script>alert") && !text.contains("<img"));
    let Some(mut browser) = Browser::start() else { return };
    looked_at(&mut browser, &page, 3);
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), ATTACK);
    assert_eq!(browser.evaluate("document.images.length"), 0);
    // Even markup that came through would not run.
    let inject = "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">'); \
                  new Promise((done) => setTimeout(() => done(window.ran ?? 0), 200))";
    assert_eq!(browser.evaluate(inject), 0);
}

#[test]
fn owners_and_their_heat_maps_are_drawn() {
    let folder = folder();
    let program = ["where", "-q", "-m", "zen4", "--timing", "counts", "-p", "gups:bytes=32M,updates=100000"];
    let (page, rows) = made(&folder, &program);
    let Some(mut browser) = Browser::start() else { return };
    let figures = looked_at(&mut browser, &page, 5);
    let rows = lines(&rows);
    let of = |by: &str| rows.iter().filter(|row| row["by"] == by).cloned().collect::<Vec<_>>();
    let extents = find(&figures, "by-extent").table();
    let expected = of("extent");
    assert_eq!(extents.len(), expected.len());
    for (row, expected) in extents.iter().zip(&expected) {
        assert_eq!(
            (row[0], number(row[3])),
            (expected["owner"].as_str().unwrap(), expected["walks"].as_f64().unwrap())
        );
    }
    // Neighbours may share a cell; no miss is lost.
    let heat: f64 = find(&figures, "heat-1").table().iter().map(|row| number(row[3])).sum();
    let misses = |row: &Value| (row["owner"].as_str().unwrap().to_owned(), row["l1_tlb_misses"].as_f64().unwrap());
    let heap = |owner: &str| owner.split_once(" in ").map(|(_, mapping)| mapping.to_owned());
    let times: Vec<_> = of("time").iter().map(misses).collect();
    let most = times.iter().max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(owner, _)| heap(owner));
    let expected: f64 = times.iter().filter(|(owner, _)| heap(owner) == most).map(|(_, misses)| misses).sum();
    assert!(heat > 0.0);
    assert_eq!(heat, expected);
    let touched = find(&figures, "touched");
    assert_eq!(touched.titles().len(), of("extent").iter().filter(|row| row["touched_bytes"].is_u64()).count());
}

#[test]
fn a_miss_curve_and_memory_over_time_are_drawn() {
    let folder = folder();
    let curve = ["--curve", "l2_tlb:entries=64..1024,ways=4/full"];
    let machine = ["run", "-q", "-m", "skylake-e3-1240v5:tlb.l2.replacement=lru,tlb.l2.index=low"];
    let (page, rows) = made(&folder, &[&machine[..], &curve, &["-p", "gups:bytes=64M,updates=400000"]].concat());
    let Some(mut browser) = Browser::start() else { return };
    let figures = looked_at(&mut browser, &page, 3);
    let rows = lines(&rows);
    let points = find(&figures, "curve-l2").table();
    let ratios = rows.iter().filter(|row| row["metric"].as_str().is_some_and(|name| name.contains("miss_ratio@")));
    let ratios: Vec<f64> = ratios.map(|row| row["value"].as_f64().unwrap()).collect();
    assert!(ratios.len() > 8 && points.len() == ratios.len());
    points.iter().zip(&ratios).for_each(|(row, &ratio)| assert!(same(number(row[2]), ratio), "{row:?}: {ratio}"));
    let resident = find(&figures, "over-time").table();
    let peak = rows.iter().find(|row| row["metric"] == "peak_resident_bytes").unwrap()["value"].as_f64().unwrap();
    assert!(resident.len() >= 2);
    assert!(resident.iter().all(|row| number(row[3]) <= peak));
    assert!(resident.iter().any(|row| number(row[3]) > 0.9 * peak), "{resident:?}");
}

#[test]
fn verdicts_of_a_paper_are_drawn_beside_the_published_numbers() {
    let folder = folder();
    let (page, rows) = made(&folder, &["paper", "run", "-q", "navarro-2002", "preemption"]);
    let Some(mut browser) = Browser::start() else { return };
    let figures = looked_at(&mut browser, &page, 1);
    let rows: Vec<Value> = lines(&rows).into_iter().filter(|row| row["ours"].is_number()).collect();
    let mut shown: Vec<_> = figures
        .iter()
        .filter(|Shown(figure)| figure["id"].as_str().unwrap().starts_with("numbers-"))
        .flat_map(Shown::table)
        .map(|row| (row[0].to_owned(), number(row[2])))
        .collect();
    let mut ours: Vec<_> =
        rows.iter().map(|row| (row["item"].as_str().unwrap().to_owned(), row["ours"].as_f64().unwrap())).collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    ours.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!ours.is_empty());
    assert_eq!(shown.len(), ours.len());
    let equal = |((a, x), (b, y)): (&(String, f64), &(String, f64))| a == b && same(*x, *y);
    assert!(shown.iter().zip(&ours).all(equal), "{shown:?} {ours:?}");
}

#[test]
fn a_set_without_numbers_has_a_page_of_reasons() {
    let folder = folder();
    let (page, _) = made(&folder, &["validate", "-q", "skylake-sp-layouts"]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("not measurable: "), "{text}");
    let Some(mut browser) = Browser::start() else { return };
    looked_at(&mut browser, &page, 0);
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_run() {
    let folder = folder();
    let (page, none) = (path(&folder, "page.html"), path(&folder, "none/page.html"));
    std::fs::write(&page, "old").unwrap();
    let record = path(&folder, "same");
    // 10 G updates would take hours.
    let program = ["-m", "zen4", "-p", "gups:bytes=64M,updates=10G"];
    for (args, status, message) in [
        (&["--html", &page][..], 2, "page.html: exists already; give another name, or --force to replace it"),
        (&["--html", &none], 1, "none/page.html: cannot be written: "),
        (&["--html", &record, "--record", &record], 2, "--record and --html name the same file; give two names"),
    ] {
        for verb in ["compare", "run", "where"] {
            let (found, error) = failure(&[&[verb], &program[..], args].concat());
            assert_eq!(found, status, "{error}");
            assert!(error.contains(message), "{error}");
            assert_eq!(error.trim_end().lines().last().unwrap().matches("reach: ").count(), 1, "{error}");
        }
    }
    assert!(Path::new(&page).exists() && std::fs::read_to_string(&page).unwrap() == "old");
    let (_, error) = failure(&["paper", "run", "navarro-2002", "--html", &page]);
    assert!(error.contains("exists already"), "{error}");
    let (_, error) = failure(&["validate", "--html", &none]);
    assert!(error.contains("cannot be written"), "{error}");
}
