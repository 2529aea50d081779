mod null;
mod quick;

use super::files::Texts;
use super::*;
use crate::results::{ALL, Row, Value};

const HEAD: &str = "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 64\ntiming = 'counts'\nseed = 1\nwarm = true\n\
    systems = { base = 'base', best = 'ideal' }\n";
const TOUCH: &str = "[[experiment]]\nname = 'e'\nabout = 'a'\nprograms = ['touch:bytes=1M,page=4K']\n";

fn read(text: &str) -> Result<Paper, PaperError> {
    Paper::read("p", text, PaperFiles::Embedded(&[]))
}

fn item(tolerance: &str, ours: &str) -> String {
    format!(
        "[[experiment.item]]\nitem = 'i'\nsection = 's'\npublished = 256.0\nunit = 'pages'\ntolerance = {{ {tolerance} }}\n\
         reason = 'r'\nours = {{ {ours} }}\n"
    )
}

#[test]
fn every_embedded_paper_opens_and_its_experiments_have_items_or_workloads() {
    for name in list() {
        let paper = Paper::open(name).unwrap();
        assert!(
            paper.experiments.iter().all(|e| !e.about.is_empty() && (!e.items.is_empty() || e.workload.is_some())),
            "{name}"
        );
        assert!(paper.missing.iter().all(|m| !m.reason.is_empty()), "{name}");
    }
}

#[test]
fn verdicts_follow_from_rows_and_tolerances() {
    let faults = "metric = 'page_faults.anonymous', system = 'base'";
    for (tolerance, ours, verdict) in [
        ("within = 0.0", "metric = 'page_faults.anonymous', system = 'best'", Verdict::NotDecisive),
        ("within = 0.0", faults, Verdict::NotDecisive),
        ("within = 0.0", "metric = 'page_faults.anonymous', system = 'base', scale = 2.0", Verdict::Missed),
        ("within = 0.0", "metric = 'stores', system = 'best', per = 'promotions'", Verdict::NotMeasurable),
        ("above = 1.0", "metric = 'cycles', system = 'best', against = ['base'], how = 'speedup'", Verdict::Met),
        ("below = 1.0", "metric = 'cycles', system = 'best', against = ['base'], how = 'speedup'", Verdict::Missed),
    ] {
        let paper = read(&[HEAD, TOUCH, &item(tolerance, ours)].concat()).unwrap();
        let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).comparisons;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].verdict, verdict, "{ours}: {rows:?}");
        assert_eq!(rows[0].ours.is_none(), verdict == Verdict::NotMeasurable);
    }
    let text = [HEAD, TOUCH, &item("within = 0.0", faults)].concat();
    let paper = read(&text.replace("memory_mb = 64", "memory_mb = 1")).unwrap();
    let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).comparisons;
    assert_eq!(rows[0].verdict, Verdict::NotMeasurable, "the simulation ran out of memory");
    assert!(rows[0].reason.contains("out of simulated memory"), "{}", rows[0].reason);
}

