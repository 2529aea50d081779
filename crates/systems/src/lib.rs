//! Operating-system designs: one file per published or shipped system.
//!
//! Each file composes parts of `reach-os` and names the hardware that the design adds to a machine. The head of a file
//! gives the citation, maps sections of the paper to functions, and lists readings and deviations.
//!
//! To add a system: write its file, implement [`System`], and add one entry to the table in `registry.rs`.

mod base;
mod basu_2013_direct_segment;
mod error;
mod evidence;
mod fang_1999;
mod freebsd;
mod hugetlb;
mod ideal;
mod karakostas_2015_rmm;
mod linux_thp;
mod navarro_2002;
mod online;
mod park_2022_flattened;
mod pham_2012_colt;
mod pham_2014_clustered;
mod registry;
mod resolved;
mod romer_1995;
mod settings;
mod skarlatos_2020_ecpt;
mod superpage;
mod system;
mod talluri_hill_1994;
mod yaniv_2016_hashed;
mod zhou_2023;

pub use error::SystemError;
pub use evidence::{Criterion, Evidence};
pub use registry::{Description, PAGE_TABLE, Role, list, resolve};
pub use resolved::Resolved;
pub use settings::{Accepts, Setting, Settings, Unit};
pub use system::System;

/// The guide to adding a design, whose example must compile and do what it says.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-design.md")]
struct AddingADesign;
