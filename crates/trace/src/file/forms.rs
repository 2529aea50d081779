//! Finds the forms of a segment. A form is a block with the kinds, sizes and instruction indexes of the data references
//! that follow its fetch. Most blocks have one form; repeated string instructions and faults make more. Data references
//! before the first fetch, and those beyond [`MAX_FORM_DATA`] after a fetch, are in forms without a block.

use super::bytes::put_varint;
use super::layout::{MAX_FORM_DATA, MAX_FORMS};
use super::predict::{Addresses, TRIALS, Trial};
use reach_core::{BlockId, Ref};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::Xxh3Default;

/// The block number of a form without a block.
const NO_BLOCK: u32 = u32::MAX;
/// All known forms are dropped once they have this many slots, which take some 130 MB.
const MAX_KNOWN_SLOTS: usize = 1 << 20;

/// A form of the program. It stays known from segment to segment, so that its predictors do.
struct KnownForm {
    block: u32,
    /// Its first slot among all known.
    first: usize,
    len: usize,
    /// The number of executions that its predictors were tried on.
    trials: u8,
    /// The last segment that it occurred in.
    segment: u32,
    /// Its number in that segment.
    number: u16,
}

/// A form of the present segment.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Its first slot in the segment.
    pub first: usize,
    /// The number of its data references.
    pub len: usize,
    /// The start of its block; 0 without a block.
    pub pc: u64,
    /// Its place among the known forms.
    known: usize,
}

