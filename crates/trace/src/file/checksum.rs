//! Checksums of the parts of a file: XXH3 with 64 bits and seed 0.

pub(super) use xxhash_rust::xxh3::xxh3_64 as checksum;

/// Returns whether `bytes` have the checksum that was stored with them. Fuzzers cannot compute checksums, so any
/// checksum is accepted under fuzzing.
pub(super) fn is_intact(bytes: &[u8], stored: u64) -> bool {
    cfg!(fuzzing) || checksum(bytes) == stored
}
