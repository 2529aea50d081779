//! Caches of both formats, real and damaged.

use super::*;
use proptest::prelude::*;

const KIND: u32 = KINDS[0];

/// Returns a cache in the new format, with the names of `glibc-hwcaps` folders, and entries (kind, name, path, hardware).
fn new_format(folders: &[&str], entries: &[(u32, &str, &str, [u32; 2])]) -> Vec<u8> {
    let mut strings = Vec::new();
    let first = (NEW_HEADER + NEW_ENTRY * entries.len()) as u32;
    let mut string = |text: &str| {
        let at = first + strings.len() as u32;
        strings.extend(text.bytes().chain([0]));
        at
    };
    let mut table = Vec::new();
    for (kind, name, path, [low, high]) in entries {
        let words = [*kind, string(name), string(path), 0, *low, *high];
        table.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    let names: Vec<u32> = folders.iter().map(|folder| string(folder)).collect();
    strings.resize(strings.len().next_multiple_of(4), 0);
    let extensions = first + strings.len() as u32;
    let mut bytes = NEW_MAGIC.to_vec();
    bytes.extend(
        [entries.len() as u32, strings.len() as u32, 2, extensions, 0, 0, 0].iter().flat_map(|w| w.to_le_bytes()),
    );
    assert_eq!(bytes.len(), NEW_HEADER);
    bytes.extend(table);
    bytes.extend(strings);
    let hwcaps = [EXTENSION_MAGIC, 1, EXTENSION_HWCAPS, 0, extensions + 24, 4 * names.len() as u32];
    bytes.extend(hwcaps.iter().chain(&names).flat_map(|word| word.to_le_bytes()));
    bytes
}

/// Returns a cache in the old format; `new` follows, if it is not empty.
fn old_format(entries: &[(u32, &str, &str)], new: &[u8]) -> Vec<u8> {
    let mut bytes = OLD_MAGIC.to_vec();
    bytes.push(0);
    bytes.extend((entries.len() as u32).to_le_bytes());
    // With a new format behind, the loader uses that one alone.
    let mut strings = Vec::new();
    for (kind, name, path) in entries {
        let at = strings.len() as u32;
        strings.extend(name.bytes().chain([0]).chain(path.bytes()).chain([0]));
        bytes.extend([*kind, at, at + name.len() as u32 + 1].iter().flat_map(|word| word.to_le_bytes()));
    }
    if new.is_empty() {
        bytes.extend(strings);
    } else {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(new);
    }
    bytes
}

fn find(cache: &[u8], name: &str, hwcaps: &[&str]) -> Option<PathBuf> {
    Cache::parse(cache.to_vec())?.find(OsStr::new(name), hwcaps)
}

#[test]
fn entries_are_chosen_by_name_machine_and_processor_level() {
    let cache = new_format(
        &["x86-64-v2", "x86-64-v3"],
        &[
            (KIND, "liba.so", "/v2/liba.so", [0, HWCAPS_ENTRY]),
            (KIND, "liba.so", "/v3/liba.so", [1, HWCAPS_ENTRY]),
            (KIND, "liba.so", "/bad/liba.so", [2, HWCAPS_ENTRY]),
            (KIND, "liba.so", "/legacy/liba.so", [1 << 5, 0]),
            (0x0003, "liba.so", "/32/liba.so", [0, 0]),
            (KIND, "liba.so", "/plain/liba.so", [0, 0]),
            (KIND, "liba.so", "/second/liba.so", [0, 0]),
            (KIND, "libb.so", "/plain/libb.so", [0, 0]),
        ],
    );
    let levels = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];
    assert_eq!(find(&cache, "liba.so", &levels), Some("/v3/liba.so".into()));
    assert_eq!(find(&cache, "liba.so", &levels[2..]), Some("/v2/liba.so".into()));
    assert_eq!(find(&cache, "liba.so", &[]), Some("/plain/liba.so".into()));
    assert_eq!(find(&cache, "libb.so", &levels), Some("/plain/libb.so".into()));
    assert_eq!(find(&cache, "lib", &levels), None);
}

#[test]
fn the_old_format_is_read_alone_and_in_front_of_the_new_one() {
    let old = [(KIND, "libold.so", "/old/libold.so"), (KIND, "libc.so", "/old/libc.so")];
    assert_eq!(find(&old_format(&old, b""), "libc.so", &[]), Some("/old/libc.so".into()));
    let new = new_format(&[], &[(KIND, "libc.so", "/new/libc.so", [0, 0])]);
    let both = old_format(&old, &new);
    assert_eq!(find(&both, "libc.so", &[]), Some("/new/libc.so".into()));
    assert_eq!(find(&both, "libold.so", &[]), None);
}

#[test]
fn counts_and_offsets_beyond_the_cache_are_no_cache_or_no_entry() {
    let good = new_format(&["x86-64-v3"], &[(KIND, "liba.so", "/v3/liba.so", [0, HWCAPS_ENTRY])]);
    let changed = |at: usize, word: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        find(&bytes, "liba.so", &["x86-64-v3"])
    };
    assert!(find(&good, "liba.so", &["x86-64-v3"]).is_some());
    for (at, what) in [(20, "entries"), (NEW_HEADER + 4, "name"), (NEW_HEADER + 8, "path"), (32, "extensions")] {
        assert_eq!(changed(at, u32::MAX), None, "{what}");
    }
    assert!(Cache::parse(Vec::new()).is_none() && Cache::parse(OLD_MAGIC.to_vec()).is_none());
}

#[test]
fn the_cache_of_this_machine_holds_its_c_library() {
    let Ok(bytes) = std::fs::read("/etc/ld.so.cache") else {
        eprintln!("skipped: no /etc/ld.so.cache");
        return;
    };
    let Some(cache) = Cache::parse(bytes) else {
        eprintln!("skipped: /etc/ld.so.cache is of another C library");
        return;
    };
    assert!(cache.find(OsStr::new("libc.so.6"), &[]).unwrap().ends_with("libc.so.6"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_panics(changes in prop::collection::vec((0usize..200, any::<u8>()), 1..6), old in any::<bool>()) {
        let new = new_format(&["x86-64-v3"], &[(KIND, "liba.so", "/v3/liba.so", [0, HWCAPS_ENTRY])]);
        let mut bytes = if old { old_format(&[(KIND, "liba.so", "/liba.so")], &new) } else { new };
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        find(&bytes, "liba.so", &["x86-64-v3"]);
    }
}
