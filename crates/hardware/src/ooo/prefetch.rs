//! Data prefetchers of the second-level cache.
//!
//! They work as Intel describes its own (Optimization Reference Manual, *Data Prefetching*):
//! - The *streamer* follows runs of first-level misses within a page, ascending or descending, one run a page, in a
//!   bounded number of pages. At each miss it requests a few lines, up to a distance ahead of the miss, and never
//!   beyond the page.
//! - The *spatial prefetcher* completes pairs of adjacent lines.
//! - The *next-page prefetcher* continues a run beyond the end of its page, which takes a translation.
//!
//! Prefetched lines go to the second level. First-level prefetchers are left out: they hide hits in the second level,
//! and so does out-of-order execution.

use super::{CoreAndCaches, OooCore};
use crate::cache::{Access, Caches};
use crate::config;
use crate::mmu::{Mmu, physical};
use reach_core::{Kind, PageTable, PhysAddr, Vpn};

/// A page whose misses the streamer follows.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The number of the physical page, plus one; 0 for an unused stream.
    page: u64,
    /// The line of the last miss.
    last: i32,
    /// The direction of the run, 1 or -1; 0 at first.
    step: i32,
    /// How many misses in a row have gone that way. Prefetching begins with the second.
    run: u32,
    /// The last line that was requested.
    requested: i32,
    /// Whether the next page has been requested.
    crossed: bool,
    /// The number of the last miss in this page, for replacement.
    used: u64,
}

/// The lines that a miss makes the streamer request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamRequest {
    /// `count` lines of the page beyond line `after`, in the direction of `step`.
    after: i32,
    count: i32,
    step: i32,
    /// Whether the run continues in the next page.
    crosses: bool,
}

impl StreamRequest {
    fn lines(self) -> impl Iterator<Item = i32> {
        (1..=self.count).map(move |n| self.after + n * self.step)
    }
}

/// The streamer.
#[derive(Clone, Debug)]
pub(super) struct Streamer {
    config: config::Prefetch,
    streams: Box<[Stream]>,
    misses: u64,
    /// The index of the stream of the last miss.
    latest: usize,
}

impl Streamer {
    pub fn new(config: config::Prefetch) -> Streamer {
        Streamer { config, streams: vec![Stream::default(); config.streams as usize].into(), misses: 0, latest: 0 }
    }

    /// Observes a first-level miss of line number `line` of physical page `page`, which has `lines` lines. Returns what
    /// to request.
    fn observe(&mut self, page: u64, line: i32, lines: i32) -> StreamRequest {
        self.misses += 1;
        let known = self.streams.iter().position(|stream| stream.page == page + 1);
        let oldest = || (0..self.streams.len()).min_by_key(|&i| self.streams[i].used);
        let Some(latest) = known.or_else(oldest) else { return StreamRequest::default() };
        self.latest = latest;
        let (config, stream) = (self.config, &mut self.streams[latest]);
        if stream.page != page + 1 {
            *stream = Stream { page: page + 1, last: line, requested: line, used: self.misses, ..Stream::default() };
            return StreamRequest::default();
        }
        stream.used = self.misses;
        let step = (line - stream.last).signum();
        stream.last = line;
        if step == 0 {
            return StreamRequest::default();
        }
        if step != stream.step {
            (stream.step, stream.run, stream.requested, stream.crossed) = (step, 1, line, false);
            return StreamRequest::default();
        }
        stream.run += 1;
        // Lines that the program has passed are not requested any more.
        let requested = if (stream.requested - line) * step < 0 { line } else { stream.requested };
        let end = if step > 0 { lines - 1 } else { 0 };
        let room = ((end - requested) * step).min((line - requested) * step + config.distance as i32);
        let count = room.clamp(0, config.degree as i32);
        stream.requested = requested + count * step;
        let at_end = stream.requested == end;
        let crosses = config.next_page && at_end && !stream.crossed;
        stream.crossed |= at_end;
        StreamRequest { after: requested, count, step, crosses }
    }

