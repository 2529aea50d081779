//! `gups`: HPCC RandomAccess. It reads, changes and writes back random words of a table, the worst case of a TLB.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, Process, bodies, code, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Random};

pub(super) const ABOUT: Description = Description {
    name: "gups",
    summary: "updates random words of a table, as HPCC RandomAccess does: the worst case of a TLB",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, MAX_BYTES), default: "1G", summary: "size of the table" },
        Parameter {
            name: "updates",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "32M",
            summary: "number of updates",
        },
        Parameter {
            name: "init",
            kind: ValueKind::Word(&["no", "pages", "yes"]),
            default: "no",
            summary: "write the table first: every word, as HPCC does (yes), or one word of every 4 KB (pages)",
        },
        SEED,
    ],
    build,
};

struct Gups {
    init: Code,
    update: Code,
    base: u64,
    words: u64,
    random: Random,
    /// Distance of first writes, in words.
    stride: u64,
    /// First writes left before the updates.
    first_writes: u64,
    left: u64,
    total: u64,
    /// Whether no phase `updates` remains to be announced. It follows the phase `init` only.
    started: bool,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let words = values.number("bytes") / 8;
    let left = values.number("updates");
    let init_first = !values.is("init", "no");
    let stride = if values.is("init", "pages") { 512 } else { 1 };
    let first_writes = if init_first { words.div_ceil(stride) } else { 0 };
    // mov [t+i], i; inc i; cmp i, n; jb
    let init = process.block(4);
    // One step of the random generator (shift, sign, xor) and the index (and), then: mov x, [t+i]; xor x, r; mov [t+i],
    // x; dec n; jnz
    let next = [code::COPY, code::SHIFT, code::MASK, code::MIX, code::COPY, code::MASK];
    let [a, b, c, d, e, f] = next;
    let change = [code::LOAD, code::CHANGE, code::STORE, code::COUNT, code::AGAIN];
    let [g, h, i, j, k] = change;
    let update = process.coded([a, b, c, d, e, f, g, h, i, j, k]);
    let base = process.mmap(words * 8).0;
    if init_first {
        process.events.push(Event::Phase("init".into()));
    }
    let random = Random::new(values.number("seed"));
    Ok(Box::new(Gups {
        init,
        update,
        base,
        words,
        random,
        stride,
        first_writes,
        left,
        total: left + first_writes,
        started: !init_first,
    }))
}

impl Program for Gups {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if self.first_writes > 0 {
            let n = room(chunk, until, 2, self.first_writes);
            let step = self.stride * 8;
            let mut at = self.base + (self.words.div_ceil(self.stride) - self.first_writes) * step;
            bodies(chunk, self.init, n, || {
                at += step;
                [store(at - step, 0)]
            });
            self.first_writes -= n;
            if self.first_writes > 0 {
                return;
            }
        }
        if !self.started && chunk.refs.len() < until {
            self.started = true;
            chunk.push_event(Event::Phase("updates".into()));
        }
        let n = room(chunk, until, 3, self.left);
        let (base, words, mut random) = (self.base, self.words, self.random.clone());
        bodies(chunk, self.update, n, || {
            let addr = base + random.below(words) * 8;
            [load(addr, 6), store(addr, 8)]
        });
        self.random = random;
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left - self.first_writes, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::Kind;

    #[test]
    fn each_update_loads_and_stores_the_same_word() {
        let refs = data("gups:bytes=1M,updates=1000,seed=3");
        assert_eq!(refs.len(), 2000);
        let base = refs.iter().map(|r| r.addr().0).min().unwrap() >> 20 << 20;
        for pair in refs.chunks(2) {
            assert_eq!((pair[0].kind(), pair[1].kind()), (Kind::Load, Kind::Store));
            assert_eq!(pair[0].addr(), pair[1].addr());
            assert!(pair[0].addr().0 % 8 == 0 && pair[0].addr().0 - base < 1 << 20);
        }
    }

    #[test]
    fn initialisation_writes_every_word_once() {
        let refs = data("gups:bytes=80,updates=1,init=yes");
        assert_eq!(refs.len(), 12);
        assert!((0..10).all(|i| refs[i].kind() == Kind::Store && refs[i].addr() - refs[0].addr() == 8 * i as u64));
    }

    #[test]
    fn initialisation_by_pages_touches_the_same_pages_as_by_words() {
        let pages = |init| {
            let refs = data(&format!("gups:bytes=100K,updates=1,init={init}"));
            let stores = refs[..refs.len() - 2].iter().map(|r| r.addr().0 >> 12);
            let mut pages: Vec<u64> = stores.collect();
            pages.dedup();
            pages
        };
        assert_eq!(pages("pages").len(), 25);
        assert_eq!(pages("pages"), pages("yes"));
    }
}
