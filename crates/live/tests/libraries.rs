//! The libraries of programs: as the dynamic loader finds them, and without running anything.

#[path = "common/attacker.rs"]
mod attacker;

use attacker::{Attacker, allow, attackers_folder, can_attack, give, roots_folder};
use reach_live::error::{LiveError, LiveErrorKind};
use reach_live::image::Image;
use reach_live::libraries;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn plays_the_attacker() {
    attacker::play();
}

/// Returns the libraries of a program, in their order.
fn of(path: &Path) -> Result<Vec<PathBuf>, LiveError> {
    Ok(libraries::of(&Image::open(path)?)?.into_iter().map(|library| library.path).collect())
}

/// Returns the libraries that `ldd` lists, which runs the loader. `None` if it fails.
fn by_ldd(path: &Path) -> Option<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = text.lines().filter_map(|line| {
        let (named, _) = line.trim().rsplit_once(" (")?;
        let path = named.rsplit_once(" => ").map_or(named, |(_, path)| path);
        path.starts_with('/').then(|| Path::new(path).canonicalize().unwrap())
    });
    (output.status.success() && !text.contains("not found")).then(|| listed.collect())
}

#[test]
fn libraries_of_installed_programs_are_those_that_ldd_lists() {
    compare(120);
}

#[test]
#[ignore = "long: runs ldd on every installed program"]
fn libraries_of_all_installed_programs_are_those_that_ldd_lists() {
    compare(usize::MAX);
}

/// Compares about `limit` programs, spread over the list.
fn compare(limit: usize) {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let mut programs: Vec<PathBuf> = folders
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.map(|entry| entry.unwrap().path()))
        .filter(|path| path.is_file() && !path.is_symlink())
        .filter(|path| Image::open(path).is_ok_and(|image| image.elf.interpreter.is_some()))
        .collect();
    programs.sort();
    let step = programs.len().div_ceil(limit).max(1);
    let (mut compared, mut most) = (0, 0);
    for path in programs.into_iter().step_by(step) {
        let Some(expected) = by_ldd(&path) else { continue };
        let found = of(&path).unwrap_or_else(|error| panic!("{error}"));
        let listed: BTreeSet<PathBuf> = found.iter().cloned().collect();
        assert_eq!(listed.len(), found.len(), "{}: no library twice", path.display());
        assert_eq!(listed, expected, "{}", path.display());
        (compared, most) = (compared + 1, most.max(found.len()));
    }
    eprintln!("{compared} programs, with up to {most} libraries");
    if compared < 50 {
        eprintln!("skipped in part: fewer than 50 dynamic programs are installed, or there is no ldd");
    }
}

/// Programs and libraries that `cc` builds in a folder.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    /// Returns a new folder. `None`, with a sentence, without a C compiler.
    fn new() -> Option<Built> {
        if Command::new("cc").arg("--version").output().is_err() {
            eprintln!("skipped: no C compiler");
            return None;
        }
        Some(Built { folder: roots_folder() })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Links `name` with the options. `lib….so` is a library, with its file name as `DT_SONAME`, and all else a program.
    fn link(&self, name: &str, options: &[&str]) -> PathBuf {
        let (path, source) = (self.at(name), self.at("source.c"));
        let file = path.file_name().unwrap().to_str().unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut cc = Command::new("cc");
        cc.arg("-o").args([&path, &source]).arg("-Wl,--no-as-needed").current_dir(self.folder.path());
        if file.contains(".so") {
            fs::write(&source, "int f(void) { return 0; }\n").unwrap();
            cc.args(["-shared", "-fPIC"]).arg(format!("-Wl,-soname,{file}"));
        }
        assert!(cc.args(options).status().unwrap().success());
        path
    }

    /// Asserts that the libraries of a program are those of `ldd`, and returns them, without those of the system.
    fn agreed(&self, path: &Path) -> Vec<PathBuf> {
        let found = of(path).unwrap();
        assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), by_ldd(path).unwrap(), "{}", path.display());
        found.into_iter().filter(|path| path.starts_with(self.at(""))).collect()
    }
}

const RPATH: &str = "-Wl,--disable-new-dtags";
const RUNPATH: &str = "-Wl,--enable-new-dtags";