    /// Takes back the last request beyond line `last`: too many prefetches were in flight. The next miss repeats it.
    fn retry_after(&mut self, last: i32) {
        let stream = &mut self.streams[self.latest];
        (stream.requested, stream.crossed) = (last, false);
    }
}

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
        let (page, lines) = (at.0 >> page_shift, 1i32 << (page_shift - shift));
        let request = core.streamer.observe(page, (at.0 >> shift) as i32 & (lines - 1), lines);
        for line in request.lines() {
            let at = PhysAddr(page << page_shift | (line as u64) << shift);
            if !core.prefetch_line(at, shift, from, caches) {
                return core.streamer.retry_after(line - request.step);
            }
        }
        if request.crosses {
            let next = Vpn(if request.step > 0 { vpn.0 + 1 } else { vpn.0.wrapping_sub(1) });
            self.prefetch_next_page(next, request.step, from, table, CoreAndCaches { core, caches });
        }
    }

    /// Continues a run of misses in page `next`, if that is mapped: translates it and prefetches its first line in the
    /// direction of `step`.
    fn prefetch_next_page(
        &mut self,
        next: Vpn,
        step: i32,
        from: Option<u64>,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) {
        // A prefetch does not trap to a miss handler in software.
        if !self.walks_in_hardware() || table.lookup(next).is_none() {
            return;
        }
        let walks = self.counters.walks_data;
        let found = self.reference(Kind::Load, next, table, Some(caches));
        let walks = self.counters.walks_data - walks;
        self.counters.walks_completed += walks;
        self.counters.walks_wrong_path += walks;
        let translation = self.take_translation_cost();
        let Ok(pte) = found else { return };
        // The fill may have evicted the data page of the same-page filter.
        self.same_page.clear_data();
        let translated = from.map(|from| core.translate(from, next.0, translation).translated);
        let shift = caches.line_shift(Access::Load);
        let offset = if step > 0 { 0 } else { self.base.bytes() - (1 << shift) };
        let at = physical(pte, next.addr(self.base).0 + offset, self.base);
        core.prefetch_line(at, shift, translated, caches);
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

    fn streamer() -> Streamer {
        Streamer::new(config::Prefetch {
            streams: 2,
            distance: 5,
            degree: 2,
            adjacent_line: false,
            next_page: true,
            max_in_flight: 9,
        })
    }

    fn lines(request: StreamRequest) -> Vec<i32> {
        request.lines().collect()
    }

    #[test]
    fn two_steps_one_way_start_a_run_that_keeps_its_distance() {
        let mut streamer = streamer();
        assert_eq!(lines(streamer.observe(7, 10, 64)), []);
        assert_eq!(lines(streamer.observe(7, 11, 64)), []);
        assert_eq!(lines(streamer.observe(7, 12, 64)), [13, 14]);
        assert_eq!(lines(streamer.observe(7, 13, 64)), [15, 16]);
        assert_eq!(lines(streamer.observe(7, 14, 64)), [17, 18]);
        assert_eq!(lines(streamer.observe(7, 15, 64)), [19, 20]);
        assert_eq!(lines(streamer.observe(7, 16, 64)), [21], "at most five ahead");
        assert_eq!(lines(streamer.observe(7, 16, 64)), [], "no step");
        assert_eq!(lines(streamer.observe(7, 40, 64)), [41, 42], "passed lines are not requested");
        assert_eq!(lines(streamer.observe(7, 39, 64)), [], "the direction has changed");
        assert_eq!(lines(streamer.observe(7, 38, 64)), [37, 36]);
    }

    #[test]
    fn lines_that_could_not_be_requested_are_requested_at_the_next_miss() {
        let mut streamer = streamer();
        for line in 10..12 {
            streamer.observe(7, line, 64);
        }
        assert_eq!(lines(streamer.observe(7, 12, 64)), [13, 14]);
        streamer.retry_after(13);
        assert_eq!(lines(streamer.observe(7, 13, 64)), [14, 15]);
        for line in 58..62 {
            streamer.observe(8, line, 64);
        }
        streamer.retry_after(62);
        let request = streamer.observe(8, 62, 64);
        assert_eq!((lines(request), request.crosses), (vec![63], true));
    }

    #[test]
    fn a_run_ends_with_its_page_and_requests_the_next_page_once() {
        let mut streamer = streamer();
        for line in 57..60 {
            streamer.observe(7, line, 64);
        }
        let request = streamer.observe(7, 60, 64);
        assert_eq!((lines(request), request.crosses), (vec![62, 63], true));
        let request = streamer.observe(7, 61, 64);
        assert_eq!((lines(request), request.crosses), (vec![], false));
        for line in [5, 4, 3] {
            streamer.observe(8, line, 64);
        }
        let request = streamer.observe(8, 2, 64);
        assert_eq!((lines(request), request.crosses, request.step), (vec![0], true, -1));
    }

    #[test]
    fn the_stream_of_the_least_recent_miss_is_replaced() {
        let mut streamer = streamer();
        for page in [1, 2, 3] {
            streamer.observe(page, 0, 64);
            streamer.observe(page, 1, 64);
        }
        assert_eq!(lines(streamer.observe(2, 2, 64)), [3, 4]);
        assert_eq!(lines(streamer.observe(1, 2, 64)), [], "the stream starts anew");
    }
}