#[test]
fn mistakes_in_experiments_are_named() {
    let good = "metric = 'stores', system = 'base'";
    for (text, message) in [
        ([HEAD, "color = 3\n"].concat(), "line 9: unknown field `color`"),
        ([HEAD, TOUCH, TOUCH].concat(), "experiment e: there are two of that name"),
        ([HEAD, &TOUCH.replace("touch:", "tuoch:")].concat(), "experiment e: there is no synthetic program `tuoch`"),
        (
            [HEAD, TOUCH, "scenario = 's.toml'\n"].concat(),
            "experiment e: give either programs, a scenario or a command",
        ),
        ([HEAD, &TOUCH.replace("programs = ['touch:bytes=1M,page=4K']", "scenario = 's'")].concat(), "no file \"s\""),
        ([HEAD, TOUCH, "timing = 'slow'\n"].concat(), "timing \"slow\": expected counts, inorder or ooo"),
        ([HEAD, TOUCH, "machine = 'zen44'\n"].concat(), "did you mean zen4"),
        ([HEAD, TOUCH, "systems = { x = 'bsae' }\n"].concat(), "system x: there is no system \"bsae\""),
        ([HEAD, TOUCH, "systems = { x = 'ideal' }\n"].concat(), "systems best and x are the same; keep one"),
        (
            [HEAD, TOUCH, &item("factor = 0.5", good)].concat(),
            "e, i: tolerance factor 0.5: expected a factor of at least 1",
        ),
        ([HEAD, TOUCH, &item("wide = 1", good)].concat(), "unknown variant `wide`"),
        ([HEAD, TOUCH, &item("within = 1", good).replace("'r'", "' '")].concat(), "e, i: the tolerance has no reason"),
        (
            [HEAD, TOUCH, &item("within = 1", "metric = 'm', system = 'x'")].concat(),
            "this experiment has no system \"x\"",
        ),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, how = 'ratio'"))].concat(), "how needs against"),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, against = ['best']"))].concat(), "against needs how"),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, run = 1"))].concat(), "run needs process"),
        (
            [HEAD, TOUCH, &item("within = 1", good), &item("within = 1", good)].concat(),
            "there are two items of that name",
        ),
    ] {
        let error = read(&text).err().unwrap().to_string();
        assert!(error.starts_with("p/paper.toml: ") && error.contains(message), "{message}: {error}");
    }
    let names: Vec<&str> = super::embedded::PAPERS.iter().map(|(name, _)| *name).collect();
    let error = Paper::open("navarro").err().unwrap().to_string();
    assert!(names.is_sorted() && error.contains(&format!("there are {}", names.join(", "))), "{error}");
    let paper = read(&[HEAD, TOUCH].concat()).unwrap();
    assert_eq!(
        paper.chosen(&["e".into(), "f".into()]).err().unwrap().to_string(),
        "p has no experiment \"f\"; it has e"
    );
}

fn row(system: &str, process: &str, metric: &str, value: f64) -> Row {
    Row {
        machine: "m".into(),
        system: system.into(),
        program: "p".into(),
        process: process.into(),
        metric: metric.into(),
        unit: "count",
        value: Value::Ratio(value),
        error: None,
    }
}

#[test]
fn measures_follow_from_rows() {
    let rows = [
        row("one", ALL, "cycles", 100.0),
        row("two", ALL, "cycles", 80.0),
        row("three", ALL, "cycles", 50.0),
        row("one", ALL, "walks", 20.0),
        row("one", "0 web", "walks", 7.0),
        row("one", "1 fft", "walks", 4.0),
        row("one", "2 fft", "walks", 6.0),
    ];
    let value = |text: &str| {
        let measure: Measure = toml::from_str(text).unwrap();
        measure.check(|_| true).unwrap();
        measure.compute(&rows, str::to_owned, str::to_owned)
    };
    let cycles = |more: &str| value(&format!("metric = 'cycles'\n{more}"));
    assert_eq!(cycles("system = 'two'"), Ok(80.0));
    assert_eq!(cycles("system = 'two'\nagainst = ['one']\nhow = 'speedup'"), Ok(1.25));
    assert_eq!(cycles("system = 'one'\nagainst = ['two', 'three']\nhow = 'ratio'"), Ok(2.0));
    assert_eq!(cycles("system = 'three'\nagainst = ['one']\nhow = 'reduction'"), Ok(50.0));
    assert_eq!(cycles("system = 'one'\nagainst = ['two']\nhow = 'increase'"), Ok(25.0));
    let excess = "against = ['two', 'three']\nhow = 'excess'\nper = 'walks'\nscale = 10.0";
    assert_eq!(cycles(&format!("system = 'one'\n{excess}")), Ok(25.0));
    assert_eq!(cycles("system = 'two'\nagainst = ['one']\nhow = 'excess'"), Ok(-20.0));
    assert_eq!(cycles("system = 'one'\nper = 'walks'\nscale = 3.0"), Ok(15.0));
    let walks = |more: &str| value(&format!("metric = 'walks'\nsystem = 'one'\n{more}"));
    assert_eq!(walks("process = 'fft'"), Ok(10.0));
    assert_eq!(walks("process = 'fft'\nrun = 1"), Ok(6.0));
    assert_eq!(walks("process = 'fft'\nrun = 2"), Err("one gives no metric walks of process fft".into()));
    assert_eq!(value("metric = 'walks'\nsystem = 'two'"), Err("two gives no metric walks".into()));
}

