//! The quick form of a paper.

use super::*;

/// Three rows, a conclusion about how many gain, and another number.
fn paper(quick: &str) -> Result<Paper, PaperError> {
    let rows = ["2M", "8M", "32M"].map(|size| {
        format!(
            "[[experiment]]\nname = '{size}'\nabout = 'a'\nprograms = ['touch:bytes={size},page=4K']\nrow = '{size}'\n\
             systems = {{ thp = 'linux-thp:enabled=always', late = 'linux-thp' }}\n"
        )
    });
    let overall = |name: &str, conclusion: &str| {
        format!(
            "[[overall]]\nover = {{ above = 1.0 }}\n[overall.value]\n{conclusion}item = '{name}'\nsection = 's'\n\
             published = 3.0\nunit = 'of 3'\ntolerance = {{ above = 2.0 }}\nreason = 'claim: r'\n\
             ours = {{ metric = 'cycles', system = 'late', or = ['thp'], against = ['base'], how = 'speedup' }}\n"
        )
    };
    let table = rows.concat() + &overall("gains", "conclusion = 'all gain'\n") + &overall("again", "");
    let head = HEAD.replace(", best = 'ideal'", "");
    let text = head.replace("[base]", &format!("tables = ['table.toml']\n{quick}\n[base]"));
    let texts: Texts = Box::leak(Box::new([("table.toml", &*Box::leak(table.into_boxed_str()))]));
    Paper::read("p", &text, PaperFiles::Embedded(texts))
}

#[test]
fn the_quick_form_has_fewer_rows_and_systems_and_only_conclusions() {
    let paper = paper("[quick]\nexperiments = ['8M', '32M']\nwithout = ['late']\n").unwrap().quick().unwrap();
    let labels: Vec<_> = paper.experiments.iter().flat_map(|e| e.systems.keys()).collect();
    assert_eq!(labels, ["base", "thp", "base", "thp"]);
    let outcomes: Vec<_> = paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let overall = paper.overall(&outcomes);
    let [gains] = &overall[..] else { panic!("{overall:?}") };
    assert_eq!((gains.published, gains.unit.as_str(), gains.tolerance.as_str()), (Some(2.0), "of 2", "> 1.33"));
    assert_eq!((gains.ours, gains.verdict), (Some(2.0), Verdict::Met));
}

#[test]
fn mistakes_in_the_quick_form_are_named() {
    for (quick, message) in [
        ("[quick]\nexperiments = ['8G']\n", "quick: there is no experiment \"8G\""),
        ("[quick]\nexperiments = ['8M']\nwithout = ['mine']\n", "quick: no experiment has a system \"mine\""),
    ] {
        let error = paper(quick).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(paper("").unwrap().quick().err().unwrap(), "p has no quick form; run it whole, or name experiments");
}
