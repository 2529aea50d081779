//! Ranges: eager paging, which makes them long, and whether a range TLB is worth its power (Karakostas et al. 2015). The
//! range tables themselves belong to the room `translation`.

mod eager;
mod enabling;
mod policy;

pub use enabling::{Enabling, Worth};
pub use policy::{Ranging, Translated};

use crate::{RangeCounts, Vm};

impl Vm {
    /// Gives address spaces range tables or segments, and pages mappings eagerly. Call at boot, before any process.
    pub fn use_ranges(&mut self, ranging: Ranging) {
        self.accounting.total.ranges = Some(RangeCounts::default());
        self.frames.buddy.limit((ranging.block >> self.base().0).max(1).ilog2() as u8);
        if ranging.sorted {
            self.frames.buddy.sort();
        }
        self.translation.set_ranging(ranging);
    }
}
