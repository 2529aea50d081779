//! Remedies of allocators, runtimes and servers, on those that this computer has: each takes effect, by the kernel's own word.

use super::common::{compile, folder, path};
use super::{RANDOM, are_changeable, huge_pages, of, rows};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Returns the path of a program; `None`, and the reason is printed, if it is not installed.
fn installed(name: &str) -> Option<String> {
    let output = Command::new("which").arg(name).output().ok()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if path.is_empty() {
        eprintln!("skipped: needs {name}");
        return None;
    }
    Some(path)
}

/// Asserts that `remedy` was measured, and that at least `megabytes` more are in huge pages than without it.
fn assert_more_huge(rows: &[Value], remedy: &str, megabytes: u64) {
    let (row, none) = (of(rows, remedy), of(rows, "none"));
    assert!(row["rounds"].as_u64().unwrap() >= 6, "{row}");
    let huge = |row: &Value| row["huge_bytes"].as_u64().unwrap();
    assert!(huge(row) >= huge(none) + (megabytes << 20), "{rows:?}");
}

#[test]
fn mimalloc_takes_large_pages() {
    let folder = folder();
    let listed = Command::new("ldconfig").arg("-p").output().map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let Some(library) = listed.split_whitespace().find(|word| word.starts_with('/') && word.contains("libmimalloc"))
    else {
        eprintln!("skipped: needs libmimalloc");
        return;
    };
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) else { return };
    let program = ["env", &format!("LD_PRELOAD={library}"), random.to_str().unwrap()];
    assert_more_huge(&rows(&["--remedy=mimalloc-large"], &program), "mimalloc-large", 48);
}

#[test]
fn java_asks_for_huge_pages() {
    let (Some(java), Some(_set)) = (installed("java"), huge_pages("madvise")) else { return };
    let program = [&java, "-Xms128m", "-Xmx128m", "-XX:+AlwaysPreTouch", "-version"];
    assert_more_huge(&rows(&["--remedy=java-thp"], &program), "java-thp", 96);
}

#[test]
fn python_takes_objects_from_an_allocator_that_asks_for_huge_pages() {
    let (Some(python), Some(_set)) = (installed("python3"), huge_pages("madvise")) else { return };
    let program = [&python, "-c", "all = [str(number) for number in range(500_000)]"];
    assert_more_huge(&rows(&["--remedy=python-malloc-thp"], &program), "python-malloc-thp", 16);
}

#[test]
fn node_moves_its_code_to_huge_pages() {
    let (Some(node), Some(_set)) = (installed("node"), huge_pages("madvise")) else { return };
    let output = Command::new(&node).args(["--use-largepages=on", "-e", "0"]).output().unwrap();
    if !output.stderr.is_empty() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_more_huge(&rows(&["--remedy=node-largepages"], &[&node, "-e", "0"]), "node-largepages", 8);
}

/// Debian's Redis allocates with jemalloc. It turns huge pages off for itself, unless it is told not to.
#[test]
fn redis_gets_huge_pages_from_jemalloc() {
    let (Some(_), Some(_), Some(_set)) = (installed("redis-server"), installed("redis-cli"), huge_pages("madvise"))
    else {
        return;
    };
    let folder = folder();
    let socket = path(&folder, "socket");
    let ready = format!("redis-cli -s {socket} ping");
    let load = format!("redis-cli -s {socket} debug populate 200000 key 200");
    let server =
        ["redis-server", "--port", "0", "--unixsocket", &socket, "--save", "", "--enable-debug-command", "yes"];
    let remedies = ["--remedy=jemalloc-thp", "--remedy=redis-jemalloc-thp"];
    let rows = rows(&[&remedies[..], &["--ready", &ready, "--load", &load]].concat(), &server);
    assert_more_huge(&rows, "jemalloc-thp", 2);
    assert_more_huge(&rows, "redis-jemalloc-thp", 32);
}

/// Returns the folder of PostgreSQL's programs where Debian has it.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists());
    if found.is_none() {
        eprintln!("skipped: needs postgresql");
    }
    found
}

/// Only root changes settings, and PostgreSQL refuses root. In a user namespace of its own, root is somebody else.
#[test]
fn postgres_puts_shared_memory_on_hugetlb_pages() {
    let (Some(bin), true) = (postgres(), are_changeable()) else { return };
    let Some(_set) = huge_pages("madvise") else { return };
    let folder = folder();
    let (bin, data, server) = (bin.to_str().unwrap(), path(&folder, "data"), path(&folder, "postgres"));
    let user = "unshare -U --map-user=1000 --map-group=1000";
    let made = format!("{user} {bin}/initdb -D {data} -A trust -U reach --no-sync");
    let made = Command::new("sh").args(["-c", &made]).output().unwrap();
    if !made.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    fs::write(&server, format!("#!/bin/sh\nexec {user} {bin}/postgres \"$@\"\n")).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = folder.path().to_str().unwrap();
    let ready = format!("{bin}/pg_isready -q -h {folder} -U reach");
    let load = format!("{bin}/psql -h {folder} -U reach -c 'select count(*) from pg_class, pg_class other' postgres");
    let sockets = format!("unix_socket_directories={folder}");
    let server = [&server, "-D", &data, "-c", "listen_addresses=", "-c", &sockets, "-c", "shared_buffers=128MB"];
    let options = ["--change-system", "--remedy=postgres-huge-pages", "--ready", &ready, "--load", &load];
    let rows = rows(&options, &server);
    assert_more_huge(&rows, "postgres-huge-pages", 64);
}
