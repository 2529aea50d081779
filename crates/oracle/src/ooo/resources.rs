//! The naive core's resources: ports, walkers, MSHRs, the memory channel and the store queue.

use super::{NaiveOooCore, Store};
use reach_hardware::config::Operation;
use reach_hardware::ooo::{ByteRange, Inst, MemoryReference, OpClass, TranslationCost};
use std::collections::HashMap;

/// How many cycles ahead ports are booked.
const HORIZON: u64 = 1 << 10;
/// From the first to before the second cycle, a unit is busy.
pub(super) type Interval = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Any,
    Load,
    Store,
}

impl NaiveOooCore {
    /// Books a port before `deadline`. `None` if none is free.
    pub(super) fn book_port(&mut self, floor: u64, earliest: u64, port: Port, deadline: u64) -> Option<u64> {
        let own_limit = match port {
            Port::Any => self.config.width,
            Port::Load => self.config.load_ports,
            Port::Store => self.config.store_ports,
        };
        let mut at = earliest;
        while at < floor + HORIZON && at < deadline {
            let starts = self.starts.iter().filter(|(_, start)| *start == at).count();
            let own = self.starts.iter().filter(|start| **start == (port, at)).count();
            if starts < self.config.width as usize && own < own_limit as usize {
                self.starts.push((port, at));
                return Some(at);
            }
            at += 1;
        }
        (at < deadline).then_some(at)
    }

    /// Returns the entries that `inst` holds: for each of its schedulers, when the last part starts that it serves. `starts`
    /// are those of its parts; its operation's is that of an integer operation.
    pub(super) fn holds(&self, inst: &Inst, starts: [u64; 4]) -> HashMap<u8, u64> {
        let [operation, _, load, store] = starts;
        let float = matches!(inst.class, OpClass::Float | OpClass::FloatDivide);
        let kind = if float { Operation::Float } else { Operation::Integer };
        let moves = inst.class == OpClass::Move && inst.loads + inst.stores > 0;
        let parts = [
            (kind, operation, !moves),
            (Operation::Load, load, inst.loads > 0),
            (Operation::Store, store, inst.stores > 0),
        ];
        let mut holds = HashMap::new();
        for (part, start, _) in parts.into_iter().filter(|(_, _, exists)| *exists) {
            let last = holds.entry(self.config.schedulers.of[part as usize]).or_insert(0);
            *last = start.max(*last);
        }
        holds
    }

    /// Returns the first cycle in which all schedulers of `inst` have a free entry, after the instructions that held entries
    /// until `waits`.
    pub(super) fn scheduler_entry(&self, inst: &Inst, waits: &[(u8, u64)]) -> u64 {
        let free = |scheduler: u8| {
            let mut ends: Vec<u64> = waits.iter().filter(|wait| wait.0 == scheduler).map(|wait| wait.1).collect();
            ends.sort_unstable();
            let entries = self.config.schedulers.entries[usize::from(scheduler)] as usize;
            ends.len().checked_sub(entries).map_or(0, |at| ends[at])
        };
        self.holds(inst, [0; 4]).into_keys().map(free).max().unwrap_or(0)
    }

    /// Returns how many integer and vector registers `inst` takes.
    pub(super) fn takes(&self, inst: &Inst) -> [usize; 2] {
        let flags = inst.renamed.only_flags && self.config.registers.flags_in_integer;
        [usize::from(inst.renamed.integer) + usize::from(flags), usize::from(inst.renamed.vector)]
    }

    /// Returns the first cycle in which `inst` finds free registers, after instructions that retire in cycles `taken`. `None` if
    /// that waits for an instruction that does not retire.
    pub(super) fn registers_free(&self, inst: &Inst, taken: &[Vec<u64>; 2]) -> Option<u64> {
        let files = [self.config.registers.integer, self.config.registers.vector];
        let mut free = 0;
        for ((taken, file), number) in taken.iter().zip(files).zip(self.takes(inst)) {
            if let Some(last) = (taken.len() + number).checked_sub(file as usize + 1).filter(|_| number > 0) {
                free = free.max(taken[last]);
            }
        }
        (free < u64::MAX).then_some(free)
    }

    /// Occupies the memory channel for `lines` lines of an access of `latency` cycles. Returns when that starts.
    pub(super) fn send(&mut self, earliest: u64, latency: u32, lines: u32) -> u64 {
        let cycles = u64::from(lines * self.config.line_interval);
        if cycles == 0 || latency < self.config.memory {
            return earliest;
        }
        let start = first_free(&self.transfers, 1, earliest, cycles);
        self.transfers.push((start, start + cycles));
        start
    }

    /// Returns how long a walk that reads `reads` entries from memory waits for the channel.
    pub(super) fn delay_walk(&mut self, from: u64, reads: u32) -> u64 {
        let memory = self.config.memory;
        let end = (0..reads).fold(from, |at, _| self.send(at, memory, 1) + u64::from(memory));
        end - from - u64::from(reads * memory)
    }

