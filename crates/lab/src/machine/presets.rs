//! The machine files that are compiled into the program.

macro_rules! presets {
    ($($name:literal)*) => {
        /// Name and text of each preset, oldest machine first.
        pub(super) const PRESETS: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/", $name, ".toml")),
        )),*];
    };
}

presets! {
    "alpha-21264" "paint-parisc" "sandybridge-e5-2430" "haswell-e5-2680v3" "skylake-e3-1240v5" "zenplus-2700x"
    "icelake-sp" "sapphire-rapids" "zen3" "zen4" "zen5" "neoverse-n1" "neoverse-v1" "neoverse-v2" "apple-m1"
}
