//! Captures programs whose references are known.

use crate::common;
use crate::common::space::Spaces;
use crate::common::{capture, compile, file, launch, possible};
use reach_core::{Advice, Backing, Chunk, Event, Protection, Role};
use reach_trace::Source;

/// The head of the C programs: headers, and a function that maps memory at a known address, so that stores can be counted.
const HEAD: &str = "#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <fcntl.h>
#include <pthread.h>
static volatile int *at(unsigned long a, unsigned long len) {
    void *p = mmap((void *)a, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p != (void *)a) exit(99);
    return p;
}
";

fn source(body: &str) -> String {
    format!("{HEAD}{body}")
}

#[test]
fn all_stores_of_a_killed_process_are_captured() {
    if !possible() {
        return;
    }
    let body = "int main(void) { volatile int *p = at(0x10000000, 4096);
        for (int i = 0; i < 1000003; i++) *p = i;
        kill(getpid(), SIGKILL); for (;;) *p = 0; }";
    let program = compile("killed", &source(body), &[]);
    let all = capture(program, &[]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(all.status.unwrap().signal(), Some(9));
    // The last loop runs until the kernel has killed the process.
    assert!(all.stores_to(0x1000_0000) >= 1_000_003);
    assert!(all.instructions > 3_000_000);
    assert_eq!((all.spaces.exits, all.spaces.execs.len()), (1, 1));
}

#[test]
fn two_captures_of_a_static_program_have_the_same_references() {
    if !possible() {
        return;
    }
    let body = "int main(void) { volatile int *p = at(0x10000000, 8192); long n = 0;
        for (int i = 0; i < 100000; i++) { p[i & 2047] += i; n += p[(i * 7) & 2047]; }
        return n & 1; }";
    let program = compile("static", &source(body), &["-static"]);
    // From QEMU 9 on, the kernel chooses the addresses of stack and vdso, so they differ from run to run.
    let [one, two] = [(), ()].map(|()| capture(&program, &[]));
    let (first, second) = (one.in_mappings(), two.in_mappings());
    let differs = first.iter().zip(&second).position(|(a, b)| a != b);
    assert_eq!((differs, first.len()), (None, second.len()));
    // Events before the first reference are left out: they may include mappings of the emulator.
    let kinds = |all: &common::Capture| {
        let later = all.events.iter().filter(|(at, _)| *at > 0);
        later.map(|(at, event)| (*at, std::mem::discriminant(event))).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&one), kinds(&two));
    assert_eq!(one.stores_to(0x1000_0000), (0..100_000).filter(|i| i % 2048 == 0).count() as u64);
}

#[test]
fn stores_belong_to_their_thread_while_threads_map_and_unmap() {
    if !possible() {
        return;
    }
    // Each thread stores to its own word, and maps and unmaps memory at addresses that other threads reuse.
    let body = "static volatile int *p;
        static void *run(void *n) { long k = (long)n;
            for (int i = 0; i < 200; i++) {
                int *q = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (int j = 0; j < 100; j++) { p[k * 16] = j; q[j * 160] = i; }
                munmap(q, 65536);
            } return 0; }
        int main(void) { pthread_t t[4]; p = at(0x10000000, 4096);
            for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void *)i);
            for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            return 0; }";
    let all = capture(compile("threads", &source(body), &["-pthread"]), &[]);
    assert!(all.status.unwrap().success());
    assert_eq!(all.threads(), 5);
    for thread in 0..4u64 {
        let address = 0x1000_0000 + thread * 64;
        let owners = all.stores.values().filter(|stores| stores.contains_key(&address)).count();
        assert_eq!((all.stores_to(address), owners), (20_000, 1));
    }
    let count = |wanted: fn(&Event) -> bool| all.events.iter().filter(|(_, event)| wanted(event)).count();
    assert!(count(|event| matches!(event, Event::Unmap(span) if span.len == 65536)) == 800);
    assert!(count(|event| matches!(event, Event::Map(map) if map.role == Role::Stack)) >= 1);
}