#[test]
fn tolerances_include_their_ends_and_bounds_are_strict() {
    use Tolerance::{Above, Below, Factor, Within};
    for (tolerance, yes, no) in [
        (Factor(1.5), [6.7, 15.0], [6.6, 15.1]),
        (Within(1.0), [9.0, 11.0], [8.9, 11.1]),
        (Above(3.0), [3.1, 100.0], [3.0, -1.0]),
        (Below(3.0), [2.9, -100.0], [3.0, 100.0]),
    ] {
        assert!(yes.iter().all(|&ours| tolerance.allows(10.0, ours)), "{tolerance}");
        assert!(no.iter().all(|&ours| !tolerance.allows(10.0, ours)), "{tolerance}");
    }
    assert!(!Factor(2.0).allows(1.0, 0.0) && !Factor(2.0).allows(1.0, -1.0));
}

const COLUMNS: &str = "[[column]]\nname = 'faults'\nitem = 'T {}: faults'\nsection = '1'\nunit = 'pages'\n\
    tolerance = { within = 0.0 }\nreason = 'exact'\nnull = 0.0\nours = { metric = 'page_faults.anonymous', system = 'base' }\n\
    [[absent]]\ncolumn = 'faults'\nreason = 'not published'\nrows = { three = 3, four = 4 }\n\
    [[overall]]\nover = 'greatest'\n[overall.value]\nitem = 'most'\nsection = '1'\npublished = 512\nunit = 'pages'\n\
    tolerance = { within = 0.0 }\nreason = 'exact'\nnull = 0.0\nours = { metric = 'page_faults.anonymous', system = 'base' }\n";
const ROWS: &str = "[[experiment]]\nname = 'e1'\nabout = 'a'\nprograms = ['touch:bytes=1M,page=4K']\nrow = 'one'\n\
    columns = { faults = 256 }\n[[experiment]]\nname = 'e2'\nabout = 'a'\nprograms = ['touch:bytes=2M,page=4K']\n\
    row = 'two'\n[experiment.columns]\nfaults = { published = 600, tolerance = { factor = 1.1 }, reason = 'own' }\n";

