//! Where an access goes next, by its *slot*: its place in a form.
//!
//! Compilers address most operands as base register plus constant, so an access usually lies at a fixed distance from
//! an access shortly before it that used the same base; else it repeats, or strides from, its own last address. The
//! writer tries these on the first executions of each slot and stores the best, one byte; reader and writer then learn
//! the distance alike.

/// Addresses are 48 bits.
pub(super) const ADDR_MASK: u64 = (1 << 48) - 1;

/// A predictor, as stored. `REPEAT`: the slot's last address. `STRIDE`: its last address plus its last difference.
/// `STRIDE + k`, k in 1..=[`FARTHEST`]: the address `k` data references ago plus the distance seen last.
pub(super) const REPEAT: u8 = 0;
/// See [`REPEAT`].
pub(super) const STRIDE: u8 = 1;
/// The longest way back, in data references.
pub(super) const FARTHEST: usize = 62;

/// A control byte is the difference from the prediction, as an i8, except these two.
/// `FAR`: six bytes of the far stream hold the address.
pub(super) const FAR: u8 = 0x80;
/// `NEAR`: two bytes of the near stream hold the difference, as an i16.
pub(super) const NEAR: u8 = 0x81;

/// The addresses of the last 64 data references.
pub(super) struct History {
    ring: [u64; 64],
    next: usize,
}

impl History {
    pub fn new() -> History {
        History { ring: [0; 64], next: 0 }
    }

    /// The address `back` (1..=64) data references ago; 0 before the segment's first.
    #[inline(always)]
    pub fn ago(&self, back: usize) -> u64 {
        self.ring[self.next.wrapping_sub(back) & 63]
    }

    #[inline(always)]
    pub fn push(&mut self, addr: u64) {
        self.ring[self.next & 63] = addr;
        self.next = self.next.wrapping_add(1);
    }
}

/// A slot's predictor and what it has learnt.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Kind, size and instruction index of the reference, where a `Ref` has them.
    pub upper: u64,
    last: u64,
    step: u64,
    /// All ones where `step` is learnt, zero where it stays zero.
    adapts: u64,
    back: usize,
}

impl Slot {
    pub fn new(upper: u16, predictor: u8) -> Slot {
        Slot {
            upper: (upper as u64) << 48,
            last: 0,
            step: 0,
            adapts: if predictor == REPEAT { 0 } else { u64::MAX },
            back: predictor.saturating_sub(STRIDE) as usize,
        }
    }

    /// What the prediction starts from.
    #[inline(always)]
    pub fn base(&self, history: &History) -> u64 {
        let ago = history.ago(self.back);
        if self.back == 0 { self.last } else { ago }
    }

    /// The predicted address, of which 48 bits count.
    #[inline(always)]
    pub fn predict(&self, base: u64) -> u64 {
        base.wrapping_add(self.step)
    }

    /// Takes note of the address that came.
    #[inline(always)]
    pub fn learn(&mut self, base: u64, addr: u64) {
        self.step = addr.wrapping_sub(base) & self.adapts;
        self.last = addr;
    }
}

/// The ways back that are tried.
const BACKS: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16];
const CANDIDATES: usize = BACKS.len() + 2;

/// How many executions of a slot are tried on. More gain nothing on gcc.
const TRIALS: u8 = 16;

/// Chooses a slot's predictor.
#[derive(Clone)]
pub(super) struct Trial {
    steps: [u64; CANDIDATES],
    costs: [u16; CANDIDATES],
    last: u64,
    seen: u8,
}

impl Trial {
    pub const NEW: Trial = Trial { steps: [0; CANDIDATES], costs: [0; CANDIDATES], last: 0, seen: 0 };

    /// Charges every candidate for this execution.
    #[inline(always)]
    pub fn see(&mut self, addr: u64, history: &History) {
        if self.seen < TRIALS {
            self.compare(addr, history);
        }
    }

    fn compare(&mut self, addr: u64, history: &History) {
        self.seen += 1;
        let mut charge = |candidate: usize, base: u64, adapts: bool| {
            let predicted = base.wrapping_add(self.steps[candidate]);
            self.costs[candidate] += cost(residual(addr, predicted));
            self.steps[candidate] = if adapts { addr.wrapping_sub(base) } else { 0 };
        };
        charge(REPEAT as usize, self.last, false);
        charge(STRIDE as usize, self.last, true);
        for (i, back) in BACKS.into_iter().enumerate() {
            charge(i + 2, history.ago(back as usize), true);
        }
        self.last = addr;
    }

    /// The cheapest predictor, the simplest of equals.
    pub fn best(&self) -> u8 {
        let best = (0..CANDIDATES).min_by_key(|&i| self.costs[i]).expect("there are candidates");
        if best < 2 { best as u8 } else { STRIDE + BACKS[best - 2] }
    }
}

/// The signed difference of two 48-bit addresses.
#[inline(always)]
pub(super) fn residual(addr: u64, predicted: u64) -> i64 {
    (addr.wrapping_sub(predicted) << 16) as i64 >> 16
}

/// About how many bits a difference costs after compression.
fn cost(residual: i64) -> u16 {
    match residual {
        0 => 0,
        -126..=127 => 8,
        -0x8000..=0x7fff => 16,
        _ => 24,
    }
}
