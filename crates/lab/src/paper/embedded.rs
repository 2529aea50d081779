//! The papers that come with the program.

use super::files::Texts;

/// The name and the text of a file of a paper's folder.
macro_rules! file {
    ($paper:literal, $name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/", $paper, "/", $name)))
    };
}

/// The papers that come with the program: the name and the files of each, `paper.toml` first.
pub(super) const PAPERS: &[(&str, Texts)] = &[
    ("alverti-2020-spot", &[file!("alverti-2020-spot", "paper.toml"), file!("alverti-2020-spot", "guests.toml")]),
    (
        "barr-2011-spectlb",
        &[
            file!("barr-2011-spectlb", "paper.toml"),
            file!("barr-2011-spectlb", "programs.toml"),
            file!("barr-2011-spectlb", "programs/holes.c"),
        ],
    ),
    ("chasapis-2025-itp", &[file!("chasapis-2025-itp", "paper.toml"), file!("chasapis-2025-itp", "programs.toml")]),
    (
        "fang-1999",
        &[
            file!("fang-1999", "paper.toml"),
            file!("fang-1999", "tables.toml"),
            file!("fang-1999", "programs.toml"),
            file!("fang-1999", "beyond.toml"),
            file!("fang-1999", "two.toml"),
            file!("fang-1999", "short.toml"),
            file!("fang-1999", "programs/cga.c"),
            file!("fang-1999", "programs/compress.c"),
            file!("fang-1999", "programs/filter.c"),
            file!("fang-1999", "programs/matmul.c"),
            file!("fang-1999", "programs/radix.c"),
            file!("fang-1999", "programs/raytrace.c"),
            file!("fang-1999", "programs/rotate.c"),
            file!("fang-1999", "programs/source.c"),
            file!("fang-1999", "programs/vortex.c"),
        ],
    ),
    (
        "gandhi-2016-agile",
        &[
            file!("gandhi-2016-agile", "paper.toml"),
            file!("gandhi-2016-agile", "programs.toml"),
            file!("gandhi-2016-agile", "programs/chunks.c"),
        ],
    ),
    (
        "gosakan-2023-mosaic",
        &[
            file!("gosakan-2023-mosaic", "paper.toml"),
            file!("gosakan-2023-mosaic", "programs.toml"),
            file!("gosakan-2023-mosaic", "broken.toml"),
        ],
    ),
    (
        "gupta-2021-midgard",
        &[
            file!("gupta-2021-midgard", "paper.toml"),
            file!("gupta-2021-midgard", "small.toml"),
            file!("gupta-2021-midgard", "large.toml"),
        ],
    ),
    (
        "jia-2023-gemini",
        &[
            file!("jia-2023-gemini", "paper.toml"),
            file!("jia-2023-gemini", "fresh.toml"),
            file!("jia-2023-gemini", "reused.toml"),
            file!("jia-2023-gemini", "store.toml"),
            file!("jia-2023-gemini", "updates.toml"),
            file!("jia-2023-gemini", "pagerank.toml"),
            file!("jia-2023-gemini", "store-reused.toml"),
            file!("jia-2023-gemini", "pagerank-reused.toml"),
        ],
    ),
    (
        "kandiraju-2002-prefetch",
        &[file!("kandiraju-2002-prefetch", "paper.toml"), file!("kandiraju-2002-prefetch", "programs.toml")],
    ),
    (
        "kanellopoulos-2023-utopia",
        &[file!("kanellopoulos-2023-utopia", "paper.toml"), file!("kanellopoulos-2023-utopia", "programs.toml")],
    ),
    (
        "kanellopoulos-2023-victima",
        &[
            file!("kanellopoulos-2023-victima", "paper.toml"),
            file!("kanellopoulos-2023-victima", "programs.toml"),
            file!("kanellopoulos-2023-victima", "guests.toml"),
        ],
    ),
    (
        "kanellopoulos-2025-revelator",
        &[
            file!("kanellopoulos-2025-revelator", "paper.toml"),
            file!("kanellopoulos-2025-revelator", "programs.toml"),
            file!("kanellopoulos-2025-revelator", "guests.toml"),
        ],
    ),
    (
        "karakostas-2015-rmm",
        &[
            file!("karakostas-2015-rmm", "paper.toml"),
            file!("karakostas-2015-rmm", "tables.toml"),
            file!("karakostas-2015-rmm", "programs.toml"),
            file!("karakostas-2015-rmm", "discussion.toml"),
            file!("karakostas-2015-rmm", "programs/astar.c"),
            file!("karakostas-2015-rmm", "programs/canneal.c"),
            file!("karakostas-2015-rmm", "programs/dna.c"),
            file!("karakostas-2015-rmm", "programs/gups.c"),
            file!("karakostas-2015-rmm", "programs/mcf.c"),
            file!("karakostas-2015-rmm", "programs/omnetpp.c"),
            file!("karakostas-2015-rmm", "programs/sbrk.c"),
            file!("karakostas-2015-rmm", "programs/soplex.c"),
            file!("karakostas-2015-rmm", "programs/stencil.c"),
            file!("karakostas-2015-rmm", "programs/streamcluster.c"),
            file!("karakostas-2015-rmm", "programs/tigr.c"),
        ],
    ),
    (
        "kwon-2016-ingens",
        &[
            file!("kwon-2016-ingens", "paper.toml"),
            file!("kwon-2016-ingens", "programs.toml"),
            file!("kwon-2016-ingens", "share.toml"),
        ],
    ),
    (
        "lindsay-2024",
        &[
            file!("lindsay-2024", "paper.toml"),
            file!("lindsay-2024", "graphs.toml"),
            file!("lindsay-2024", "programs.toml"),
            file!("lindsay-2024", "generators.toml"),
            file!("lindsay-2024", "tables.toml"),
            file!("lindsay-2024", "figures.toml"),
            file!("lindsay-2024", "programs/bc.c"),
            file!("lindsay-2024", "programs/bfs.c"),
            file!("lindsay-2024", "programs/cc.c"),
            file!("lindsay-2024", "programs/graph.c"),
            file!("lindsay-2024", "programs/graph.h"),
            file!("lindsay-2024", "programs/mcf.c"),
            file!("lindsay-2024", "programs/pr.c"),
            file!("lindsay-2024", "programs/streamcluster.c"),
            file!("lindsay-2024", "programs/tc.c"),
        ],
    ),
    ("manocha-2023-pcc", &[file!("manocha-2023-pcc", "paper.toml"), file!("manocha-2023-pcc", "programs.toml")]),
    (
        "mansi-2022-cbmm",
        &[
            file!("mansi-2022-cbmm", "paper.toml"),
            file!("mansi-2022-cbmm", "programs.toml"),
            file!("mansi-2022-cbmm", "faults.toml"),
            file!("mansi-2022-cbmm", "fragmented.toml"),
        ],
    ),
    (
        "margaritov-2019-asap",
        &[
            file!("margaritov-2019-asap", "paper.toml"),
            file!("margaritov-2019-asap", "programs.toml"),
            file!("margaritov-2019-asap", "guests.toml"),
        ],
    ),
    (
        "margaritov-2021-ptemagnet",
        &[
            file!("margaritov-2021-ptemagnet", "paper.toml"),
            file!("margaritov-2021-ptemagnet", "guests.toml"),
            file!("margaritov-2021-ptemagnet", "pagerank.toml"),
            file!("margaritov-2021-ptemagnet", "search.toml"),
            file!("margaritov-2021-ptemagnet", "centrality.toml"),
            file!("margaritov-2021-ptemagnet", "store.toml"),
            file!("margaritov-2021-ptemagnet", "triangles.toml"),
        ],
    ),
    (
        "mirbagher-2020-chirp",
        &[
            file!("mirbagher-2020-chirp", "paper.toml"),
            file!("mirbagher-2020-chirp", "programs.toml"),
            file!("mirbagher-2020-chirp", "intervals.toml"),
            file!("mirbagher-2020-chirp", "programs/items.js"),
            file!("mirbagher-2020-chirp", "programs/source.awk"),
            file!("mirbagher-2020-chirp", "programs/tables.sql"),
            file!("mirbagher-2020-chirp", "programs/words.pl"),
        ],
    ),
    (
        "navarro-2002",
        &[
            file!("navarro-2002", "paper.toml"),
            file!("navarro-2002", "tables.toml"),
            file!("navarro-2002", "programs.toml"),
            file!("navarro-2002", "spec.toml"),
            file!("navarro-2002", "sequence.toml"),
            file!("navarro-2002", "concurrent.toml"),
            file!("navarro-2002", "programs/c4.c"),
            file!("navarro-2002", "programs/fftw.c"),
            file!("navarro-2002", "programs/harness.c"),
            file!("navarro-2002", "programs/mcf.c"),
            file!("navarro-2002", "programs/objects.c"),
            file!("navarro-2002", "programs/objects.sql"),
            file!("navarro-2002", "programs/picture.c"),
            file!("navarro-2002", "programs/place.c"),
            file!("navarro-2002", "programs/scene.pov"),
            file!("navarro-2002", "programs/source.c"),
            file!("navarro-2002", "programs/sp.c"),
            file!("navarro-2002", "programs/swim.c"),
            file!("navarro-2002", "programs/text.c"),
            file!("navarro-2002", "programs/tree.c"),
            file!("navarro-2002", "programs/vpr.c"),
            file!("navarro-2002", "programs/words.pl"),
        ],
    ),
    (
        "panwar-2019-hawkeye",
        &[file!("panwar-2019-hawkeye", "paper.toml"), file!("panwar-2019-hawkeye", "programs/hot.c")],
    ),
    (
        "park-2022-flattened",
        &[
            file!("park-2022-flattened", "paper.toml"),
            file!("park-2022-flattened", "programs.toml"),
            file!("park-2022-flattened", "guests.toml"),
        ],
    ),
    (
        "psomadakis-2024-elastic",
        &[
            file!("psomadakis-2024-elastic", "paper.toml"),
            file!("psomadakis-2024-elastic", "programs.toml"),
            file!("psomadakis-2024-elastic", "guests.toml"),
        ],
    ),
    ("ram-2021-trident", &[file!("ram-2021-trident", "paper.toml"), file!("ram-2021-trident", "programs.toml")]),
    ("ryoo-2017-pom-tlb", &[file!("ryoo-2017-pom-tlb", "paper.toml"), file!("ryoo-2017-pom-tlb", "guests.toml")]),
    (
        "skarlatos-2020-ecpt",
        &[file!("skarlatos-2020-ecpt", "paper.toml"), file!("skarlatos-2020-ecpt", "programs.toml")],
    ),
    (
        "vavouliotis-2021-atp",
        &[file!("vavouliotis-2021-atp", "paper.toml"), file!("vavouliotis-2021-atp", "programs.toml")],
    ),
    (
        "vavouliotis-2021-morrigan",
        &[
            file!("vavouliotis-2021-morrigan", "paper.toml"),
            file!("vavouliotis-2021-morrigan", "programs.toml"),
            file!("vavouliotis-2021-morrigan", "programs/render.js"),
            file!("vavouliotis-2021-morrigan", "programs/requests.c"),
        ],
    ),
    (
        "yaniv-2016-hashed",
        &[
            file!("yaniv-2016-hashed", "paper.toml"),
            file!("yaniv-2016-hashed", "programs.toml"),
            file!("yaniv-2016-hashed", "guests.toml"),
        ],
    ),
    ("zhang-2024-dmt", &[file!("zhang-2024-dmt", "paper.toml"), file!("zhang-2024-dmt", "guests.toml")]),
    (
        "zhao-2023-contiguitas",
        &[
            file!("zhao-2023-contiguitas", "paper.toml"),
            file!("zhao-2023-contiguitas", "partly.toml"),
            file!("zhao-2023-contiguitas", "highly.toml"),
        ],
    ),
    ("zhao-2025-lvm", &[file!("zhao-2025-lvm", "paper.toml"), file!("zhao-2025-lvm", "programs.toml")]),
    (
        "zhou-2023",
        &[
            file!("zhou-2023", "paper.toml"),
            file!("zhou-2023", "skylake.toml"),
            file!("zhou-2023", "zenplus.toml"),
            file!("zhou-2023", "build.toml"),
            file!("zhou-2023", "kernel.toml"),
            file!("zhou-2023", "cores.toml"),
            file!("zhou-2023", "padding.toml"),
            file!("zhou-2023", "figures.toml"),
            file!("zhou-2023", "programs/guest-make.sh"),
            file!("zhou-2023", "programs/mariadb-make.sh"),
            file!("zhou-2023", "programs/Orders.java"),
            file!("zhou-2023", "programs/owner.c"),
            file!("zhou-2023", "programs/postgres-make.sh"),
            file!("zhou-2023", "programs/records.c"),
            file!("zhou-2023", "programs/sources.awk"),
            file!("zhou-2023", "programs/ssr.js"),
            file!("zhou-2023", "programs/unpack.sh"),
        ],
    ),
];
