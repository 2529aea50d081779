use super::measure::Measure;
use super::*;
use crate::results::{ALL, Row as Result, Value};

const HEAD: &str = "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 64\ntiming = 'counts'\nseed = 1\nwarm = true\n\
    systems = { base = 'base', best = 'ideal' }\n";
const TOUCH: &str = "[[experiment]]\nname = 'e'\nabout = 'a'\nprograms = ['touch:bytes=1M,page=4K']\n";

fn read(text: &str) -> std::result::Result<Paper, PaperError> {
    Paper::read("p", text, Source::Built(&[]))
}

fn item(tolerance: &str, ours: &str) -> String {
    format!(
        "[[experiment.item]]\nitem = 'i'\nsection = 's'\npublished = 256.0\nunit = 'pages'\ntolerance = {{ {tolerance} }}\n\
         reason = 'r'\nours = {{ {ours} }}\n"
    )
}

#[test]
fn every_paper_that_comes_with_the_program_is_whole() {
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
fn an_experiment_is_judged_by_its_rows() {
    let faults = "metric = 'page_faults.anonymous', system = 'base'";
    for (tolerance, ours, verdict) in [
        ("within = 0.0", faults, Verdict::Met),
        ("within = 0.0", "metric = 'page_faults.anonymous', system = 'base', scale = 2.0", Verdict::Missed),
        ("within = 0.0", "metric = 'stores', system = 'best', per = 'promotions'", Verdict::NotMeasurable),
        ("at_least = 1.0", "metric = 'cycles', system = 'best', against = ['base'], how = 'speedup'", Verdict::Met),
        ("at_most = 1.0", "metric = 'cycles', system = 'best', against = ['base'], how = 'speedup'", Verdict::Missed),
    ] {
        let paper = read(&[HEAD, TOUCH, &item(tolerance, ours)].concat()).unwrap();
        let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].verdict, verdict, "{ours}: {rows:?}");
        assert_eq!(rows[0].ours.is_none(), verdict == Verdict::NotMeasurable);
    }
    let text = [HEAD, TOUCH, &item("within = 0.0", faults)].concat();
    let paper = read(&text.replace("memory_mb = 64", "memory_mb = 1")).unwrap();
    let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).rows;
    assert_eq!(rows[0].verdict, Verdict::NotMeasurable, "a simulation that fails measures nothing");
    assert!(rows[0].reason.contains("out of simulated memory"), "{}", rows[0].reason);
}

#[test]
fn mistakes_are_named() {
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
        ([HEAD, TOUCH, "timing = 'slow'\n"].concat(), "give counts, inorder or ooo"),
        ([HEAD, TOUCH, "machine = 'zen44'\n"].concat(), "did you mean zen4"),
        ([HEAD, TOUCH, "systems = { x = 'bsae' }\n"].concat(), "system x: there is no system \"bsae\""),
        ([HEAD, TOUCH, "systems = { x = 'ideal' }\n"].concat(), "systems best and x are the same; keep one"),
        ([HEAD, TOUCH, &item("factor = 0.5", good)].concat(), "e, i: a tolerance of factor 0.5 allows nothing"),
        ([HEAD, TOUCH, &item("wide = 1", good)].concat(), "unknown variant `wide`"),
        ([HEAD, TOUCH, &item("within = 1", good).replace("'r'", "' '")].concat(), "e, i: the tolerance has no reason"),
        ([HEAD, TOUCH, &item("within = 1", "metric = 'm', system = 'x'")].concat(), "there is no system \"x\""),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, how = 'ratio'"))].concat(), "compares with nothing"),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, against = ['best']"))].concat(), "against needs how"),
        ([HEAD, TOUCH, &item("within = 1", &format!("{good}, run = 1"))].concat(), "run picks one of nothing"),
        (
            [HEAD, TOUCH, &item("within = 1", good), &item("within = 1", good)].concat(),
            "there are two items of that name",
        ),
    ] {
        let error = read(&text).err().unwrap().to_string();
        assert!(error.starts_with("p/paper.toml: ") && error.contains(message), "{message}: {error}");
    }
    assert!(
        Paper::open("navarro")
            .err()
            .unwrap()
            .to_string()
            .contains("there are fang-1999, karakostas-2015-rmm, lindsay-2024, navarro-2002, zhou-2023")
    );
    let paper = read(&[HEAD, TOUCH].concat()).unwrap();
    assert_eq!(
        paper.chosen(&["e".into(), "f".into()]).err().unwrap().to_string(),
        "p has no experiment \"f\"; it has e"
    );
}