fn read_table(files: &'static [(&'static str, &'static str)]) -> Result<Paper, PaperError> {
    let names = files.iter().map(|(name, _)| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let text = HEAD.replacen("[base]", &format!("tables = [{names}]\n[base]"), 1);
    Paper::read("p", &text, PaperFiles::Embedded(files))
}

#[test]
fn a_cell_takes_its_item_from_its_column_and_row() {
    let paper = read_table(&[("columns.toml", COLUMNS), ("rows.toml", ROWS)]).unwrap();
    let outcomes: Vec<_> = paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let row = |c: &Comparison| (c.item.clone(), c.published, c.ours, c.verdict, c.reason.clone());
    let rows: Vec<_> = outcomes.iter().flat_map(|(_, outcome)| &outcome.comparisons).map(row).collect();
    assert_eq!(rows[0], ("T one: faults".into(), Some(256.0), Some(256.0), Verdict::Met, "exact".into()));
    assert_eq!(rows[1], ("T two: faults".into(), Some(600.0), Some(512.0), Verdict::Missed, "own".into()));
    let overall = paper.overall(&outcomes);
    let reason = "exact; the greatest of 2 programs, two".to_owned();
    assert_eq!(row(&overall[0]), ("most".into(), Some(512.0), Some(512.0), Verdict::Met, reason));
    assert_eq!(paper.overall(&[])[0].verdict, Verdict::NotMeasurable);
    let missing: Vec<_> = paper.missing().iter().map(|m| (m.item.clone(), m.published)).collect();
    assert_eq!(missing, [("T three: faults".to_owned(), Some(3.0)), ("T four: faults".to_owned(), Some(4.0))]);
}

#[test]
fn an_experiment_like_another_measures_the_same_part_of_the_program() {
    let part = "fast_forward = 20\nlimit = 90\nsample = 'every=30,measure=10,warm=10,between=fast-forward'\n";
    let second = TOUCH.replace("name = 'e'", "name = 'f'");
    let like = |rest: &str| second.replace("programs = ['touch:bytes=1M,page=4K']", rest);
    for (rest, every) in
        [("like = 'e'", 30), ("like = 'e'\nsample = 'every=45,measure=10,warm=10,between=fast-forward'", 45)]
    {
        let paper = read(&[HEAD, TOUCH, part, &like(rest)].concat()).unwrap();
        let [first, second] = &paper.experiments[..] else { panic!("two experiments") };
        assert_eq!((second.limit, &second.fast_forward), (first.limit, &first.fast_forward));
        assert_eq!(
            second.sample,
            Some(format!("every={every},measure=10,warm=10,between=fast-forward").parse().unwrap())
        );
    }
}

#[test]
fn mistakes_in_tables_are_named() {
    let fails = |files| read_table(files).err().unwrap().to_string();
    let error = fails(&[("rows.toml", ROWS), ("columns.toml", COLUMNS)]);
    assert_eq!(error, "p/paper.toml: rows.toml: experiment e1: there is no column \"faults\"; there are ");
    let error = fails(&[("columns.toml", "[[columm]]\n")]);
    assert!(error.starts_with("p/paper.toml: columns.toml: line 1: unknown field `columm`"), "{error}");
    let text = [HEAD.replacen("[base]", "tables = ['none']\n[base]", 1)].concat();
    assert_eq!(
        read(&text).err().unwrap().to_string(),
        "p/paper.toml: there is no file \"none\"; name one that comes with the paper"
    );
    for (command, message) in [
        ("{ run = [] }", "a command is empty"),
        ("{ run = ['true'], prepare = [[]] }", "a command is empty"),
        ("{ run = ['true'], files = ['x'] }", "there is no file \"x\""),
        ("{ run = ['true'] }\ncopies = 65", "copies = 65: expected 1 to 64"),
        ("{ run = ['true'] }\nlike = 'x'", "there is no earlier experiment \"x\""),
        ("{ run = ['true'] }\ncolumns = { a = 1 }", "columns need the name of a row"),
    ] {
        let text = [HEAD, &TOUCH.replace("programs = ['touch:bytes=1M,page=4K']", &format!("command = {command}"))];
        let error = read(&text.concat()).err().unwrap().to_string();
        assert!(error.starts_with("p/paper.toml: experiment e: ") && error.contains(message), "{message}: {error}");
    }
}

#[test]
fn a_missing_program_makes_numbers_not_measurable_and_names_its_package() {
    let command = "command = { run = ['true'], needs = { no-such-program-9 = 'some-package' } }";
    let text = [HEAD, &TOUCH.replace("programs = ['touch:bytes=1M,page=4K']", command)].concat();
    let paper = read(&[&text, &item("within = 0.0", "metric = 'stores', system = 'base'")[..]].concat()).unwrap();
    let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).comparisons;
    assert_eq!(rows[0].verdict, Verdict::NotMeasurable);
    assert_eq!(rows[0].reason, "install some-package (there is no no-such-program-9)");
}

