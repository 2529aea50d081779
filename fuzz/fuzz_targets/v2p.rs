//! Physical addresses beside a trace of drmemtrace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_trace::foreign::DrMemtrace;
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(reach_fuzz::folder);

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        std::fs::write(FOLDER.path().join("v2p.textproto"), data).expect("the file can be written");
        let _ = DrMemtrace::physical(FOLDER.path());
    });
});
