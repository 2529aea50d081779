//! `daemons`: processes that mostly wait, as on any booted machine. Each keeps a little memory for its whole life. They
//! wake up in rotation and touch part of it (Navarro et al. 2002 §6.5, memory that remains active and inactive).

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, file_map, load, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Asid, Chunk, Event, FileId, Map, Protection, ThreadId, VirtAddr};

/// File 0 has text and data of the first process.
const FIRST_FILE: u32 = 1;

pub(super) const ABOUT: Description = Description {
    name: "daemons",
    summary: "processes that mostly wait and wake up in rotation (Navarro et al. 2002, fragmentation)",
    parameters: &[
        Parameter { name: "processes", kind: ValueKind::Count(1, 1000), default: "24", summary: "number of processes" },
        Parameter {
            name: "private",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "512K",
            summary: "private memory of each process",
        },
        Parameter {
            name: "image",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "512K",
            summary: "size of the file that each process maps",
        },
        Parameter {
            name: "awake",
            kind: ValueKind::Percent,
            default: "25%",
            summary: "share of its memory that a process touches per wake-up",
        },
        Parameter {
            name: "page",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "8K",
            summary: "distance of references",
        },
        Parameter {
            name: "wakings",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1G",
            summary: "number of wake-ups in total",
        },
    ],
    build,
};

struct Daemons {
    code: Code,
    /// The initial mappings of the first process, which all others repeat.
    layout: Vec<Event>,
    processes: u64,
    /// Address and size of private memory and mapped file.
    private: (u64, u64),
    image: (u64, u64),
    page: u64,
    awake: f64,
    done: u64,
    wakings: u64,
    /// Number of processes that have started. A process touches all its memory when it starts.
    started: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (private, image) = (values.number("private"), values.number("image"));
    // mov x, [p]; add p, page; cmp p, end; jb
    let code = process.block(4);
    let mapped = |event: &&Event| matches!(event, Event::Map(_));
    Ok(Box::new(Daemons {
        code,
        layout: process.events.iter().filter(mapped).cloned().collect(),
        processes: values.number("processes"),
        private: (process.reserve(private).0, private),
        image: (process.reserve(image).0, image),
        page: values.number("page"),
        awake: values.share("awake"),
        done: 0,
        wakings: values.number("wakings"),
        started: 0,
    }))
}

impl Daemons {
    /// Appends one wake-up.
    fn wake(&mut self, chunk: &mut Chunk) {
        let number = self.done % self.processes;
        let at = Asid(number as u32);
        chunk.push_event(Event::Switch { asid: at, thread: ThreadId(number as u32) });
        let first = number == self.started;
        if first {
            self.started += 1;
            if number > 0 {
                self.layout.iter().for_each(|event| chunk.push_event(event.clone()));
            }
            let file = FileId(FIRST_FILE + number as u32);
            chunk.push_event(Event::File {
                file,
                path: format!("synthetic/daemon.{number}"),
                len: self.image.1,
                in_memory: false,
            });
            chunk.push_event(Event::Map(file_map(VirtAddr(self.image.0), self.image.1, file, Protection::READ)));
            chunk.push_event(Event::Map(Map::anonymous(VirtAddr(self.private.0), self.private.1)));
        }
        for private in [false, true] {
            let (start, bytes) = if private { self.private } else { self.image };
            let part = if first { 1.0 } else { self.awake };
            let n = (bytes.div_ceil(self.page) as f64 * part).ceil() as u64;
            let mut at = start;
            bodies(chunk, self.code, n, || {
                at += self.page;
                let addr = (at - self.page).min(start + bytes - 8);
                [if private { store(addr, 0) } else { load(addr, 0) }]
            });
        }
        self.done += 1;
    }
}

impl Program for Daemons {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && self.done < self.wakings {
            self.wake(chunk);
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.wakings) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator;
    use super::super::generator::CHUNK_REFS;
    use super::super::tests::{data, events};
    use reach_core::Event;

    const SPEC: &str = "daemons:processes=3,private=64K,image=32K,awake=25%,page=8K,wakings=7";

    #[test]
    fn each_process_touches_all_at_its_start_and_a_share_per_wake_up() {
        let events = events(generator(SPEC, CHUNK_REFS).unwrap());
        let switches = events.iter().filter_map(|(at, event)| match event {
            Event::Switch { asid, .. } => Some((*at, asid.0)),
            _ => None,
        });
        // All 12 pages at the start, then three. Each page takes two references, one of them a fetch.
        let expected = [(0, 0), (0, 0), (24, 1), (48, 2), (72, 0), (78, 1), (84, 2), (90, 0)];
        assert!(switches.eq(expected));
        let maps = events
            .iter()
            .filter(|(_, event)| matches!(event, Event::Map(map) if [32 << 10, 64 << 10].contains(&map.span.len)));
        assert_eq!(maps.count(), 6);
        assert_eq!(data(SPEC).len(), 3 * 12 + 4 * 3);
    }
}
