//! The online policies: when candidates are due for promotion.

use super::blame::Blame;
use super::{Candidate, Candidates, Visit};
use reach_core::{Asid, PageShift, PhysAddr, TlbEvent, Vpn};

/// An online promotion policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A candidate is due as soon as all of its base pages were touched.
    Asap {
        /// Each level that becomes complete is promoted, the smallest first; otherwise only the largest that can be.
        every_level: bool,
    },
    /// A candidate is due when the misses that its promotion would have avoided reach its threshold.
    ApproxOnline {
        /// Threshold of two base pages. The threshold of 2^n base pages is 2^(n-1) times as much.
        threshold: u32,
    },
    /// As approx-online, but the evictions that promotion would have avoided are charged, too.
    Online {
        /// Threshold of two base pages. The threshold of 2^n base pages is 2^(n-1) times as much.
        threshold: u32,
    },
}

/// A policy with its state.
#[derive(Clone, Debug)]
pub struct Online {
    policy: Policy,
    base: PageShift,
    candidates: Candidates,
    blame: Blame,
}

impl Online {
    /// Returns a policy that has seen no event. `sizes` ascend from the base page.
    pub fn new(policy: Policy, sizes: &[PageShift]) -> Online {
        Online { policy, base: sizes[0], candidates: Candidates::new(sizes), blame: Blame::default() }
    }

    /// Returns the trees of candidates.
    pub fn candidates(&mut self) -> &mut Candidates {
        &mut self.candidates
    }

    /// Returns whether the tree around `vpn` exists. Without one, events around `vpn` are ignored.
    pub fn has_tree(&self, asid: Asid, vpn: Vpn) -> bool {
        self.candidates.has(asid, vpn)
    }

    /// Removes the recorded accesses to counters since the last call.
    pub fn visits(&mut self) -> std::vec::Drain<'_, Visit> {
        self.candidates.visits.drain(..)
    }

    /// Handles a TLB event. After a miss, `due` holds the candidates to promote: for asap, in the order in which to promote them all;
    /// for the others, only the first that can be promoted of those around one page.
    pub fn handle(&mut self, event: &TlbEvent, due: &mut Vec<Candidate>) {
        due.clear();
        match *event {
            TlbEvent::Miss { asid, vpn, shift, .. } => {
                let order = shift.order(self.base);
                self.missed(asid, vpn, order, due);
            }
            // Asap counts touched pages only, not TLB entries.
            TlbEvent::Inserted { .. } | TlbEvent::Removed { .. } if matches!(self.policy, Policy::Asap { .. }) => {}
            TlbEvent::Inserted { asid, vpn, shift } => {
                let order = shift.order(self.base);
                self.candidates.inserted(asid, vpn, order);
                if let Policy::Online { .. } = self.policy {
                    self.blame.inserted(asid, vpn, order);
                }
            }
            TlbEvent::Removed { asid, vpn, shift, evicted } => {
                let order = shift.order(self.base);
                if let Policy::Online { .. } = self.policy {
                    self.blame.removed(asid, vpn, order, evicted, &self.candidates);
                }
                self.candidates.removed(asid, vpn, order);
            }
        }
    }

    fn missed(&mut self, asid: Asid, vpn: Vpn, order: u8, due: &mut Vec<Candidate>) {
        let mapped = self.candidates.level(order);
        match self.policy {
            Policy::Asap { every_level } => {
                let complete = self.candidates.touch(asid, vpn);
                due.extend((mapped + 1..=complete).map(|level| self.candidates.around(asid, level, vpn)));
                if !every_level {
                    due.reverse();
                }
            }
            Policy::ApproxOnline { threshold } => {
                self.charge(asid, vpn, mapped, threshold, due);
            }
            Policy::Online { threshold } => {
                self.charge(asid, vpn, mapped, threshold, due);
                for to_blame in self.blame.missed(asid, vpn, order) {
                    let mut reached = false;
                    let Candidate { asid, level, vpn } = to_blame;
                    let least = self.threshold(threshold, level);
                    self.candidates.climb(asid, vpn, level, |_, node| {
                        node.capacity += 1;
                        reached = u64::from(node.prefetch) + u64::from(node.capacity) >= least;
                        (true, false)
                    });
                    if reached && !due.contains(&to_blame) {
                        due.push(to_blame);
                    }
                }
            }
        }
    }

    /// Charges the miss to every candidate above the page that contains an entry. Adds to `due` those that have reached their
    /// threshold, the largest first.
    fn charge(&mut self, asid: Asid, vpn: Vpn, mapped: usize, threshold: u32, due: &mut Vec<Candidate>) {
        let mut reached = 0u64;
        let least: Vec<u64> = (0..=self.candidates.top()).map(|level| self.threshold(threshold, level)).collect();
        self.candidates.climb(asid, vpn, mapped + 1, |level, node| {
            let avoided = node.tlbcount > 0;
            node.prefetch += u32::from(avoided);
            let charge = u64::from(node.prefetch) + u64::from(node.capacity);
            reached |= u64::from(charge >= least[level]) << level;
            (avoided, true)
        });
        for level in (mapped + 1..=self.candidates.top()).rev().filter(|level| reached >> level & 1 != 0) {
            due.push(self.candidates.around(asid, level, vpn));
        }
    }

    /// Returns the charge at which a candidate of `level` is due: `threshold` for two base pages, doubled with each doubling of the
    /// page.
    fn threshold(&self, threshold: u32, level: usize) -> u64 {
        u64::from(threshold) << self.candidates.order(level).saturating_sub(1)
    }

    /// Records that the candidate was promoted. All larger candidates were charged what it was charged, and lose that.
    pub fn promoted(&mut self, candidate: Candidate) {
        let Candidate { asid, level, vpn } = candidate;
        if let Policy::Asap { .. } = self.policy {
            return;
        }
        let mut charge = (0, 0);
        self.candidates.climb(asid, vpn, level, |at, node| {
            if at == level {
                charge = (node.prefetch, node.capacity);
                (node.prefetch, node.capacity) = (0, 0);
            } else {
                node.prefetch = node.prefetch.saturating_sub(charge.0);
                node.capacity = node.capacity.saturating_sub(charge.1);
            }
            (charge != (0, 0), charge != (0, 0))
        });
    }

    /// Records that the candidate could not be promoted. Its charge starts at 0 again.
    pub fn refused(&mut self, candidate: Candidate) {
        let Candidate { asid, level, vpn } = candidate;
        if let Policy::Asap { .. } = self.policy {
            return;
        }
        self.candidates.climb(asid, vpn, level, |_, node| {
            (node.prefetch, node.capacity) = (0, 0);
            (true, false)
        });
    }

    /// Records that these base pages were unmapped or demoted. For asap they are untouched again. The charges of approx-online stay.
    pub fn mapping_changes(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if let Policy::Asap { .. } = self.policy {
            self.candidates.untouch(asid, vpn, pages);
        }
    }

    /// Forgets an address space that has ended. Returns the physical addresses of its trees.
    pub fn exited(&mut self, asid: Asid) -> Vec<PhysAddr> {
        self.blame.exited(asid);
        self.candidates.drop_process(asid)
    }

    /// Returns the misses and the evictions that `candidate` was charged.
    pub fn charges(&self, candidate: Candidate) -> (u32, u32) {
        self.candidates.peek(candidate).map_or((0, 0), |node| (node.prefetch, node.capacity))
    }
}
