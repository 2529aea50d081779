//! `kandiraju-2002-prefetch`: TLB prefetching by distances, and the prefetchers that its paper compares with.
//!
//! After: Kandiraju and Sivasubramaniam, "Going the Distance for TLB Prefetching: An Application-driven Study", ISCA 2002. The
//! text was not at hand; what is said of it here is from its abstract and from later papers.
//!
//! | design | here |
//! |---|---|
//! | a buffer beside the last level of TLBs; a hit moves into the TLBs | `tlb_prefetch.rs` |
//! | distance prefetching: the last distance between misses predicts the next ones | [`Distances`] |
//! | sequential prefetching: the next page | [`Rule::Sequential`] |
//! | arbitrary stride prefetching: an instruction's stride, once it repeats | [`Rule::Stride`] |
//!
//! Readings: the prefetcher learns from misses in the last level, whether or not the buffer has the page, and prefetches then.
//! A row of the table of distances has the two distances that followed last, the latest first. Its rows are found by the
//! distance modulo their number.
//!
//! Deviations: a prefetched translation is there at the next miss, whatever its walk took. Markov and recency prefetching, which
//! need a table as large as memory, are left out.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::tlb_prefetch::{BUFFER_LATENCY, PrefetchBuffer, Strides, distance, page_at};
use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, PageTableKind, Pte, TlbMiss, Vpn, WalkAssist};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "kandiraju-2002-prefetch",
    summary: "prefetches translations by the distances between misses",
    role: Role::Design,
    compared: false,
    published: Some(
        "Kandiraju and Sivasubramaniam: Going the Distance for TLB Prefetching: An Application-driven Study, ISCA 2002",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "prefetched no page that was used"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let (buffer, rows) = (settings.number("buffer") as usize, settings.number("rows") as usize);
        let kind = settings.choice("prefetcher");
        Box::new(Assisted::new(DESCRIPTION.name, settings, move |vm| {
            let rule = match kind {
                Prefetcher::Distance => Rule::Distance(Distances::new(rows)),
                Prefetcher::Sequential => Rule::Sequential,
                Prefetcher::Stride => Rule::Stride(Strides::new(rows)),
            };
            Box::new(PrefetchUnit { buffer: PrefetchBuffer::new(buffer, vm.base()), rule })
        }))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "prefetcher",
        Prefetcher::ACCEPTS,
        "distance",
        "by distances, the next page, or strides of instructions",
    ),
    Setting::new("buffer", Accepts::number(1, 1 << 10, Unit::Count), "16", "entries of the prefetch buffer"),
    Setting::new("rows", Accepts::number(1, 1 << 16, Unit::Count), "256", "rows of the table of distances or strides"),
    POLICY,
];

choice! {
    /// How pages are chosen.
    enum Prefetcher {
        /// By the distances between misses.
        Distance = "distance",
        /// The next page.
        Sequential = "sequential",
        /// By the strides of instructions.
        Stride = "stride",
    }
}

/// The rule that chooses pages, with what it has learned.
#[derive(Clone, Debug)]
enum Rule {
    Sequential,
    Stride(Strides),
    Distance(Distances),
}

impl Rule {
    /// Learns a miss. Returns the distances to the pages to prefetch.
    fn learn(&mut self, miss: TlbMiss) -> [Option<i64>; 2] {
        match self {
            Rule::Sequential => [Some(1), None],
            Rule::Stride(strides) => match strides.learn(miss) {
                (Some(old), Some(new)) if old == new && new != 0 => [Some(new), None],
                _ => [None, None],
            },
            Rule::Distance(distances) => distances.learn(miss),
        }
    }
}

/// A row of the table of distances.
#[derive(Clone, Copy, Debug)]
struct Row {
    distance: i64,
    /// The distances that followed it, the latest first.
    next: [Option<i64>; 2],
}

/// The table of distances.
#[derive(Clone, Debug)]
struct Distances {
    rows: Vec<Option<Row>>,
    /// The last miss, and the distance that led to it.
    last: Option<(Asid, Vpn, Option<i64>)>,
}

impl Distances {
    fn new(rows: usize) -> Distances {
        Distances { rows: vec![None; rows], last: None }
    }

    fn row(&mut self, distance: i64) -> &mut Option<Row> {
        let at = distance.rem_euclid(self.rows.len() as i64) as usize;
        &mut self.rows[at]
    }

    /// Learns that `next` followed `distance`.
    fn follows(&mut self, distance: i64, next: i64) {
        let row = self.row(distance);
        match row {
            Some(row) if row.distance == distance => {
                if row.next[0] != Some(next) {
                    row.next = [Some(next), row.next[0]];
                }
            }
            _ => *row = Some(Row { distance, next: [Some(next), None] }),
        }
    }

    /// Learns a miss. Returns the distances that followed the one to it.
    fn learn(&mut self, miss: TlbMiss) -> [Option<i64>; 2] {
        let last = self.last.filter(|&(asid, ..)| asid == miss.asid);
        let now = last.map(|(_, vpn, _)| distance(vpn, miss.vpn));
        self.last = Some((miss.asid, miss.vpn, now));
        let Some(now) = now else { return [None, None] };
        if let Some((.., Some(before))) = last {
            self.follows(before, now);
        }
        let row = self.row(now).filter(|row| row.distance == now);
        row.map_or([None, None], |row| row.next)
    }
}

/// A prefetcher with its buffer.
#[derive(Clone, Debug)]
struct PrefetchUnit {
    buffer: PrefetchBuffer<()>,
    rule: Rule,
}

impl PrefetchUnit {
    /// Learns a miss, and prefetches.
    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        for distance in self.rule.learn(miss).into_iter().flatten() {
            let page = page_at(miss.vpn, distance).filter(|&page| !self.buffer.holds(miss.asid, page));
            if let Some(page) = page
                && let Some(walk) = port.walk(page)
            {
                self.buffer.add(miss.asid, page, walk.pte, ());
            }
        }
    }
}

impl WalkAssist for PrefetchUnit {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let Some((pte, ())) = self.buffer.take(miss.asid, miss.vpn) else { return AssistAnswer::Walk };
        port.wait(BUFFER_LATENCY);
        self.learn(miss, port);
        AssistAnswer::Hit(pte)
    }

    fn walked(&mut self, miss: TlbMiss, _: FinishedWalk, port: &mut dyn AssistPort) {
        self.learn(miss, port);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.buffer.invalidate(asid, vpn, pages);
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.buffer.translations(asid)
    }

    fn reads_instructions(&self) -> bool {
        matches!(self.rule, Rule::Stride(_))
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
