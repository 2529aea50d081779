//! `phases`: alternates between working sets of different sizes, so that a policy must adapt.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Bytes, Chunk, Event, Random};

const LINE: u64 = 64;

pub(super) const ABOUT: Description = Description {
    name: "phases",
    summary: "alternates between working sets of given sizes, each announced as a phase",
    parameters: &[
        Parameter {
            name: "sizes",
            kind: ValueKind::BytesList(LINE, MAX_BYTES),
            default: "256K/64M",
            summary: "size of each working set",
        },
        Parameter {
            name: "dwell",
            kind: ValueKind::CountList(1, MAX_COUNT),
            default: "2M",
            summary: "loads per phase: one count for all sets, or one for each",
        },
        Parameter {
            name: "rounds",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "8",
            summary: "number of passes over all sets",
        },
        Parameter {
            name: "order",
            kind: ValueKind::Word(&["random", "sequential"]),
            default: "random",
            summary: "order in which a phase loads the 64-byte lines of its set",
        },
        SEED,
    ],
    build,
};

struct Set {
    base: u64,
    lines: u64,
    dwell: u64,
    /// The next line in sequential order, which persists between phases.
    next: u64,
}

struct Phases {
    code: Code,
    sets: Vec<Set>,
    sequential: bool,
    random: Random,
    /// The set of the current phase, and the loads left in it.
    current: usize,
    in_phase: u64,
    done: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (sizes, dwell) = (values.list("sizes"), values.list("dwell"));
    if sizes.len() > 64 {
        return Err(format!("{} working sets are too many; give at most 64", sizes.len()));
    }
    if dwell.len() != 1 && dwell.len() != sizes.len() {
        return Err(format!("{} sizes but {} dwells; give one dwell, or one for each size", sizes.len(), dwell.len()));
    }
    let code = process.block(4); // add sum, [base+i]; next i; dec n; jnz
    let mut sets = Vec::new();
    for (at, &bytes) in sizes.iter().enumerate() {
        let dwell = dwell[if dwell.len() == 1 { 0 } else { at }];
        sets.push(Set { base: process.mmap(bytes).0, lines: bytes / LINE, dwell, next: 0 });
    }
    let round: u64 = sets.iter().map(|set| set.dwell).sum();
    let total =
        round.checked_mul(values.number("rounds")).ok_or("the loads of all rounds exceed 2^64; give fewer rounds")?;
    Ok(Box::new(Phases {
        code,
        sequential: values.is("order", "sequential"),
        random: Random::new(values.number("seed")),
        current: sets.len() - 1,
        sets,
        in_phase: 0,
        done: 0,
        total,
    }))
}

impl Program for Phases {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && self.done < self.total {
            if self.in_phase == 0 {
                self.current = (self.current + 1) % self.sets.len();
                let Set { lines, dwell, .. } = self.sets[self.current];
                self.in_phase = dwell;
                chunk.push_event(Event::Phase(format!("set {} of {}", self.current + 1, Bytes(lines * LINE))));
            }
            let n = room(chunk, until, 2, self.in_phase);
            let set = &mut self.sets[self.current];
            let (base, lines) = (set.base, set.lines);
            if self.sequential {
                let mut next = set.next;
                bodies(chunk, self.code, n, || {
                    let line = next;
                    next = if next + 1 == lines { 0 } else { next + 1 };
                    [load(base + line * LINE, 0)]
                });
                set.next = next;
            } else {
                let mut random = self.random.clone();
                bodies(chunk, self.code, n, || [load(base + random.below(lines) * LINE, 0)]);
                self.random = random;
            }
            self.in_phase -= n;
            self.done += n;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{data, events};
    use super::super::{generator, parse};
    use reach_core::Event;

    #[test]
    fn phases_alternate_between_sets() {
        let refs = data("phases:sizes=128/256,dwell=3/5,rounds=2,order=sequential");
        let (one, two) = (refs[0].addr().0, refs[3].addr().0);
        let expected = [one, one + 64, one, two, two + 64, two + 128, two + 192, two].into_iter().chain([
            one + 64,
            one,
            one + 64,
            two + 64,
            two + 128,
            two + 192,
            two,
            two + 64,
        ]);
        assert!(refs.iter().map(|r| r.addr().0).eq(expected));
    }

    #[test]
    fn each_phase_is_announced_before_its_first_reference() {
        let source = generator("phases:sizes=1K/2K,dwell=3/5,rounds=2", 4).unwrap();
        let phases: Vec<(u64, String)> = events(source)
            .into_iter()
            .filter_map(|(at, event)| if let Event::Phase(name) = event { Some((at, name)) } else { None })
            .collect();
        let expected = [(0, "set 1 of 1K"), (6, "set 2 of 2K"), (16, "set 1 of 1K"), (22, "set 2 of 2K")];
        assert_eq!(phases, expected.map(|(at, name)| (at, name.to_owned())));
    }

    #[test]
    fn dwell_must_be_one_count_or_one_per_size() {
        let error = parse("phases:sizes=1K/2K,dwell=1/2/3").err().unwrap().to_string();
        assert!(error.contains("2 sizes but 3 dwells"), "{error}");
    }
}
