//! What was asked for and did not happen is said in every format, and in the exit status.

use crate::common::{failure, folder, path, reach, stderr, stdout};

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

#[test]
fn stat_says_that_it_guessed_the_processor_and_which_counts_it_did_not_use() {
    let folder = folder();
    let file = path(&folder, "counts.csv");
    let both = "100,,dtlb_load_misses.walk_completed,1,100.00,,\n20,,dtlb_store_misses.walk_completed,1,100.00,,\n";
    let counted = format!("5000,,instructions,1,100.00,,\n{both}7,,page-faults,1,100.00,,\n");
    std::fs::write(&file, &counted).unwrap();
    let table = stdout(&["stat", "--read", &file]).replace("\n  ", " ");
    assert!(table.contains("- processor: ice-lake is a guess: ") && table.contains("skylake"), "{table}");
    assert!(table.contains("name the processor with --model"), "{table}");
    assert!(table.contains("- count not used: page-faults (no metric of ice-lake uses it)"), "{table}");
    assert!(table.contains("- not counted: "), "{table}");
    for format in ["jsonl", "csv"] {
        let output = reach(&["stat", "--read", &file, "--format", format]).output().unwrap();
        let (rows, notes) = (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output));
        assert!(rows.contains("finding.processor_guessed") && rows.contains("finding.counts_unused"), "{rows}");
        assert!(
            notes.contains("reach: processor: ice-lake is a guess") && notes.contains("not used: page-faults"),
            "{notes}"
        );
    }
    // A processor that was named is no guess, and an event that only one has tells it.
    let named = stdout(&["stat", "--read", &file, "--model", "skylake", "--format", "csv"]);
    assert!(named.contains("skylake,walks.completed,count,120") && !named.contains("guessed"), "{named}");
    std::fs::write(&file, format!("{counted}9,,icache_tag.stalls,1,100.00,,\n")).unwrap();
    let told = stdout(&["stat", "--read", &file]);
    assert!(told.contains("- processor: golden-cove was told by 3 events") && !told.contains("guess"), "{told}");
    // Loads without stores are no count of walks, so nothing is left.
    std::fs::write(&file, both.lines().next().unwrap()).unwrap();
    let (status, text) = failure(&["stat", "--read", &file]);
    assert!(status == 1 && text.contains("no metric follows from its counts"), "{text}");
}

/// Runs the command as the user nobody. Returns `None`, and prints the reason, if this test may not.
fn as_nobody(args: &[&str]) -> Option<std::process::Output> {
    use std::os::unix::process::CommandExt;
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become nobody");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("reach");
    assert!(
        std::process::Command::new("cp")
            .arg(assert_cmd::cargo::cargo_bin("reach"))
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    Some(std::process::Command::new(copy).args(args).uid(65534).gid(65534).current_dir("/").output().unwrap())
}

#[test]
fn show_names_the_processes_that_the_user_may_not_examine() {
    let Some(output) = as_nobody(&["text", "show", "/bin/sh"]) else { return };
    let shown = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = as_nobody(&["text", "show", "--format", "csv", "/bin/sh"]).unwrap();
    // With hidepid, nobody sees no other process at all.
    let hidden = "not examined: processes of other users, which /proc hides";
    if shown.contains(hidden) {
        assert!(shown.contains("no process that this user can examine"), "{shown}");
        assert!(stderr(&rows).contains(hidden), "{}", stderr(&rows));
        for verb in [&["text", "show", "1"][..], &["pages", "1"]] {
            let output = as_nobody(verb).unwrap();
            assert_eq!(output.status.code(), Some(1));
            assert!(stderr(&output).contains("1: no such process of this user, and /proc hides those of others"));
        }
        return;
    }
    let name = std::fs::read_to_string("/proc/1/comm").unwrap();
    let first = format!("not examined, because the kernel does not let this user: {} (1)", name.trim_end());
    assert!(shown.contains(&first), "{first}: {shown}");
    assert!(stderr(&rows).contains(&first), "{}", stderr(&rows));
    assert!(String::from_utf8_lossy(&rows.stdout).contains(",processes_not_examined,processes,"));
    // A process that was named and cannot be examined is an error with its name.
    for verb in [&["text", "show", "1"][..], &["pages", "1"]] {
        let output = as_nobody(verb).unwrap();
        let message = format!("reach: process 1 ({}): the kernel does not let this user examine it", name.trim_end());
        assert!(output.status.code() == Some(1) && stderr(&output).starts_with(&message), "{}", stderr(&output));
    }
}

#[test]
fn a_program_without_code_to_promote_has_no_gain_to_predict() {
    let folder = folder();
    let trace = path(&folder, "touch.reach");
    stdout(&["run", "-q", "-p", "touch:bytes=256K", "--record", &trace]);
    for format in ["table", "jsonl", "csv"] {
        let gain = ["text", "show", "-f", format, "--gain", "-m", "skylake-e3-1240v5", "--trace", &trace];
        let output = reach(&gain).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(
            stderr(&output).contains("reach: no gain to predict: no file of this program has a region"),
            "{}",
            stderr(&output)
        );
        let results = String::from_utf8_lossy(&output.stdout);
        let saved: Vec<&str> = results.lines().filter(|line| line.contains("cycles.saved")).collect();
        assert!(saved.iter().all(|row| row.contains("none")), "{results}");
    }
}