fn row(system: &str, process: &str, metric: &str, value: f64) -> Result {
    Result {
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
fn values_follow_from_rows() {
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
        measure.compute(&rows, str::to_owned)
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
fn tolerances_allow_what_they_say() {
    use Tolerance::{AtLeast, AtMost, Factor, Within};
    for (tolerance, yes, no) in [
        (Factor(1.5), [6.7, 15.0], [6.6, 15.1]),
        (Within(1.0), [9.0, 11.0], [8.9, 11.1]),
        (AtLeast(3.0), [3.0, 100.0], [2.9, -1.0]),
        (AtMost(3.0), [3.0, -100.0], [3.1, 100.0]),
    ] {
        assert!(yes.iter().all(|&ours| tolerance.allows(10.0, ours)), "{tolerance}");
        assert!(no.iter().all(|&ours| !tolerance.allows(10.0, ours)), "{tolerance}");
    }
    assert!(!Factor(2.0).allows(1.0, 0.0) && !Factor(2.0).allows(1.0, -1.0));
}

const COLUMNS: &str = "[[column]]\nname = 'faults'\nitem = 'T {}: faults'\nsection = '1'\nunit = 'pages'\n\
    tolerance = { within = 0.0 }\nreason = 'exact'\nours = { metric = 'page_faults.anonymous', system = 'base' }\n\
    [[absent]]\ncolumn = 'faults'\nreason = 'not to be had'\nrows = { three = 3, four = 4 }\n\
    [[overall]]\nover = 'greatest'\n[overall.value]\nitem = 'most'\nsection = '1'\npublished = 512\nunit = 'pages'\n\
    tolerance = { within = 0.0 }\nreason = 'exact'\nours = { metric = 'page_faults.anonymous', system = 'base' }\n";
const ROWS: &str = "[[experiment]]\nname = 'e1'\nabout = 'a'\nprograms = ['touch:bytes=1M,page=4K']\nrow = 'one'\n\
    columns = { faults = 256 }\n[[experiment]]\nname = 'e2'\nabout = 'a'\nprograms = ['touch:bytes=2M,page=4K']\n\
    row = 'two'\n[experiment.columns]\nfaults = { published = 600, tolerance = { factor = 1.1 }, reason = 'own' }\n";

fn read_table(files: &'static [(&'static str, &'static str)]) -> std::result::Result<Paper, PaperError> {
    let names = files.iter().map(|(name, _)| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let text = HEAD.replacen("[base]", &format!("tables = [{names}]\n[base]"), 1);
    Paper::read("p", &text, Source::Built(files))
}

#[test]
fn a_table_is_its_columns_by_its_rows() {
    let paper = read_table(&[("columns.toml", COLUMNS), ("rows.toml", ROWS)]).unwrap();
    let outcomes: Vec<_> = paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let row = |row: &Row| (row.item.clone(), row.published, row.ours, row.verdict, row.reason.clone());
    let rows: Vec<_> = outcomes.iter().flat_map(|(_, outcome)| &outcome.rows).map(row).collect();
    assert_eq!(rows[0], ("T one: faults".into(), 256.0, Some(256.0), Verdict::Met, "exact".into()));
    assert_eq!(rows[1], ("T two: faults".into(), 600.0, Some(512.0), Verdict::Missed, "own".into()));
    let overall = paper.overall(&outcomes);
    let reason = "exact; the greatest of 2 programs, two".to_owned();
    assert_eq!(row(&overall[0]), ("most".into(), 512.0, Some(512.0), Verdict::Met, reason));
    assert_eq!(paper.overall(&[])[0].verdict, Verdict::NotMeasurable);
    let missing: Vec<_> = paper.missing().iter().map(|m| (m.item.clone(), m.published)).collect();
    assert_eq!(missing, [("T three: faults".to_owned(), 3.0), ("T four: faults".to_owned(), 4.0)]);
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
        ("{ run = [] }", "there is a command without words"),
        ("{ run = ['true'], prepare = [[]] }", "there is a command without words"),
        ("{ run = ['true'], files = ['x'] }", "there is no file \"x\""),
        ("{ run = ['true'] }\ncopies = 65", "copies is 1 to 64; give a number between"),
        ("{ run = ['true'] }\nlike = 'x'", "there is no experiment \"x\" before it"),
        ("{ run = ['true'] }\ncolumns = { a = 1 }", "columns need the name of a row"),
    ] {
        let text = [HEAD, &TOUCH.replace("programs = ['touch:bytes=1M,page=4K']", &format!("command = {command}"))];
        let error = read(&text.concat()).err().unwrap().to_string();
        assert!(error.starts_with("p/paper.toml: experiment e: ") && error.contains(message), "{message}: {error}");
    }
}

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let command = "command = { run = ['true'], needs = { no-such-program-9 = 'some-package' } }";
    let text = [HEAD, &TOUCH.replace("programs = ['touch:bytes=1M,page=4K']", command)].concat();
    let paper = read(&[&text, &item("within = 0.0", "metric = 'stores', system = 'base'")[..]].concat()).unwrap();
    let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).rows;
    assert_eq!(rows[0].verdict, Verdict::NotMeasurable);
    assert_eq!(rows[0].reason, "install some-package (there is no no-such-program-9)");
}

#[test]
fn figures_show_rows_that_have_their_systems() {
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
    let files: Files = &[];
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
            source: Source::Built(files),
            shared: Shared::default(),
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
    let marks: Vec<_> = all[0].marks("p").into_iter().map(|mark| (mark.row, mark.column, mark.value)).collect();
    assert_eq!(marks[2], ("s".into(), "a".into(), 512.0));
    assert_eq!(drawn("two")[0].rows.len(), 1);
    let error = open("three").err().unwrap();
    assert_eq!(error, "figure F: it needs a system \"three\", which no experiment has");
}

/// The same program in memory that is broken up.
#[test]
fn memory_may_be_broken_up() {
    let faults = "metric = 'superpage_fallbacks', system = 'base'";
    let thp = HEAD.replace("base = 'base'", "base = 'linux-thp'");
    for (recipe, fallbacks) in [("", false), ("fragmentation = { order = 9, scattered = 1.0, hold = 0.1 }\n", true)] {
        let program = TOUCH.replace("1M", "16M");
        let paper = read(&[&thp, &program, recipe, &item("at_least = 1.0", faults)].concat()).unwrap();
        let rows = paper.run(&[&paper.experiments[0]], 0, |_| true).remove(0).rows;
        assert_eq!(rows[0].verdict == Verdict::Met, fallbacks, "{rows:?}");
    }
    let text = [HEAD, TOUCH, "fragmentation = { order = 9, hold = 0.1 }\n"].concat();
    assert!(read(&text).err().unwrap().to_string().contains("missing field `scattered`"));
}

/// Points of two workloads whose faults are in proportion to what they touch.
const POINTS: &str = "[[relation]]\nitem = '{}: pages a MB'\nsection = '1'\nunit = 'pages'\ntolerance = { within = 0.01 }\n\
    reason = 'exact'\nx = { metric = 'peak_resident_bytes', system = 'base', scale = 9.5367431640625e-07 }\n\
    y = { metric = 'page_faults.anonymous', system = 'base' }\ngive = 'slope'\neach = { one = 256.0, two = 256.0 }\n\
    [[relation]]\nitem = 'alike'\nsection = '1'\nunit = 'Spearman'\ntolerance = { at_most = 0.5 }\n\
    reason = 'exact'\nx = { metric = 'peak_resident_bytes', system = 'base' }\n\
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

fn related(table: String) -> std::result::Result<Paper, PaperError> {
    let files: Files = Box::leak(Box::new([("points.toml", &*table.leak())]));
    Paper::read("p", &HEAD.replacen("[base]", "tables = ['points.toml']\n[base]", 1), Source::Built(files))
}

#[test]
fn points_of_a_workload_make_a_line() {
    let paper = related(points() + POINTS).unwrap();
    let outcomes: Vec<_> = paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let rows = paper.overall(&outcomes);
    let row = |row: &Row| (row.item.clone(), row.verdict, row.reason.clone());
    assert_eq!(row(&rows[0]), ("one: pages a MB".into(), Verdict::Met, "exact; 3 points".into()));
    assert_eq!(rows[1].verdict, Verdict::NotMeasurable, "two points are too few");
    assert_eq!(row(&rows[2]), ("alike".into(), Verdict::Missed, "exact; 5 points".into()));
    assert!((rows[2].ours.unwrap() - 1.0).abs() < 1e-9, "the order of what is touched is that of faults");
}

#[test]
fn mistakes_in_relations_are_named() {
    for (from, to, message) in [
        ("two = 256.0", "three = 256.0", "no experiment is of the workload \"three\""),
        ("published = 0.5", "", "give either published, over all points, or each, by workload"),
        ("'alike'", "'one: pages a MB'", "there are two items of that name"),
        ("system = 'base' }\ngive = 'slope'", "system = 'bsae' }\ngive = 'slope'", "there is no system \"bsae\""),
        ("'slope'", "'median'", "unknown variant `median`"),
    ] {
        let error = related(points() + &POINTS.replacen(from, to, 1)).err().unwrap().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}
