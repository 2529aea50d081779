//! The streamer: which lines runs of misses make it request. It neither translates nor reads.

use crate::array::ByAge;
use crate::config::{self, PageEnd};
use reach_core::PhysAddr;

/// A page whose misses the streamer follows. Lines are counted from address 0 on: physical, or virtual with
/// [`PageEnd::Continue`].
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The line of the last miss.
    last: i64,
    /// The direction of the run, 1 or -1; 0 at first.
    step: i64,
    /// How many misses in a row have gone that way. Prefetching begins with the second.
    run: u32,
    /// The last line that was requested.
    requested: i64,
    /// Lines that the walk for the next page has held back, which are requested beside those of the next miss.
    held_back: i64,
    /// Whether the next page has been requested, as far as it can be.
    crossed: bool,
    /// Where the lines of the next page are, once it is translated.
    ahead: Option<Frame>,
}

/// A page that a prefetcher has translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The address of the page's first byte.
    pub start: PhysAddr,
    /// The cycle in which it was translated; `None` without time ([`super::L1Miss::from`]).
    pub from: Option<u64>,
}

/// The lines that a miss makes the streamer request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamRequest {
    /// `count` lines beyond line `after`, in the direction of `step`.
    pub after: i64,
    pub count: i64,
    pub step: i64,
    /// Whether the next page's first line is requested, too.
    pub crosses: bool,
}

impl StreamRequest {
    pub fn lines(self) -> impl Iterator<Item = i64> {
        (1..=self.count).map(move |n| self.after + n * self.step)
    }
}

/// The streamer.
#[derive(Clone, Debug)]
pub(in crate::ooo) struct Streamer {
    config: config::Prefetch,
    streams: Box<[Stream]>,
    /// The number of each stream's page, plus one; 0 for an unused stream.
    pages: Box<[i64]>,
    /// The page in which each run goes on, in the same terms; 0 where there is no run.
    next_pages: Box<[i64]>,
    /// The number of the last miss in each page.
    used: Box<[i64]>,
    by_age: ByAge,
    misses: i64,
    /// The index of the stream of the last miss.
    latest: usize,
}

impl Streamer {
    pub fn new(config: config::Prefetch) -> Streamer {
        let streams = config.streams as usize;
        Streamer {
            config,
            streams: vec![Stream::default(); streams].into(),
            pages: vec![0; streams].into(),
            next_pages: vec![0; streams].into(),
            used: vec![0; streams].into(),
            by_age: ByAge::default(),
            misses: 0,
            latest: 0,
        }
    }

    /// Observes a first-level miss of line `line`; a page has 2^`page_shift` lines. Returns what to request.
    pub(super) fn observe(&mut self, line: i64, page_shift: u32) -> StreamRequest {
        self.misses += 1;
        let page = (line >> page_shift) + 1;
        let known = position(&self.pages, page).or_else(|| self.enter(page));
        let latest = known.unwrap_or_else(|| self.begin(page, line));
        self.latest = latest;
        self.used[latest] = self.misses;
        let (config, stream) = (self.config, &mut self.streams[latest]);
        let step = (line - stream.last).signum();
        stream.last = line;
        if step == 0 {
            return StreamRequest::default();
        }
        if step != stream.step {
            *stream = Stream { last: line, step, run: 1, requested: line, ..Stream::default() };
            self.next_pages[latest] = 0;
            return StreamRequest::default();
        }
        stream.run += 1;
        self.next_pages[latest] = page + step;
        // Lines that the program has passed are not requested any more.
        let requested = if (stream.requested - line) * step < 0 { line } else { stream.requested };
        let goes_on = config.page_end == PageEnd::Continue && !stream.crossed;
        let last_page = if goes_on { page + step } else { page };
        let end = if step > 0 { (last_page << page_shift) - 1 } else { (last_page - 1) << page_shift };
        let room = ((end - requested) * step).min((line - requested) * step + i64::from(config.distance));
        let count = room.clamp(0, i64::from(config.degree) + std::mem::take(&mut stream.held_back));
        stream.requested = requested + count * step;
        let at_end = stream.requested == end;
        let crosses = config.page_end == PageEnd::FirstLine && at_end && !stream.crossed;
        stream.crossed |= at_end;
        StreamRequest { after: requested, count, step, crosses }
    }

