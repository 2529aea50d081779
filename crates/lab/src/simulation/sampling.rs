//! Sampling: what is booked of a program of which intervals are measured.

use super::{Simulation, Tally};
use crate::conditions::SimulationError;
use reach_core::{Asid, Counts, Event};
use reach_hardware::{Access, CacheCounters, MemoryAccesses, Segment};
use std::collections::BTreeMap;

/// What was counted in one measured interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// All processes together.
    pub tally: Tally,
    /// Each process that ran.
    pub processes: BTreeMap<Asid, Tally>,
    /// Each cache, in the order of [`super::Outcome::caches`].
    pub caches: Vec<CacheCounters>,
    /// What went to memory.
    pub beyond: Vec<[MemoryAccesses; Access::KINDS]>,
}

/// The intervals that were measured of a program.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// In the program's order.
    pub intervals: Vec<Interval>,
    /// From the start of one to that of the next, in references; 0 where that is not said.
    pub every: u64,
    /// How many references the whole program has, where it was seen.
    pub references: u64,
}

impl Sample {
    /// References in the measured intervals.
    pub fn measured(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.tally.counts.references()).sum()
    }

    /// How many references the whole program has, or as many as its intervals stand for.
    pub fn program(&self) -> u64 {
        match self.references {
            0 => self.every * self.intervals.len() as u64,
            seen => seen,
        }
    }

    /// The share of the program's references that was measured.
    pub fn share(&self) -> f64 {
        match self.program() {
            0 => 1.0,
            program => self.measured() as f64 / program as f64,
        }
    }
}

/// The state of sampling.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    sample: Sample,
    /// Sums over all of them.
    cycles: u64,
    instructions: u64,
    detail: Detail,
    /// Totals where the interval under way began.
    from: Option<(Tally, Vec<CacheCounters>, Vec<[MemoryAccesses; Access::KINDS]>)>,
    /// What processes have done in it.
    processes: BTreeMap<Asid, Tally>,
}

/// How much of references is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Detail {
    #[default]
    All,
    /// TLBs, caches and the operating system are kept where references would have them.
    Caches,
    /// TLBs and the operating system are; caches see nothing, of the operating system's own traffic neither.
    Translation,
}

/// A mark that sampling has put into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// What follows is a sample, with intervals at this distance.
    Sampled(u64),
    Begin,
    End,
    /// References are simulated in this detail from here on.
    Detail(Detail),
}

impl Mark {
    /// Whether this is where a sample begins.
    pub fn begins(self) -> bool {
        matches!(self, Mark::Sampled(_))
    }

    /// What `event` marks, if it is a mark.
    pub fn of(event: &Event) -> Option<Mark> {
        let Event::Phase(name) = event else { return None };
        match name.as_str() {
            Event::INTERVAL => Some(Mark::Begin),
            Event::INTERVAL_END => Some(Mark::End),
            Event::FOLLOWED => Some(Mark::Detail(Detail::Translation)),
            Event::FOLLOWED_IN_CACHES => Some(Mark::Detail(Detail::Caches)),
            Event::SIMULATED => Some(Mark::Detail(Detail::All)),
            name => name.strip_prefix(Event::SAMPLED)?.parse().ok().map(Mark::Sampled),
        }
    }
}

impl Simulation {
    /// What it gets is a sample: only what lies in marked intervals counts.
    pub fn sample(&mut self) -> Result<(), SimulationError> {
        if self.processor.hardware_threads() > 1 {
            let what = "--sample takes one core with one hardware thread: on several, intervals would not be of the same \
                        instructions everywhere";
            return Err(self.refusal(what.into()));
        }
        if self.observed.is_some() {
            return Err(
                self.refusal("a curve is counted of whole programs, and this is a sample; leave --curve out".into())
            );
        }
        self.sampling = Some(Box::default());
        Ok(())
    }

