//! A trace of any format in a file, which may be compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(reach_fuzz::folder);

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let file = FOLDER.path().join("trace");
        std::fs::write(&file, data).expect("the file can be written");
        let Ok(mut source) = reach_trace::open(&file) else { return };
        let mut chunk = Chunk::default();
        while let Ok(true) = source.fill(&mut chunk) {}
    });
});
