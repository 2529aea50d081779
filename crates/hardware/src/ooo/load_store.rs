//! Loads and stores of the dispatched instruction.

use super::code::Code;
use super::in_flight::{DataTimes, PendingStore};
use super::ports::Port;
use super::reference::{ByteRange, MemoryReference, ReferenceTimes, TranslationCost};
use super::right_path::RightPath;
use super::store_queue::RetiredStore;
use super::wrong_path::{WrongPathMemory, WrongPathStart};
use super::{OooCore, PENDING_WALKS};
use reach_core::Kind;

/// The slot of the pending misses that a line uses.
#[inline(always)]
fn miss_slot(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl OooCore {
    /// Delays the dispatch of the dispatched instruction to cycle `until`: the load or store queue is full.
    #[inline]
    fn delay_dispatch(&mut self, until: u64) {
        let Some(inst) = &mut self.inst else { return };
        if until > inst.dispatched {
            inst.dispatched = self.dispatch_stage.delay_last(inst.dispatched, until);
            inst.address_ready = inst.address_ready.max(until + 1);
            self.fetch_queue.correct_last(until);
        }
    }

    /// Begins the next reference of the dispatched instruction. Call it before [`OooCore::load`] or [`OooCore::store`].
    ///
    /// References beyond those that the instruction's operands make have no number in the execution history: they
    /// neither train it nor take part in memory disambiguation.
    #[inline]
    pub fn begin_reference(&mut self, kind: Kind) {
        self.reference = None;
        let (Some(dispatched), Some(block)) = (&self.inst, &self.block) else { return };
        let inst = &dispatched.inst;
        let (recorded, limit, earlier) = match kind {
            Kind::Store => (dispatched.recorded[1], inst.stores, inst.loads),
            _ => (dispatched.recorded[0], inst.loads, 0),
        };
        if recorded < limit {
            let own = u32::from(inst.first_reference) + u32::from(earlier + recorded);
            self.reference = Some(block.first_reference + own);
        }
    }

    /// Ends the reference: records its address `at`. `missed_first_level` says whether the first-level TLB lacked its
    /// page.
    #[inline]
    pub fn end_reference(&mut self, kind: Kind, at: u64, missed_first_level: bool) {
        if let (Some(number), Some(dispatched)) = (self.reference, &mut self.inst) {
            self.history.record(number, at, missed_first_level);
            dispatched.recorded[usize::from(kind == Kind::Store)] += 1;
        }
    }

    /// Translates for the dispatched instruction from cycle `issued` on. Returns its times up to the translation.
    #[inline]
    pub(super) fn translate(&mut self, issued: u64, page: u64, translation: TranslationCost) -> DataTimes {
        let looked_up = issued + u64::from(translation.tlb);
        let mut translated = looked_up;
        let slot = page as usize % PENDING_WALKS;
        if translation.handler > 0 {
            self.run_handler(translation.handler);
            translated = translated.max(self.retire_stage.cycle);
        }
        if translation.walk > 0 {
            let floor = self.request_floor();
            let delay = self.memory_channel.delay_walk(floor, looked_up, translation.memory_reads);
            let walk = u64::from(translation.walk) + delay;
            let start = self.walkers.occupy(floor, looked_up, walk);
            translated = self.fetch_entries(floor, start, translation.l1_miss_cycles) + walk;
            self.pending_walks[slot] = (page, translated);
        } else if translation.hidden_walk > 0 {
            self.verify(looked_up, translation);
        } else if self.pending_walks[slot].0 == page {
            translated = translated.max(self.pending_walks[slot].1);
        }
        DataTimes { issued, looked_up, translated, line_ready: translated, done: translated }
    }

    /// Begins, in cycle `at`, a walk that verifies a predicted translation. Until it ends, no instruction from here on
    /// retires.
    pub(super) fn verify(&mut self, at: u64, translation: TranslationCost) {
        let floor = self.request_floor();
        let delay = self.memory_channel.delay_walk(floor, at, translation.memory_reads);
        let walk = u64::from(translation.hidden_walk) + delay;
        let start = self.walkers.occupy(floor, at, walk);
        let verified = self.fetch_entries(floor, start, translation.l1_miss_cycles) + walk;
        self.verified = self.verified.max(verified);
    }

    /// Occupies an MSHR with the `cycles` in which a walk's reads miss the first-level cache. Returns when the walk, which
    /// is ready in cycle `start`, has one.
    #[inline(always)]
    fn fetch_entries(&mut self, floor: u64, start: u64, cycles: u32) -> u64 {
        if cycles == 0 { start } else { self.l1_mshrs.occupy(floor, start, cycles.into()) }
    }

    /// Returns the cycle in which `line` is there for an access in cycle `from`.
    ///
    /// `miss_latency` is 0 for a hit. A miss waits for an MSHR and for the memory channel, where a store's line counts
    /// twice, and then for the lines that arrive before it (`l1_fill`); a miss in progress is joined.
    #[inline]
    pub(super) fn get_line(&mut self, line: u64, from: u64, miss_latency: u32, is_store: bool) -> u64 {
        let pending = &mut self.pending_misses[miss_slot(line)];
        if miss_latency == 0 {
            return if pending.0 == line { pending.1.max(from) } else { from };
        }
        if pending.0 == line && pending.1 > from {
            return pending.1;
        }
        let floor = self.dispatch_stage.cycle.min(self.fetch_stage.cycle);
        let sent = self.memory_channel.send(floor, from, miss_latency, 1 + u64::from(is_store));
        let mut ready = self.l1_mshrs.occupy(floor, sent, miss_latency.into()) + u64::from(miss_latency);
        if self.config.l1_fill > 0 {
            let fill = u64::from(self.config.l1_fill);
            ready = self.l1_fills.occupy(floor, ready.saturating_sub(fill).max(sent), fill) + fill;
        }
        *pending = (line, ready);
        ready
    }

    /// Records that a prefetch brings `line` by cycle `ready`.
    pub(super) fn expect_line(&mut self, line: u64, ready: u64) {
        self.pending_misses[miss_slot(line)] = (line, ready);
    }

    /// Executes a load of the dispatched instruction.
    #[inline]
    pub fn load(&mut self, reference: MemoryReference) -> ReferenceTimes {
        let MemoryReference { bytes, line, page, translation, .. } = reference;
        let l1_latency = u64::from(reference.l1_latency);
        let entry_free = self.load_queue.next_free();
        self.delay_dispatch(entry_free);
        let Some(address_ready) = self.inst.as_ref().map(|inst| inst.address_ready) else {
            return ReferenceTimes::default();
        };
        let issued = self.ports.book(self.request_floor(), address_ready, Port::Load);
        let mut data = self.translate(issued, page, translation);
        let missed_tlbs = data.translated > data.looked_up;
        let mut times = ReferenceTimes { translated: data.translated, missed_tlbs, clear: None };
        let forwarding = self.store_queue.forward(bytes, data.translated);
        let mut reads = data.translated;
        if let Some(number) = self.reference {
            let conflict = forwarding.is_some_and(|store| store.address_known > data.translated);
            if !self.history.is_trusted(number) {
                reads = reads.max(self.store_queue.addresses_known());
            } else if conflict {
                // It read before the store wrote.
                times.clear = forwarding.map(|store| store.address_known + 1);
            }
            self.history.learn_conflict(number, conflict);
        }
        let requested = if translation.data_ahead { data.looked_up } else { reads };
        data.done = reads + l1_latency;
        match forwarding {
            Some(store) if times.clear.is_none() => data.done = data.done.max(store.data_known + l1_latency),
            _ => data.done = data.done.max(self.get_line(line, requested, reference.miss_latency(), false)),
        }
        data.line_ready = data.done - l1_latency;
        let Some(inst) = &mut self.inst else { return times };
        inst.loads += 1;
        inst.starts.load = inst.starts.load.max(issued);
        inst.loaded = inst.loaded.max(data.done);
        if data.done > inst.critical.done {
            inst.critical = data;
        }
        times
    }

    /// Executes what follows a load that violated memory order, until the machine clear in cycle `clear` squashes it.
    ///
    /// `right` begins with the reference behind the load. Does nothing where the machine does not model the wrong path.
    pub fn run_until_clear(&mut self, code: &Code, clear: u64, right: RightPath, memory: &mut impl WrongPathMemory) {
        let Some(current) = self.block.filter(|_| self.config.wrong_path) else { return };
        self.predictor.begin_wrong_path(None);
        let after = WrongPathStart::AfterDispatched {
            block: current.block,
            first_reference: current.first_reference,
            next: current.next,
        };
        self.run_squashed(code, after, clear, right, memory);
        self.predictor.end_wrong_path();
    }

    /// Refetches the dispatched instruction in cycle `clear`, and repeats its load of `bytes`.
    ///
    /// The repeated load finds its translation and its line, which the first attempt has brought.
    pub fn repeat_load(&mut self, bytes: ByteRange, clear: u64, l1_latency: u32) {
        self.statistics.memory_order_clears += 1;
        let stall = self.fetch_stage.stall_until(clear);
        self.inst_stalls.get_or_insert_default().branch += stall;
        let fetched = self.fetch_stage.pass(clear, self.config.width);
        let Some(inst) = self.inst.as_ref().map(|inst| inst.inst) else { return };
        let ready = self.entries_free(&inst, fetched + u64::from(self.config.front_end_depth));
        let dispatched = self.dispatch_stage.pass(ready, self.config.width);
        self.fetch_queue.correct_last(dispatched);
        let Some(inst) = &mut self.inst else { return };
        (inst.fetched, inst.dispatchable, inst.dispatched) = (fetched, dispatched, dispatched);
        inst.address_ready = self.registers.all_known(inst.inst.address, dispatched + 1);
        let floor = self.dispatch_stage.cycle.min(self.fetch_stage.cycle);
        let issued = self.ports.book(floor, inst.address_ready, Port::Load);
        let line_ready = self.store_queue.forward(bytes, issued).map_or(issued, |store| store.data_known.max(issued));
        let done = line_ready + u64::from(l1_latency);
        inst.starts.load = issued;
        inst.critical = DataTimes { issued, looked_up: issued, translated: issued, line_ready, done };
        inst.loaded = done;
    }

    /// Executes a store of the dispatched instruction: translates its address. Its line is needed only after
    /// retirement.
    #[inline]
    pub fn store(&mut self, reference: MemoryReference) -> ReferenceTimes {
        let MemoryReference { bytes, line, page, translation, .. } = reference;
        let entry_free = self.store_queue.next_free();
        self.delay_dispatch(entry_free);
        let Some(address_ready) = self.inst.as_ref().map(|inst| inst.address_ready) else {
            return ReferenceTimes::default();
        };
        let issued = self.ports.book(self.request_floor(), address_ready, Port::Store);
        let data = self.translate(issued, page, translation);
        let miss_latency = reference.miss_latency();
        self.pending_stores.push(PendingStore { bytes, line, translated: data.translated, miss_latency });
        let missed_tlbs = data.translated > data.looked_up;
        let times = ReferenceTimes { translated: data.translated, missed_tlbs, clear: None };
        let Some(inst) = &mut self.inst else { return times };
        inst.stores += 1;
        inst.starts.store = inst.starts.store.max(issued);
        if data.done > inst.critical.done {
            inst.critical = data;
        }
        times
    }

    /// Moves the stores of an instruction that has `retired` into the store queue. Their data is known in cycle `data`.
    pub(super) fn write_stores(&mut self, retired: u64, data: u64) {
        for at in 0..self.pending_stores.len() {
            let store = self.pending_stores[at];
            let line_ready = self.get_line(store.line, retired, store.miss_latency, true);
            self.store_queue.push(RetiredStore {
                bytes: store.bytes,
                address_known: store.translated,
                data_known: data.max(store.translated),
                retired,
                line_ready,
            });
        }
        self.pending_stores.clear();
    }
}
