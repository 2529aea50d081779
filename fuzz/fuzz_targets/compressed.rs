//! A trace of any format in a file, which may be compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use std::io::{Seek, SeekFrom, Write};
use std::sync::{LazyLock, Mutex};

static FILE: LazyLock<Mutex<tempfile::NamedTempFile>> =
    LazyLock::new(|| Mutex::new(tempfile::NamedTempFile::new().expect("a temporary file")));

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let mut file = FILE.lock().expect("no run has failed");
        file.as_file().set_len(0).expect("the file can be emptied");
        file.seek(SeekFrom::Start(0)).expect("the file can be rewound");
        file.write_all(data).expect("the file can be written");
        let Ok(mut source) = reach_trace::open(file.path()) else { return };
        let mut chunk = Chunk::default();
        while let Ok(true) = source.fill(&mut chunk) {}
    });
});