/// Collects the forms of segments and the sequence of their executions.
#[derive(Default)]
pub(super) struct Forms {
    pub list: Vec<Form>,
    /// Form numbers in the order of execution.
    pub sequence: Vec<u16>,
    pub addresses: Addresses,
    slots: usize,
    segment: u32,
    known: Vec<KnownForm>,
    /// The upper 16 bits of the references of each known slot.
    uppers: Vec<u16>,
    trials: Vec<Trial>,
    /// The last form of each block, plus one; 0 for none. Forms without a block come first, then block 0.
    last: Vec<u32>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.0 = self.0 << 8 | b as u64);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl Forms {
    fn begin_segment(&mut self) {
        self.list.clear();
        self.sequence.clear();
        self.addresses.clear();
        self.slots = 0;
        self.segment += 1;
        if self.uppers.len() > MAX_KNOWN_SLOTS {
            self.known.clear();
            self.uppers.clear();
            self.trials.clear();
            self.last.clear();
            self.by_hash.clear();
        }
    }

    /// Cuts references into forms, from the front until all are taken or no form numbers are left. Returns how many
    /// references and how many fetches were taken.
    pub fn collect(&mut self, refs: &[Ref], fetched: &[BlockId]) -> (usize, usize) {
        self.begin_segment();
        let (mut at, mut fetch) = (0, 0);
        while at < refs.len() {
            let (block, pc) = if is_fetch(refs[at]) { (fetched[fetch].0, refs[at].addr().0) } else { (NO_BLOCK, 0) };
            let from = at + (block != NO_BLOCK) as usize;
            let known = self.find(block, &refs[from..]);
            let Some(number) = self.number(known, pc) else { break };
            self.sequence.push(number);
            let form = &self.known[known as usize];
            let (len, is_settled) = (form.len, form.trials == TRIALS);
            self.addresses.extend(&refs[from..from + len]);
            if !is_settled {
                self.train(known);
            }
            at = from + len;
            fetch += (block != NO_BLOCK) as usize;
        }
        (at, fetch)
    }

    /// Returns the number in this segment of a known form; `None` where no numbers are left.
    #[inline]
    fn number(&mut self, known: u32, pc: u64) -> Option<u16> {
        let form = &mut self.known[known as usize];
        if form.segment != self.segment {
            if self.list.len() == MAX_FORMS {
                return None;
            }
            (form.segment, form.number) = (self.segment, self.list.len() as u16);
            self.list.push(Form { first: self.slots, len: form.len, pc, known: known as usize });
            self.slots += form.len;
        }
        Some(form.number)
    }

    /// Returns the form of `block`, or of no block, whose data references are at the front of `rest`.
    #[inline]
    fn find(&mut self, block: u32, rest: &[Ref]) -> u32 {
        let place = block.wrapping_add(1) as usize;
        if place >= self.last.len() {
            self.last.resize(place + 1, 0);
        }
        if let Some(form) = self.last[place].checked_sub(1)
            && let candidate = &self.known[form as usize]
            && let Some((data, rest)) = rest.split_at_checked(candidate.len)
            && is_form(candidate, &self.uppers, block, data)
            && (candidate.len == MAX_FORM_DATA || rest.first().is_none_or(|r| is_fetch(*r)))
        {
            return form;
        }
        let len = rest.iter().take(MAX_FORM_DATA).take_while(|r| !is_fetch(**r)).count();
        let form = self.find_or_define(block, &rest[..len]);
        self.last[place] = form + 1;
        form
    }

    #[cold]
    fn find_or_define(&mut self, block: u32, data: &[Ref]) -> u32 {
        let mut hasher = Xxh3Default::new();
        hasher.update(&block.to_le_bytes());
        for r in data {
            hasher.update(&upper_of(*r).to_le_bytes());
        }
        let new = self.known.len() as u32;
        match self.by_hash.entry(hasher.digest()) {
            Entry::Occupied(e) if is_form(&self.known[*e.get() as usize], &self.uppers, block, data) => {
                return *e.get();
            }
            // Two forms with one hash: the later form is defined anew each time, which is correct and costs bytes.
            Entry::Occupied(_) => {}
            Entry::Vacant(e) => {
                e.insert(new);
            }
        }
        let (first, len) = (self.uppers.len(), data.len());
        self.known.push(KnownForm { block, first, len, trials: 0, segment: 0, number: 0 });
        self.uppers.extend(data.iter().map(|r| upper_of(*r)));
        self.trials.resize(self.uppers.len(), Trial::NEW);
        new
    }

    /// Tries the predictors on a form whose addresses were added last.
    #[cold]
    fn train(&mut self, known: u32) {
        let form = &mut self.known[known as usize];
        form.trials += 1;
        let first = self.addresses.len() - form.len;
        for (i, trial) in self.trials[form.first..form.first + form.len].iter_mut().enumerate() {
            trial.charge(self.addresses.until(first + i));
        }
    }

    /// Returns the best predictor for each slot of the segment.
    pub fn predictors(&self) -> Vec<u8> {
        let mut predictors = Vec::with_capacity(self.slots);
        for form in &self.list {
            let first = self.known[form.known].first;
            predictors.extend(self.trials[first..first + form.len].iter().map(Trial::best));
        }
        predictors
    }

    /// Appends the definitions of all forms. `predictors` has one predictor for each slot of the segment.
    pub fn encode(&self, predictors: &[u8], out: &mut Vec<u8>) {
        for form in &self.list {
            let known = &self.known[form.known];
            put_varint(out, if known.block == NO_BLOCK { 0 } else { known.block as u64 + 1 });
            out.push(form.len as u8);
            for i in 0..form.len {
                out.extend(self.uppers[known.first + i].to_le_bytes());
                out.push(predictors[form.first + i]);
            }
        }
    }
}

#[inline]
fn is_form(form: &KnownForm, uppers: &[u16], block: u32, data: &[Ref]) -> bool {
    form.block == block
        && form.len == data.len()
        && uppers[form.first..form.first + form.len].iter().zip(data).all(|(&upper, r)| upper == upper_of(*r))
}

#[inline(always)]
pub(super) fn is_fetch(r: Ref) -> bool {
    r.0 >> 48 & 3 == 0
}

#[inline(always)]
fn upper_of(r: Ref) -> u16 {
    (r.0 >> 48) as u16
}
