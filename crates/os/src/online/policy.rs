//! When candidates are due.

use super::blame::Blame;
use super::{Candidate, Candidates, Visit};
use reach_core::{Asid, PageShift, PhysAddr, TlbEvent, Vpn};

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As soon as all base pages of a candidate have been touched.
    Asap {
        /// Each level that becomes complete is built, the smallest first; otherwise only the largest that can be.
        every_level: bool,
    },
    /// When the misses that promotion would have spared have reached a candidate's threshold.
    ApproxOnline {
        /// That of two base pages; of 2^n base pages, 2^(n-1) times as much.
        threshold: u32,
    },
    /// The same, and the evictions that promotion would have spared are charged, too.
    Online {
        /// As above.
        threshold: u32,
    },
}

/// A policy with what it remembers.
#[derive(Clone, Debug)]
pub struct Online {
    policy: Policy,
    base: PageShift,
    candidates: Candidates,
    blame: Blame,
}

impl Online {
    /// Nothing has happened yet. `sizes` ascend from the base page.
    pub fn new(policy: Policy, sizes: &[PageShift]) -> Online {
        Online { policy, base: sizes[0], candidates: Candidates::new(sizes), blame: Blame::default() }
    }

    /// The trees of candidates.
    pub fn candidates(&mut self) -> &mut Candidates {
        &mut self.candidates
    }

    /// Whether the tree around `vpn` exists; without one, nothing is remembered.
    pub fn knows(&self, asid: Asid, vpn: Vpn) -> bool {
        self.candidates.has(asid, vpn)
    }

    /// What has been read and written since the last call.
    pub fn visits(&mut self) -> std::vec::Drain<'_, Visit> {
        self.candidates.visits.drain(..)
    }

    /// Takes what happened. After a miss `due` holds the candidates that are to become one page: in the order in which
    /// to build them all (asap), or the first of those around one page that can be built.
    pub fn take(&mut self, event: &TlbEvent, due: &mut Vec<Candidate>) {
        due.clear();
        match *event {
            TlbEvent::Miss { asid, vpn, shift, .. } => {
                let order = shift.order(self.base);
                self.missed(asid, vpn, order, due);
            }
            // Who only asks what was touched need not know what the TLB holds.
            TlbEvent::Inserted { .. } | TlbEvent::Removed { .. } if matches!(self.policy, Policy::Asap { .. }) => {}
            TlbEvent::Inserted { asid, vpn, shift } => {
                let order = shift.order(self.base);
                self.candidates.entered(asid, vpn, order);
                if let Policy::Online { .. } = self.policy {
                    self.blame.entered(asid, vpn, order);
                }
            }
            TlbEvent::Removed { asid, vpn, shift, evicted: replaced } => {
                let order = shift.order(self.base);
                if let Policy::Online { .. } = self.policy {
                    self.blame.left(asid, vpn, order, replaced, &self.candidates);
                }
                self.candidates.left(asid, vpn, order);
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

    /// Charges the miss to every candidate above the page that contains an entry; names those that have reached their
    /// threshold, the largest first.
    fn charge(&mut self, asid: Asid, vpn: Vpn, mapped: usize, threshold: u32, due: &mut Vec<Candidate>) {
        let mut reached = 0u64;
        let least: Vec<u64> = (0..=self.candidates.top()).map(|level| self.threshold(threshold, level)).collect();
        self.candidates.climb(asid, vpn, mapped + 1, |level, node| {
            let spared = node.tlbcount > 0;
            node.prefetch += u32::from(spared);
            let charge = u64::from(node.prefetch) + u64::from(node.capacity);
            reached |= u64::from(charge >= least[level]) << level;
            (spared, true)
        });
        for level in (mapped + 1..=self.candidates.top()).rev().filter(|level| reached >> level & 1 != 0) {
            due.push(self.candidates.around(asid, level, vpn));
        }
    }

    /// What is due at a charge of how much: a threshold for two base pages, doubled with each doubling of the page.
    fn threshold(&self, threshold: u32, level: usize) -> u64 {
        u64::from(threshold) << self.candidates.order(level).saturating_sub(1)
    }

    /// The candidate has become one page. What it was charged, all larger ones were charged, too: they lose it.
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

    /// The candidate could not become one page: it is to earn its charge anew before it is tried again.
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

    /// These base pages are no longer mapped, or no longer one page: for asap they count as touched when they are touched
    /// again. What approx-online has charged is what it will be charged from here on.
    pub fn mapping_changes(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if let Policy::Asap { .. } = self.policy {
            self.candidates.untouch(asid, vpn, pages);
        }
    }

    /// The address space is gone, and with it what was remembered of it. Returns where that was.
    pub fn exited(&mut self, asid: Asid) -> Vec<PhysAddr> {
        self.blame.exited(asid);
        self.candidates.drop_process(asid)
    }

    /// What `candidate` has been charged: misses, and evictions.
    pub fn charges(&self, candidate: Candidate) -> (u32, u32) {
        self.candidates.peek(candidate).map_or((0, 0), |node| (node.prefetch, node.capacity))
    }
}
