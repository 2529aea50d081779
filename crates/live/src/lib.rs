//! Code superpages, page maps and performance counters on the Linux that this runs on.
//!
//! The kernel maps code with a superpage if the page cache holds it in one folio of 2 MB, and if addresses and file
//! offsets agree modulo 2 MB. A *region* is 2 MB of code at an address that is a multiple of 2 MB. [`elf`] and [`layout`]
//! find the regions of a program that can be superpages. [`cache`], [`frames`] and [`users`] find which are. [`promote`]
//! makes them superpages.
//!
//! No return code counts as success. Every change is verified afterwards, in lists of mappings and in page tables.

pub mod align;
mod attributes;
pub mod backed;
pub mod bench;
pub mod cache;
pub mod collapse;
pub mod control_group;
mod copy;
pub mod elf;
pub mod error;
mod exits;
pub mod fragmented;
pub mod frames;
pub mod held;
pub mod host;
pub mod huge_pages;
pub mod image;
mod inode;
pub mod keep;
pub mod layout;
pub mod lease;
pub mod libraries;
pub mod load;
pub mod map;
pub mod mount;
pub mod native;
pub mod pages;
pub mod place;
pub mod promote;
pub mod remedy;
pub mod replace;
pub mod run;
pub mod scatter;
pub mod settings;
pub mod stage;
pub mod stat;
pub mod statistics;
pub mod stops;
mod traced;
pub mod trial;
pub mod users;
pub mod watch;
