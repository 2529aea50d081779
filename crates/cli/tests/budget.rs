//! Budgets: no file of a megabyte may cost the command more than 64 MB of memory or 2 s of processor time.

mod cost;
mod foreign;
mod forge;
mod mutations;
mod reach_files;
mod texts;
