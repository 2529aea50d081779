//! Arrays that move from one hardware thread of a core to the next.

use super::Tlbs;
use std::mem::swap;

impl Tlbs {
    /// Takes the `shared` arrays from a sibling of equal form, which gets this unit's unused ones.
    pub fn take_shared(&mut self, sibling: &mut Tlbs, shared: &[bool]) {
        let mut outdated = [false; 2];
        for ((mine, theirs), shared) in self.arrays.iter_mut().zip(&mut sibling.arrays).zip(shared) {
            if !shared {
                continue;
            }
            swap(&mut mine.array, &mut theirs.array);
            // Both siblings probe for the same sizes, whichever of them has the array.
            let present = mine.present | theirs.present;
            outdated = [outdated[0] | (mine.present != present), outdated[1] | (theirs.present != present)];
            (mine.present, theirs.present) = (present, present);
        }
        for (tlbs, outdated) in [self, sibling].into_iter().zip(outdated) {
            if outdated {
                tlbs.list_probes();
            }
        }
    }
}
