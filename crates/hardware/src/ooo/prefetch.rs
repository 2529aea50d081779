//! Data prefetchers of the second-level cache.
//!
//! - The *streamer* follows runs of first-level misses, ascending or descending, one run a page, in a bounded number of
//!   pages. At each miss it requests a few lines, up to a distance ahead of the miss.
//! - What it does at the end of a page differs ([`PageEnd`]). Intel's knows physical pages and stops there; its *next-page
//!   prefetcher* translates the next page and fetches the first line of it (Optimization Reference Manual, *Data
//!   Prefetching*). Prefetchers that know virtual addresses translate the next page and go on (docs/validation.md has the
//!   measurement on Zen 4).
//! - The *spatial prefetcher* completes pairs of adjacent lines.
//!
//! Prefetched lines go to the second level. First-level prefetchers are left out: they hide hits in the second level,
//! and so does out-of-order execution.

mod streamer;

pub(super) use streamer::Streamer;

use super::{CoreAndCaches, OooCore};
use crate::cache::{Access, Caches};
use crate::config::PageEnd;
use crate::mmu::{Mmu, physical};
use reach_core::{Kind, PageTable, PhysAddr, Pte, Vpn};
use streamer::Frame;

/// A load or store that missed the first-level cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct L1Miss {
    /// Its base page.
    pub page: Vpn,
    pub at: PhysAddr,
    /// The cycle in which it missed; `None` during functional warming, which takes no time and delays no prefetch.
    pub from: Option<u64>,
    /// Whether it missed the second level too.
    pub missed_l2: bool,
}

impl OooCore {
    /// Returns whether the core has a prefetcher.
    pub(super) fn prefetches(&self) -> bool {
        self.config.prefetch.streams > 0 || self.config.prefetch.adjacent_line
    }

    /// Prefetches the line of `at` in cycle `from` (see [`L1Miss::from`]), if the second level lacks it. Returns false if
    /// too many prefetches are in flight.
    fn prefetch_line(&mut self, at: PhysAddr, shift: u32, from: Option<u64>, caches: &mut Caches) -> bool {
        let Some(from) = from else {
            caches.fetch_ahead(at);
            return true;
        };
        if self.prefetches_in_flight.busy_at(from) >= self.config.prefetch.max_in_flight as usize {
            return false;
        }
        let floor = self.request_floor().min(from);
        if let Some(latency) = caches.fetch_ahead(at) {
            let sent = self.memory_channel.send(floor, from, latency, 1);
            let ready = self.prefetches_in_flight.occupy(floor, sent, latency.into()) + u64::from(latency);
            self.expect_line(at.0 >> shift, ready);
        }
        true
    }
}

impl OooCore {
    /// Prefetches the other line of a pair. It is as likely as not to be useless, so it yields to all other traffic. Without
    /// time, it does so as often as lately with time.
    fn prefetch_buddy(&mut self, at: PhysAddr, shift: u32, from: Option<u64>, caches: &mut Caches) {
        let Some(now) = from else {
            if self.buddies.next() {
                self.prefetch_line(at, shift, None, caches);
            }
            return;
        };
        let is_idle = self.memory_channel.is_idle(self.request_floor().min(now), now);
        let sent = is_idle && self.prefetch_line(at, shift, from, caches);
        self.buddies.note(sent);
    }
}

/// How many buddy lines found the channel to memory idle lately. Functional warming has no channel; if it prefetched them all,
/// a program that uses the channel fully would have twice the lines in its caches that it has.
#[derive(Clone, Debug)]
pub(super) struct Buddies {
    /// The share of them, in units of 1 / [`Buddies::ALL`]: a mean whose weights halve every 44 buddies.
    share: u32,
    /// What was not prefetched yet of the share of buddies that have come.
    owed: u32,
}

impl Buddies {
    const ALL: u32 = 1 << 16;

    /// Without traffic, all find it idle.
    pub fn new() -> Buddies {
        Buddies { share: Buddies::ALL, owed: 0 }
    }

    /// Notes whether a buddy was prefetched.
    fn note(&mut self, sent: bool) {
        let target = if sent { Buddies::ALL } else { 0 };
        // Rounded towards the target, so that the share gets there.
        let distance = target.abs_diff(self.share).div_ceil(64);
        if sent { self.share += distance } else { self.share -= distance }
    }

    /// Returns whether the next buddy is prefetched, if as many are as lately.
    fn next(&mut self) -> bool {
        self.owed += self.share;
        let sent = self.owed >= Buddies::ALL;
        if sent {
            self.owed -= Buddies::ALL;
        }
        sent
    }
}

