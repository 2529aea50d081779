//! `web`: a server of many small files that it maps and reads from end to end, the popular ones more often, by Zipf's law
//! (Navarro et al. 2002 §6.2, Web).
//!
//! With its defaults it stands for the paper's trace: 3.6 GB of files, of which 50000 requests ask for 238 MB. Popularity
//! falls with the rank to the power of `skew`; sizes are spread evenly over the powers of two from `least` to `most` and
//! have nothing to do with ranks. As thttpd does, the server keeps the files that it served last mapped.

use super::parameter::{Kind, MAX_COUNT, Parameter, SEED, Values};
use super::process::{Code, Process, bodies, file_map, load, room};
use super::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, FileId, Protection, Random, Span, VirtAddr};
use std::collections::{BTreeMap, HashMap};

/// Files lie this far apart, or a multiple of it.
const GRAIN: u64 = 64 << 10;
/// Text and data are file 0.
const FIRST_FILE: u32 = 1;

pub(super) const ABOUT: Description = Description {
    name: "web",
    purpose: "a server of many small files, popular by Zipf's law (Navarro et al. 2002, Web)",
    parameters: &[
        Parameter {
            name: "files",
            kind: Kind::Count(1, 1 << 22),
            default: "320K",
            meaning: "how many files there are",
        },
        Parameter { name: "least", kind: Kind::Bytes(8, 1 << 30), default: "256", meaning: "size of the smallest" },
        Parameter { name: "most", kind: Kind::Bytes(8, 1 << 30), default: "64K", meaning: "size of the largest" },
        Parameter { name: "requests", kind: Kind::Count(1, MAX_COUNT), default: "50000", meaning: "how many requests" },
        Parameter { name: "skew", kind: Kind::Percent, default: "95%", meaning: "exponent of Zipf's law" },
        Parameter { name: "open", kind: Kind::Count(1, 1 << 22), default: "1K", meaning: "files that stay mapped" },
        Parameter { name: "step", kind: Kind::Bytes(8, 1 << 20), default: "64", meaning: "distance of loads" },
        SEED,
    ],
    build,
};

struct Web {
    code: Code,
    area: u64,
    slot: u64,
    /// Sums of popularity up to each rank, which is the file's number.
    popularity: Vec<f64>,
    sizes: (f64, f64),
    seed: u64,
    random: Random,
    step: u64,
    open: usize,
    /// Every mapped file with when it was served last, and the reverse.
    mapped: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    /// Files that have their numbers.
    known: HashMap<u64, FileId>,
    /// The file being served, and the loads that remain.
    file: u64,
    left: u64,
    served: u64,
    requests: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (least, most) = (values.number("least"), values.number("most"));
    if least > most {
        return Err(format!("the smallest file, of {least} bytes, is larger than the largest, of {most}"));
    }
    let files = values.number("files");
    let skew = values.share("skew");
    let mut sum = 0.0;
    let popularity = (1..=files).map(|rank| {
        sum += (rank as f64).powf(-skew);
        sum
    });
    let popularity = popularity.collect();
    let seed = values.number("seed");
    let slot = most.next_multiple_of(GRAIN);
    // add sum, [p]; add p, step; cmp p, end; jb
    let code = process.block(4);
    Ok(Box::new(Web {
        code,
        area: process.reserve(files * slot).0,
        slot,
        popularity,
        sizes: ((least as f64).log2(), (most as f64).log2()),
        seed,
        random: Random::new(seed),
        step: values.number("step"),
        open: values.number("open") as usize,
        mapped: HashMap::new(),
        order: BTreeMap::new(),
        known: HashMap::new(),
        file: 0,
        left: 0,
        served: 0,
        requests: values.number("requests"),
    }))
}

impl Web {
    /// The size of file number `file`, in whole words.
    fn bytes(&self, file: u64) -> u64 {
        let mut random = Random::new(self.seed ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (low, high) = self.sizes;
        (low + random.unit() * (high - low)).exp2().round() as u64 & !7
    }

    fn span(&self, file: u64) -> Span {
        Span { start: VirtAddr(self.area + file * self.slot), len: self.bytes(file) }
    }

    /// The next request: its file is mapped, if it is not, and another unmapped if there are too many.
    fn request(&mut self, chunk: &mut Chunk) {
        let all = self.popularity.last().copied().unwrap_or(0.0);
        let point = self.random.unit() * all;
        self.file = self.popularity.partition_point(|&sum| sum <= point).min(self.popularity.len() - 1) as u64;
        let file = self.file;
        let span = self.span(file);
        if let Some(before) = self.mapped.insert(file, self.served) {
            self.order.remove(&before);
        } else {
            let next = FileId(FIRST_FILE + self.known.len() as u32);
            let id = *self.known.entry(file).or_insert(next);
            if id == next {
                chunk.push_event(Event::File { file: id, path: format!("synthetic/web/{file}"), len: span.len });
            }
            if self.mapped.len() > self.open
                && let Some((_, oldest)) = self.order.pop_first()
            {
                self.mapped.remove(&oldest);
                chunk.push_event(Event::Unmap(self.span(oldest)));
            }
            chunk.push_event(Event::Map(file_map(span.start, span.len, id, Protection::READ)));
        }
        self.order.insert(self.served, file);
        self.left = span.len.div_ceil(self.step);
        self.served += 1;
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
            let span = self.span(self.file);
            let VirtAddr(mut at) = span.start + (span.len.div_ceil(self.step) - self.left) * self.step;
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
    use super::super::tests::events;
    use super::super::{CHUNK_REFS, generator};
    use reach_core::Event;
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
        // All files together: equal shares of every power of two have the mean (most - least) / ln(most / least).
        let gb = 320.0 * 1024.0 * (65536.0 - 256.0) / (65536.0f64 / 256.0).ln() / (1u64 << 30) as f64;
        assert!((gb / 3.6 - 1.0).abs() < 0.05, "{gb} GB");
    }

    #[test]
    fn few_files_stay_mapped() {
        let mut mapped = BTreeMap::new();
        for (_, event) in events(generator("web:files=100,requests=500,open=5", CHUNK_REFS).unwrap()) {
            match event {
                Event::Map(map) if map.shared => {
                    assert_eq!(mapped.insert(map.span.start.0, map.span.len), None);
                    assert!(mapped.len() <= 6);
                }
                Event::Unmap(span) => assert_eq!(mapped.remove(&span.start.0), Some(span.len)),
                _ => {}
            }
        }
        assert!(mapped.len() >= 5);
    }

    #[test]
    fn without_skew_all_are_asked_for_alike() {
        assert_eq!(files("web:files=30,requests=1000,skew=0%").len(), 30);
    }
}
