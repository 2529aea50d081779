//! The core's work in progress: the current block and instruction, pending stores, and the branch not yet resolved.

use super::instruction::{BranchKind, Inst};
use super::reference::ByteRange;
use super::schedulers::Starts;
use reach_core::BlockId;

/// The times of one reference.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataTimes {
    /// The cycle in which it issues.
    pub issued: u64,
    /// The cycle in which the later levels of TLBs have answered.
    pub looked_up: u64,
    /// The cycle in which its address is translated.
    pub translated: u64,
    /// The cycle from which only the latency of a first-level cache hit remains.
    pub line_ready: u64,
    /// The cycle in which its data is available.
    pub done: u64,
}

/// A store of an instruction that has not retired.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingStore {
    pub bytes: ByteRange,
    pub line: u64,
    /// The cycle in which its address is translated.
    pub translated: u64,
    /// Cycles of its cache miss; 0 if the nearest cache that keeps stores has the line.
    pub miss_latency: u32,
}

/// An instruction between dispatch and completion, whose references may still come. (Simulators call it the dynamic
/// instruction, apart from the static one of its code.)
#[derive(Clone, Copy, Debug)]
pub(super) struct DynInst {
    pub inst: Inst,
    pub fetched: u64,
    /// The cycle in which it could be dispatched if the load and store queues had room.
    pub dispatchable: u64,
    pub dispatched: u64,
    /// The cycle in which the registers of its addresses are known.
    pub address_ready: u64,
    /// The cycle in which all its loads so far are done.
    pub loaded: u64,
    /// How many loads it has done.
    pub loads: u32,
    /// How many stores it has done.
    pub stores: u32,
    /// How many of its loads are in the execution history, and how many of its stores.
    pub recorded: [u8; 2],
    /// When its loads and stores so far start.
    pub starts: Starts,
    /// The times of the reference that was done last.
    pub critical: DataTimes,
}

/// The block that the core executes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentBlock {
    pub block: BlockId,
    pub start: u64,
    pub end: u64,
    /// The index of the next instruction to dispatch.
    pub next: u32,
    /// The number of the block's first reference in the execution history.
    pub first_reference: u32,
}

/// The branch at the end of the last block, until the start of the next block shows where it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingBranch {
    pub branch: BranchKind,
    pub block: BlockId,
    /// The first byte of its block.
    pub start: u64,
    /// The byte after its block.
    pub end: u64,
    /// The cycle in which the branch is resolved.
    pub resolved: u64,
}

/// A base page through which instructions in flight were fetched without interruption.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchedPage {
    pub page: u64,
    /// The cycle in which the last of these instructions retired.
    pub retired: u64,
}
