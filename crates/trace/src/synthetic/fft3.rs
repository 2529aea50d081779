//! `fft3`: a three-dimensional Fourier transform of complex numbers, one dimension after the other, like FFTW without a
//! measured plan. It gathers each line into a buffer, transforms it, and scatters it back.
//!
//! Lines of the first dimension are contiguous. Elements of a line of the last are 16 n² bytes apart: 640 KB for n =
//! 200. References to the buffer would stay in a first-level cache and are left out. The buffer's arithmetic, 5 n log2
//! n operations per line, counts as instructions.

use super::parameter::{Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, room};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Kind as Access, Ref, VirtAddr};

const ELEMENT: u64 = 16;

pub(super) const ABOUT: Description = Description {
    name: "fft3",
    summary: "three-dimensional Fourier transform of n^3 complex numbers (Navarro et al. 2002, FFTW)",
    parameters: &[Parameter {
        name: "n",
        kind: ValueKind::Count(2, 4096),
        default: "200",
        summary: "numbers per dimension; the two arrays have 16 n^3 bytes each",
    }],
    build,
};

struct Fft3 {
    init: Code,
    gather: Code,
    scatter: Code,
    /// Input and output.
    arrays: [u64; 2],
    n: u64,
    /// Pass 0 writes the input; passes 1 to 3 transform the dimensions, the contiguous one first.
    pass: u64,
    /// Lines finished in this pass, and references finished in the line: n loads, then n stores.
    line: u64,
    within: u64,
    done: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let n = values.number("n");
    // Half of the arithmetic for one element of a line; gather and scatter count one half each.
    let arithmetic = (5.0 * (n as f64).log2() / 2.0).round() as u16;
    // mov [p], x; add p, 16; cmp p, end; jb
    let init = process.block(4);
    // movapd x, [p]; movapd [buffer], x; add p, stride; dec i; jnz
    let gather = process.block(5 + arithmetic);
    let scatter = process.block(5 + arithmetic);
    let bytes = ELEMENT * n * n * n;
    let arrays = [process.mmap(bytes).0, process.mmap(bytes).0];
    Ok(Box::new(Fft3 { init, gather, scatter, arrays, n, pass: 0, line: 0, within: 0, done: 0, total: 7 * n * n * n }))
}

impl Fft3 {
    /// Returns start and stride of the current line, in elements.
    fn geometry(&self) -> (u64, u64) {
        let n = self.n;
        match self.pass {
            0 | 1 => (self.line * n, 1),
            2 => (self.line / n * n * n + self.line % n, n),
            _ => (self.line, n * n),
        }
    }
}

impl Program for Fft3 {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = self.n;
        while chunk.refs.len() < until && self.done < self.total {
            if self.line == 0 && self.within == 0 {
                let phase = ["init", "first dimension", "second dimension", "third dimension"][self.pass as usize];
                chunk.push_event(Event::Phase(phase.into()));
            }
            let (start, stride) = self.geometry();
            let stores = self.pass == 0 || self.within >= n;
            let array = self.arrays[usize::from(self.pass > 1 || self.pass == 1 && stores)];
            let (code, access) = match (self.pass, stores) {
                (0, _) => (self.init, Access::Store),
                (_, true) => (self.scatter, Access::Store),
                _ => (self.gather, Access::Load),
            };
            let first = self.within % n;
            let count = room(chunk, until, 2, n - first);
            let mut at = array + ELEMENT * (start + first * stride);
            bodies(chunk, code, count, || {
                let addr = VirtAddr(at);
                at += ELEMENT * stride;
                [Ref::data(access, addr, 4, 0)]
            });
            self.within += count;
            self.done += count;
            if self.within == if self.pass == 0 { n } else { 2 * n } {
                self.within = 0;
                self.line += 1;
                if self.line == n * n {
                    (self.line, self.pass) = (0, self.pass + 1);
                }
            }
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
    fn every_pass_reads_and_writes_every_element_once_in_its_own_order() {
        let refs = data("fft3:n=3");
        assert_eq!(refs.len(), 7 * 27);
        let (init, passes) = refs.split_at(27);
        let low = refs.iter().map(|r| r.addr()).min().unwrap();
        let input = init[0].addr();
        assert!(init.iter().enumerate().all(|(i, r)| r.addr() - input == 16 * i as u64 && r.kind() == Kind::Store));
        let out = passes[3].addr();
        assert!(out == low && out < input);
        for (pass, (stride, of)) in [(1, input), (3, out), (9, out)].into_iter().enumerate() {
            let refs = &passes[54 * pass..][..54];
            for line in refs.chunks(6) {
                let (loads, stores) = line.split_at(3);
                assert!(loads.iter().all(|r| r.kind() == Kind::Load) && stores.iter().all(|r| r.kind() == Kind::Store));
                for i in 0..3 {
                    assert_eq!(loads[i].addr() - of, stores[i].addr() - out);
                    assert_eq!(loads[i].addr() - loads[0].addr(), 16 * stride * i as u64);
                }
            }
            let mut all: Vec<u64> = refs.iter().filter(|r| r.kind() == Kind::Load).map(|r| r.addr() - of).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq((0..27).map(|i| 16 * i)), "pass {pass}");
        }
    }
}
