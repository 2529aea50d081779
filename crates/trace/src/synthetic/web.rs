//! `web`: a server that maps many small files and reads each from end to end, with popularity by Zipf's law (Navarro et
//! al. 2002 §6.2, Web).
//!
//! The defaults reproduce the paper's trace: 3.6 GB of files, of which 50000 requests read 238 MB. Popularity falls
//! with the rank to the power of `skew`.
//!
//! Sizes follow those of files on web servers (Crovella and Bestavros 1997). Most are uniform in the logarithm from
//! `least` to `most`. A share `large` extends to `largest` by Pareto's law with an exponent of 1.1. Sizes are
//! independent of ranks, except that no file of the first hundredth of ranks is large: a single one would dominate all
//! traffic.
//!
//! Files stay mapped as in thttpd (`mmc_cleanup`). Every two minutes it unmaps files without recent requests. The age
//! limit adapts to the number of mapped files.

use super::first_fit::FirstFit;
use super::parameter::{MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, GRAIN, Process, bodies, file_map, load, room};
use super::program::{Description, Program};
use super::zipf::Zipf;
use crate::Progress;
use reach_core::{Chunk, Event, FileId, Protection, Random, Span, VirtAddr};
use std::collections::{BTreeMap, HashMap};

/// File 0 has text and data.
const FIRST_FILE: u32 = 1;

/// Seconds between two clean-ups (thttpd's `OCCASIONAL_TIME`).
const CLEAN_UP_PERIOD: u64 = 120;
/// Age limit of mapped files in seconds: the initial value (thttpd's `DEFAULT_EXPIRE_AGE`), the least and the greatest.
const AGE: u64 = 600;
const MIN_AGE: u64 = AGE / 10;
const MAX_AGE: u64 = AGE * 3;

/// Bytes of addresses for mappings, at most: 16 TB.
const MAX_ADDRESSES: u64 = 16 << 40;

/// Exponent of Pareto's law for the sizes of large files.
const PARETO: f64 = 1.1;
/// One in this many ranks, the first ones, has no large file.
const SMALL_RANKS: u64 = 100;

pub(super) const ABOUT: Description = Description {
    name: "web",
    summary: "a server of many small files with popularity by Zipf's law (Navarro et al. 2002, Web)",
    parameters: &[
        Parameter { name: "files", kind: ValueKind::Count(1, 1 << 22), default: "119K", summary: "number of files" },
        Parameter {
            name: "least",
            kind: ValueKind::Bytes(8, 1 << 30),
            default: "256",
            summary: "size of the smallest file",
        },
        Parameter {
            name: "most",
            kind: ValueKind::Bytes(8, 1 << 30),
            default: "64K",
            summary: "upper limit of most sizes",
        },
        Parameter { name: "large", kind: ValueKind::Percent, default: "7%", summary: "share of larger files" },
        Parameter {
            name: "largest",
            kind: ValueKind::Bytes(8, 1 << 30),
            default: "16M",
            summary: "size of the largest file",
        },
        Parameter {
            name: "requests",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "50000",
            summary: "number of requests",
        },
        Parameter {
            name: "skew",
            kind: ValueKind::Count(0, 1000),
            default: "116",
            summary: "exponent of Zipf's law, in hundredths",
        },
        Parameter {
            name: "rate",
            kind: ValueKind::Count(1, 1 << 30),
            default: "333",
            summary: "requests per second, for the ages of files",
        },
        Parameter {
            name: "mapped",
            kind: ValueKind::Count(1, 1 << 22),
            default: "1000",
            summary: "mapped files above which the age limit shrinks",
        },
        Parameter { name: "step", kind: ValueKind::Bytes(8, 1 << 20), default: "64", summary: "distance of loads" },
        SEED,
    ],
    build,
};

/// A mapped file: its address, and the number of the last request for it.
#[derive(Clone, Copy)]
struct Mapping {
    at: u64,
    last_request: u64,
}

