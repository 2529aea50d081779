//! Lines that are fetched before they are asked for.
//!
//! As Intel describes its second-level prefetchers (Optimization Reference Manual, *Data Prefetching*): the *streamer* follows
//! ascending or descending first-level misses within a page, one run for each of so many pages, and asks for a few lines at
//! each, up to so many ahead, never beyond the page; the *spatial prefetcher* completes pairs of lines; the *next-page
//! prefetcher* goes on behind the end of a page, which takes a translation. Lines go to the second level. First-level
//! prefetchers are left out: what they hide, hits in the second level, the window hides.

use super::{OooCore, Translation};
use crate::cache::Caches;
use crate::config;
use crate::mmu::{Mmu, physical};
use reach_core::{Kind, PageTable, PhysAddr, Vpn};

/// A page in which misses are followed.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The physical page, one up: 0 for none.
    page: u64,
    /// Line of the last miss.
    last: i32,
    /// Which way it goes, and how often in a row: below 2 nothing is fetched.
    step: i32,
    run: u32,
    /// The last line that was asked for.
    asked: i32,
    /// The next page has been asked for.
    crossed: bool,
    used: u64,
}

/// What is to be fetched because of a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// So many lines of the page behind line `after`, in the direction of `step`.
    after: i32,
    count: i32,
    step: i32,
    /// The run has reached the end of its page.
    crosses: bool,
}

/// The runs of misses that are followed.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    config: config::Prefetch,
    all: Box<[Stream]>,
    misses: u64,
    /// Which of them the last miss belonged to.
    latest: usize,
}

impl Streams {
    pub fn new(config: config::Prefetch) -> Streams {
        Streams { config, all: vec![Stream::default(); config.streams as usize].into(), misses: 0, latest: 0 }
    }

    /// Line number `line` of physical page `page`, of so many, has missed the first level.
    pub fn observe(&mut self, page: u64, line: i32, lines: i32) -> Wanted {
        self.misses += 1;
        let known = self.all.iter().position(|stream| stream.page == page + 1);
        let oldest = || (0..self.all.len()).min_by_key(|&i| self.all[i].used);
        let Some(latest) = known.or_else(oldest) else { return Wanted::default() };
        self.latest = latest;
        let (config, stream) = (self.config, &mut self.all[latest]);
        if stream.page != page + 1 {
            *stream = Stream { page: page + 1, last: line, asked: line, used: self.misses, ..Stream::default() };
            return Wanted::default();
        }
        stream.used = self.misses;
        let step = (line - stream.last).signum();
        stream.last = line;
        if step == 0 {
            return Wanted::default();
        }
        if step != stream.step {
            (stream.step, stream.run, stream.asked, stream.crossed) = (step, 1, line, false);
            return Wanted::default();
        }
        stream.run += 1;
        // What was passed is not asked for any more.
        let asked = if (stream.asked - line) * step < 0 { line } else { stream.asked };
        let end = if step > 0 { lines - 1 } else { 0 };
        let room = ((end - asked) * step).min((line - asked) * step + config.distance as i32);
        let count = room.clamp(0, config.degree as i32);
        stream.asked = asked + count * step;
        let at_end = stream.asked == end;
        let crosses = config.next_page && at_end && !stream.crossed;
        stream.crossed |= at_end;
        Wanted { after: asked, count, step, crosses }
    }

    /// Of what the last miss made wanted, nothing behind line `last` could be asked for: it will be at the next.
    fn put_off(&mut self, last: i32) {
        let stream = &mut self.all[self.latest];
        (stream.asked, stream.crossed) = (last, false);
    }
}

impl Wanted {
    fn lines(self) -> impl Iterator<Item = i32> {
        (1..=self.count).map(move |n| self.after + n * self.step)
    }
}

impl OooCore {
    /// Whether anything is fetched before it is asked for.
    pub(super) fn looks_ahead(&self) -> bool {
        self.config.prefetch.streams > 0 || self.config.prefetch.adjacent_line
    }

    /// The line that holds `at` is asked for at `from`, if the second level lacks it. False where too many are under way.
    fn fetch_ahead(&mut self, at: PhysAddr, shift: u32, from: u64, caches: &mut Caches) -> bool {
        if self.ahead.under_way(from) >= self.config.prefetch.max_in_flight as usize {
            return false;
        }
        let base = self.base().min(from);
        if let Some(latency) = caches.fetch_ahead(at) {
            let sent = self.channel.send(base, from, latency, 1);
            let there = self.ahead.start(base, sent, latency.into()) + u64::from(latency);
            self.expect_line(at.0 >> shift, there);
        }
        true
    }

    /// A translation that nothing waits for, from `from` on. Returns when it is known.
    fn translate_ahead(&mut self, from: u64, page: u64, translation: Translation) -> u64 {
        self.translate(from, page, translation).translated
    }
}