impl Mmu {
    /// Lets the prefetchers act on a miss of the first-level cache.
    pub(super) fn prefetch_after_miss(
        &mut self,
        L1Miss { page: vpn, at, from, missed_l2 }: L1Miss,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) {
        let shift = caches.line_shift(Access::Load);
        let page_shift = u32::from(self.base.0);
        if missed_l2 && core.config.prefetch.adjacent_line {
            core.prefetch_buddy(PhysAddr(at.0 ^ 1 << shift), shift, from, caches);
        }
        if core.config.prefetch.streams == 0 {
            return;
        }
        let lines = page_shift - shift;
        let frame = at.0 >> page_shift << page_shift;
        let in_page = (at.0 - frame) >> shift;
        let goes_on = core.config.prefetch.page_end == PageEnd::Continue;
        let page = if goes_on { vpn.0 } else { at.0 >> page_shift };
        let request = core.streamer.observe((page << lines | in_page) as i64, lines);
        for line in request.lines() {
            let start = if line as u64 >> lines == page {
                frame
            } else {
                let next = Vpn((line as u64) >> lines);
                let ahead = self.translate_stream_ahead(next, from, table, core, caches);
                let Some(ahead) = ahead else { return core.streamer.end_at(line - request.step) };
                // Without time, there is no wait.
                if ahead.from.zip(from).is_some_and(|(translated, now)| translated > now) {
                    let rest = request.after + request.count * request.step - line;
                    return core.streamer.hold_back(line - request.step, rest * request.step + 1);
                }
                ahead.start.0
            };
            let at = PhysAddr(start | (line as u64 & ((1 << lines) - 1)) << shift);
            if !core.prefetch_line(at, shift, from, caches) {
                return core.streamer.retry_after(line - request.step);
            }
        }
        if request.crosses {
            let next = Vpn(if request.step > 0 { vpn.0 + 1 } else { vpn.0.wrapping_sub(1) });
            self.prefetch_next_page(next, request.step, from, table, core, caches);
        }
    }

    /// Returns where the page is in which the latest stream goes on; translates it the first time.
    fn translate_stream_ahead(
        &mut self,
        next: Vpn,
        from: Option<u64>,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Option<Frame> {
        if let Some(frame) = core.streamer.ahead() {
            return Some(*frame);
        }
        let (pte, from) = self.translate_ahead(next, from, table, core, caches)?;
        let frame = Frame { start: physical(pte, next.addr(self.base).0, self.base), from };
        *core.streamer.ahead() = Some(frame);
        Some(frame)
    }

    /// Continues a run of misses in page `next`, if that is mapped: translates it and prefetches its first line in the
    /// direction of `step`.
    fn prefetch_next_page(
        &mut self,
        next: Vpn,
        step: i64,
        from: Option<u64>,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) {
        let Some((pte, translated)) = self.translate_ahead(next, from, table, core, caches) else { return };
        let shift = caches.line_shift(Access::Load);
        let offset = if step > 0 { 0 } else { self.base.bytes() - (1 << shift) };
        let at = physical(pte, next.addr(self.base).0 + offset, self.base);
        core.prefetch_line(at, shift, translated, caches);
    }

    /// Translates page `next` for a prefetcher, if it is mapped. Returns its entry and the cycle in which it is translated.
    fn translate_ahead(
        &mut self,
        next: Vpn,
        from: Option<u64>,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Option<(Pte, Option<u64>)> {
        // A prefetch does not trap to a miss handler in software.
        if !self.walks_in_hardware() || table.lookup(next).is_none() {
            return None;
        }
        let walks = self.counters.walks_data;
        let found = self.reference(Kind::Load, next, table, Some(caches));
        let walks = self.counters.walks_data - walks;
        self.counters.walks_completed += walks;
        self.counters.walks_wrong_path += walks;
        let translation = self.take_translation_cost();
        let pte = found.ok()?;
        // The fill may have evicted the data page of the same-page filter.
        self.same_page.clear_data();
        Some((pte, from.map(|from| core.translate(from, next.0, translation).translated)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buddies_are_prefetched_without_time_as_often_as_with_it() {
        let share = |buddies: &mut Buddies| (0..1000).filter(|_| buddies.next()).count();
        let mut buddies = Buddies::new();
        assert_eq!(share(&mut buddies), 1000);
        (0..1000).for_each(|_| buddies.note(false));
        assert_eq!(share(&mut buddies), 0);
        (0..1000).for_each(|at| buddies.note(at % 4 == 0));
        assert!((220..280).contains(&share(&mut buddies)));
        (0..1000).for_each(|_| buddies.note(true));
        assert_eq!(share(&mut buddies), 1000);
    }
}
