//! What was asked for and did not happen is said in every format, and in the exit status.

#[allow(dead_code)]
mod common;

use common::{failure, folder, path, reach, stderr};

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