impl Mmu {
    /// A load or store of `at`, in page `vpn`, has missed the first level at `from`, and `beyond` the second too.
    pub(super) fn look_ahead(
        &mut self,
        (vpn, at): (Vpn, PhysAddr),
        from: u64,
        beyond: bool,
        table: &mut PageTable,
        (ooo, caches): (&mut OooCore, &mut Caches),
    ) {
        let shift = caches.line_shift(crate::Access::Load);
        let page_shift = u32::from(self.base.0);
        // The other half of a pair is as likely as not to be of no use.
        if beyond && ooo.config.prefetch.adjacent_line && ooo.channel.is_free(ooo.base().min(from), from) {
            ooo.fetch_ahead(PhysAddr(at.0 ^ 1 << shift), shift, from, caches);
        }
        if ooo.config.prefetch.streams == 0 {
            return;
        }
        let (page, lines) = (at.0 >> page_shift, 1i32 << (page_shift - shift));
        let wanted = ooo.streams.observe(page, (at.0 >> shift) as i32 & (lines - 1), lines);
        for line in wanted.lines() {
            let at = PhysAddr(page << page_shift | (line as u64) << shift);
            if !ooo.fetch_ahead(at, shift, from, caches) {
                return ooo.streams.put_off(line - wanted.step);
            }
        }
        if wanted.crosses {
            let next = Vpn(if wanted.step > 0 { vpn.0 + 1 } else { vpn.0.wrapping_sub(1) });
            self.cross(next, wanted.step, from, table, (ooo, caches));
        }
    }

    /// A run of misses goes on in page `next`, if there is one.
    fn cross(
        &mut self,
        next: Vpn,
        step: i32,
        from: u64,
        table: &mut PageTable,
        (ooo, caches): (&mut OooCore, &mut Caches),
    ) {
        // A miss handler is not called for what may never be asked for.
        if !self.walks_in_hardware() || table.lookup(next).is_none() {
            return;
        }
        let walks = self.counters.walks_data;
        let found = self.reference(Kind::Load, next, table, Some(caches));
        let walks = self.counters.walks_data - walks;
        self.counters.walks_completed += walks;
        self.counters.walks_wrong_path += walks;
        let taken = self.taken();
        let Ok(pte) = found else { return };
        // The page that this side is on may have had to go.
        self.same_page.clear_data();
        let there = ooo.translate_ahead(from, next.0, taken);
        let shift = caches.line_shift(crate::Access::Load);
        let within = if step > 0 { 0 } else { self.base.bytes() - (1 << shift) };
        let at = physical(pte, next.addr(self.base).0 + within, self.base);
        ooo.fetch_ahead(at, shift, there, caches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> Streams {
        Streams::new(config::Prefetch {
            streams: 2,
            distance: 5,
            degree: 2,
            adjacent_line: false,
            next_page: true,
            max_in_flight: 9,
        })
    }

    fn lines(wanted: Wanted) -> Vec<i32> {
        wanted.lines().collect()
    }

    #[test]
    fn two_steps_one_way_begin_a_run_that_keeps_its_distance() {
        let mut all = streams();
        assert_eq!(lines(all.observe(7, 10, 64)), []);
        assert_eq!(lines(all.observe(7, 11, 64)), []);
        assert_eq!(lines(all.observe(7, 12, 64)), [13, 14]);
        assert_eq!(lines(all.observe(7, 13, 64)), [15, 16]);
        assert_eq!(lines(all.observe(7, 14, 64)), [17, 18]);
        assert_eq!(lines(all.observe(7, 15, 64)), [19, 20]);
        assert_eq!(lines(all.observe(7, 16, 64)), [21], "five ahead at most");
        assert_eq!(lines(all.observe(7, 16, 64)), [], "no step");
        assert_eq!(lines(all.observe(7, 40, 64)), [41, 42], "what was passed is not asked for");
        assert_eq!(lines(all.observe(7, 39, 64)), [], "it has turned");
        assert_eq!(lines(all.observe(7, 38, 64)), [37, 36]);
    }

    #[test]
    fn what_could_not_be_asked_for_is_wanted_again() {
        let mut all = streams();
        for line in 10..12 {
            all.observe(7, line, 64);
        }
        assert_eq!(lines(all.observe(7, 12, 64)), [13, 14]);
        all.put_off(13);
        assert_eq!(lines(all.observe(7, 13, 64)), [14, 15]);
        for line in 58..62 {
            all.observe(8, line, 64);
        }
        all.put_off(62);
        let wanted = all.observe(8, 62, 64);
        assert_eq!((lines(wanted), wanted.crosses), (vec![63], true));
    }

    #[test]
    fn a_run_ends_with_its_page_and_asks_for_the_next_once() {
        let mut all = streams();
        for line in 57..60 {
            all.observe(7, line, 64);
        }
        let wanted = all.observe(7, 60, 64);
        assert_eq!((lines(wanted), wanted.crosses), (vec![62, 63], true));
        let wanted = all.observe(7, 61, 64);
        assert_eq!((lines(wanted), wanted.crosses), (vec![], false));
        for line in [5, 4, 3] {
            all.observe(8, line, 64);
        }
        let wanted = all.observe(8, 2, 64);
        assert_eq!((lines(wanted), wanted.crosses, wanted.step), (vec![0], true, -1));
    }

    #[test]
    fn the_page_that_was_missed_least_recently_is_given_up() {
        let mut all = streams();
        for page in [1, 2, 3] {
            all.observe(page, 0, 64);
            all.observe(page, 1, 64);
        }
        assert_eq!(lines(all.observe(2, 2, 64)), [3, 4]);
        assert_eq!(lines(all.observe(1, 2, 64)), [], "begun anew");
    }
}