#[test]
fn rpath_reaches_the_libraries_of_libraries_and_runpath_does_not() {
    let Some(built) = Built::new() else { return };
    built.link("one/libinner.so", &[]);
    built.link("two/libinner.so", &[]);
    built.link("one/libouter.so", &["-Lone", "-linner"]);
    let link = |name: &str, options: &[&str]| {
        built.link(name, &[&["-Lone", "-Wl,--allow-shlib-undefined", "-louter"], options].concat())
    };
    // By DT_RPATH, the program's folders are those of its libraries, too.
    let program = link("rpath", &[RPATH, "-Wl,-rpath,$ORIGIN/one"]);
    assert_eq!(built.agreed(&program), [built.at("one/libouter.so"), built.at("one/libinner.so")]);
    let program = link("runpath", &[RUNPATH, "-Wl,-rpath,$ORIGIN/one"]);
    let error = of(&program).unwrap_err().to_string();
    let expected = format!(
        "{}: lacks a library: libinner.so, which {} needs",
        program.display(),
        built.at("one/libouter.so").display()
    );
    assert!(error.starts_with(&expected) && by_ldd(&program).is_none(), "{error}");
    // The library's own folders come first, and a DT_RUNPATH there hides the program's DT_RPATH.
    built.link("one/libouter.so", &["-Lone", "-linner", RPATH, "-Wl,-rpath,${ORIGIN}/../two"]);
    let program = link("nearer", &[RPATH, "-Wl,-rpath,$ORIGIN/one"]);
    assert_eq!(built.agreed(&program), [built.at("one/libouter.so"), built.at("two/libinner.so")]);
    built.link("one/libouter.so", &["-Lone", "-linner", RUNPATH, "-Wl,-rpath,$ORIGIN/nothing"]);
    assert!(of(&program).is_err() && by_ldd(&program).is_none());
}

#[test]
fn names_links_and_processor_levels_are_followed_as_by_the_loader() {
    let Some(built) = Built::new() else { return };
    // The origin of the program is that of its file, not of a link to it.
    built.link("lib/liba.so", &[]);
    let program = built.link("bin/program", &["-Llib", "-la", RUNPATH, "-Wl,-rpath,$ORIGIN/../lib"]);
    symlink(&program, built.at("link")).unwrap();
    built.agreed(&program);
    assert_eq!(of(&built.at("link")).unwrap(), of(&program).unwrap());
    // A library without a DT_SONAME is needed by its path.
    let plain = built.link("lib/plain", &["-shared", "-fPIC"]);
    let by_path = built.link("by-path", &[plain.to_str().unwrap()]);
    assert_eq!(built.agreed(&by_path), [plain]);
    // A file under two names is one library.
    symlink("liba.so", built.at("lib/libb.so")).unwrap();
    let twice = built.link("twice", &["-Llib", "-la", "-l:libb.so", "-Wl,-rpath,$ORIGIN/lib"]);
    assert_eq!(built.agreed(&twice), [built.at("lib/liba.so")]);
    // Subfolders for the level of the processor come first.
    for level in ["x86-64-v2", "x86-64-v3"] {
        built.link(&format!("lib/glibc-hwcaps/{level}/liba.so"), &[]);
        built.agreed(&program);
    }
    // A library for another processor is passed over; $LIB is the C library's folder.
    let lib = if Path::new("/lib/x86_64-linux-gnu").is_dir() { "lib/x86_64-linux-gnu" } else { "lib64" };
    let foreign = built.link("foreign/liba.so", &[]);
    let mut bytes = fs::read(&foreign).unwrap();
    bytes[18] = 40;
    fs::write(&foreign, bytes).unwrap();
    built.link(&format!("{lib}/liba.so"), &[]);
    let program = built.link("passed", &["-Llib", "-la", "-Wl,-rpath,$ORIGIN/foreign:$ORIGIN/$LIB"]);
    assert_eq!(built.agreed(&program), [built.at(&format!("{lib}/liba.so"))]);
    // Static programs need none.
    let alone = built.link("alone", &["-static"]);
    assert_eq!(of(&alone).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_of_a_program_nor_of_its_libraries_is_run() {
    let Some(built) = Built::new() else { return };
    // The loader runs the code of auditors. Its own name may be that of a shell script, too.
    let mark = built.at("ran");
    let script = built.at("ld-linux-x86-64.so.2");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    allow(&script, 0o755);
    let audit = built.at("audit.c");
    let source = format!(
        "#include <stdlib.h>\nunsigned la_version(unsigned v) {{ system(\"touch {}\"); return v; }}\n",
        mark.display()
    );
    fs::write(&audit, source).unwrap();
    let library = built.at("audit.so");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &audit]).status().unwrap().success());
    let audited = built.link("audited", &[&format!("-Wl,--audit={}", library.display())]);
    assert!(of(&audited).unwrap().iter().any(|path| path.to_string_lossy().contains("libc.so")));
    let hostile = built.link("hostile", &[&format!("-Wl,--dynamic-linker={}", script.display())]);
    assert!(of(&hostile).unwrap_err().to_string().contains("no ELF file") || of(&hostile).is_err());
    assert!(!mark.exists());
    // Loaders with other rules are refused in one sentence.
    let other = built.link("other", &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
    let error = of(&other).unwrap_err().to_string();
    assert!(
        error.contains("has the dynamic loader /lib/ld-musl-x86_64.so.1; only the rules of the GNU C library's"),
        "{error}"
    );
}

