//! Remedies for the cost of translation that can be tried on this Linux, each with the sign by which the kernel shows that
//! it took effect.

use crate::keep;
use crate::layout::SUPERPAGE;
use crate::native::Thp;
use crate::settings::Setting;
use crate::watch::Watched;
use procfs::{Current, Meminfo};
use std::ffi::OsString;
use std::path::Path;

/// A variable of the program. A value that it has already is kept before the new one, with `separator` between them.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The value to add.
    pub value: &'static str,
    /// Between values.
    pub separator: &'static str,
}

impl Variable {
    /// Returns the name, and the value here with the remedy's after it.
    fn with_present(&self) -> (&'static str, OsString) {
        let mut value = std::env::var_os(self.name).filter(|value| !value.is_empty()).unwrap_or_default();
        if !value.is_empty() {
            value.push(self.separator);
        }
        value.push(self.value);
        (self.name, value)
    }
}

/// A remedy, and how to keep it.
#[derive(Debug)]
pub struct Remedy {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, as a predicate of the remedy.
    pub about: &'static str,
    /// How to have it in every run.
    pub keep: &'static str,
    /// Variables of the program.
    pub environment: &'static [Variable],
    /// Huge pages of the program.
    pub thp: Thp,
    /// Settings of the kernel that it changes for all processes, with the values.
    pub settings: &'static [(Setting, Value)],
    /// The verb of `reach` that runs the program, with its options.
    pub through: &'static [&'static str],
    /// A part of the name of the library without which it has no effect.
    pub library: Option<&'static str>,
    /// The name of the only program that it is for.
    pub program: Option<&'static str>,
    /// Arguments for the program, behind its own.
    pub arguments: &'static [&'static str],
    sign: Sign,
}

/// Computes the value of a setting on this computer, for a program that may need so many bytes.
type Value = fn(u64) -> String;

/// How the kernel shows that a remedy took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// The program has more memory in huge pages than without the remedy.
    MoreHuge,
    /// The program has memory in huge pages without the remedy, and less with it.
    LessHuge,
    /// The program has memory in hugetlb pages.
    Hugetlb,
    /// The program has fewer page faults than without the remedy, and faults allocated more blocks of 64 KB. The kernel
    /// counts blocks for the whole computer only.
    Blocks,
}

const NONE: Remedy = Remedy {
    name: "",
    about: "",
    keep: "",
    environment: &[],
    thp: Thp::Inherited,
    settings: &[],
    through: &[],
    library: None,
    program: None,
    arguments: &[],
    sign: Sign::MoreHuge,
};

fn always(_: u64) -> String {
    "always".into()
}

/// What puts a program on hugetlb pages. They are set aside before it starts, because the kernel may look long for each page
/// that is not.
const HUGETLB: &[(Setting, Value)] =
    &[(Setting::HugetlbPool, pool), (Setting::HugetlbOvercommit, half_of_available_memory)];

/// Pages of 2 MB for the program, from half of the free memory at most, beside those that are set aside already.
fn pool(bytes: u64) -> String {
    let free = Meminfo::current().map_or(0, |memory| memory.mem_free);
    (bytes.min(free / 2) / SUPERPAGE + pages(Setting::HugetlbPool)).to_string()
}

/// Half of the memory that is available now, in pages of 2 MB, and no less than is allowed already.
fn half_of_available_memory(_: u64) -> String {
    let half = keep::available().unwrap_or(0) / 2 / SUPERPAGE;
    half.max(pages(Setting::HugetlbOvercommit)).to_string()
}

