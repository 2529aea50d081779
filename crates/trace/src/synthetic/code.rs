//! `code`: a program with much code that executes parts of it: regions of 2 MB, clusters of 64 KB in each region, and
//! pages in each cluster (Zhou et al. 2023, figure 2). It stays on each page for some blocks.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, GRAIN, Process, bodies, load, room};
use super::program::{Description, Program};
use super::zipf::Zipf;
use crate::Progress;
use reach_core::{Chunk, Random};

const REGION: u64 = 2 << 20;
/// Executed pages have 4 KB: no machine distinguishes smaller ones.
const PAGE: u64 = 4 << 10;
/// Instructions of a block. One of them is a load, unless `data` is 0.
const INSTRUCTIONS: u16 = 16;

pub(super) const ABOUT: Description = Description {
    name: "code",
    summary: "executes parts of a large text, in regions, clusters and pages (Zhou et al. 2023)",
    parameters: &[
        Parameter {
            name: "regions",
            kind: ValueKind::Count(1, 1024),
            default: "16",
            summary: "regions of 2 MB of code",
        },
        Parameter {
            name: "tail",
            kind: ValueKind::Bytes(0, REGION - PAGE),
            default: "0",
            summary: "code after the last whole region",
        },
        Parameter {
            name: "clusters",
            kind: ValueKind::CountList(1, 32),
            default: "20",
            summary: "executed clusters of 64 KB per region; a list applies to the regions in rotation",
        },
        Parameter { name: "pages", kind: ValueKind::Count(1, 16), default: "4", summary: "executed pages per cluster" },
        Parameter {
            name: "dwell",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "8",
            summary: "blocks of 16 instructions executed per visit to a page",
        },
        Parameter {
            name: "order",
            kind: ValueKind::Word(&["random", "cycle"]),
            default: "random",
            summary: "next page: random by popularity, or all in a cycle that changes the region each time",
        },
        Parameter {
            name: "reuse",
            kind: ValueKind::Count(0, 1000),
            default: "90",
            summary: "exponent of Zipf's law for the popularity of pages, in hundredths",
        },
        Parameter {
            name: "data",
            kind: ValueKind::Bytes(0, MAX_BYTES),
            default: "8M",
            summary: "memory from which each block loads a random word; 0 for no loads",
        },
        Parameter {
            name: "visits",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1M",
            summary: "number of visits to pages",
        },
        SEED,
    ],
    build,
};

struct Running {
    /// A block of each page, in the order of popularity, or of the cycle.
    pages: Vec<Code>,
    /// Popularity of pages; `None` for a cycle.
    reuse: Option<Zipf>,
    dwell: u64,
    /// Address and number of words of the data; `None` without loads.
    data: Option<(u64, u64)>,
    random: Random,
    /// The current page, and the blocks left on it.
    current: usize,
    left: u64,
    visits: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (regions, clusters) = (values.number("regions"), values.list("clusters"));
    let tail = values.number("tail").next_multiple_of(PAGE);
    let seed = values.number("seed");
    let text = process.text("synthetic/code.text", regions * REGION + tail);
    let mut random = Random::new(seed);
    let mut places = Vec::new();
    for region in 0..=regions {
        let len = if region < regions { REGION } else { tail };
        let wanted = clusters[region as usize % clusters.len()];
        let mut all: Vec<u64> = (0..len.div_ceil(GRAIN)).collect();
        shuffle(&mut all, &mut random);
        for cluster in all.into_iter().take(wanted as usize) {
            let start = region * REGION + cluster * GRAIN;
            let end = (start + GRAIN).min(region * REGION + len);
            let pages = (end - start).div_ceil(PAGE).min(values.number("pages"));
            places.extend((0..pages).map(|page| start + page * PAGE));
        }
    }
    let cycle = values.is("order", "cycle");
    match cycle {
        // Successive pages lie in different regions.
        true => places = interleave_regions(&places),
        false => shuffle(&mut places, &mut random),
    }
    // Blocks lie at random offsets in their pages, so that they use all sets of a cache.
    let room = PAGE / 64 - 1;
    let pages = places.iter().map(|at| process.block_at(text + at + random.below(room) * 64, INSTRUCTIONS)).collect();
    let data = values.number("data");
    Ok(Box::new(Running {
        reuse: (!cycle).then(|| Zipf::new(places.len() as u64, values.number("reuse") as f64 / 100.0)),
        pages,
        dwell: values.number("dwell"),
        data: (data >= 8).then(|| (process.mmap(data).0, data / 8)),
        random,
        current: places.len() - 1,
        left: 0,
        visits: 0,
        total: values.number("visits"),
    }))
}

fn shuffle(all: &mut [u64], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// Returns the first place of each region, then the second of each, and so on.
fn interleave_regions(places: &[u64]) -> Vec<u64> {
    let regions: Vec<&[u64]> = places.chunk_by(|a, b| a / REGION == b / REGION).collect();
    let most = regions.iter().map(|places| places.len()).max().unwrap_or(0);
    (0..most).flat_map(|round| regions.iter().filter_map(move |places| places.get(round).copied())).collect()
}

impl Program for Running {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && (self.left > 0 || self.visits < self.total) {
            if self.left == 0 {
                self.current = match &self.reuse {
                    Some(zipf) => zipf.draw(&mut self.random) as usize,
                    None => (self.current + 1) % self.pages.len(),
                };
                (self.left, self.visits) = (self.dwell, self.visits + 1);
            }
            let code = self.pages[self.current];
            let n = match self.data {
                Some((start, words)) => {
                    let n = room(chunk, until, 2, self.left);
                    let random = &mut self.random;
                    bodies(chunk, code, n, || [load(start + random.below(words) * 8, 0)]);
                    n
                }
                None => {
                    let n = room(chunk, until, 1, self.left);
                    bodies(chunk, code, n, || []);
                    n
                }
            };
            self.left -= n;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.visits, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fetches;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn clusters_and_pages_per_region_are_as_requested() {
        let run = fetches("code:regions=3,clusters=5/32,pages=2,reuse=0,dwell=1,data=0,visits=20000,tail=100K");
        let first = run.iter().min().unwrap() / REGION;
        let in_region = |region: u64| run.iter().filter(move |at| *at / REGION == first + region);
        let count = |region: u64, unit: u64| in_region(region).map(|at| at / unit).collect::<BTreeSet<_>>().len();
        assert_eq!([0, 1, 2, 3].map(|region| count(region, GRAIN)), [5, 32, 5, 2]);
        assert_eq!([0, 1, 2, 3].map(|region| count(region, PAGE)), [10, 64, 10, 4]);
    }

    #[test]
    fn a_cycle_changes_the_region_at_every_visit() {
        let run = fetches("code:regions=9,clusters=1,pages=1,order=cycle,dwell=3,data=0,visits=18");
        let regions: Vec<u64> = run.iter().map(|at| at / REGION).collect();
        let visits: Vec<u64> = regions.chunks(3).map(|visit| visit[0] - regions[0]).collect();
        assert_eq!(visits, (0..9).chain(0..9).collect::<Vec<_>>());
        assert!(regions.chunks(3).all(|visit| visit.iter().all(|region| *region == visit[0])));
    }
}
