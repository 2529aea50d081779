//! Operating-system designs: one file per published or shipped system.
//!
//! Each file composes parts of `reach-os` and names the hardware that the design adds to a machine. The head of a file
//! gives the citation, maps sections of the paper to functions, and lists readings and deviations.
//!
//! To add a system: write its file, implement [`System`], describe it, and add one line to the table in `registry.rs`.

mod alverti_2020_spot;
mod assisted;
mod barr_2011_spectlb;
mod base;
mod basu_2013_direct_segment;
mod chasapis_2025_itp;
mod collapse;
mod contiguity;
mod description;
mod error;
mod evidence;
mod fang_1999;
mod freebsd;
mod gosakan_2023_mosaic;
mod gupta_2021_midgard;
mod hugetlb;
mod ideal;
mod jia_2023_gemini;
mod kandiraju_2002_prefetch;
mod kanellopoulos_2023_utopia;
mod kanellopoulos_2023_victima;
mod kanellopoulos_2025_revelator;
mod karakostas_2015_rmm;
mod kwon_2016_ingens;
mod linux_thp;
mod manocha_2023_pcc;
mod mansi_2022_cbmm;
mod margaritov_2019_asap;
mod margaritov_2021_ptemagnet;
mod mirbagher_2020_chirp;
mod navarro_2002;
mod online;
mod panwar_2019_hawkeye;
mod park_2022_flattened;
mod pham_2012_colt;
mod pham_2014_clustered;
mod placed;
mod prezero;
mod profile;
mod psomadakis_2024_elastic;
mod ram_2021_trident;
mod registry;
mod resolved;
mod romer_1995;
mod ryoo_2017_pom_tlb;
mod settings;
mod skarlatos_2020_ecpt;
mod superpage;
mod system;
mod talluri_hill_1994;
mod tlb_prefetch;
mod vavouliotis_2021_atp;
mod vavouliotis_2021_morrigan;
mod walk_candidates;
mod yaniv_2016_hashed;
mod zhang_2024_dmt;
mod zhao_2023_contiguitas;
mod zhao_2025_lvm;
mod zhou_2023;

pub use description::{Description, PAGE_TABLE, PAGING, Paging, Role};
pub use error::SystemError;
pub use evidence::{Criterion, Evidence};
pub use registry::{list, resolve};
pub use resolved::Resolved;
pub use settings::{Accepts, Setting, Settings, Unit};
pub use system::System;

/// The guide to adding a design, whose example must compile and do what it says.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-design.md")]
struct AddingADesign;

/// The guide to walk assists, whose example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/walk-assists.md")]
struct WalkAssists;
