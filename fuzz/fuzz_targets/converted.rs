//! A trace of drmemtrace that is written as ChampSim's and as drmemtrace's records: code and blocks of any kind are decoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_trace::verbs::{Target, convert};
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(reach_fuzz::folder);

fuzz_target!(|data: &[u8]| {
    // Compressed content is the matter of another target.
    if !data.starts_with(&[25, 0]) {
        return;
    }
    reach_fuzz::within_budget(|| {
        let (from, to) = (FOLDER.path().join("from.trace"), FOLDER.path().join("to"));
        std::fs::write(&from, data).expect("the file can be written");
        for target in [Target::ChampSim, Target::DrMemtrace] {
            let _ = convert(&from, &to, target, &mut |_, _| {});
        }
    });
});