/// A setting that is a number of pages; 0 if this kernel lacks it.
fn pages(setting: Setting) -> u64 {
    setting.read().ok().and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// Tunables of glibc are separated by colons.
const fn tunable(value: &'static str) -> Variable {
    Variable { name: "GLIBC_TUNABLES", value, separator: ":" }
}

/// All remedies.
pub static REMEDIES: &[Remedy] = &[
    Remedy {
        name: "glibc-thp",
        about: "lets glibc's malloc ask for transparent huge pages (MADV_HUGEPAGE), and grow its heap by 2 MB",
        keep: "run it with GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
        environment: &[tunable("glibc.malloc.hugetlb=1")],
        library: Some("libc.so"),
        ..NONE
    },
    Remedy {
        name: "glibc-hugetlb",
        about: "lets glibc's malloc take hugetlb pages of 2 MB, from half of the available memory at most",
        keep: "set vm.nr_overcommit_hugepages (or vm.nr_hugepages, at boot), and run it with \
               GLIBC_TUNABLES=glibc.malloc.hugetlb=2",
        environment: &[tunable("glibc.malloc.hugetlb=2")],
        settings: HUGETLB,
        library: Some("libc.so"),
        sign: Sign::Hugetlb,
        ..NONE
    },
    Remedy {
        name: "jemalloc-thp",
        about: "lets jemalloc ask for transparent huge pages",
        keep: "run it with MALLOC_CONF=thp:always",
        environment: &[Variable { name: "MALLOC_CONF", value: "thp:always", separator: "," }],
        library: Some("libjemalloc"),
        ..NONE
    },
    Remedy {
        name: "mimalloc-large",
        about: "lets mimalloc use large pages of the operating system",
        keep: "run it with MIMALLOC_ALLOW_LARGE_OS_PAGES=1 (before version 2.1, MIMALLOC_LARGE_OS_PAGES=1)",
        // The first name is that of versions before 2.1. Of a number, mimalloc reads the first digit.
        environment: &[
            Variable { name: "MIMALLOC_LARGE_OS_PAGES", value: "1", separator: "" },
            Variable { name: "MIMALLOC_ALLOW_LARGE_OS_PAGES", value: "1", separator: "" },
        ],
        library: Some("libmimalloc"),
        ..NONE
    },
    Remedy {
        name: "java-thp",
        about: "lets the Java virtual machine ask for transparent huge pages",
        keep: "run it with -XX:+UseTransparentHugePages",
        environment: &[Variable { name: "JAVA_TOOL_OPTIONS", value: "-XX:+UseTransparentHugePages", separator: " " }],
        library: Some("libjvm"),
        ..NONE
    },
    Remedy {
        name: "python-malloc-thp",
        about: "lets Python take its objects from glibc's malloc, and that ask for transparent huge pages",
        keep: "run it with PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
        environment: &[
            Variable { name: "PYTHONMALLOC", value: "malloc", separator: "" },
            tunable("glibc.malloc.hugetlb=1"),
        ],
        program: Some("python"),
        ..NONE
    },
    Remedy {
        name: "node-largepages",
        about: "lets Node.js move its own code to huge pages",
        keep: "run it with NODE_OPTIONS=--use-largepages=silent",
        environment: &[Variable { name: "NODE_OPTIONS", value: "--use-largepages=silent", separator: " " }],
        program: Some("node"),
        ..NONE
    },
    Remedy {
        name: "redis-jemalloc-thp",
        about: "lets Redis keep transparent huge pages, and its allocator ask for them",
        keep: "start it with --disable-thp no and MALLOC_CONF=thp:always",
        environment: &[Variable { name: "MALLOC_CONF", value: "thp:always", separator: "," }],
        library: Some("libjemalloc"),
        program: Some("redis-server"),
        arguments: &["--disable-thp", "no"],
        ..NONE
    },
    Remedy {
        name: "postgres-huge-pages",
        about: "puts PostgreSQL's shared memory on hugetlb pages, from half of the available memory at most",
        keep: "set vm.nr_hugepages (`postgres -C shared_memory_size_in_huge_pages` tells how many), and huge_pages = on",
        settings: HUGETLB,
        program: Some("postgres"),
        arguments: &["-c", "huge_pages=on"],
        sign: Sign::Hugetlb,
        ..NONE
    },
    Remedy {
        name: "thp-always",
        about: "gives all programs transparent huge pages",
        keep: "write always to /sys/kernel/mm/transparent_hugepage/enabled, or boot with transparent_hugepage=always",
        settings: &[(Setting::Thp, always)],
        ..NONE
    },
    Remedy {
        name: "mthp-64k",
        about: "gives all programs blocks of 64 KB at their faults (Linux 6.8)",
        keep: "write always to /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
        settings: &[(Setting::Mthp64K, always)],
        sign: Sign::Blocks,
        ..NONE
    },
    Remedy {
        name: "no-thp",
        about: "takes transparent huge pages from the program (PR_SET_THP_DISABLE)",
        keep: "call prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) before it starts, or write madvise to \
               /sys/kernel/mm/transparent_hugepage/enabled",
        thp: Thp::Disabled,
        sign: Sign::LessHuge,
        ..NONE
    },
    Remedy {
        name: "advised-thp",
        about: "leaves the program only the transparent huge pages that it asks for (Linux 6.18)",
        keep: "call prctl(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0) before it starts",
        thp: Thp::ExceptAdvised,
        sign: Sign::LessHuge,
        ..NONE
    },
    Remedy {
        name: "code",
        about: "moves code of the program and its libraries to huge pages when it starts",
        keep: "run it with `reach text run`, or promote its file for all who run it with `reach text promote`",
        through: &["text", "run"],
        ..NONE
    },
];

impl Remedy {
    /// Returns the remedy of this name.
    pub fn named(name: &str) -> Option<&'static Remedy> {
        REMEDIES.iter().find(|remedy| remedy.name == name)
    }

    /// Returns why the remedy is not for a program, by its name: that of the file, which may have a version behind it. `None`:
    /// it may be.
    pub fn why_not_for(&self, program: &Path) -> Option<String> {
        let wanted = self.program?;
        let file = program.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let version = file.strip_prefix(wanted);
        let is_it = version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
        (!is_it).then(|| format!("it is for {wanted}"))
    }

    /// Returns whether it takes huge pages from the program, rather than giving it some.
    pub fn takes_huge_pages(&self) -> bool {
        self.sign == Sign::LessHuge
    }

    /// Returns the variables of the program, each with the value that this process has of it before the remedy's.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.environment.iter().map(Variable::with_present).collect()
    }

    /// Returns why the remedy cannot do anything for a program that was watched without it. `None`: it may.
    pub fn why_pointless(&self, plain: &Watched) -> Option<String> {
        if plain.looks == 0 {
            return Some("the program ended before its memory could be looked at".into());
        }
        match (self.library, self.sign) {
            (Some(library), _) if !plain.maps(library) => Some(format!("the program does not map {library}")),
            (_, Sign::LessHuge) if plain.huge == 0 => Some("the program has no huge pages without it".into()),
            _ => None,
        }
    }

    /// Returns why the remedy took no effect, by what the kernel showed without and with it. `None`: it did.
    pub fn why_no_effect(&self, plain: &Watched, with: &Watched) -> Option<&'static str> {
        if with.looks == 0 {
            return Some("the program ended before its memory could be looked at");
        }
        let (did, why) = match self.sign {
            Sign::MoreHuge => (with.huge > plain.huge, "the program got no more huge pages with it"),
            Sign::LessHuge => (with.huge < plain.huge, "the program kept its huge pages"),
            Sign::Hugetlb => (with.hugetlb > plain.hugetlb, "the program got no more hugetlb pages with it"),
            Sign::Blocks => (
                with.blocks > plain.blocks && with.faults < plain.faults,
                "the program's faults got no blocks of 64 KB with it",
            ),
        };
        (!did).then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_remedy_changes_something() {
        for remedy in REMEDIES {
            assert!(std::ptr::eq(Remedy::named(remedy.name).unwrap(), remedy), "{}", remedy.name);
            let does = !remedy.environment.is_empty()
                || remedy.thp != Thp::Inherited
                || !remedy.settings.is_empty()
                || !remedy.through.is_empty()
                || !remedy.arguments.is_empty();
            assert!(does && !remedy.about.is_empty() && !remedy.keep.is_empty(), "{}", remedy.name);
        }
        assert!(Remedy::named("").is_none());
    }

    #[test]
    fn a_remedy_for_one_program_knows_it_by_its_name_with_or_without_a_version() {
        let python = Remedy::named("python-malloc-thp").unwrap();
        for (path, is_it) in
            [("python3", true), ("/usr/bin/python3.11", true), ("pythonic", false), ("perl", false), ("/", false)]
        {
            assert_eq!(python.why_not_for(Path::new(path)).is_none(), is_it, "{path}");
        }
        assert_eq!(Remedy::named("thp-always").unwrap().why_not_for(Path::new("perl")), None);
    }

    #[test]
    fn the_kernels_sign_decides_whether_a_remedy_took_effect() {
        let none = Watched { looks: 1, libraries: ["libc.so.6".into()].into(), ..Watched::default() };
        let huge = Watched { huge: 2 << 20, ..none.clone() };
        let [thp, off, jemalloc] = ["glibc-thp", "no-thp", "jemalloc-thp"].map(|name| Remedy::named(name).unwrap());
        assert_eq!((thp.why_pointless(&none), thp.why_no_effect(&none, &huge)), (None, None));
        assert!(thp.why_no_effect(&huge, &huge).is_some());
        assert!(off.why_pointless(&none).is_some() && off.why_pointless(&huge).is_none());
        assert_eq!(off.why_no_effect(&huge, &none), None);
        assert!(jemalloc.why_pointless(&none).is_some());
        assert!(thp.why_no_effect(&none, &Watched::default()).unwrap().contains("ended before"));
        // Blocks that other programs got are no sign.
        let (blocks, others) =
            (Remedy::named("mthp-64k").unwrap(), Watched { blocks: 9, faults: 1000, ..none.clone() });
        let plain = Watched { faults: 1000, ..none };
        assert!(blocks.why_no_effect(&plain, &others).is_some());
        assert_eq!(blocks.why_no_effect(&plain, &Watched { faults: 100, ..others }), None);
    }
}
