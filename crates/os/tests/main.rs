//! Tests in one program: each program of its own would compile what they share once more.

mod buddy;
mod linux_counts;
mod online;
mod translation;
mod twin;
