//! Predicts the next address of a *slot*, a data reference of a form.
//!
//! Compilers address most operands as base register plus constant. An access is therefore usually at a fixed distance
//! from a recent access that used the same base. Otherwise it tends to repeat its own last address, which is a fixed
//! distance from zero. So every prediction is *base plus step*, and every difference from a prediction is a change of
//! the step. The writer tries several bases on a slot's first executions and stores the best one in a byte.
//!
//! All arithmetic is modulo 2^48.

use reach_core::Ref;

/// The bits of an address.
const ADDR_MASK: u64 = (1 << 48) - 1;

/// The predictor whose base is zero, so it predicts the slot's last address. The other predictors, 1..=[`FARTHEST`], are
/// the distance to the base in data references.
pub(super) const REPEAT: u8 = 0;
/// The greatest distance to a base, in data references.
pub(super) const FARTHEST: usize = 63;

/// The control byte whose address is in the far stream, in six bytes. All control bytes other than [`FAR`] and [`NEAR`]
/// are the difference from the prediction, as an i8.
pub(super) const FAR: u8 = 0x80;
/// The control byte whose difference is in the near stream, as an i16.
pub(super) const NEAR: u8 = 0x81;

/// The data addresses of a segment, after [`FARTHEST`] zeros that predictors of the first ones look back on.
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

    /// Returns the number of data references.
    pub fn len(&self) -> usize {
        self.0.len() - FARTHEST
    }

    /// Returns the addresses of the [`FARTHEST`] data references before number `n`, and then that of number `n`.
    #[inline(always)]
    pub fn until(&self, n: usize) -> &[u64; FARTHEST + 1] {
        self.0[n..n + FARTHEST + 1].try_into().expect("the range has that length")
    }
}

/// Returns the base of the last of `addresses` for a predictor.
#[inline(always)]
pub(super) fn base(addresses: &[u64; FARTHEST + 1], predictor: u8) -> u64 {
    if predictor == REPEAT { 0 } else { addresses[FARTHEST - (predictor as usize & FARTHEST)] }
}

/// The predictors to try; of equally good ones, the first wins. Short distances come last, because they make long chains
/// of dependent additions in the decoder.
const CANDIDATES: [u8; 13] = [REPEAT, 4, 3, 5, 2, 6, 1, 7, 8, 10, 12, 14, 16];

/// The executions of a slot that predictors are tried on. More gain nothing on gcc.
pub(super) const TRIALS: u8 = 16;

/// Chooses the predictor of a slot.
#[derive(Clone)]
pub(super) struct Trial {
    steps: [u64; CANDIDATES.len()],
    costs: [u16; CANDIDATES.len()],
}

impl Trial {
    pub const NEW: Trial = Trial { steps: [0; CANDIDATES.len()], costs: [0; CANDIDATES.len()] };

    /// Charges every candidate for an execution that referred to the last of `addresses`.
    pub fn charge(&mut self, addresses: &[u64; FARTHEST + 1]) {
        for (i, &candidate) in CANDIDATES.iter().enumerate() {
            let step = addresses[FARTHEST].wrapping_sub(base(addresses, candidate));
            self.costs[i] += cost(difference(step, self.steps[i]));
            self.steps[i] = step;
        }
    }

    /// Returns the cheapest predictor.
    pub fn best(&self) -> u8 {
        let best = (0..CANDIDATES.len()).min_by_key(|&i| self.costs[i]).expect("there are candidates");
        CANDIDATES[best]
    }
}

/// Returns the signed difference of two 48-bit numbers.
#[inline(always)]
pub(super) fn difference(a: u64, b: u64) -> i64 {
    (a.wrapping_sub(b) << 16) as i64 >> 16
}

/// Returns the approximate cost of a difference, in bytes.
#[inline(always)]
fn cost(difference: i64) -> u16 {
    let beyond = |limit: i64| (difference.wrapping_add(limit) as u64 >= 2 * limit as u64) as u16;
    (difference != 0) as u16 + beyond(0x7e) + beyond(0x8000)
}