struct Web {
    code: Code,
    addresses: FirstFit,
    /// A file's rank is its number.
    popularity: Zipf,
    sizes: Sizes,
    seed: u64,
    random: Random,
    step: u64,
    rate: u64,
    /// Number of mapped files above which the age limit shrinks.
    mapped_limit: usize,
    /// The age limit in seconds.
    age: u64,
    /// The request at which the next clean-up is due.
    next_clean_up: u64,
    mapped: HashMap<u64, Mapping>,
    /// Mapped files by the number of the last request for them.
    order: BTreeMap<u64, u64>,
    /// Numbers of the files that have been announced.
    known: HashMap<u64, FileId>,
    /// The mapping of the file being served, and the loads left.
    span: Span,
    left: u64,
    served: u64,
    requests: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let sizes = Sizes {
        least: values.number("least"),
        most: values.number("most"),
        large: values.share("large"),
        largest: values.number("largest"),
    };
    sizes.check()?;
    let files = values.number("files");
    let skew = values.number("skew") as f64 / 100.0;
    let seed = values.number("seed");
    let top = if sizes.large > 0.0 { sizes.largest } else { sizes.most };
    // Addresses for all files at once, whatever their sizes, up to the limit.
    let len = (files * 2 * top.next_multiple_of(GRAIN)).min(MAX_ADDRESSES);
    let area = Span { start: process.reserve(len), len };
    // add sum, [p]; add p, step; cmp p, end; jb
    let code = process.block(4);
    Ok(Box::new(Web {
        code,
        addresses: FirstFit::new(area),
        popularity: Zipf::new(files, skew),
        sizes,
        seed,
        random: Random::new(seed),
        step: values.number("step"),
        rate: values.number("rate"),
        mapped_limit: values.number("mapped") as usize,
        age: AGE,
        next_clean_up: 0,
        mapped: HashMap::new(),
        order: BTreeMap::new(),
        known: HashMap::new(),
        span: Span { start: VirtAddr(0), len: 0 },
        left: 0,
        served: 0,
        requests: values.number("requests"),
    }))
}

/// The distribution of file sizes.
struct Sizes {
    least: u64,
    most: u64,
    large: f64,
    largest: u64,
}

impl Sizes {
    fn check(&self) -> Result<(), String> {
        let Sizes { least, most, large, largest } = *self;
        if least > most {
            return Err(format!("least={least} bytes exceeds most={most}; give a smaller least"));
        }
        if large > 0.0 && largest < most {
            return Err(format!("largest={largest} bytes is less than most={most}; give a greater largest"));
        }
        Ok(())
    }

    /// Draws a size in bytes, a multiple of 8. `small` excludes large files.
    fn draw(&self, random: &mut Random, small: bool) -> u64 {
        let (large, at) = (random.unit() < self.large, random.unit());
        let [least, most, largest] = [self.least, self.most, self.largest].map(|bytes| bytes as f64);
        let bytes = if large && !small {
            most * (1.0 - at * (1.0 - (most / largest).powf(PARETO))).powf(-1.0 / PARETO)
        } else {
            least * (most / least).powf(at)
        };
        (bytes.round() as u64 & !7).max(8)
    }
}

impl Web {
    /// Returns the size of file number `file` in bytes, a multiple of 8.
    fn bytes(&self, file: u64) -> u64 {
        let mut random = Random::new(self.seed ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let small = file < self.popularity.len() / SMALL_RANKS;
        self.sizes.draw(&mut random, small)
    }

    fn span(&self, file: u64, at: u64) -> Span {
        Span { start: VirtAddr(at), len: self.bytes(file) }
    }

    /// Starts the next request, and maps its file unless it is mapped.
    fn request(&mut self, chunk: &mut Chunk) {
        if self.served >= self.next_clean_up {
            self.next_clean_up += CLEAN_UP_PERIOD * self.rate;
            self.clean_up(chunk);
        }
        let file = self.popularity.draw(&mut self.random);
        let at = match self.mapped.get(&file) {
            Some(&Mapping { at, last_request }) => {
                self.order.remove(&last_request);
                at
            }
            None => self.map(file, chunk),
        };
        self.mapped.insert(file, Mapping { at, last_request: self.served });
        self.order.insert(self.served, file);
        self.span = self.span(file, at);
        self.left = self.span.len.div_ceil(self.step);
        self.served += 1;
    }

    /// Maps `file` in the first gap that fits, and returns its address.
    fn map(&mut self, file: u64, chunk: &mut Chunk) -> u64 {
        let at = loop {
            match self.addresses.allocate(self.bytes(file)) {
                Some(at) => break at,
                // No gap fits: the least recently requested file makes room.
                None => self.unmap_oldest(chunk),
            }
        };
        let span = self.span(file, at);
        let next = FileId(FIRST_FILE + self.known.len() as u32);
        let id = *self.known.entry(file).or_insert(next);
        if id == next {
            chunk.push_event(Event::File {
                file: id,
                path: format!("synthetic/web/{file}"),
                len: span.len,
                in_memory: false,
            });
        }
        chunk.push_event(Event::Map(file_map(span.start, span.len, id, Protection::READ)));
        at
    }

    /// Unmaps the least recently requested file.
    fn unmap_oldest(&mut self, chunk: &mut Chunk) {
        if let Some((_, file)) = self.order.pop_first()
            && let Some(Mapping { at, .. }) = self.mapped.remove(&file)
        {
            let span = self.span(file, at);
            chunk.push_event(Event::Unmap(span));
            self.addresses.release(at, span.len);
        }
    }

    /// Unmaps files older than the age limit. Then shortens the limit if too many files remain, and extends it if few
    /// do.
    fn clean_up(&mut self, chunk: &mut Chunk) {
        let old = |&request: &u64| self.served - request >= self.age * self.rate;
        for _ in 0..self.order.keys().take_while(|&request| old(request)).count() {
            self.unmap_oldest(chunk);
        }
        if self.mapped.len() > self.mapped_limit {
            self.age = (self.age * 2 / 3).max(MIN_AGE);
        } else if self.mapped.len() < self.mapped_limit / 2 {
            self.age = (self.age * 5 / 4).min(MAX_AGE);
        }
    }
}

impl Program for Web {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until {
            if self.left == 0 {
                if self.served == self.requests {
                    return;
                }
                self.request(chunk);
            }
            let n = room(chunk, until, 2, self.left);
            let Span { start, len } = self.span;
            let VirtAddr(mut at) = start + (len.div_ceil(self.step) - self.left) * self.step;
            bodies(chunk, self.code, n, || {
                at += self.step;
                [load(at - self.step, 0)]
            });
            self.left -= n;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.served, total: Some(self.requests) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator;
    use super::super::generator::CHUNK_REFS;
    use super::super::tests::events;
    use super::Sizes;
    use reach_core::{Event, Random};
    use std::collections::BTreeMap;