#[test]
fn figures_show_experiments_that_have_the_needed_systems() {
    let figure = |needs: &str| {
        format!(
            "[[figure]]\nname = 'F'\nunit = 'pages'\nneeds = ['{needs}']\n\
                 columns.a = {{ metric = 'page_faults.anonymous', system = 'base', scale = 2.0 }}\n\
                 columns.b = {{ metric = 'stores', system = 'two' }}\n"
        )
    };
    let row = |name: &str, systems: &str| {
        TOUCH.replace("'e'", &format!("'{name}'")) + &format!("row = '{name}'\nsystems = {{ {systems} }}\n")
    };
    let table = [row("r", "two = 'base:zero_page=off'"), row("s", ""), figure("base")].concat();
    let files: Texts = &[];
    let open = |needs: &str| {
        let table = table.replace("needs = ['base']", &format!("needs = ['{needs}']"));
        let head = HEAD.replace("citation", "tables = ['t.toml']\ncitation");
        let read = file::read(&head, |_| Ok(table.clone()));
        read.map(|content| Paper {
            name: "p".into(),
            citation: content.citation,
            experiments: content.experiments,
            overall: content.overall,
            relations: content.relations,
            missing: content.missing,
            figures: content.figures,
            recordings: PathBuf::new(),
            quick: None,
            files: PaperFiles::Embedded(files),
            shared_input: SharedInput::default(),
        })
    };
    let drawn = |needs: &str| {
        let paper = open(needs).unwrap();
        let run = |experiment| (experiment, paper.run(&[experiment], 0, |_| true).remove(0));
        let outcomes: Vec<_> = paper.experiments.iter().map(run).collect();
        paper.draw(&outcomes)
    };
    let all = drawn("base");
    assert_eq!(all[0].columns, ["a", "b"]);
    assert_eq!(all[0].rows.len(), 2);
    assert_eq!(all[0].rows[0], ("r".into(), vec![Some(512.0), Some(256.0)]));
    assert_eq!(all[0].rows[1], ("s".into(), vec![Some(512.0), None]));
    let values: Vec<_> = all[0].values("p").into_iter().map(|value| (value.row, value.column, value.value)).collect();
    assert_eq!(values[2], ("s".into(), "a".into(), 512.0));
    assert_eq!(drawn("two")[0].rows.len(), 1);
    let error = open("three").err().unwrap();
    assert_eq!(error, "figure F: it needs a system \"three\", which no experiment has");
}

/// The same program with contiguous and with fragmented memory.
#[test]
fn fragmented_memory_makes_superpage_allocations_fail() {
    let faults = "metric = 'superpage_fallbacks', system = 'base'";
    let thp = HEAD.replace("base = 'base'", "base = 'linux-thp'");
    for (recipe, fallbacks) in [("", false), ("fragmentation = { order = 9, scattered = 1.0, hold = 0.1 }\n", true)] {
        let program = TOUCH.replace("1M", "16M");
        let paper = read(&[&thp, &program, recipe, &item("above = 1.0", faults)].concat()).unwrap();
        let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).comparisons;
        assert_eq!(rows[0].verdict == Verdict::Met, fallbacks, "{rows:?}");
    }
    let text = [HEAD, TOUCH, "fragmentation = { order = 9, hold = 0.1 }\n"].concat();
    let error = read(&text).err().unwrap().to_string();
    assert!(error.contains("order, scattered and hold, or else blocks"), "{error}");
}

