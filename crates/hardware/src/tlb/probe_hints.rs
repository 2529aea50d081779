//! By which probes pages were found last, for look-ups outside the hot loop.

use super::path::Probe;
use reach_core::Vpn;

/// For each part of the page numbers, the probe by which a page of it was found in the first level last. A page is in one
/// first-level array at most there, so that it is found by this probe or by no other of its level.
///
/// Without hints where one probe is all, where probes cost cycles by their order, or where a page may be held twice.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeHints(Box<[u8]>);

/// Number of hints.
const HINTS: usize = 1 << 8;
/// Binary logarithm of the neighbouring pages that share a hint.
const NEIGHBOURS: u32 = 4;

impl ProbeHints {
    /// Creates hints at the first of `probes`. `whole` says that no page is held twice.
    pub fn new(probes: &[Probe], whole: bool) -> ProbeHints {
        let first_level = || probes.iter().take_while(|probe| probe.depth == 0);
        let helps = whole && first_level().nth(1).is_some() && first_level().all(|probe| probe.after == 0);
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