/// An ELF library whose code segments are out of order, for which the loader maps its memory over others (CVE-2019-1010023).
#[test]
fn a_library_with_segments_out_of_order_is_refused() {
    let Some(built) = Built::new() else { return };
    let library = built.link("libbad.so", &[]);
    let program = built.link("main", &["-L.", "-lbad", "-Wl,-rpath,$ORIGIN"]);
    let mut bytes = fs::read(&library).unwrap();
    // The second PT_LOAD follows the first in the table, by 56 bytes.
    let loads: Vec<usize> = (0..usize::from(bytes[56])).map(|i| 64 + 56 * i).filter(|&at| bytes[at] == 1).collect();
    let (first, second) = (loads[0], loads[1]);
    for i in 0..56 {
        bytes.swap(first + i, second + i);
    }
    fs::write(&library, bytes).unwrap();
    let error = of(&program).unwrap_err().to_string();
    assert!(error.contains("libbad.so: is corrupt: segments overlap or are out of order"), "{error}");
}

#[test]
fn root_takes_no_library_that_others_can_change() {
    let Some(built) = Built::new().filter(|_| can_attack()) else { return };
    let theirs = attackers_folder(built.folder.path());
    built.link("attackers/liba.so", &[]);
    let program = built.link("program", &["-Lattackers", "-la", "-Wl,-rpath,$ORIGIN/attackers"]);
    let refused = |error: LiveError| match error.kind {
        LiveErrorKind::Untrusted(distrust) => distrust.to_string(),
        other => panic!("{other}"),
    };
    assert_eq!(
        refused(of(&program).unwrap_err()),
        format!("{} belongs to uid 65534", theirs.canonicalize().unwrap().display())
    );
    // The same from the current folder, which an empty part of a list stands for.
    let listed = built.link("listed", &["-Lattackers", "-la", "-Wl,-rpath,/nothing::/nowhere"]);
    assert!(of(&listed).is_err());
    fs::rename(theirs.join("liba.so"), built.at("liba.so")).unwrap();
    give(&built.at("liba.so"));
    let program = built.link("other", &["-L.", "-la", "-Wl,-rpath,$ORIGIN"]);
    assert!(refused(of(&program).unwrap_err()).ends_with("liba.so belongs to uid 65534"));
}

#[test]
fn a_flipping_loader_is_never_run() {
    race(100);
}

#[test]
#[ignore = "long: 2,000 tries of a race"]
fn a_flipping_loader_is_never_run_in_many_tries() {
    race(2_000);
}

/// Lists the libraries of a program whose loader is flipped between a link to the system's and the attacker's own.
fn race(tries: usize) {
    let Some(built) = Built::new().filter(|_| can_attack()) else { return };
    let theirs = attackers_folder(built.folder.path());
    let mark = built.at("attackers/ran");
    let loader = Image::open(Path::new("/proc/self/exe")).unwrap().elf.interpreter.unwrap();
    let (good, evil) = (theirs.join("ld-linux-x86-64.so.2"), theirs.join("ld-linux-evil.so.2"));
    symlink(&loader, &good).unwrap();
    fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    allow(&evil, 0o755);
    give(&evil);
    let program = built.link("program", &[&format!("-Wl,--dynamic-linker={}", good.display())]);
    let attacker = Attacker::flips(&good, &evil);
    for _ in 0..tries {
        let error = of(&program).unwrap_err();
        assert!(matches!(error.kind, LiveErrorKind::Link { .. } | LiveErrorKind::Untrusted(_)), "{error}");
    }
    drop(attacker);
    assert!(!mark.exists(), "the attacker's program has run");
}
