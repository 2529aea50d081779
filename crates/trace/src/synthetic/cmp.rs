//! `cmp`: compares two mapped files word by word (Navarro et al. 2002 §6.6, sequential access).

use super::parameter::{MAX_BYTES, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Protection};

pub(super) const ABOUT: Description = Description {
    name: "cmp",
    summary: "compares two mapped files word by word (Navarro et al. 2002, sequential access)",
    parameters: &[Parameter {
        name: "bytes",
        kind: ValueKind::Bytes(8, MAX_BYTES),
        default: "100M",
        summary: "size of each file",
    }],
    build,
};

struct Cmp {
    code: Code,
    files: [u64; 2],
    words: u64,
    done: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let bytes = values.number("bytes");
    // mov x, [a+i]; cmp x, [b+i]; jne; add i, 8; cmp i, n; jb
    let code = process.block(6);
    let mut file = |name: &str| process.map_file(format!("synthetic/cmp.{name}"), bytes, Protection::READ).0;
    Ok(Box::new(Cmp { code, files: [file("a"), file("b")], words: bytes / 8, done: 0 }))
}

impl Program for Cmp {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 3, self.words - self.done);
        let ([a, b], mut offset) = (self.files, self.done * 8);
        bodies(chunk, self.code, n, || {
            offset += 8;
            [load(a + offset - 8, 0), load(b + offset - 8, 1)]
        });
        self.done += n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator;
    use super::super::generator::CHUNK_REFS;
    use super::super::tests::{data, events};
    use reach_core::{Backing, Event};

    #[test]
    fn both_files_are_read_in_step() {
        let refs = data("cmp:bytes=24");
        let offsets: Vec<_> =
            refs.chunks(2).map(|r| [r[0].addr() - refs[0].addr(), r[1].addr() - refs[1].addr()]).collect();
        assert_eq!(offsets, [[0; 2], [8; 2], [16; 2]]);
        let mapped = events(generator("cmp", CHUNK_REFS).unwrap()).into_iter().filter_map(|(_, event)| match event {
            Event::Map(map) if map.shared => Some((map.span.len, map.backing, map.protection.write)),
            _ => None,
        });
        let file = |n| (100 << 20, Backing::File { file: reach_core::FileId(n), offset: 0 }, false);
        assert!(mapped.eq([file(1), file(2)]));
    }
}
