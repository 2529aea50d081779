//! A map of code that was compiled at run time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_symbols::PerfMap;

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let Some(map) = PerfMap::parse(data) else { return };
        for address in [0, 0x1000, 0x1fff, u64::MAX] {
            map.name(address);
        }
    });
});
