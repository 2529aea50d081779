//! What each number would be where nothing has an effect, and verdicts that this decides.

use super::*;

/// Touches 16 MB, with huge pages and without.
const THP: &str = "[[experiment]]\nname = 'e'\nabout = 'a'\nprograms = ['touch:bytes=16M,page=4K']\nrow = 'r'\n\
    systems = { thp = 'linux-thp:enabled=always', navarro = 'navarro-2002' }\n";

fn items(items: &[(&str, &str)]) -> String {
    let item = |(at, (published, ours)): (usize, &(&str, &str))| {
        format!(
            "[[experiment.item]]\nitem = 'i{at}'\nsection = 's'\nunit = 'x'\n{published}\nours = {{ {ours} }}\n\
             reason = 'spread: r'\n"
        )
    };
    items.iter().enumerate().map(item).collect()
}

fn outcomes(paper: &Paper) -> Vec<(&PaperExperiment, PaperOutcome)> {
    paper.experiments.iter().map(|e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect()
}

#[test]
fn systems_without_an_effect_are_the_baseline_and_a_baseline_without_an_effect_translates_for_nothing() {
    let head = HEAD.replace(", best = 'ideal'", "");
    let ten = "published = 10.0\ntolerance = { factor = 2.0 }";
    let text = items(&[
        (ten, "metric = 'page_faults.anonymous', system = 'thp', against = ['base'], how = 'ratio'"),
        (ten, "metric = 'page_faults.anonymous', system = 'base', against = ['thp'], how = 'reduction'"),
        (ten, "metric = 'page_faults.anonymous', system = 'thp'"),
        (ten, "metric = 'walks', system = 'base'"),
        (ten, "metric = 'walk_cycles', per = 'walks', system = 'base'"),
        (ten, "metric = 'cycles', system = 'thp', or = ['navarro'], against = ['base'], how = 'speedup'"),
        ("published = 9.0\ntolerance = { factor = 2.0 }\nnull = 9.0", "metric = 'walks', system = 'thp'"),
    ]);
    let paper = read(&[&head, THP, &text].concat()).unwrap();
    assert_eq!(paper.experiments[0].free_translation(), Some("free translation"), "the fourth item needs it");
    let nulls: Vec<_> = outcomes(&paper)[0].1.comparisons.iter().map(|comparison| comparison.null).collect();
    assert_eq!(nulls, [Some(1.0), Some(0.0), Some(4096.0), Some(0.0), None, Some(1.0), Some(9.0)]);
}

#[test]
fn numbers_with_an_unjudged_reason_have_no_tolerance_and_no_verdict() {
    let ours = "metric = 'page_faults.anonymous', system = 'thp'";
    let with = |published: &str, reason: &str| {
        let text = items(&[(published, ours)]).replace("spread: r", reason);
        read(&[HEAD, THP, &text].concat())
    };
    let judged = |paper: Paper| outcomes(&paper)[0].1.comparisons[0].clone();
    let row = judged(with("published = 8.0", "input: r").unwrap());
    assert_eq!((row.verdict, row.published, row.tolerance.as_str()), (Verdict::NotJudged, Some(8.0), ""));
    let row = judged(with("published = 8.0", "unpublished: r").unwrap());
    assert_eq!((row.verdict, row.published), (Verdict::NotJudged, None));
    for (published, reason, message) in [
        ("published = 8.0", "spread: r", "there is no tolerance"),
        ("published = 8.0\ntolerance = { factor = 2.0 }", "definition: r", "leave the tolerance out"),
        ("published = 8.0\ntolerance = { factor = 2.0 }", "claim: r", "a claim is a bound"),
    ] {
        let error = with(published, reason).err().unwrap().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn counts_over_rows_and_relations_have_nulls_of_their_own() {
    let points = ["2M", "8M", "32M"].map(|size| {
        let point = THP.replace("16M", size).replace("'e'", &format!("'{size}'"));
        point.replace("row = 'r'", "row = 'r'\nworkload = 'w'")
    });
    let table = points.concat()
        + "[[overall]]\nover = { above = 1.0 }\n[overall.value]\nitem = 'faster'\nsection = 's'\nunit = 'of 3'\n\
           published = 3.0\ntolerance = { above = 1.0 }\nreason = 'claim: r'\n\
           ours = { metric = 'cycles', system = 'thp', against = ['base'], how = 'speedup' }\n\
           [[relation]]\nitem = 'line'\nsection = 's'\nunit = 'x'\ntolerance = { above = 0.0 }\nreason = 'claim: r'\n\
           x = { metric = 'peak_resident_bytes', system = 'base' }\n\
           y = { metric = 'cycles', system = 'base', against = ['thp'], how = 'excess' }\ngive = 'slope'\npublished = 1.0\n";
    let paper = related(table.clone()).unwrap();
    let rows = paper.overall(&outcomes(&paper));
    let row = |c: &Comparison| (c.ours.unwrap() > 0.0, c.null, c.verdict);
    assert_eq!(row(&rows[0]), (true, Some(0.0), Verdict::Met), "{rows:?}");
    assert_eq!(row(&rows[1]), (true, Some(0.0), Verdict::Met), "{rows:?}");
    let baseline = table.replace("system = 'thp', against = ['base'], how = 'speedup'", "system = 'base'");
    let error = related(baseline).err().unwrap().to_string();
    assert!(error.contains("faster: it measures the baseline alone; give null"), "{error}");
}

/// A computed null is what such a simulator gives. So this tests nulls that files state, and those that do not exist.
#[test]
fn a_simulator_without_effects_meets_no_number_of_the_papers() {
    for (name, experiments) in
        [("navarro-2002", &["touch-once", "preemption"][..]), ("fang-1999", &["micro-1", "micro-128"])]
    {
        let paper = Paper::open(name).unwrap().without_effect();
        let names: Vec<String> = experiments.iter().map(|name| (*name).to_owned()).collect();
        for experiment in paper.chosen(&names).unwrap() {
            assert!(experiment.simulated().len() <= 2, "the baseline and free translation are enough");
            let outcome = paper.run(&[experiment], 0, |_| true).remove(0);
            assert!(outcome.comparisons.iter().any(|row| row.ours.is_some()));
            let met: Vec<_> = outcome.comparisons.iter().filter(|row| row.verdict == Verdict::Met).collect();
            assert!(met.is_empty(), "{met:?}");
        }
    }
}

#[test]
fn saved_results_are_judged_as_those_of_the_run() {
    let paper = Paper::open("navarro-2002").unwrap();
    let chosen = paper.chosen(&["preemption".into()]).unwrap();
    let run: Vec<_> = chosen.iter().map(|&e| (e, paper.run(&[e], 0, |_| true).remove(0))).collect();
    let text = save(&run);
    let again = paper.judge_saved(&chosen, &text).unwrap();
    assert!(run[0].1.comparisons.iter().any(|row| row.verdict == Verdict::Met));
    assert_eq!(again[0].1.comparisons, run[0].1.comparisons);
    let failed = paper.outcome(chosen[0], Err("it was killed".into()));
    assert!(failed.comparisons.iter().all(|row| row.reason == "it was killed"));
    let text = save(&[(chosen[0], failed.clone())]);
    assert_eq!(paper.judge_saved(&chosen, &text).unwrap()[0].1.comparisons, failed.comparisons);
    assert_eq!(paper.judge_saved(&chosen, "").unwrap().len(), 0);
    assert!(paper.judge_saved(&chosen, "x\n").err().unwrap().starts_with("line 1: "));
}
