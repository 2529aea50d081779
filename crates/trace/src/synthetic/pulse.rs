//! `pulse`: maps memory, touches every page of it, and unmaps it: an intermittent demand for contiguous memory (Navarro
//! et al. 2002 §6.5, concurrent execution). A scenario sets how often.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Map, Span, VirtAddr};

pub(super) const ABOUT: Description = Description {
    name: "pulse",
    summary: "maps, touches and unmaps memory (Navarro et al. 2002, demand for contiguity)",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, MAX_BYTES), default: "1M", summary: "size of the memory" },
        Parameter { name: "page", kind: ValueKind::Bytes(8, MAX_BYTES), default: "8K", summary: "distance of stores" },
        Parameter {
            name: "times",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1",
            summary: "number of repetitions",
        },
    ],
    build,
};

struct Pulse {
    code: Code,
    span: Span,
    page: u64,
    per_pulse: u64,
    done: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, page) = (values.number("bytes"), values.number("page"));
    let per_pulse = bytes.div_ceil(page);
    let total = per_pulse
        .checked_mul(values.number("times"))
        .ok_or("the stores of all repetitions exceed 2^64; give fewer times")?;
    // mov [p], x; add p, page; cmp p, end; jb
    let code = process.block(4);
    // The memory ends with a whole page, so that its first word can be written.
    let len = per_pulse * page;
    let span = Span { start: process.reserve(len), len };
    Ok(Box::new(Pulse { code, span, page, per_pulse, done: 0, total }))
}

impl Program for Pulse {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && self.done < self.total {
            let within = self.done % self.per_pulse;
            if within == 0 {
                chunk.push_event(Event::Map(Map::anonymous(self.span.start, self.span.len)));
            }
            let n = room(chunk, until, 2, self.per_pulse - within);
            let VirtAddr(mut at) = self.span.start + within * self.page;
            bodies(chunk, self.code, n, || {
                at += self.page;
                [store(at - self.page, 0)]
            });
            self.done += n;
            if self.done.is_multiple_of(self.per_pulse) {
                chunk.push_event(Event::Unmap(self.span));
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator;
    use super::super::generator::CHUNK_REFS;
    use super::super::tests::events;
    use reach_core::Event;

    #[test]
    fn each_pulse_maps_touches_and_unmaps() {
        let source = generator("pulse:bytes=32K,page=8K,times=2", CHUNK_REFS).unwrap();
        let kinds = events(source).into_iter().filter_map(|(at, event)| match event {
            Event::Map(map) if map.span.len == 32 << 10 => Some((at, "map")),
            Event::Unmap(span) if span.len == 32 << 10 => Some((at, "unmap")),
            _ => None,
        });
        assert!(kinds.eq([(0, "map"), (8, "unmap"), (8, "map"), (16, "unmap")]));
    }
}
