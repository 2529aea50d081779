//! Work of the operating system in elementary steps: a node visited, a list element linked or unlinked, a block split or
//! joined, a page-table entry rewritten, a page looked at (Navarro et al. §6.8).

/// An operation whose steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looking a page up in its population map: one look-up in the hash table, and the nodes on the way.
    LookUp,
    /// Reserving an extent: the nodes on the way to its own, and its entry in the list.
    Reserve,
    /// Adding a page to its population map or removing it: nodes visited and changed, and the reservation's move in its
    /// list.
    Update,
    /// Breaking a reservation: its extents, and the list entries of the remains.
    Preempt,
    /// Taking a block from the buddy allocator: lists left and entered.
    Split,
    /// Giving a block to the buddy allocator: lists left and entered.
    Join,
    /// Promoting pages: entries read and rewritten.
    Promote,
    /// Demoting a page: entries rewritten.
    Demote,
    /// Changing access rights, or accessed and dirty bits, of a page: entries rewritten.
    Emulate,
    /// A run of the page daemon over its lists: pages looked at.
    Scan,
}

impl Operation {
    /// All operations, in the order of their discriminants.
    pub const ALL: [Operation; 10] = [
        Operation::LookUp,
        Operation::Reserve,
        Operation::Update,
        Operation::Preempt,
        Operation::Split,
        Operation::Join,
        Operation::Promote,
        Operation::Demote,
        Operation::Emulate,
        Operation::Scan,
    ];

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::LookUp => "look_up",
            Operation::Reserve => "reserve",
            Operation::Update => "update",
            Operation::Preempt => "preempt",
            Operation::Split => "split",
            Operation::Join => "join",
            Operation::Promote => "promote",
            Operation::Demote => "demote",
            Operation::Emulate => "emulate",
            Operation::Scan => "scan",
        }
    }
}

/// How often an operation was done, and in how many steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Number of times.
    pub times: u64,
    /// Elementary steps, summed over all times.
    pub steps: u64,
}

/// Page sizes counted apart, from the base page on; more than any machine has.
const SIZES: usize = 16;

/// Work done, by operation and by the page size that it was done to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub(super) of: [[Steps; SIZES]; Operation::ALL.len()],
}

impl Work {
    /// Counts one `operation` on a page of size number `size` (0 the base page), which took `steps` elementary steps.
    pub fn add(&mut self, operation: Operation, size: usize, steps: u64) {
        let slot = &mut self.of[operation as usize][size.min(SIZES - 1)];
        slot.times += 1;
        slot.steps += steps;
    }

    /// Returns the work of `operation` on pages of size number `size` (0 the base page).
    pub fn of(&self, operation: Operation, size: usize) -> Steps {
        self.of[operation as usize][size.min(SIZES - 1)]
    }

    /// Returns the work of `operation` on all sizes together.
    pub fn all(&self, operation: Operation) -> Steps {
        self.of[operation as usize]
            .iter()
            .fold(Steps::default(), |sum, one| Steps { times: sum.times + one.times, steps: sum.steps + one.steps })
    }
}
