//! Finds the forms of a segment: a block with the kinds, sizes and instruction indexes of the data references that
//! follow its fetch. A block has one form as a rule; repeated string instructions and faults make more. A run longer
//! than [`MAX_FORM_DATA`] goes on in forms without a block, and so does what stands before the first fetch.

use super::bytes::put_varint;
use super::layout::{MAX_FORM_DATA, MAX_FORMS};
use reach_core::{BlockId, Ref};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::Xxh3Default;

/// A form without a block.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// A form, as far as the writer needs it.
pub(super) struct Form {
    pub block: u32,
    /// Its first slot.
    pub first: usize,
    /// How many data references it has.
    pub len: usize,
}

/// Hashes keys that are hashes.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 is hashed");
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The forms of a segment and the sequence of their executions.
#[derive(Default)]
pub(super) struct Forms {
    pub list: Vec<Form>,
    /// Upper 16 bits of each slot's references.
    pub slots: Vec<u16>,
    /// Form numbers in the order of execution.
    pub sequence: Vec<u16>,
    /// The form that each block had last, plus one.
    last: Vec<u32>,
    known: HashMap<u64, u32, BuildHasherDefault<Identity>>,
}

impl Forms {
    fn clear(&mut self) {
        self.list.clear();
        self.slots.clear();
        self.sequence.clear();
        self.last.fill(0);
        self.known.clear();
    }

    /// Cuts references into forms, from the front until all are taken or the numbers run out. Gives how many references
    /// and how many fetches were taken.
    pub fn collect(&mut self, refs: &[Ref], fetched: &[BlockId]) -> (usize, usize) {
        self.clear();
        let (mut at, mut fetch) = (0, 0);
        while at < refs.len() {
            let block = if is_fetch(refs[at]) { fetched[fetch].0 } else { NO_BLOCK };
            let from = at + (block != NO_BLOCK) as usize;
            let len = refs[from..].iter().take(MAX_FORM_DATA).take_while(|r| !is_fetch(**r)).count();
            let data = &refs[from..from + len];
            let Some(form) = self.find(block, data) else { break };
            self.sequence.push(form);
            at = from + len;
            fetch += (block != NO_BLOCK) as usize;
        }
        (at, fetch)
    }

    fn find(&mut self, block: u32, data: &[Ref]) -> Option<u16> {
        let slot = if block == NO_BLOCK { 0 } else { block as usize + 1 };
        if slot >= self.last.len() {
            self.last.resize(slot + 1, 0);
        }
        if let Some(form) = self.last[slot].checked_sub(1)
            && is_form(&self.list[form as usize], &self.slots, block, data)
        {
            return Some(form as u16);
        }
        let form = self.find_or_define(block, data)?;
        self.last[slot] = form + 1;
        Some(form as u16)
    }

    #[cold]
    fn find_or_define(&mut self, block: u32, data: &[Ref]) -> Option<u32> {
        let mut hasher = Xxh3Default::new();
        hasher.update(&block.to_le_bytes());
        for r in data {
            hasher.update(&upper_of(*r).to_le_bytes());
        }
        let number = self.list.len() as u32;
        match self.known.entry(hasher.digest()) {
            Entry::Occupied(e) if is_form(&self.list[*e.get() as usize], &self.slots, block, data) => {
                return Some(*e.get());
            }
            // Two forms with one hash: the later is defined anew each time, which costs bytes but is right.
            Entry::Occupied(_) if self.list.len() < MAX_FORMS => {}
            Entry::Vacant(e) if self.list.len() < MAX_FORMS => {
                e.insert(number);
            }
            _ => return None,
        }
        self.list.push(Form { block, first: self.slots.len(), len: data.len() });
        self.slots.extend(data.iter().map(|r| upper_of(*r)));
        Some(number)
    }

    /// The definitions as bytes; `predictors` has one for each slot.
    pub fn encode(&self, predictors: &[u8], out: &mut Vec<u8>) {
        for form in &self.list {
            put_varint(out, if form.block == NO_BLOCK { 0 } else { form.block as u64 + 1 });
            out.push(form.len as u8);
            for i in form.first..form.first + form.len {
                out.extend(self.slots[i].to_le_bytes());
                out.push(predictors[i]);
            }
        }
    }
}

#[inline]
fn is_form(form: &Form, slots: &[u16], block: u32, data: &[Ref]) -> bool {
    form.block == block
        && form.len == data.len()
        && slots[form.first..form.first + form.len].iter().zip(data).all(|(&upper, r)| upper == upper_of(*r))
}

#[inline(always)]
pub(super) fn is_fetch(r: Ref) -> bool {
    r.0 >> 48 & 3 == 0
}

#[inline(always)]
fn upper_of(r: Ref) -> u16 {
    (r.0 >> 48) as u16
}
