//! Arrays that go from one hardware thread of a core to the next.

use super::Tlbs;
use std::mem::swap;

impl Tlbs {
    /// Takes the `shared` arrays from a sibling of equal form, which gets empty ones for them.
    pub fn take_shared(&mut self, sibling: &mut Tlbs, shared: &[bool]) {
        let mut unlisted = [false; 2];
        for ((mine, theirs), shared) in self.arrays.iter_mut().zip(&mut sibling.arrays).zip(shared) {
            if !shared {
                continue;
            }
            swap(&mut mine.array, &mut theirs.array);
            // Both look for the same sizes, wherever the array stands.
            let present = mine.present | theirs.present;
            unlisted = [unlisted[0] | (mine.present != present), unlisted[1] | (theirs.present != present)];
            (mine.present, theirs.present) = (present, present);
        }
        for (tlbs, unlisted) in [self, sibling].into_iter().zip(unlisted) {
            if unlisted {
                tlbs.list_probes();
            }
        }
    }
}
