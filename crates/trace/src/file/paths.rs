//! Folds the sequence of forms: a *path*, a run of forms that is executed again and again, is named by one number.
//!
//! A path ends before a jump backwards, so an iteration of a loop or a straight piece of a function is one; this is the
//! next-executing-tail rule by which dynamic optimisers choose traces (Duesterwald and Bala, ASPLOS 2000). Paths are
//! there for speed: they make the work of the decoder's loop, whose end the processor cannot predict, several times
//! longer.

use super::forms::{Form, Identity};
use super::layout::{MAX_FORM_DATA, MAX_FORMS, MAX_PATH_FORMS};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A run must come so often in a segment to be defined as a path.
const OFTEN: u32 = 4;

#[derive(Clone, Copy)]
struct Run {
    start: u32,
    len: u32,
    /// Its place in `Paths::found`.
    kind: u32,
}

struct Found {
    start: u32,
    len: u32,
    count: u32,
    number: Option<u16>,
}

/// The paths of a segment and the sequence of forms and paths.
#[derive(Default)]
pub(super) struct Paths {
    /// The definitions as bytes: how many forms, and their numbers.
    pub definitions: Vec<u8>,
    pub count: u32,
    /// Numbers of forms, and of paths after them, in the order of execution.
    pub sequence: Vec<u8>,
    runs: Vec<Run>,
    found: Vec<Found>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
}

impl Paths {
    /// Folds `sequence`, the numbers of `forms` in the order of execution.
    pub fn fold(&mut self, sequence: &[u16], forms: &[Form]) {
        self.definitions.clear();
        self.count = 0;
        self.sequence.clear();
        self.find(sequence, forms);
        for run in &self.runs {
            let ids = &sequence[run.start as usize..][..run.len as usize];
            let found = &mut self.found[run.kind as usize];
            let path = &sequence[found.start as usize..][..found.len as usize];
            if found.count >= OFTEN && ids.len() > 1 && ids == path {
                let next = forms.len() + self.count as usize;
                if found.number.is_none() && next < MAX_FORMS {
                    found.number = Some(next as u16);
                    self.count += 1;
                    self.definitions.push(ids.len() as u8);
                    self.definitions.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
                }
                if let Some(number) = found.number {
                    self.sequence.extend_from_slice(&number.to_le_bytes());
                    continue;
                }
            }
            self.sequence.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
    }

    /// Cuts the sequence into runs and counts how often each comes.
    fn find(&mut self, sequence: &[u16], forms: &[Form]) {
        self.runs.clear();
        self.found.clear();
        self.by_hash.clear();
        let mut at = 0;
        while at < sequence.len() {
            let start = at;
            let (mut hash, mut data, mut pc) = (0u64, 0, 0);
            while at < sequence.len() && at - start < MAX_PATH_FORMS {
                let form = &forms[sequence[at] as usize];
                if at > start && (form.pc <= pc || data + form.len > MAX_FORM_DATA) {
                    break;
                }
                hash = (hash.rotate_left(23) ^ sequence[at] as u64 ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                data += form.len;
                pc = form.pc;
                at += 1;
            }
            let (start, len) = (start as u32, (at - start) as u32);
            let kind = *self.by_hash.entry(hash ^ hash >> 32).or_insert_with(|| {
                self.found.push(Found { start, len, count: 0, number: None });
                self.found.len() as u32 - 1
            });
            self.found[kind as usize].count += 1;
            self.runs.push(Run { start, len, kind });
        }
    }
}
