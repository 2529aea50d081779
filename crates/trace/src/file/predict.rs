//! Where an access goes next, by its *slot*: its place in a form.
//!
//! Compilers address most operands as base register plus constant, so an access usually lies at a fixed distance from
//! an access shortly before it that used the same base. Else it repeats its own last address: then its distance from
//! zero is what is fixed. So every prediction is *base plus step*, and every difference from a prediction is a change
//! of the step. The writer tries some bases on a slot's first executions and stores the best one, in a byte.
//!
//! All of this is arithmetic modulo 2^48.

use reach_core::Ref;

/// Addresses are 48 bits.
const ADDR_MASK: u64 = (1 << 48) - 1;

/// The base is zero, so that the slot's last address is predicted. Other predictors, 1..=[`FARTHEST`], say how many
/// data references ago the base was referred to.
pub(super) const REPEAT: u8 = 0;
/// The longest way back, in data references.
pub(super) const FARTHEST: usize = 63;

/// A control byte is the difference from the prediction, as an i8, except these two.
/// `FAR`: six bytes of the far stream hold the address.
pub(super) const FAR: u8 = 0x80;
/// `NEAR`: two bytes of the near stream hold the difference, as an i16.
pub(super) const NEAR: u8 = 0x81;

/// The data addresses of a segment, with zeros before the first for predictors to look back on.
#[derive(Default)]
pub(super) struct Addresses(Vec<u64>);

impl Addresses {
    pub fn clear(&mut self) {
        self.0.clear();
        self.0.resize(FARTHEST, 0);
    }

    #[inline(always)]
    pub fn extend(&mut self, data: &[Ref]) {
        self.0.extend(data.iter().map(|r| r.0 & ADDR_MASK));
    }

    /// How many data references there are.
    pub fn len(&self) -> usize {
        self.0.len() - FARTHEST
    }

    /// The address of data reference number `n` and the [`FARTHEST`] before it, that number `n` last.
    #[inline(always)]
    pub fn until(&self, n: usize) -> &[u64; FARTHEST + 1] {
        self.0[n..n + FARTHEST + 1].try_into().expect("the range has that length")
    }
}

/// The base of the last of `addresses` under a predictor.
#[inline(always)]
pub(super) fn base(addresses: &[u64; FARTHEST + 1], predictor: u8) -> u64 {
    if predictor == REPEAT { 0 } else { addresses[FARTHEST - (predictor as usize & FARTHEST)] }
}

/// The predictors that are tried, the first of equals wins. Short ways back are last: they make the longest chains of
/// references that wait for each other when decoding.
const CANDIDATES: [u8; 13] = [REPEAT, 4, 3, 5, 2, 6, 1, 7, 8, 10, 12, 14, 16];

/// How many executions of a slot are tried on. More gain nothing on gcc.
pub(super) const TRIALS: u8 = 16;

/// Chooses a slot's predictor.
#[derive(Clone)]
pub(super) struct Trial {
    steps: [u64; CANDIDATES.len()],
    costs: [u16; CANDIDATES.len()],
}

impl Trial {
    pub const NEW: Trial = Trial { steps: [0; CANDIDATES.len()], costs: [0; CANDIDATES.len()] };

    /// Charges every candidate for an execution, which referred to the last of `addresses`.
    pub fn see(&mut self, addresses: &[u64; FARTHEST + 1]) {
        for (i, &candidate) in CANDIDATES.iter().enumerate() {
            let step = addresses[FARTHEST].wrapping_sub(base(addresses, candidate));
            self.costs[i] += cost(difference(step, self.steps[i]));
            self.steps[i] = step;
        }
    }

    /// The cheapest predictor.
    pub fn best(&self) -> u8 {
        let best = (0..CANDIDATES.len()).min_by_key(|&i| self.costs[i]).expect("there are candidates");
        CANDIDATES[best]
    }
}

/// The signed difference of two 48-bit numbers.
#[inline(always)]
pub(super) fn difference(a: u64, b: u64) -> i64 {
    (a.wrapping_sub(b) << 16) as i64 >> 16
}

/// About how many bytes a difference costs.
#[inline(always)]
fn cost(difference: i64) -> u16 {
    let beyond = |limit: i64| (difference.wrapping_add(limit) as u64 >= 2 * limit as u64) as u16;
    (difference != 0) as u16 + beyond(0x7e) + beyond(0x8000)
}