    /// Books a mark. Of intervals nothing can be seen in how the program runs.
    pub(super) fn mark(&mut self, mark: Mark) -> Result<(), SimulationError> {
        match mark {
            Mark::Sampled(every) => {
                if self.sampling.is_none() {
                    self.sample()?;
                }
                if let Some(sampling) = &mut self.sampling {
                    sampling.sample.every = every;
                }
            }
            Mark::Begin => {
                self.settle();
                let (caches, beyond) = self.caches_now();
                let total = self.total_of(self.processor.on());
                if let Some(sampling) = &mut self.sampling {
                    sampling.processes.clear();
                    sampling.from = Some((total, caches, beyond));
                }
            }
            Mark::End => self.end_interval(),
            Mark::Detail(detail) => {
                self.serialise(true);
                // What one way of running references takes for known, the other may have lost.
                self.processor.mmu().resume();
                if let Some(sampling) = &mut self.sampling {
                    sampling.detail = detail;
                }
            }
        }
        Ok(())
    }

    /// How much of references is simulated now.
    pub(super) fn detail(&self) -> Detail {
        self.sampling.as_ref().map_or(Detail::All, |sampling| sampling.detail)
    }

    /// References of a step that are followed: TLBs see them, caches perhaps, the window does not, and time passes at the
    /// rate that was measured so far.
    pub(super) fn follow(&mut self, segment: Segment, counts: &Counts) -> Result<(), SimulationError> {
        let before = self.clock(self.processor.on());
        self.run(segment)?;
        self.hardware_threads.executed(self.processor.on(), counts, 0);
        let (cycles, of) = self.sampling.as_ref().map_or((0, 0), |sampling| (sampling.cycles, sampling.instructions));
        let millicycles = match of {
            0 => self.millicycles_per_instruction,
            of => (u128::from(cycles) * 1000 / u128::from(of)) as u64,
        };
        let after = before + (u128::from(counts.instructions) * u128::from(millicycles) / 1000) as u64;
        if after > self.clock(self.processor.on()) {
            self.wait_until(after);
        }
        Ok(())
    }

    /// Ends the interval that is under way, if there is one.
    pub(super) fn end_interval(&mut self) {
        self.settle();
        let (caches, beyond) = self.caches_now();
        let total = self.total_of(self.processor.on());
        let Some(sampling) = &mut self.sampling else { return };
        let Some((tally_before, caches_before, beyond_before)) = sampling.from.take() else { return };
        let tally = total.since(&tally_before);
        if tally.counts.references() == 0 {
            return;
        }
        sampling.cycles += tally.ledger.total().0;
        sampling.instructions += tally.counts.instructions;
        let beyond = beyond.iter().zip(&beyond_before).map(|(now, before)| {
            let mut all = *now;
            all.iter_mut().zip(before).for_each(|(now, before)| *now = now.since(before));
            all
        });
        sampling.sample.intervals.push(Interval {
            tally,
            processes: std::mem::take(&mut sampling.processes),
            caches: caches.iter().zip(&caches_before).map(|(now, before)| now.since(before)).collect(),
            beyond: beyond.collect(),
        });
    }

    fn caches_now(&self) -> (Vec<CacheCounters>, Vec<[MemoryAccesses; Access::KINDS]>) {
        let caches = self.processor.all_caches();
        let counters = caches.iter().flat_map(|caches| caches.counters().map(|(_, counters)| counters)).collect();
        (counters, caches.iter().map(|caches| caches.beyond).collect())
    }

    /// Books on a process what it has done. Where the program is sampled, that is what it has done in an interval.
    pub(super) fn book_on(&mut self, process: Asid, spent: &Tally) {
        match &mut self.sampling {
            None => self.processes.entry(process).or_default().absorb(spent),
            Some(sampling) if sampling.from.is_some() => {
                sampling.processes.entry(process).or_default().absorb(spent);
            }
            Some(_) => {}
        }
    }

    /// The sample, where the program was one. Ends what is under way.
    pub(super) fn take_sample(&mut self) -> Option<Sample> {
        self.end_interval();
        let sample = self.sampling.take()?.sample;
        for (asid, tally) in sample.intervals.iter().flat_map(|interval| &interval.processes) {
            self.processes.entry(*asid).or_default().absorb(tally);
        }
        Some(sample)
    }
}