#[test]
fn a_forked_child_ends_before_its_parent_has_waited_for_it() {
    if !possible() {
        return;
    }
    let body = "int main(void) { volatile int *p = at(0x10000000, 8192); *p = 1;
        for (int i = 0; i < 3; i++) { int pid = fork();
            if (pid == 0) { for (int j = 0; j < 50; j++) p[1 + i] = j; if (i == 1) kill(getpid(), SIGKILL); _exit(i); }
            int s; if (waitpid(pid, &s, 0) != pid) return 9; p[1024] = i; }
        return 0; }";
    let all = capture(compile("forks", &source(body), &[]), &[]);
    assert!(all.status.unwrap().success());
    assert_eq!((all.spaces.forks, all.spaces.exits), (3, 4));
    for child in 0..3 {
        assert_eq!(all.stores_to(0x1000_0004 + 4 * child), 50);
    }
    // The parent stores after each wait.
    let ends: Vec<_> = all.events.iter().filter(|(_, event)| *event == Event::Exit).map(|(at, _)| *at).collect();
    let waited =
        all.refs.iter().enumerate().filter(|(_, r)| r.kind() == reach_core::Kind::Store && r.addr().0 == 0x1000_1000);
    let waited: Vec<_> = waited.map(|(at, _)| at).collect();
    assert_eq!(waited.len(), 3);
    for (end, waited) in ends.iter().zip(waited) {
        assert!(*end <= waited);
    }
}

#[test]
fn system_calls_that_change_mappings_become_events() {
    if !possible() {
        return;
    }
    let data = file("mapped");
    std::fs::write(&data, vec![7; 10_000]).unwrap();
    let body = "int main(int c, char **v) { int fd = open(v[1], O_RDONLY); int n = 0;
        char *f = mmap(0, 10000, PROT_READ, MAP_SHARED, fd, 4096); n += f[5000];
        char *a = mmap((void *)0x20000000, 1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        mprotect(a, 8192, PROT_READ | PROT_WRITE); a[0] = 1;
        madvise(a, 1 << 21, MADV_HUGEPAGE); madvise(a, 8192, MADV_DONTNEED);
        char *b = mremap(a, 8192, 1 << 23, MREMAP_MAYMOVE); b[1] = 2;
        void *h = sbrk(100000); *(char *)h = 1; sbrk(-100000);
        mmap(a, 4096, 77777, 0, -1, 1);
        munmap(b, 1 << 23); return n == 7 ? 0 : 1; }";
    let all = capture(compile("calls", &source(body), &[]), &[data.to_str().unwrap()]);
    assert!(all.status.unwrap().success());
    let named = all.events.iter().find_map(|(_, event)| match event {
        Event::File { file, path, len, .. } if *path == data.to_string_lossy() => Some((*file, *len)),
        _ => None,
    });
    let (id, len) = named.expect("the file is named");
    assert_eq!(len, 10_000);
    let has_one =
        |wanted: &dyn Fn(&Event) -> bool| assert_eq!(all.events.iter().filter(|(_, event)| wanted(event)).count(), 1);
    has_one(&|event| match event {
        Event::Map(map) => {
            map.backing == Backing::File { file: id, offset: 4096 }
                && (map.shared, map.span.len, map.protection) == (true, 12288, Protection::READ)
        }
        _ => false,
    });
    has_one(&|event| match event {
        Event::Map(map) => map.no_reserve && map.span.len == 1 << 22 && map.protection == Protection::NONE,
        _ => false,
    });
    has_one(&|event| matches!(event, Event::Protect(span, Protection::READ_WRITE) if span.start.0 == 0x2000_0000));
    has_one(&|event| matches!(event, Event::Advise(span, Advice::Huge) if span.len == 1 << 21));
    has_one(&|event| matches!(event, Event::Advise(span, Advice::DontNeed) if span.len == 8192));
    has_one(
        &|event| matches!(event, Event::Remap(remap) if remap.from.start.0 == 0x2000_0000 && remap.to.len == 1 << 23),
    );
    has_one(&|event| matches!(event, Event::Unmap(span) if span.len == 1 << 23));
    let heap =
        all.events.iter().filter(|(_, event)| matches!(event, Event::Map(map) if map.role == Role::Heap)).count();
    assert!(heap >= 1);
}

