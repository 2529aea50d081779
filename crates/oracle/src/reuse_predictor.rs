//! The twin of CHiRP's predictor: whole histories of instructions and branches, from which each signature is computed anew.

use reach_core::ReuseSignature;
use std::collections::BTreeMap;

/// The control flow before a reference: an instruction, and the addresses of all conditional branches, the latest last. Programs of
/// the twin are references alone, which have no other branches.
#[derive(Clone, Debug, Default)]
pub struct ControlFlow {
    pub instruction: u64,
    pub branches: Vec<u64>,
}

/// The prediction for an entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prediction {
    signature: u16,
    pub dead: bool,
    reused: bool,
}

/// The predictor of an array.
#[derive(Clone, Debug)]
pub struct ReusePredictor {
    kind: ReuseSignature,
    /// The control flow before the next access.
    pub control_flow: ControlFlow,
    /// The instructions of all accesses, the latest last.
    path: Vec<u64>,
    last_set: Option<u64>,
    /// Counters by index; a missing one is 0.
    counters: BTreeMap<u16, u8>,
}

/// Packs the last parts of a history, of which `each` bits are kept, into 64 bits.
fn packed(history: impl DoubleEndedIterator<Item = u64>, each: u32) -> u64 {
    history.rev().take(64 / each as usize).enumerate().map(|(age, part)| part << (age as u32 * each)).sum()
}

impl ReusePredictor {
    pub fn new(kind: ReuseSignature) -> ReusePredictor {
        let (path, counters) = (Vec::new(), BTreeMap::new());
        ReusePredictor { kind, control_flow: ControlFlow::default(), path, last_set: None, counters }
    }

    fn signature(&self) -> u16 {
        let ControlFlow { instruction, branches } = &self.control_flow;
        let path = packed(self.path.iter().map(|instruction| instruction % 4), 4);
        let branches = packed(branches.iter().map(|address| address / 16 % 256), 8);
        let before = if self.kind == ReuseSignature::ControlFlow { path ^ branches } else { 0 };
        let quarters = (instruction ^ before).to_le_bytes();
        quarters.chunks(2).fold(0, |folded, quarter| folded ^ u16::from_le_bytes([quarter[0], quarter[1]]))
    }

    fn counter(&mut self, signature: u16) -> &mut u8 {
        self.counters.entry((signature % 4096) ^ (signature / 4096)).or_default()
    }

    /// Returns what is predicted of an entry that is accessed now.
    fn predict(&mut self, reused: bool) -> Prediction {
        let signature = self.signature();
        Prediction { signature, dead: *self.counter(signature) >= 2, reused }
    }

    fn end_access(&mut self, set: u64) {
        self.path.push(self.control_flow.instruction);
        self.last_set = Some(set);
    }

    /// Learns from a hit in `set`, and returns what is predicted of the entry from now on.
    pub fn hit(&mut self, set: u64, held: Prediction) -> Prediction {
        let mut next = held;
        if !held.reused && self.last_set != Some(set) {
            let counter = self.counter(held.signature);
            *counter -= u8::from(*counter > 0);
            next = self.predict(true);
        }
        self.end_access(set);
        next
    }

    /// Learns from an eviction.
    pub fn evict(&mut self, victim: Prediction) {
        if !victim.reused {
            let counter = self.counter(victim.signature);
            *counter += u8::from(*counter < 3);
        }
    }

    /// Returns what is predicted of an entry that enters `set`.
    pub fn insert(&mut self, set: u64) -> Prediction {
        let prediction = self.predict(false);
        self.end_access(set);
        prediction
    }
}
