//! Code superpages and page maps on the Linux that this runs on.
//!
//! The kernel maps code with superpages where the page cache holds it in folios of 2 MB, and where addresses and file
//! offsets agree modulo 2 MB. [`elf`] and [`layout`] say what of a program that can be; [`cache`], [`frames`] and
//! [`users`] what it is now; [`promote`] makes it so.
//!
//! Nothing here believes a return code: what was done is what lists of mappings and page tables say afterwards.

pub mod align;
pub mod bench;
pub mod cache;
pub mod elf;
pub mod error;
pub mod frames;
pub mod host;
pub mod image;
pub mod keep;
pub mod layout;
pub mod lease;
pub mod libraries;
pub mod load;
pub mod map;
pub mod mount;
pub mod pages;
pub mod promote;
pub mod replace;
pub mod run;
pub mod stage;
pub mod stat;
pub mod statistics;
pub mod users;
