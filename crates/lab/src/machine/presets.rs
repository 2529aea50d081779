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
    "alpha-21264" "paint-parisc" "sandybridge-e5-2430" "haswell-e5-2680v3" "broadwell-e5-2680v4" "skylake-e3-1240v5"
    "skylake-sp" "zenplus-2700x" "cascade-lake" "zen2" "zen2-epyc-7742" "icelake-sp" "sapphire-rapids"
    "sapphire-rapids-la57" "granite-rapids" "zen3" "zen3-epyc-7763" "zen4" "zen4-epyc-9654" "zen4c-epyc-9754" "zen5"
    "zen5-epyc-9755" "zen5c-epyc-9965" "lunar-lake" "lion-cove" "neoverse-n1" "neoverse-n2" "neoverse-v1" "neoverse-v2"
    "neoverse-v3" "ampereone" "apple-m1" "apple-m2" "apple-m3" "apple-m4" "xiangshan-sv39" "xiangshan-sv48"
    "xiangshan-sv57"
}
