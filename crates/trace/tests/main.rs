//! Tests in one program: each program of its own would compile what they share once more.

mod capture_program;
mod capture_references;
mod common;
mod conversions;
mod drmemtrace;
mod old_versions;
mod records;
mod verbs;
