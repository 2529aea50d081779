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
    /// The memory that it is about.
    pub memory: Memory,
}

/// The memory that a program is about, which decides the settings under which it is measured.
#[derive(Clone, Copy)]
pub enum Memory {
    /// Private memory.
    Private,
    /// Shared memory.
    Shared,
    /// A file on a tmpfs that is mounted with `huge=always`.
    Tmpfs,
    /// A file on a disk that was written 2 MB at a time.
    Written,
    /// Private memory on hugetlbfs.
    Hugetlb,
}

/// A tmpfs, which is unmounted at the end.
pub struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Mounts a tmpfs with huge pages in `folder`, and puts a file there.
pub fn mount(folder: &Path) -> Result<Mounted> {
    let at = folder.join("tmpfs");
    fs::create_dir(&at)?;
    let status = Command::new("mount").args(["-t", "tmpfs", "-o", "huge=always,size=64m", "none"]).arg(&at).status()?;
    ensure!(status.success(), "mount could not mount a tmpfs with huge=always");
    Ok(Mounted(at))
}

/// Bytes of the file that `mapped.c` maps: five huge pages, and a part of one.
const DATA: usize = (11 << 20) + 5 * 4096;

/// Files that programs read, and sources of those that are compiled first.
const FILES: [(&str, &str); 11] = [
    ("join.c", include_str!("join.c")),
    ("malloc.c", include_str!("malloc.c")),
    ("shm.c", include_str!("shm.c")),
    ("shared.c", include_str!("shared.c")),
    ("collapse.c", include_str!("collapse.c")),
    ("hugeheap.c", include_str!("hugeheap.c")),
    ("mapped.c", include_str!("mapped.c")),
    ("vectors.cc", include_str!("vectors.cc")),
    ("list.py", include_str!("list.py")),
    ("threads.py", include_str!("threads.py")),
    ("table.sql", include_str!("table.sql")),
];

/// All programs, in the order of the table.
pub const PROGRAMS: [Program; 16] = [
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
    Program {
        memory: Memory::Shared,
        ..program("shared", "C, memfd, /dev/shm and shared memory of 20 MB, split in every way", &["{}/shared"])
    },
    Program { memory: Memory::Shared, ..program("collapse", "C, memfd of 12 MB and MADV_COLLAPSE", &["{}/collapse"]) },
    Program {
        memory: Memory::Tmpfs,
        ..program(
            "tmpfs",
            "C, the program of shared memory with files on tmpfs",
            &["{}/shared", "{}/tmpfs/data", "{}/tmpfs/unlinked"],
        )
    },
    Program { memory: Memory::Written, ..program("written", "C, a file of 11 MB on ext4", &["{}/mapped", "{}/data"]) },
    Program {
        memory: Memory::Hugetlb,
        ..program(
            "preload",
            "C, hash join with a preloaded heap on hugetlbfs",
            &["env", "LD_PRELOAD={}/hugeheap.so", "{}/join"],
        )
    },
];

const fn program(name: &'static str, about: &'static str, command: &'static [&'static str]) -> Program {
    Program { name, about, command, memory: Memory::Private }
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
    fs::write(folder.join("data"), vec![1; DATA])?;
    for source in ["join.c", "malloc.c", "shm.c", "shared.c", "collapse.c", "mapped.c", "meter.c", "vectors.cc"] {
        let (stem, kind) = source.split_once('.').expect("a source has an extension");
        let compiler = if kind == "c" { "cc" } else { "c++" };
        let mut command = Command::new(compiler);
        command.current_dir(folder).args(["-O2", "-o", stem, source]);
        let status = command.status().with_context(|| format!("{compiler}, which compiles {source}"))?;
        ensure!(status.success(), "{compiler} could not compile {source}");
    }
    let mut command = Command::new("cc");
    command.current_dir(folder).args(["-O2", "-shared", "-fPIC", "-o", "hugeheap.so", "hugeheap.c"]);
    ensure!(command.status()?.success(), "cc could not compile hugeheap.c");
    Ok(folder.join("meter"))
}
