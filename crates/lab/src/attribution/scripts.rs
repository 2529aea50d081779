//! The function of a script that runs.
//!
//! An interpreter that tells `perf` what it runs gives each function of the script a piece of code, through which it calls itself:
//! a trampoline of Python, a copy of the entry of node's interpreter. A function that is compiled at run time is its own piece. So the
//! function that runs is the innermost piece of code outside of files that runs or waits for a call to return.
//!
//! Calls are followed by their return addresses. A call that never returns, because an exception has passed over it, goes when one
//! below it returns.

use super::callers::call_at;
use super::mappings::Mappings;
use super::{MappingId, MappingKind};
use reach_core::{Asid, Block, BlockId, Event, Mark, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

/// The most calls that wait in a thread. Beyond, half of them are forgotten, the outermost first.
const MAX_DEPTH: usize = 1 << 14;

/// Returns the address that the call at the end of `block` returns to; `None` if none is there.
pub(crate) fn returns_to(block: &Block) -> Option<VirtAddr> {
    call_at(&block.bytes).map(|_| block.pc + u64::from(block.len))
}

/// The function of a script that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// The start of a block of its code.
    pub at: VirtAddr,
    /// The mapping that had the code when it made the call that it waits for; `None` if it runs itself.
    pub code: Option<MappingId>,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The block that made it.
    from: Script,
    returns_to: VirtAddr,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Unknown,
    /// In a file, or nowhere.
    Elsewhere,
    /// In memory that the program has filled.
    Compiled,
}

/// The calls of code that is compiled at run time, by thread.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    /// By block.
    places: Vec<Place>,
    /// The calls at the ends of blocks, by block.
    calls: FxHashMap<BlockId, VirtAddr>,
    /// The calls that the current thread waits for, the innermost last.
    stack: Vec<Call>,
    current: (Asid, ThreadId),
    /// The calls that other threads wait for.
    others: FxHashMap<(Asid, ThreadId), Vec<Call>>,
    /// The calls of processes that have been forked and have not run yet.
    forked: FxHashMap<Asid, Vec<Call>>,
}

impl Scripts {
    /// Learns the calls at the ends of new blocks.
    pub fn learn(&mut self, calls: &[(BlockId, VirtAddr)]) {
        self.calls.extend(calls.iter().copied());
    }

    /// Takes an event of the program.
    pub fn notice(&mut self, event: &Event) {
        match event {
            Event::Switch { asid, thread } if (*asid, *thread) != self.current => {
                let next = (*asid, *thread);
                let stack = self.others.remove(&next).or_else(|| self.forked.remove(asid)).unwrap_or_default();
                let before = std::mem::replace(&mut self.stack, stack);
                if !before.is_empty() {
                    self.others.insert(self.current, before);
                }
                self.current = next;
            }
            Event::Fork { child, .. } => drop(self.forked.insert(*child, self.stack.clone())),
            Event::Exec { .. } | Event::Exit => {
                self.stack.clear();
                let asid = self.current.0;
                self.others.retain(|(other, _), _| *other != asid);
            }
            // References are left out between the two.
            Event::Mark(Mark::FastForward | Mark::Measure) => {
                self.stack.clear();
                self.others.clear();
                self.forked.clear();
            }
            _ => {}
        }
    }

    /// Takes the fetch of `block` at `pc`, and returns the script's function that runs; `None` where none does.
    pub fn fetch(&mut self, block: BlockId, pc: VirtAddr, mappings: &mut Mappings) -> Option<Script> {
        if self.place(block, pc, mappings) == Place::Elsewhere {
            return self.stack.last().map(|call| call.from);
        }
        if let Some(at) = self.stack.iter().rposition(|call| call.returns_to == pc) {
            self.stack.truncate(at);
        }
        if let Some(&returns_to) = self.calls.get(&block) {
            if self.stack.len() == MAX_DEPTH {
                self.stack.drain(..MAX_DEPTH / 2);
            }
            let from = Script { at: pc, code: Some(mappings.find(pc)) };
            self.stack.push(Call { from, returns_to });
        }
        Some(Script { at: pc, code: None })
    }