    /// Lets the run that has arrived in `page` go on there. Returns its index, if there is one.
    fn enter(&mut self, page: i64) -> Option<usize> {
        if self.config.page_end != PageEnd::Continue {
            return None;
        }
        let index = position(&self.next_pages, page)?;
        let stream = &mut self.streams[index];
        (stream.crossed, stream.ahead) = (false, None);
        self.pages[index] = page;
        Some(index)
    }

    /// Begins a stream in the place of the oldest.
    fn begin(&mut self, page: i64, line: i64) -> usize {
        let index = self.by_age.oldest(&self.used);
        self.streams[index] = Stream { last: line, requested: line, ..Stream::default() };
        (self.pages[index], self.next_pages[index]) = (page, 0);
        index
    }

    /// Where the next page of the latest stream is, if it has been translated.
    pub(super) fn ahead(&mut self) -> &mut Option<Frame> {
        &mut self.streams[self.latest].ahead
    }

    /// Takes back the last request beyond line `last`: too many prefetches were in flight. The next miss repeats it.
    pub(super) fn retry_after(&mut self, last: i64) {
        let stream = &mut self.streams[self.latest];
        (stream.requested, stream.crossed) = (last, false);
    }

    /// Takes back the `count` lines of the last request beyond line `last`: the next page is not translated yet. The first miss
    /// after that repeats them.
    pub(super) fn hold_back(&mut self, last: i64, count: i64) {
        self.retry_after(last);
        self.streams[self.latest].held_back = count;
    }

    /// Ends the last request with line `last`: the next page is not mapped.
    pub(super) fn end_at(&mut self, last: i64) {
        let stream = &mut self.streams[self.latest];
        (stream.requested, stream.crossed) = (last, true);
    }
}