    /// Returns when `line` is there for an access in cycle `from`, whose miss takes `miss_latency` cycles, 0 for a hit.
    pub(super) fn get_line(&mut self, line: u64, from: u64, miss_latency: u32, transfers: u32) -> u64 {
        let slot = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let pending = self.pending_misses[slot].filter(|(pending, _)| *pending == line).map_or(0, |(_, end)| end);
        if miss_latency == 0 || pending > from {
            return pending.max(from);
        }
        let sent = self.send(from, miss_latency, transfers);
        let miss = u64::from(miss_latency);
        let start = first_free(&self.misses, self.config.l1_mshrs as usize, sent, miss);
        self.misses.push((start, start + miss));
        let mut ready = start + miss;
        let fill = u64::from(self.config.l1_fill);
        if fill > 0 {
            let arrives = first_free(&self.fills, 1, sent.max(ready.saturating_sub(fill)), fill);
            self.fills.push((arrives, arrives + fill));
            ready = arrives + fill;
        }
        self.pending_misses[slot] = Some((line, ready));
        ready
    }

    /// Returns when a reference that issues in cycle `issued` is translated.
    pub(super) fn translate(&mut self, issued: u64, reference: &MemoryReference) -> u64 {
        let looked_up = issued + u64::from(reference.translation.tlb);
        let slot = reference.page as usize % 64;
        let walk = u64::from(reference.translation.walk);
        if walk > 0 {
            let walk = walk + self.delay_walk(looked_up, reference.translation.memory_reads);
            let mut start = first_free(&self.walks, self.walkers, looked_up, walk);
            self.walks.push((start, start + walk));
            let misses = u64::from(reference.translation.l1_miss_cycles);
            if misses > 0 {
                start = first_free(&self.misses, self.config.l1_mshrs as usize, start, misses);
                self.misses.push((start, start + misses));
            }
            self.pending_walks[slot] = Some((reference.page, start + walk));
            return start + walk;
        }
        if reference.translation.hidden_walk > 0 {
            self.verify(looked_up, reference.translation);
            return looked_up;
        }
        let pending = self.pending_walks[slot].filter(|(page, _)| *page == reference.page);
        pending.map_or(looked_up, |(_, end)| end.max(looked_up))
    }

    /// Walks from cycle `at` on, to verify a predicted translation.
    pub(super) fn verify(&mut self, at: u64, translation: TranslationCost) {
        let walk = u64::from(translation.hidden_walk) + self.delay_walk(at, translation.memory_reads);
        let mut start = first_free(&self.walks, self.walkers, at, walk);
        self.walks.push((start, start + walk));
        let misses = u64::from(translation.l1_miss_cycles);
        if misses > 0 {
            start = first_free(&self.misses, self.config.l1_mshrs as usize, start, misses);
            self.misses.push((start, start + misses));
        }
        self.verified = self.verified.max(start + walk);
    }

    /// Returns the youngest store of some of `bytes` that is in flight in cycle `at`.
    pub(super) fn store_in_flight(&self, bytes: ByteRange, at: u64) -> Option<Store> {
        let queue = self.stores.iter().rev().take(self.config.store_queue as usize);
        let mut in_flight = queue.filter(|store| store.written > at);
        in_flight.find(|store| store.bytes.start < bytes.end && bytes.start < store.bytes.end).copied()
    }

    /// Returns the execution latency of `class`.
    pub(super) fn latency(&self, class: OpClass) -> u64 {
        let latencies = self.config.latencies;
        u64::from(match class {
            OpClass::Move | OpClass::Simple => 1,
            OpClass::Multiply => latencies.multiply,
            OpClass::Divide => latencies.divide,
            OpClass::Float => latencies.float,
            OpClass::FloatDivide => latencies.float_divide,
        })
    }
}

/// Returns the cycles that a miss of the first-level cache takes; 0 for a hit.
pub(super) fn miss_latency(reference: &MemoryReference) -> u32 {
    if reference.latency > reference.l1_latency { reference.latency } else { 0 }
}

/// Returns the first cycle, at or after `earliest`, from which fewer than `units` of the `busy` intervals overlap the
/// next `cycles` cycles.
pub(super) fn first_free(busy: &[Interval], units: usize, earliest: u64, cycles: u64) -> u64 {
    let overlap = |at: u64| busy.iter().filter(|(start, end)| *start < at + cycles && *end > at).count();
    let mut moments: Vec<u64> = busy.iter().map(|(_, end)| *end).filter(|end| *end > earliest).collect();
    moments.push(earliest);
    moments.sort_unstable();
    moments.into_iter().find(|at| overlap(*at) < units).expect("after the last end every unit is free")
}