    fn files(spec: &str) -> Vec<u64> {
        let events = events(generator(spec, CHUNK_REFS).unwrap()).into_iter();
        events.filter_map(|(_, e)| if let Event::File { len, .. } = e { Some(len) } else { None }).skip(1).collect()
    }

    #[test]
    fn default_requests_read_the_working_set_of_the_paper() {
        let bytes: u64 = files("web:step=64K").iter().sum();
        let mb = bytes as f64 / (1 << 20) as f64;
        assert!((mb / 238.0 - 1.0).abs() < 0.1, "{mb} MB");
    }

    #[test]
    fn default_sizes_add_up_to_the_data_set_of_the_paper() {
        let sizes = Sizes { least: 256, most: 64 << 10, large: 0.07, largest: 16 << 20 };
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..119 << 10).map(|_| sizes.draw(&mut random, false)).collect();
        let gb = drawn.iter().sum::<u64>() as f64 / (1u64 << 30) as f64;
        assert!((gb / 3.6 - 1.0).abs() < 0.05, "{gb} GB");
        assert!(drawn.iter().all(|bytes| (256..=16 << 20).contains(bytes)));
        let large = drawn.iter().filter(|&&bytes| bytes > 64 << 10).count() as f64 / drawn.len() as f64;
        assert!((large - 0.07).abs() < 0.005, "{large}");
    }

    /// Returns the number of mapped files after each event that maps or unmaps one.
    fn mapped(spec: &str) -> Vec<usize> {
        let mut mapped = BTreeMap::new();
        let mut counts = Vec::new();
        for (_, event) in events(generator(spec, CHUNK_REFS).unwrap()) {
            match event {
                Event::Map(map) if map.shared => {
                    assert_eq!(mapped.insert(map.span.start.0, map.span.len), None);
                }
                Event::Unmap(span) => assert_eq!(mapped.remove(&span.start.0), Some(span.len)),
                _ => continue,
            }
            counts.push(mapped.len());
        }
        counts
    }

    #[test]
    fn files_without_requests_are_unmapped_after_the_age_limit() {
        // At one request per second, hardly ever for the same file, as many files are mapped as the age limit has
        // seconds. Up to 120 more accumulate between clean-ups. The limit ends at three times its first value, or at a
        // tenth.
        let last = |limit: u64| {
            let all = mapped(&format!("web:files=4M,requests=8000,skew=0,rate=1,step=64K,large=0%,mapped={limit}"));
            let late = &all[all.len() - 1000..];
            (*late.iter().min().unwrap(), *late.iter().max().unwrap())
        };
        let (least, most) = last(4 << 20);
        assert!((1780..=1800).contains(&least) && (1900..=1920).contains(&most), "{least} to {most}");
        let (least, most) = last(5);
        assert!((55..=60).contains(&least) && (175..=180).contains(&most), "{least} to {most}");
    }

    #[test]
    fn without_skew_every_file_is_requested() {
        assert_eq!(files("web:files=30,requests=1000,skew=0").len(), 30);
    }
}