    /// Returns where a block is. A block keeps its bytes and address, so its place is found once.
    fn place(&mut self, block: BlockId, pc: VirtAddr, mappings: &mut Mappings) -> Place {
        let at = block.0 as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, Place::Unknown);
        }
        if self.places[at] == Place::Unknown {
            self.places[at] = match mappings.kind_at(pc) {
                MappingKind::Anonymous | MappingKind::Heap => Place::Compiled,
                _ => Place::Elsewhere,
            };
        }
        self.places[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{Backing, FileId, Map};

    /// Code in memory at 0x1000 and in a file at 0x8000.
    fn mappings() -> Mappings {
        let mut mappings = Mappings::default();
        let anonymous = Map::anonymous(VirtAddr(0x1000), 0x1000);
        let file =
            Map { backing: Backing::File { file: FileId(0), offset: 0 }, ..Map::anonymous(VirtAddr(0x8000), 0x1000) };
        [anonymous, file].into_iter().for_each(|map| mappings.notice(&Event::Map(map), Vec::new()));
        mappings
    }

    /// Fetches the block at `pc`, whose number is its address, and returns the script's function.
    fn fetch(scripts: &mut Scripts, mappings: &mut Mappings, pc: u64) -> Option<u64> {
        scripts.fetch(BlockId(pc as u32), VirtAddr(pc), mappings).map(|script| script.at.0)
    }

    /// Two trampolines: 0x1000 calls and goes on at 0x1006, 0x1020 at 0x1026.
    fn trampolines() -> Scripts {
        let mut scripts = Scripts::default();
        scripts.learn(&[(0x1000, 0x1006), (0x1020, 0x1026)].map(|(id, to)| (BlockId(id), VirtAddr(to))));
        scripts
    }

    #[test]
    fn the_innermost_function_runs_until_it_returns() {
        let (mut scripts, mut mappings) = (trampolines(), mappings());
        for (pc, function) in [
            (0x8000, None),
            (0x1000, Some(0x1000)),
            (0x8010, Some(0x1000)),
            (0x1020, Some(0x1020)),
            (0x8010, Some(0x1020)),
            // It calls itself.
            (0x1020, Some(0x1020)),
            (0x8010, Some(0x1020)),
            (0x1026, Some(0x1026)),
            (0x8020, Some(0x1020)),
            (0x1026, Some(0x1026)),
            (0x8020, Some(0x1000)),
            (0x1006, Some(0x1006)),
            (0x8000, None),
        ] {
            assert_eq!(fetch(&mut scripts, &mut mappings, pc), function, "{pc:#x}");
        }
    }

    #[test]
    fn a_function_that_waits_keeps_its_mapping_when_its_code_goes() {
        let (mut scripts, mut mappings) = (trampolines(), mappings());
        let code = mappings.find(VirtAddr(0x1000));
        fetch(&mut scripts, &mut mappings, 0x1000);
        let gone = Map::anonymous(VirtAddr(0x1000), 0x1000).span;
        mappings.notice(&Event::Unmap(gone), Vec::new());
        let script = scripts.fetch(BlockId(0x8000), VirtAddr(0x8000), &mut mappings).unwrap();
        assert_eq!((script.code, mappings.find(script.at)), (Some(code), Mappings::UNKNOWN));
    }

    #[test]
    fn calls_that_never_return_go_with_one_that_does() {
        let (mut scripts, mut mappings) = (trampolines(), mappings());
        let mut run = |pcs: &[u64]| pcs.iter().fold(None, |_, &pc| fetch(&mut scripts, &mut mappings, pc));
        assert_eq!(run(&[0x1000, 0x1020, 0x1020, 0x8000]), Some(0x1020));
        assert_eq!(run(&[0x1006, 0x8000]), None);
    }

    #[test]
    fn threads_have_calls_of_their_own_and_children_begin_with_their_parents() {
        let (mut scripts, mut mappings) = (trampolines(), mappings());
        let switch = |asid, thread| Event::Switch { asid: Asid(asid), thread: ThreadId(thread) };
        scripts.notice(&switch(0, 0));
        fetch(&mut scripts, &mut mappings, 0x1000);
        scripts.notice(&switch(0, 1));
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), None);
        fetch(&mut scripts, &mut mappings, 0x1020);
        scripts.notice(&switch(0, 0));
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), Some(0x1000));
        scripts.notice(&Event::Fork { child: Asid(1), shares_memory: false });
        scripts.notice(&switch(1, 2));
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), Some(0x1000));
        scripts.notice(&Event::Exec { path: "/bin/true".into() });
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), None);
        scripts.notice(&switch(0, 1));
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), Some(0x1020));
        scripts.notice(&Event::Mark(Mark::FastForward));
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), None);
    }

    #[test]
    fn endless_calls_keep_the_innermost() {
        let (mut scripts, mut mappings) = (trampolines(), mappings());
        for _ in 0..3 * MAX_DEPTH {
            fetch(&mut scripts, &mut mappings, 0x1020);
        }
        assert!(scripts.stack.len() <= MAX_DEPTH);
        assert_eq!(fetch(&mut scripts, &mut mappings, 0x8000), Some(0x1020));
    }
}
