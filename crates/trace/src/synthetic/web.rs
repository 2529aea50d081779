//! `web`: a server of many small files that it maps and reads from end to end, the popular ones more often, by Zipf's law
//! (Navarro et al. 2002 §6.2, Web).
//!
//! With its defaults it stands for the paper's trace: 3.6 GB of files, of which 50000 requests ask for 238 MB. Popularity
//! falls with the rank to the power of `skew`. Sizes are those of files on web servers (Crovella and Bestavros 1997): most are
//! spread evenly over the powers of two from `least` to `most`, and a `large` share goes on to `largest`, by Pareto's law with an exponent
//! of 1.1. They have nothing to do with ranks, but for the first hundredth of these, where no file is large: one of them
//! would be all that is served. Files stay mapped as in thttpd (`mmc_cleanup`): those that were not asked for lately are
//! unmapped every two minutes, and what is lately depends on how many there are.

use super::first_fit::FirstFit;
use super::parameter::{MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, GRAIN, Process, bodies, file_map, load, room};
use super::program::{Description, Program};
use super::zipf::Zipf;
use crate::Progress;
use reach_core::{Chunk, Event, FileId, Protection, Random, Span, VirtAddr};
use std::collections::{BTreeMap, HashMap};

/// Text and data are file 0.
const FIRST_FILE: u32 = 1;

/// Seconds between two looks at what is mapped, and after how many a file may go: to begin with, at least, and at most
/// (thttpd's `OCCASIONAL_TIME` and `DEFAULT_EXPIRE_AGE`).
const LOOK: u64 = 120;
const AGE: u64 = 600;
const LEAST_AGE: u64 = AGE / 10;
const MOST_AGE: u64 = AGE * 3;

/// Addresses that it uses at most: 16 TB.
const MOST_ADDRESSES: u64 = 16 << 40;

/// How sizes of large files fall off.
const PARETO: f64 = 1.1;
/// The share of ranks, from the first on, at which no file is large.
const SMALL_RANKS: u64 = 100;

pub(super) const ABOUT: Description = Description {
    name: "web",
    summary: "a server of many small files, popular by Zipf's law (Navarro et al. 2002, Web)",
    parameters: &[
        Parameter {
            name: "files",
            kind: ValueKind::Count(1, 1 << 22),
            default: "119K",
            summary: "how many files there are",
        },
        Parameter {
            name: "least",
            kind: ValueKind::Bytes(8, 1 << 30),
            default: "256",
            summary: "size of the smallest",
        },
        Parameter { name: "most", kind: ValueKind::Bytes(8, 1 << 30), default: "64K", summary: "up to what most are" },
        Parameter { name: "large", kind: ValueKind::Percent, default: "7%", summary: "how many are larger" },
        Parameter {
            name: "largest",
            kind: ValueKind::Bytes(8, 1 << 30),
            default: "16M",
            summary: "size of the largest",
        },
        Parameter {
            name: "requests",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "50000",
            summary: "how many requests",
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
            summary: "requests a second, for what is done by the clock",
        },
        Parameter {
            name: "mapped",
            kind: ValueKind::Count(1, 1 << 22),
            default: "1000",
            summary: "how many files it would rather not keep mapped",
        },
        Parameter { name: "step", kind: ValueKind::Bytes(8, 1 << 20), default: "64", summary: "distance of loads" },
        SEED,
    ],
    build,
};

/// Where a file is mapped, and which request asked for it last.
#[derive(Clone, Copy)]
struct Mapping {
    at: u64,
    asked: u64,
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
    /// More files than this are too many.
    many: usize,
    /// After how many seconds files go, and at which request this is looked after again.
    age: u64,
    look: u64,
    mapped: HashMap<u64, Mapping>,
    /// Mapped files by the request that asked for them last.
    order: BTreeMap<u64, u64>,
    /// Files that have their numbers.
    known: HashMap<u64, FileId>,
    /// Where the file lies that is being served, and the loads that remain.
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
    // Room for all files at once, whatever their sizes, as far as there are addresses.
    let len = (files * 2 * top.next_multiple_of(GRAIN)).min(MOST_ADDRESSES);
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
        many: values.number("mapped") as usize,
        age: AGE,
        look: 0,
        mapped: HashMap::new(),
        order: BTreeMap::new(),
        known: HashMap::new(),
        span: Span { start: VirtAddr(0), len: 0 },
        left: 0,
        served: 0,
        requests: values.number("requests"),
    }))
}

