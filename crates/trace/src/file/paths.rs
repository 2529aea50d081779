//! Shortens the sequence of forms: a *path*, a run of forms that is executed many times, gets one number.
//!
//! A path ends before a jump backwards, so it is an iteration of a loop or a straight piece of a function. This is the
//! next-executing-tail rule by which dynamic optimisers choose traces (Duesterwald and Bala, ASPLOS 2000). Paths make
//! decoding faster: the processor cannot predict the end of the decoder's inner loop, and paths make each run of that
//! loop several times longer.

use super::forms::{Form, Identity};
use super::layout::{MAX_FORM_DATA, MAX_FORMS, MAX_PATH_FORMS};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// The executions in a segment that make a run a path.
const MIN_EXECUTIONS: u32 = 4;

/// An execution of a run of forms: a piece of the sequence.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    len: u32,
    /// The place of the distinct run in `Paths::distinct`.
    distinct: u32,
}

/// A distinct run of forms, where it was executed first, and how often it was executed.
struct DistinctRun {
    start: u32,
    len: u32,
    count: u32,
    /// Its number as a path, once it has one.
    number: Option<u16>,
}

/// Finds the paths of a segment and the sequence of forms and paths.
#[derive(Default)]
pub(super) struct Paths {
    /// The definitions as bytes: for each path the number of its forms, and their numbers.
    pub definitions: Vec<u8>,
    pub count: u32,
    /// The forms in all definitions, and their data references.
    pub expanded_forms: u64,
    pub expanded_data: u64,
    /// The numbers of forms and paths, in the order of execution. Path numbers follow those of forms.
    pub sequence: Vec<u8>,
    runs: Vec<Run>,
    distinct: Vec<DistinctRun>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
}

impl Paths {
    /// Finds the paths in `sequence`, the numbers of `forms` in the order of execution.
    pub fn collect(&mut self, sequence: &[u16], forms: &[Form]) {
        self.definitions.clear();
        (self.count, self.expanded_forms, self.expanded_data) = (0, 0, 0);
        self.sequence.clear();
        self.find_runs(sequence, forms);
        for run in &self.runs {
            let ids = &sequence[run.start as usize..][..run.len as usize];
            let found = &mut self.distinct[run.distinct as usize];
            let path = &sequence[found.start as usize..][..found.len as usize];
            if found.count >= MIN_EXECUTIONS && ids.len() > 1 && ids == path {
                let next = forms.len() + self.count as usize;
                if found.number.is_none() && next < MAX_FORMS {
                    found.number = Some(next as u16);
                    self.count += 1;
                    self.expanded_forms += ids.len() as u64;
                    self.expanded_data += ids.iter().map(|&id| forms[id as usize].len as u64).sum::<u64>();
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

    /// Cuts the sequence into runs and counts the executions of each distinct one.
    fn find_runs(&mut self, sequence: &[u16], forms: &[Form]) {
        self.runs.clear();
        self.distinct.clear();
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
            let distinct = *self.by_hash.entry(hash ^ hash >> 32).or_insert_with(|| {
                self.distinct.push(DistinctRun { start, len, count: 0, number: None });
                self.distinct.len() as u32 - 1
            });
            self.distinct[distinct as usize].count += 1;
            self.runs.push(Run { start, len, distinct });
        }
    }
}
