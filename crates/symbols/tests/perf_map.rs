//! Maps of code that is compiled at run time: which are read, and what they name.

use proptest::prelude::*;
use reach_symbols::PerfMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const LINE: &[u8] = b"1000 10 JS:*reads /a.js:1:20\n";

fn open(path: &Path) -> Option<PerfMap> {
    PerfMap::open(path, |_| true)
}

#[test]
fn malformed_lines_are_skipped_and_all_others_name_their_code() {
    let text = [
        b"xyz 10 no start\n-5 10 a sign\n2000 1g no size\n2000 0 nothing\nffffffffffffffff 2 beyond\n".as_slice(),
        b"3000 10\n3000 10 \n\n\x00\xff\n",
        LINE,
        b"0x4000 0x20 with prefixes\n5000 8 not \xff text\n",
        &[b"6000 8 ", [b'n'; 5000].as_slice(), b"\n"].concat(),
        b"7000 8 a line without an end",
    ];
    let map = PerfMap::parse(&text.concat()).unwrap();
    assert_eq!(map.name(0x100f), Some("JS:*reads /a.js:1:20"));
    assert_eq!(map.name(0x401f), Some("with prefixes"));
    assert_eq!(map.name(0x5000), Some("not \u{fffd} text"));
    for address in [0, 0xfff, 0x1010, 0x2000, 0x3000, 0x4020, 0x6000, 0x7000, u64::MAX] {
        assert_eq!(map.name(address), None, "{address:#x}");
    }
}

#[test]
fn a_map_of_too_many_pieces_or_bytes_names_nothing() {
    assert!(PerfMap::parse(&b"1 1 a\n".repeat(1 << 20)).is_some());
    assert!(PerfMap::parse(&b"1 1 a\n".repeat((1 << 20) + 1)).is_none());
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("map");
    std::fs::write(&path, LINE).unwrap();
    assert!(open(&path).is_some());
    std::fs::File::options().write(true).open(&path).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(open(&path).is_none());
}

#[test]
fn only_a_regular_file_of_the_right_time_is_opened() {
    let folder = TempDir::new().unwrap();
    let [map, link, pipe] = ["map", "link", "pipe"].map(|name| folder.path().join(name));
    std::fs::write(&map, LINE).unwrap();
    symlink(&map, &link).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(open(&map).is_some_and(|map| map.name(0x1000).is_some()));
    for path in [&link, &pipe, &folder.path().into(), &folder.path().join("none"), &"/dev/zero".into()] {
        assert!(open(path).is_none(), "{path:?}");
    }
    let began = SystemTime::now() - Duration::from_secs(60);
    assert!(PerfMap::open(&map, |time| time >= began).is_some());
    std::fs::File::open(&map).unwrap().set_modified(began - Duration::from_secs(1)).unwrap();
    assert!(PerfMap::open(&map, |time| time >= began).is_none());
}

#[test]
fn a_map_of_another_user_is_not_opened() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("map");
    std::fs::write(&path, LINE).unwrap();
    if let Err(why) = std::os::unix::fs::chown(&path, Some(12345), None) {
        return eprintln!("skipped: a file can be given away by root only: {why}");
    }
    assert!(open(&path).is_none());
}

proptest! {
    /// The naive twin: of all lines that contain an address, the last one names it.
    #[test]
    fn the_last_line_that_contains_an_address_names_it(lines in prop::collection::vec((0u64..24, 1u64..12), 0..12)) {
        let text: String = lines.iter().enumerate().map(|(n, (start, size))| format!("{start:x} {size:x} n{n}\n")).collect();
        let map = PerfMap::parse(text.as_bytes()).unwrap();
        for address in 0..40 {
            let last = lines.iter().rposition(|(start, size)| (*start..start + size).contains(&address));
            let expected = last.map(|n| format!("n{n}"));
            prop_assert_eq!(map.name(address), expected.as_deref());
        }
    }
}