#[test]
fn a_vforking_parent_runs_after_its_child_has_execed_or_exited() {
    if !possible() {
        return;
    }
    let body = "int main(void) { volatile int *p = at(0x10000000, 8192); *p = 1;
        int pid = vfork();
        if (pid == 0) { for (int j = 0; j < 50000; j++) p[1] = j; _exit(3); }
        p[2] = 1;
        pid = vfork();
        if (pid == 0) { p[3] = 1; execl(\"/bin/true\", \"true\", (char *)0); _exit(4); }
        p[4] = 1;
        while (waitpid(-1, 0, 0) > 0); return 0; }";
    let all = capture(compile("vforks", &source(body), &[]), &[]);
    assert!(all.status.unwrap().success());
    assert_eq!((all.spaces.vforks, all.spaces.exits), (2, 3));
    assert!(all.spaces.execs.iter().any(|path| path.ends_with("true")), "{:?}", all.spaces.execs);
    assert_eq!(all.stores_to(0x1000_0004), 50_000);
    let store = |to: u64| {
        let mut all = all.refs.iter().enumerate();
        let found = |(at, r): (usize, &reach_core::Ref)| {
            (r.kind() == reach_core::Kind::Store && r.addr().0 == to).then_some(at)
        };
        (all.clone().find_map(found).unwrap(), all.rfind(|(at, r)| found((*at, r)).is_some()).unwrap().0)
    };
    assert!(store(0x1000_0004).1 < store(0x1000_0008).0, "the parent ran before its child had exited");
    assert!(store(0x1000_000c).1 < store(0x1000_0010).0, "the parent ran before its child had left by exec");
}

#[test]
fn memory_that_a_system_call_touches_is_reported_once() {
    if !possible() {
        return;
    }
    let body = "int main(void) { char *p = at(0x10000000, 65536); int fd = open(\"/dev/zero\", 0);
        for (int i = 0; i < 100; i++) if (read(fd, p + 4096, 10000) != 10000) return 1;
        if (read(-1, p + 40960, 10) != -1) return 2;
        munmap(at(0x20000000, 4096), 4096);
        if (read(fd, p + 4096, 1) != 1) return 3;
        return write(open(\"/dev/null\", 1), p + 32768, 1) != 1; }";
    let all = capture(compile("touches", &source(body), &[]), &[]);
    assert!(all.status.unwrap().success());
    let reported = |wanted: Advice| -> Vec<(u64, u64)> {
        let span = |event: &Event| match event {
            Event::Advise(span, advice) if *advice == wanted => Some((span.start.0, span.len)),
            _ => None,
        };
        let all = all.events.iter().filter_map(|(_, event)| span(event));
        all.filter(|(start, _)| (0x1000_0000..0x1001_0000).contains(start)).collect()
    };
    assert_eq!(reported(Advice::PopulateWrite), [(0x1000_1000, 12288), (0x1000_1000, 4096)]);
    assert_eq!(reported(Advice::PopulateRead), [(0x1000_8000, 4096)]);
}

#[test]
fn all_programs_of_a_pipeline_are_captured() {
    if !possible() {
        return;
    }
    let all = capture("sh", &["-c", "ls / | wc -l >/dev/null"]);
    assert!(all.status.unwrap().success());
    assert_eq!((all.spaces.forks, all.spaces.exits), (2, 3));
    let ends: Vec<_> = all.spaces.execs.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert!(ends.contains(&"ls") && ends.contains(&"wc"), "{ends:?}");
    assert_eq!(all.losses, [""; 0]);
}

#[test]
#[ignore = "minutes"]
fn large_programs_refer_only_to_mapped_memory() {
    if !possible() {
        return;
    }
    let object = file("lz.o").to_string_lossy().into_owned();
    let lz = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lz.c");
    let programs: [&[&str]; 7] = [
        &["ls", "-R", "/usr/include"],
        &["gcc", "-O2", "-c", lz, "-o", &object],
        &["python3", "-c", "import json; print(json.dumps(list(range(1000))))"],
        &["sqlite3", ":memory:", "create table t(a); insert into t values (1), (2); select sum(a) from t;"],
        &["openssl", "dgst", "-sha256", lz],
        &["node", "-e", "let s = 0; for (let i = 0; i < 1e6; i++) s += i % 7; console.log(s)"],
        &["java", "-version"],
    ];
    for words in programs {
        let Ok(mut live) = launch(words[0], &words[1..]) else {
            eprintln!("skipped: {} is not installed", words[0]);
            continue;
        };
        let (mut spaces, mut chunk) = (Spaces::default(), Chunk::default());
        while live.fill(&mut chunk).unwrap() {
            spaces.apply(&chunk);
        }
        assert!(live.wait().unwrap().success(), "{words:?}");
        assert_eq!(spaces.first_violation, None, "{words:?}: {} of {}", spaces.violations, spaces.references);
        eprintln!("{}: {} references", words[0], spaces.references);
    }
}
