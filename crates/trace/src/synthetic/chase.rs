//! `chase`: follows a linked list through all lines (or pages) of an area in random order. Each load depends on the one
//! before.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::permutation::Cycle;
use super::process::{Code, Process, bodies, code, load, room};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::Chunk;

pub(super) const ABOUT: Description = Description {
    name: "chase",
    summary: "follows a linked list through an area in random order, to expose latency",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, MAX_BYTES), default: "256M", summary: "size of the area" },
        Parameter {
            name: "unit",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "64",
            summary: "distance of links: 64 for lines, 4K for pages",
        },
        Parameter {
            name: "steps",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "64M",
            summary: "number of links to follow",
        },
        SEED,
    ],
    build,
};

struct Chase {
    code: Code,
    base: u64,
    unit: u64,
    cycle: Cycle,
    left: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, unit, total) = (values.number("bytes"), values.number("unit"), values.number("steps"));
    if unit > bytes {
        return Err(format!("a unit of {unit} bytes is larger than the area of {bytes}; give a smaller unit"));
    }
    let body = [code::FOLLOW, code::COUNT, code::AGAIN];
    let (code, base) = (process.coded(body), process.mmap(bytes).0);
    let cycle = Cycle::new(bytes / unit, values.number("seed"));
    Ok(Box::new(Chase { code, base, unit, cycle, left: total, total }))
}

impl Program for Chase {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 2, self.left);
        let (base, unit, mut cycle) = (self.base, self.unit, self.cycle.clone());
        bodies(chunk, self.code, n, || [load(base + cycle.advance() * unit, 0)]);
        self.cycle = cycle;
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use std::collections::BTreeSet;

    #[test]
    fn every_link_is_visited_once_per_lap() {
        let loads = data("chase:bytes=1000K,unit=4K,steps=500,seed=9");
        let lap: BTreeSet<u64> = loads[..250].iter().map(|r| r.addr().0).collect();
        assert_eq!(lap.len(), 250);
        assert_eq!(lap.last().unwrap() - lap.first().unwrap(), 249 * 4096);
        assert_eq!(loads[..250], loads[250..]);
    }
}
