//! What was asked for and did not happen is said in every format, and in the exit status.

#[allow(dead_code)]
mod common;

use common::{failure, folder, path, reach, stderr, stdout};

const TOUCH: [&str; 2] = ["-p", "touch:bytes=1M"];

#[test]
fn cores_and_hardware_threads_that_a_machine_lacks_are_refused_by_number() {
    for verb in ["run", "compare"] {
        let ask = |options: &[&str]| failure(&[&[verb], &TOUCH[..], options].concat());
        let (status, text) = ask(&["-m", "zen4", "--cores", "64"]);
        let sentence = "machine zen4 has 8 cores, and --cores asks for 64; zen4:processor.cores=64 would have as many";
        assert_eq!((status, text.trim_end()), (2, format!("reach: {sentence}").as_str()));
        let (status, text) = ask(&["-m", "zen4", "--smt", "3"]);
        assert_eq!(status, 2, "{text}");
        assert!(text.contains("a core of machine zen4 has 2 hardware threads, and --smt asks for 3"), "{text}");
        let (status, text) = ask(&["-m", "zen4:processor.cores=64", "--cores", "64"]);
        assert_eq!(status, 0, "{text}");
    }
    // The program is not started.
    let marker = folder();
    let file = path(&marker, "started");
    let (status, _) = failure(&["run", "-m", "zen4", "--cores", "9", "--", "touch", &file]);
    assert!(status == 2 && !std::path::Path::new(&file).exists());
}

#[test]
fn a_machine_file_that_does_not_tell_its_cores_takes_any_number_and_a_note_says_so() {
    let folder = folder();
    let file = path(&folder, "mine.toml");
    let zen4 = include_str!("../../../machines/zen4.toml");
    let untold: Vec<&str> = zen4.lines().filter(|line| !line.starts_with("cores =")).collect();
    std::fs::write(&file, untold.join("\n")).unwrap();
    let run = |options: &[&str]| {
        let output = reach(&[&["run", "-m", &file], &TOUCH[..], options].concat()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(run(&["--cores", "64"]).contains("machine zen4 does not tell its number of cores (processor.cores)"));
    assert!(!run(&["--cores", "1"]).contains("processor.cores"));
}

/// Runs a comparison of `program` on skylake-e3-1240v5. Returns exit status and standard output.
fn compare(program: &str, options: &[&str]) -> (i32, String) {
    let output =
        reach(&[&["compare", "-q", "-m", "skylake-e3-1240v5", "-p", program], options].concat()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Its memory lies in one gigabyte with the program's image.
const WITHOUT_A_GIGABYTE: &str = "touch:bytes=64M";

#[test]
fn a_named_system_without_one_page_of_its_size_fails_in_every_format() {
    let systems = ["-s", "base", "-s", "hugetlb-2m", "-s", "hugetlb-1g"];
    let (status, table) = compare(WITHOUT_A_GIGABYTE, &systems);
    assert_eq!(status, 1, "{table}");
    assert!(table.contains("\nhugetlb-1g [1] ") && !table.contains("hugetlb-2m ["), "{table}");
    let note = table.lines().skip_while(|line| !line.starts_with("[1] ")).take(2).collect::<Vec<_>>().join(" ");
    assert!(note.contains("hugetlb-1g got no page of 1G: aligned extents of 1G around its memory hold"), "{note}");
    assert!(note.contains("First touches put 64 MB on pages of 2M"), "{note}");

    let (status, rows) = compare(WITHOUT_A_GIGABYTE, &[&systems[..], &["--format", "jsonl"]].concat());
    let mut rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let header = rows.next().unwrap();
    let finding = &header["findings"][0];
    assert_eq!(
        (status, &finding["kind"], &finding["system"]),
        (1, &"not_given".into(), &"hugetlb-1g".into()),
        "{header}"
    );
    let value = |row: serde_json::Value| row["value"].as_u64().unwrap();
    let mut of_1g = rows.filter(|row| row["system"] == "hugetlb-1g");
    assert_eq!(of_1g.find(|row| row["metric"] == "finding.not_given").map(value), Some(1));
    assert_eq!(of_1g.find(|row| row["metric"] == "explicit.bytes.2M").map(value), Some(64 << 20));
    assert_eq!(of_1g.find(|row| row["metric"] == "explicit.bytes.1G").map(value), Some(0));

    let (status, rows) = compare(WITHOUT_A_GIGABYTE, &[&systems[..], &["--format", "csv"]].concat());
    assert!(status == 1 && rows.contains(",finding.not_given,count,1"), "{rows}");
    let run = ["run", "-q", "-m", "skylake-e3-1240v5", "-s", "hugetlb-1g", "-p", WITHOUT_A_GIGABYTE];
    let output = reach(&run).output().unwrap();
    assert!(
        output.status.code() == Some(1)
            && String::from_utf8_lossy(&output.stdout).contains("[1] hugetlb-1g got no page")
    );
}

#[test]
fn memory_without_free_superpages_is_a_fallback_and_no_failure_unless_all_of_it_fell_back() {
    let fragmented = |scattered: &str, options: &[&str]| {
        let fragment = format!("scattered={scattered}");
        compare("touch:bytes=64M", &[&["--memory", "256M", "--fragment", &fragment], options].concat())
    };
    let named = ["-s", "base", "-s", "hugetlb-2m"];
    let (status, table) = fragmented("0.9", &named);
    let note = "[1] hugetlb-2m fell back: memory had no free block of 2M. First touches put ";
    assert!(status == 0 && table.replace("\n    ", " ").contains(note), "{table}");
    assert!(table.contains("on pages of 2M, ") && table.contains("on pages of 4K"), "{table}");
    let (status, table) = fragmented("1", &named);
    assert!(status == 1 && table.contains("[1] hugetlb-2m got no page of 2M: memory had no free block"), "{table}");
    // A default comparison says the same, and does not fail.
    let (status, table) = fragmented("1", &[]);
    assert!(status == 0 && table.contains("hugetlb-2m got no page of 2M"), "{table}");
    let (status, table) = compare("touch:bytes=64M", &named);
    assert!(status == 0 && !table.contains("[1]"), "{table}");
}

#[test]
fn a_system_that_never_acted_has_a_mark_and_its_own_reason() {
    let (status, table) = compare("touch:bytes=256K", &[]);
    let table = table.replace("\n    ", " ");
    assert_eq!(status, 0, "{table}");
    for sentence in [
        "linux-thp mapped no huge page, neither at a fault nor by khugepaged; its row does not show what it can do",
        "navarro-2002 never promoted: no reservation was fully populated",
        "talluri-hill-1994 never promoted: no reservation was populated to the threshold",
        "basu-2013-direct-segment had no segment: no mapping was large enough",
        "zhou-2023 made no superpage of code in a file",
    ] {
        assert!(table.contains(sentence), "{sentence}: {table}");
    }
    let (_, table) = compare("touch:bytes=64M", &[]);
    for acted in ["linux-thp [", "navarro-2002 [", "talluri-hill-1994 [", "karakostas-2015-rmm [", "pham-2012-colt ["] {
        assert!(!table.contains(acted), "{acted}: {table}");
    }
    let rows = stdout(&["run", "-m", "alpha-21264", "-s", "romer-1995", "-p", "touch:bytes=64K", "--format", "csv"]);
    assert!(rows.contains(",finding.never_acted,count,1"), "{rows}");
}