/// Points of two workloads whose faults are proportional to the memory they touch.
const POINTS: &str = "[[relation]]\nitem = '{}: pages a MB'\nsection = '1'\nunit = 'pages'\ntolerance = { within = 0.01 }\n\
    reason = 'exact'\nnull = 0.0\nx = { metric = 'peak_resident_bytes', system = 'base', scale = 9.5367431640625e-07 }\n\
    y = { metric = 'page_faults.anonymous', system = 'base' }\ngive = 'slope'\neach = { one = 256.0, two = 256.0 }\n\
    [[relation]]\nitem = 'alike'\nsection = '1'\nunit = 'Spearman'\ntolerance = { below = 0.5 }\n\
    reason = 'exact'\nnull = 9.0\nx = { metric = 'peak_resident_bytes', system = 'base' }\n\
    y = { metric = 'page_faults.anonymous', system = 'base' }\ngive = 'spearman'\npublished = 0.5\n";

fn points() -> String {
    let point = |workload: &str, size: u32| {
        format!(
            "[[experiment]]\nname = '{workload}{size}'\nabout = 'a'\nworkload = '{workload}'\n\
             programs = ['touch:bytes={size}M,page=4K']\n"
        )
    };
    [("one", 1), ("one", 2), ("one", 4), ("two", 1), ("two", 3)].map(|(name, size)| point(name, size)).concat()
}

fn related(table: String) -> Result<Paper, PaperError> {
    let files: Texts = Box::leak(Box::new([("points.toml", &*table.leak())]));
    Paper::read("p", &HEAD.replacen("[base]", "tables = ['points.toml']\n[base]", 1), PaperFiles::Embedded(files))
}

#[test]
fn relations_take_the_points_of_their_workload() {
    let paper = related(points() + POINTS).unwrap();
    let outcomes: Vec<_> = paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let rows = paper.overall(&outcomes);
    let row = |c: &Comparison| (c.item.clone(), c.verdict, c.reason.clone());
    assert_eq!(row(&rows[0]), ("one: pages a MB".into(), Verdict::Met, "exact; 3 points".into()));
    assert_eq!(rows[1].verdict, Verdict::NotMeasurable, "two points are fewer than three");
    assert_eq!(row(&rows[2]), ("alike".into(), Verdict::Missed, "exact; 5 points".into()));
    assert!((rows[2].ours.unwrap() - 1.0).abs() < 1e-9, "both rank alike");
}

#[test]
fn mistakes_in_relations_are_named() {
    for (from, to, message) in [
        ("two = 256.0", "three = 256.0", "no experiment is of the workload \"three\""),
        ("published = 0.5", "", "give either published, over all points, or each, by workload"),
        ("'alike'", "'one: pages a MB'", "there are two items of that name"),
        (
            "system = 'base' }\ngive = 'slope'",
            "system = 'bsae' }\ngive = 'slope'",
            "this experiment has no system \"bsae\"",
        ),
        ("'slope'", "'median'", "unknown variant `median`"),
    ] {
        let error = related(points() + &POINTS.replacen(from, to, 1)).err().unwrap().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn old_keys_are_refused_with_their_new_names() {
    let scenario = "[[experiment]]\nname = 's'\nabout = 'a'\nscenario = 's'\n";
    for (text, message) in [
        ([HEAD, TOUCH, "skim = 5\n"].concat(), "line 13: the key `skim` is now called `fast_forward`"),
        ([HEAD, TOUCH, "timing = 'window'\n"].concat(), "timing \"window\" is now called \"ooo\""),
        ([&HEAD.replace("'counts'", "'window'"), TOUCH].concat(), "timing \"window\" is now called \"ooo\""),
        ([HEAD, scenario, "sample = 'every=1M,between=skim'\n"].concat(), "fast-forward"),
        ([HEAD, TOUCH, "machine = 'zen4:window.rob=100'\n"].concat(), "ooo"),
    ] {
        let error = read(&text).err().unwrap().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
    let sweep = "[[sweep]]\nname = 'e{n}'\nabout = 'a'\nprograms = ['touch:bytes=1M,page=4K']\nskim = '{n}'\neach = [{ n = 1 }]\n";
    let error = related(sweep.into()).err().unwrap().to_string();
    assert!(error.ends_with("experiment e1: the key `skim` is now called `fast_forward`"), "{error}");
}
