//! The programs of the table.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program to measure.
pub struct Program {
    /// Its short name.
    pub name: &'static str,
    /// Its line in the table.
    pub about: &'static str,
    /// The command line. `{}` stands for the folder of sources and outputs.
    command: &'static [&'static str],
}

/// Files that programs read, and sources of those that are compiled first.
const FILES: [(&str, &str); 7] = [
    ("join.c", include_str!("join.c")),
    ("malloc.c", include_str!("malloc.c")),
    ("shm.c", include_str!("shm.c")),
    ("vectors.cc", include_str!("vectors.cc")),
    ("list.py", include_str!("list.py")),
    ("threads.py", include_str!("threads.py")),
    ("table.sql", include_str!("table.sql")),
];

/// All programs, in the order of the table.
pub const PROGRAMS: [Program; 11] = [
    program("gcc", "gcc -O2 -c lz.c (driver, cc1, as)", &["gcc", "-O2", "-c", "{}/lz.c", "-o", "{}/lz.o"]),
    program("python-list", "python3, 200,000 strings in a list and a dictionary", &["/usr/bin/python3", "{}/list.py"]),
    program("python-threads", "python3, eight threads", &["/usr/bin/python3", "{}/threads.py"]),
    program("sqlite", "sqlite3, 40,000 rows with an index", &["sqlite3", ":memory:", ".read {}/table.sql"]),
    program("sort", "sort, 150,000 lines", &["sort", "-o", "{}/sorted.txt", "{}/lines.txt"]),
    program(
        "perl",
        "perl, 60,000 keys in a hash",
        &["perl", "-e", r#"my %h; $h{"key $_"} = $_ for 1..60000; my @k = sort keys %h; print scalar(@k)"#],
    ),
    program("xz", "xz -1, 3 MB", &["xz", "-kfc1", "{}/lines.txt"]),
    program("join", "C, hash join of 32 MB", &["{}/join"]),
    program("malloc", "C, malloc and free of 42 MB, five times", &["{}/malloc"]),
    program("shm", "C, /dev/shm, memfd and shared memory in two processes", &["{}/shm"]),
    program("vectors", "C++, vectors and a map of strings", &["{}/vectors"]),
];

const fn program(name: &'static str, about: &'static str, command: &'static [&'static str]) -> Program {
    Program { name, about, command }
}

impl Program {
    /// Returns the command line with sources and outputs in `folder`.
    pub fn command(&self, folder: &Path) -> Vec<String> {
        self.command.iter().map(|word| word.replace("{}", &folder.display().to_string())).collect()
    }
}

/// Writes and compiles everything that the programs need. Returns the meter, which measures a command.
pub fn prepare(folder: &Path) -> Result<PathBuf> {
    for (name, text) in FILES {
        fs::write(folder.join(name), text)?;
    }
    fs::write(folder.join("lz.c"), include_str!("../../../../../examples/lz.c"))?;
    fs::write(folder.join("meter.c"), include_str!("meter.c"))?;
    let lines = (1..=150_000u64).map(|n| format!("{} line {n}\n", n * 7919 % 1_000_003));
    fs::write(folder.join("lines.txt"), lines.collect::<String>())?;
    for source in ["join.c", "malloc.c", "shm.c", "meter.c", "vectors.cc"] {
        let (stem, kind) = source.split_once('.').expect("a source has an extension");
        let compiler = if kind == "c" { "cc" } else { "c++" };
        let mut command = Command::new(compiler);
        command.current_dir(folder).args(["-O2", "-o", stem, source]);
        let status = command.status().with_context(|| format!("{compiler}, which compiles {source}"))?;
        ensure!(status.success(), "{compiler} could not compile {source}");
    }
    Ok(folder.join("meter"))
}
