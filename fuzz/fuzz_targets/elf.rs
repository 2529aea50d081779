//! Reads arbitrary bytes as an ELF file: its segments, its regions of 2 MB, and an aligned copy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_live::elf::Elf;
use reach_live::elf::dynamic::Dynamic;
use reach_live::{align, layout};

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let Ok(elf) = Elf::read(data) else { return };
        let regions = layout::regions(&elf);
        for segment in elf.code() {
            layout::residual(segment, &regions);
        }
        // What the loader would read: it may be damaged, and must not exceed its bounds.
        let _ = Dynamic::of(data, &elf);
        for pad in [false, true] {
            if let Ok((copy, _)) = align::align(data, pad) {
                let aligned = Elf::read(&copy[..]).expect("an aligned copy is readable");
                assert!(layout::promotable(&aligned).len() >= layout::promotable(&elf).len());
            }
        }
    });
});