/// How large files are.
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
            return Err(format!("the smallest file, of {least} bytes, is larger than most are, up to {most}"));
        }
        if large > 0.0 && largest < most {
            return Err(format!("the largest file, of {largest} bytes, is smaller than others, of up to {most}"));
        }
        Ok(())
    }

    /// A size, in whole words.
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
    /// The size of file number `file`, in whole words.
    fn bytes(&self, file: u64) -> u64 {
        let mut random = Random::new(self.seed ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let small = file < self.popularity.len() / SMALL_RANKS;
        self.sizes.draw(&mut random, small)
    }

    fn span(&self, file: u64, at: u64) -> Span {
        Span { start: VirtAddr(at), len: self.bytes(file) }
    }

    /// The next request: its file is mapped, if it is not, where there is room first.
    fn request(&mut self, chunk: &mut Chunk) {
        if self.served >= self.look {
            self.look += LOOK * self.rate;
            self.clean_up(chunk);
        }
        let file = self.popularity.draw(&mut self.random);
        let at = match self.mapped.get(&file) {
            Some(&Mapping { at, asked }) => {
                self.order.remove(&asked);
                at
            }
            None => self.map(file, chunk),
        };
        self.mapped.insert(file, Mapping { at, asked: self.served });
        self.order.insert(self.served, file);
        self.span = self.span(file, at);
        self.left = self.span.len.div_ceil(self.step);
        self.served += 1;
    }

    /// Maps `file`. Returns its address.
    fn map(&mut self, file: u64, chunk: &mut Chunk) -> u64 {
        let at = loop {
            match self.addresses.allocate(self.bytes(file)) {
                Some(at) => break at,
                // No room: whatever was asked for the longest time ago goes.
                None => self.unmap_first(chunk),
            }
        };
        let span = self.span(file, at);
        let next = FileId(FIRST_FILE + self.known.len() as u32);
        let id = *self.known.entry(file).or_insert(next);
        if id == next {
            chunk.push_event(Event::File { file: id, path: format!("synthetic/web/{file}"), len: span.len });
        }
        chunk.push_event(Event::Map(file_map(span.start, span.len, id, Protection::READ)));
        at
    }

    /// Unmaps the file that was asked for the longest time ago.
    fn unmap_first(&mut self, chunk: &mut Chunk) {
        if let Some((_, file)) = self.order.pop_first()
            && let Some(Mapping { at, .. }) = self.mapped.remove(&file)
        {
            let span = self.span(file, at);
            chunk.push_event(Event::Unmap(span));
            self.addresses.release(at, span.len);
        }
    }

    /// Unmaps what was not asked for lately. Where too many files remain, those of the future have less time, where few do,
    /// more.
    fn clean_up(&mut self, chunk: &mut Chunk) {
        let old = |&asked: &u64| self.served - asked >= self.age * self.rate;
        for _ in 0..self.order.keys().take_while(|&asked| old(asked)).count() {
            self.unmap_first(chunk);
        }
        if self.mapped.len() > self.many {
            self.age = (self.age * 2 / 3).max(LEAST_AGE);
        } else if self.mapped.len() < self.many / 2 {
            self.age = (self.age * 5 / 4).min(MOST_AGE);
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
    fn the_working_set_is_that_of_the_paper() {
        let bytes: u64 = files("web:step=64K").iter().sum();
        let mb = bytes as f64 / (1 << 20) as f64;
        assert!((mb / 238.0 - 1.0).abs() < 0.1, "{mb} MB");
    }

    #[test]
    fn the_data_set_is_that_of_the_paper() {
        let sizes = Sizes { least: 256, most: 64 << 10, large: 0.07, largest: 16 << 20 };
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..119 << 10).map(|_| sizes.draw(&mut random, false)).collect();
        let gb = drawn.iter().sum::<u64>() as f64 / (1u64 << 30) as f64;
        assert!((gb / 3.6 - 1.0).abs() < 0.05, "{gb} GB");
        assert!(drawn.iter().all(|bytes| (256..=16 << 20).contains(bytes)));
        let large = drawn.iter().filter(|&&bytes| bytes > 64 << 10).count() as f64 / drawn.len() as f64;
        assert!((large - 0.07).abs() < 0.005, "{large}");
    }

    /// How many files are mapped after each event that maps or unmaps one.
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
    fn files_that_nobody_asks_for_go() {
        // One request a second, hardly ever for the same file: as many are mapped as there are seconds in an age, and, while nobody
        // looks, those of two minutes more. Ages end at thrice the first or at a tenth of it.
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
    fn without_skew_all_are_asked_for_alike() {
        assert_eq!(files("web:files=30,requests=1000,skew=0").len(), 30);
    }
}
