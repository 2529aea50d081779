//! By which probes pages were found last, for look-ups outside the hot loop.

use super::path::Probe;
use reach_core::Vpn;

/// For each part of the page numbers, the probe by which a page of it was found in the first level last.
///
/// They exist where a page is in one place of the first level at most, so that the order of probes does not decide which entry
/// is used, where probes cost no cycles by their order, and where there are several.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeHints(Box<[u8]>);

/// Number of hints.
const HINTS: usize = 1 << 8;
/// Binary logarithm of the neighbouring pages that share a hint.
const NEIGHBOURS: u32 = 4;

impl ProbeHints {
    /// Creates hints at the first of `probes`. `in_one_place` says that no page is held twice.
    pub fn new(probes: &[Probe], in_one_place: bool) -> ProbeHints {
        let first_level = || probes.iter().take_while(|probe| probe.depth == 0);
        let helps = in_one_place && first_level().nth(1).is_some() && first_level().all(|probe| probe.after == 0);
        ProbeHints(vec![0; if helps { HINTS } else { 0 }].into())
    }

    fn place(vpn: Vpn) -> usize {
        (vpn.0 >> NEIGHBOURS) as usize % HINTS
    }

    /// Returns the number of the probe by which to look for `vpn` first.
    #[inline(always)]
    pub fn of(&self, vpn: Vpn) -> Option<usize> {
        self.0.get(ProbeHints::place(vpn)).map(|&number| number.into())
    }

    /// Records that `vpn` was found by probe `number` of the first level.
    #[inline(always)]
    pub fn record(&mut self, vpn: Vpn, number: usize) {
        if let Some(hint) = self.0.get_mut(ProbeHints::place(vpn)) {
            *hint = number as u8;
        }
    }
}
