//! How much work operations are, in elementary steps: a node visited, a list element linked or unlinked, a block split or
//! joined, a page-table entry rewritten, a page looked at (Navarro et al. §6.8).

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A page is sought in its population map: one look-up in the hash table, and the nodes on the way.
    LookUp,
    /// An extent is reserved: nodes on the way to its own, and its entry in the list.
    Reserve,
    /// A page comes to, or leaves, its population map: nodes visited and changed, and the reservation's move in its list.
    Update,
    /// A reservation is broken: its extents, and list entries that come of it.
    Preempt,
    /// A block is taken from the allocator: lists left and entered.
    Split,
    /// A block goes to the allocator: lists left and entered.
    Join,
    /// Pages become one: entries read and rewritten.
    Promote,
    /// A page becomes several: entries rewritten.
    Demote,
    /// A right or mark of a page is changed: entries rewritten.
    Emulate,
    /// The page daemon runs over its lists: pages looked at.
    Scan,
}

impl Operation {
    /// All of them, as they stand in [`Work`].
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

    /// The name in results.
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

/// How often something was done, and in how many steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// How often.
    pub times: u64,
    /// Elementary steps of all times together.
    pub steps: u64,
}

/// Page sizes that are told apart, from the base page on; more than any machine has.
const SIZES: usize = 16;

/// The work done, by operation and by the page size that it was done to, the base page first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    of: [[Steps; SIZES]; Operation::ALL.len()],
}

impl Work {
    /// `operation` was done once, to a page of size number `size` (0 the base page), in so many steps.
    pub fn did(&mut self, operation: Operation, size: usize, steps: u64) {
        let slot = &mut self.of[operation as usize][size.min(SIZES - 1)];
        slot.times += 1;
        slot.steps += steps;
    }

    /// What `operation` came to for pages of size number `size`.
    pub fn of(&self, operation: Operation, size: usize) -> Steps {
        self.of[operation as usize][size.min(SIZES - 1)]
    }

    /// What `operation` came to for all sizes together.
    pub fn all(&self, operation: Operation) -> Steps {
        self.of[operation as usize]
            .iter()
            .fold(Steps::default(), |sum, one| Steps { times: sum.times + one.times, steps: sum.steps + one.steps })
    }
}