/// Returns the first place of `wanted`. Eight values are compared at a time, because most often none is equal.
fn position(values: &[i64], wanted: i64) -> Option<usize> {
    let (groups, rest) = values.as_chunks::<8>();
    let is_in = |group: &[i64; 8]| group.iter().fold(false, |found, &value| found | (value == wanted));
    let (at, group) = match groups.iter().position(is_in) {
        Some(group) => (group * 8, &groups[group][..]),
        None => (groups.len() * 8, rest),
    };
    Some(at + group.iter().position(|&value| value == wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamer(page_end: PageEnd) -> Streamer {
        let most = 9;
        let (streams, distance, degree) = (2, 5, 2);
        Streamer::new(config::Prefetch {
            streams,
            distance,
            degree,
            adjacent_line: false,
            page_end,
            max_in_flight: most,
        })
    }

    /// Observes a miss of a line of a page of 64 lines. Returns the lines requested, counted from that page's first.
    fn observe(streamer: &mut Streamer, page: i64, line: i64) -> (Vec<i64>, bool) {
        let request = streamer.observe(page << 6 | line, 6);
        (request.lines().map(|line| line - (page << 6)).collect(), request.crosses)
    }

    fn lines(streamer: &mut Streamer, page: i64, line: i64) -> Vec<i64> {
        observe(streamer, page, line).0
    }

    /// Observes misses of these lines of a page, one after the other.
    fn miss(streamer: &mut Streamer, page: i64, run: impl IntoIterator<Item = i64>) {
        run.into_iter().for_each(|line| _ = observe(streamer, page, line));
    }

    #[test]
    fn two_steps_one_way_start_a_run_that_keeps_its_distance() {
        for page_end in [PageEnd::Stop, PageEnd::FirstLine, PageEnd::Continue] {
            let streamer = &mut streamer(page_end);
            assert_eq!(lines(streamer, 7, 10), []);
            assert_eq!(lines(streamer, 7, 11), []);
            assert_eq!(lines(streamer, 7, 12), [13, 14]);
            assert_eq!(lines(streamer, 7, 13), [15, 16]);
            assert_eq!(lines(streamer, 7, 14), [17, 18]);
            assert_eq!(lines(streamer, 7, 15), [19, 20]);
            assert_eq!(lines(streamer, 7, 16), [21], "at most five ahead");
            assert_eq!(lines(streamer, 7, 16), [], "no step");
            assert_eq!(lines(streamer, 7, 40), [41, 42], "passed lines are not requested");
            assert_eq!(lines(streamer, 7, 39), [], "the direction has changed");
            assert_eq!(lines(streamer, 7, 38), [37, 36]);
        }
    }

    #[test]
    fn lines_that_could_not_be_requested_are_requested_at_the_next_miss() {
        let streamer = &mut streamer(PageEnd::FirstLine);
        miss(streamer, 7, 10..12);
        assert_eq!(lines(streamer, 7, 12), [13, 14]);
        streamer.retry_after(7 << 6 | 13);
        assert_eq!(lines(streamer, 7, 13), [14, 15]);
        miss(streamer, 8, 58..62);
        streamer.retry_after(8 << 6 | 62);
        assert_eq!(observe(streamer, 8, 62), (vec![63], true));
    }

    #[test]
    fn lines_that_a_walk_holds_back_are_requested_at_once_after_it() {
        let streamer = &mut streamer(PageEnd::Continue);
        miss(streamer, 7, 58..61);
        assert_eq!(lines(streamer, 7, 61), [63, 64]);
        streamer.hold_back(7 << 6 | 63, 1);
        assert_eq!(lines(streamer, 7, 62), [64, 65, 66], "the walk goes on");
        streamer.hold_back(7 << 6 | 63, 3);
        assert_eq!(lines(streamer, 7, 63), [64, 65, 66, 67, 68], "it has ended");
        assert_eq!(lines(streamer, 8, 0), [5], "as before");
    }

    #[test]
    fn a_run_ends_with_its_page_and_requests_the_next_page_once() {
        for (page_end, crosses) in [(PageEnd::Stop, false), (PageEnd::FirstLine, true)] {
            let streamer = &mut streamer(page_end);
            miss(streamer, 7, 57..60);
            assert_eq!(observe(streamer, 7, 60), (vec![62, 63], crosses));
            assert_eq!(observe(streamer, 7, 61), (vec![], false));
            miss(streamer, 9, [5, 4, 3]);
            assert_eq!(observe(streamer, 9, 2), (vec![0], crosses));
            assert_eq!(lines(streamer, 8, 63), [], "another page has another run");
        }
    }

    #[test]
    fn a_run_of_virtual_lines_goes_on_in_the_next_page() {
        let streamer = &mut streamer(PageEnd::Continue);
        miss(streamer, 7, 57..60);
        assert_eq!(lines(streamer, 7, 60), [62, 63]);
        assert_eq!(lines(streamer, 7, 61), [64, 65]);
        assert_eq!(lines(streamer, 7, 62), [66, 67]);
        assert_eq!(lines(streamer, 7, 63), [68]);
        assert_eq!(lines(streamer, 8, 0), [5], "the run has not ended");
        assert_eq!(lines(streamer, 8, 1), [6]);
        miss(streamer, 6, [2, 1, 0]);
        assert_eq!(lines(streamer, 5, 63), [61, 60], "nor does one downwards");
    }

    #[test]
    fn a_run_into_a_page_that_is_not_mapped_waits_for_it() {
        let streamer = &mut streamer(PageEnd::Continue);
        miss(streamer, 7, 58..61);
        assert_eq!(lines(streamer, 7, 61), [63, 64]);
        streamer.end_at(7 << 6 | 63);
        assert_eq!(lines(streamer, 7, 62), []);
        assert_eq!(lines(streamer, 7, 63), []);
        assert_eq!(lines(streamer, 8, 0), [1, 2]);
    }

    #[test]
    fn the_stream_of_the_least_recent_miss_is_replaced() {
        let streamer = &mut streamer(PageEnd::FirstLine);
        for page in [1, 3, 5] {
            lines(streamer, page, 0);
            lines(streamer, page, 1);
        }
        assert_eq!(lines(streamer, 3, 2), [3, 4]);
        assert_eq!(lines(streamer, 1, 2), [], "the stream starts anew");
    }
}
