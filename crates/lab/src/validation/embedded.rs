//! The sets of measurements that come with the program.

use crate::paper::files::Texts;

/// The name and the text of a file of a set's folder.
macro_rules! file {
    ($set:literal, $name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/", $set, "/", $name)))
    };
}

/// The sets: the name and the files of each.
pub(super) const SETS: &[(&str, Texts)] = &[
    (
        "random-reads",
        &[file!("random-reads", "source.toml"), file!("random-reads", "set.toml"), file!("random-reads", "rows.toml")],
    ),
    (
        "zen4-hash-maps",
        &[
            file!("zen4-hash-maps", "source.toml"),
            file!("zen4-hash-maps", "set.toml"),
            file!("zen4-hash-maps", "rows.toml"),
            file!("zen4-hash-maps", "programs/maps.cc"),
        ],
    ),
    ("skylake-sp-layouts", &[file!("skylake-sp-layouts", "source.toml"), file!("skylake-sp-layouts", "set.toml")]),
];
