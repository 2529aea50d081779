//! `dirty`: reads every page of a mapped file, then writes one page in many. It measures the cost of writing back whole
//! superpages (Navarro et al. 2002 §6.7).

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Protection};

pub(super) const ABOUT: Description = Description {
    name: "dirty",
    summary: "reads every page of a mapped file, then writes one in many (Navarro et al. 2002, dirty superpages)",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, MAX_BYTES), default: "100M", summary: "size of the file" },
        Parameter { name: "page", kind: ValueKind::Bytes(8, MAX_BYTES), default: "8K", summary: "distance of loads" },
        Parameter {
            name: "every",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "512",
            summary: "distance of stores, in pages",
        },
    ],
    build,
};

struct Dirty {
    reading: Code,
    writing: Code,
    base: u64,
    page: u64,
    /// Number of pages to read.
    pages: u64,
    /// Pages whose number is a multiple of this are written.
    every: u64,
    done: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, page, every) = (values.number("bytes"), values.number("page"), values.number("every"));
    let pages = bytes.div_ceil(page);
    // add sum, [p]; add p, page; cmp p, end; jb
    let reading = process.block(4);
    // mov [p], x; add p, distance; cmp p, end; jb
    let writing = process.block(4);
    // The file ends with a whole page, so that its first word can be read.
    let base = process.map_file("synthetic/dirty.file".into(), pages * page, Protection::READ_WRITE).0;
    let total = pages + pages.div_ceil(every);
    Ok(Box::new(Dirty { reading, writing, base, page, pages, every, done: 0, total }))
}

impl Program for Dirty {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let Dirty { base, page, pages, every, .. } = *self;
        if self.done < pages {
            let n = room(chunk, until, 2, pages - self.done);
            let mut at = self.done;
            bodies(chunk, self.reading, n, || {
                at += 1;
                [load(base + (at - 1) * page, 0)]
            });
            self.done += n;
        }
        if self.done >= pages && chunk.refs.len() < until {
            if self.done == pages {
                chunk.push_event(Event::Phase("writes".into()));
            }
            let n = room(chunk, until, 2, self.total - self.done);
            let mut at = self.done - pages;
            bodies(chunk, self.writing, n, || {
                at += 1;
                [store(base + (at - 1) * every * page, 0)]
            });
            self.done += n;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::Kind;

    #[test]
    fn every_page_is_read_before_one_in_many_is_written() {
        let refs = data("dirty:bytes=80K,page=8K,every=4");
        let pages = |kind| {
            let first = refs[0].addr();
            refs.iter().filter(move |r| r.kind() == kind).map(move |r| (r.addr() - first) >> 13)
        };
        assert!(pages(Kind::Load).eq(0..10) && pages(Kind::Store).eq([0, 4, 8]));
        assert!(refs[..10].iter().all(|r| r.kind() == Kind::Load), "a store before the last load");
    }
}
