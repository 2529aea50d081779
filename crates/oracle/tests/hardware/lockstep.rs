//! Units under test and their twin, run side by side and compared at every stop.

use crate::random_os::{Edit, Memory, System};
use crate::random_program::{PROCESSES, Placer, Step};
use reach_core::{Asid, AuxTlbOptions, Chunk, Counts, Label, Ledger, PageTable, Pte, Ref, StopReason, Vpn, fold};
use reach_hardware::config::Machine;
use reach_hardware::{Access, CacheCounters, Caches, Counters, CurveCounts, Geometry, Mmu, StepRefs};
use std::ops::Range;

/// What is drawn once for a comparison.
#[derive(Clone, Debug)]
pub struct Setup {
    pub machine: Machine,
    pub perfect: bool,
    pub cached: bool,
    pub aux_tlb: Option<AuxTlbOptions>,
    pub seed: u64,
}

/// The unit under test with memory of its own.
struct Fast {
    mmu: Mmu,
    caches: Option<Caches>,
    memory: Memory,
}

/// The twin with memory of its own.
struct Slow {
    machine: reach_oracle::Mmu,
    caches: Option<reach_oracle::Caches>,
    memory: Memory,
}

/// All that can be seen of a side.
#[derive(Clone, Debug, PartialEq)]
struct View {
    counters: Counters,
    ledger: Ledger,
    caches: Vec<CacheCounters>,
    held: Vec<(usize, Asid, Vpn, Pte)>,
    ranges: Vec<(Asid, reach_core::RangeTranslation)>,
    beside: Vec<(Asid, Vpn, Pte)>,
}

fn sorted(mut held: Vec<(usize, Asid, Vpn, Pte)>) -> Vec<(usize, Asid, Vpn, Pte)> {
    held.sort_by_key(|&(array, asid, vpn, pte)| (array, asid, vpn, pte.0));
    held
}

/// By address space, those of each in their order.
fn by_space(mut ranges: Vec<(Asid, reach_core::RangeTranslation)>) -> Vec<(Asid, reach_core::RangeTranslation)> {
    ranges.sort_by_key(|&(asid, _)| asid);
    ranges
}

fn by_page(mut pages: Vec<(Asid, Vpn, Pte)>) -> Vec<(Asid, Vpn, Pte)> {
    pages.sort_by_key(|&(asid, vpn, pte)| (asid, vpn, pte.0));
    pages
}

impl Fast {
    fn new(setup: &Setup, fold: bool) -> Fast {
        let mut mmu = Mmu::new(&setup.machine, setup.perfect, setup.seed);
        setup.aux_tlb.into_iter().for_each(|aux_tlb| mmu.attach_aux_tlb(aux_tlb));
        if !fold {
            mmu.disable_folding();
        }
        Fast {
            mmu,
            caches: setup.cached.then(|| Caches::new(&setup.machine, setup.seed)),
            memory: Memory::new(&setup.machine.layout, PROCESSES),
        }
    }

    fn edit(&mut self, edit: Edit) {
        self.memory.edit(edit);
        match (edit, &mut self.caches) {
            (Edit::Shoot(shootdown), _) => self.mmu.invalidate(&shootdown),
            (Edit::Access(at, write), Some(caches)) => {
                caches.access(if write { Access::Store } else { Access::Load }, at);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View {
            counters: self.mmu.counters,
            ledger: self.mmu.ledger.clone(),
            caches: self.caches.iter().flat_map(|c| c.counters().map(|(_, counters)| counters)).collect(),
            held: sorted(self.mmu.contents()),
            ranges: self.mmu.ranges(),
            beside: by_page(self.mmu.aux_tlb_pages()),
        }
    }
}

impl Slow {
    fn new(setup: &Setup) -> Slow {
        let mut machine = reach_oracle::Mmu::new(&setup.machine, setup.perfect, setup.seed);
        setup.aux_tlb.into_iter().for_each(|aux_tlb| machine.attach_aux_tlb(aux_tlb));
        Slow {
            machine,
            caches: setup.cached.then(|| reach_oracle::Caches::new(&setup.machine, setup.seed)),
            memory: Memory::new(&setup.machine.layout, PROCESSES),
        }
    }

    fn edit(&mut self, edit: Edit) {
        self.memory.edit(edit);
        match (edit, &mut self.caches) {
            (Edit::Shoot(shootdown), _) => self.machine.invalidate(&shootdown),
            (Edit::Access(at, write), Some(caches)) => {
                caches.access(if write { Access::Store } else { Access::Load }, at);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View {
            counters: self.machine.counters,
            ledger: self.machine.ledger.clone(),
            caches: self.caches.iter().flat_map(|c| c.counters()).collect(),
            held: sorted(self.machine.contents()),
            ranges: by_space(self.machine.ranges()),
            beside: by_page(self.machine.pages_aux_tlb()),
        }
    }
}

/// These references of a chunk, as a step.
fn step(refs: Range<usize>, entries: &[fold::PageRef]) -> reach_core::Step {
    let entry = |at: usize| entries.partition_point(|entry| entry.index() < at);
    reach_core::Step { page_refs: entry(refs.start)..entry(refs.end), refs, ..Default::default() }
}

/// The outline of a step.
fn outline(refs: &[Ref]) -> Chunk {
    let mut chunk = Chunk::default();
    fold::outline(refs, &mut chunk.page_refs);
    let counts = Counts { loads: refs.len() as u64, ..Counts::default() };
    chunk.outline.push(reach_core::Step { page_refs: 0..chunk.page_refs.len(), counts, ..Default::default() });
    chunk
}

/// A twin and the units that must do as it does: one that folds where it may, one that never does, and one that gets
/// outlines, where it can and as long as they suffice.
pub struct Lockstep {
    slow: Slow,
    fast: [Fast; 2],
    outlined: Option<Fast>,
    system: System,
    asid: Asid,
    base_pages: u64,
    stops: u64,
}

impl Lockstep {
    pub fn new(setup: &Setup) -> Lockstep {
        let Machine { layout, sizes, .. } = &setup.machine;
        Lockstep {
            slow: Slow::new(setup),
            fast: [Fast::new(setup, true), Fast::new(setup, false)],
            outlined: Some(Fast::new(setup, true)).filter(|fast| fast.caches.is_none() && fast.mmu.takes_outlines()),
            system: System::new(layout, sizes, setup.aux_tlb.is_some(), setup.seed),
            asid: Asid(0),
            base_pages: 1 << (layout.address_bits() - layout.base.0),
            stops: 0,
        }
    }

    /// Runs a program, which is one chunk. `cuts`: whether its plain cuts are heeded.
    pub fn run(&mut self, machine: &Machine, steps: &[Step], cuts: bool) {
        let mut placer = Placer::new(machine);
        let refs = steps.iter().filter_map(|step| placer.reference(step)).collect::<Vec<Ref>>();
        let chunk = Chunk::from(refs);
        let (mut start, mut at) = (0, 0);
        for step in steps {
            match step {
                Step::To(..) | Step::Again(..) => {
                    at += 1;
                    continue;
                }
                Step::Cut if !cuts => continue,
                Step::Cut | Step::Switch(_) | Step::Meddle => self.segment(&chunk, start..at),
            }
            start = at;
            match step {
                Step::Switch(process) => self.switch(Asid(*process)),
                Step::Meddle => {
                    let edits = self.system.meddle(&self.slow.memory);
                    self.edit(&edits);
                }
                _ => {}
            }
        }
        self.segment(&chunk, start..at);
        self.check_tables();
    }

    fn switch(&mut self, asid: Asid) {
        self.asid = asid;
        self.slow.machine.switch(asid);
        self.fast.iter_mut().chain(&mut self.outlined).for_each(|fast| fast.mmu.switch(asid));
    }

    fn edit(&mut self, edits: &[Edit]) {
        for &edit in edits {
            self.slow.edit(edit);
            self.fast.iter_mut().chain(&mut self.outlined).for_each(|fast| fast.edit(edit));
        }
    }

    /// Runs references to their end, with the operating system's help.
    fn segment(&mut self, chunk: &Chunk, range: Range<usize>) {
        let segment = StepRefs::new(chunk, &step(range.clone(), &chunk.page_refs));
        let outline = outline(&chunk.refs[range.clone()]);
        let in_outline = StepRefs::new(&outline, &outline.outline[0]);
        let refs = &chunk.refs[..range.end];
        let mut cursors = [segment.begin(); 2];
        let mut outline_cursor = in_outline.begin();
        let mut done = range.start;
        loop {
            let Slow { machine, caches, memory } = &mut self.slow;
            let (why, consumed) = machine.run(&refs[done..], memory.table(self.asid), caches.as_mut());
            done += consumed;
            self.stops += 1;
            let at = (self.stops, done, refs.get(done), why);
            let expected = self.slow.view();
            for (fast, cursor) in self.fast.iter_mut().zip(&mut cursors) {
                let Fast { mmu, caches, memory } = fast;
                let got = mmu.run(segment, cursor, memory.table(self.asid), caches.as_mut());
                let folds = mmu.folds();
                assert_eq!((got, cursor.position()), (why, done), "folds: {folds}, at {at:?}");
                assert_eq!(fast.view(), expected, "folds: {folds}, at {at:?}");
                fast.mmu.check(fast.memory.table(self.asid));
            }
            if let Some(fast) = &mut self.outlined {
                let got = fast.mmu.run(in_outline, &mut outline_cursor, fast.memory.table(self.asid), None);
                if got == StopReason::NeedsReferences {
                    self.outlined = None;
                } else {
                    assert_eq!((got, fast.view()), (why, expected.clone()), "outlined, at {at:?}");
                }
            }
            self.check_ledger(&expected);
            if why == StopReason::End {
                return;
            }
            let edits = self.system.answer(why, self.asid, &self.slow.memory);
            self.edit(&edits);
            if self.system.also_meddles() {
                let edits = self.system.meddle(&self.slow.memory);
                self.edit(&edits);
            }
        }
    }

    /// Labels sum to the total, and walks cost what was counted.
    fn check_ledger(&self, view: &View) {
        let of = |label: Label| view.ledger.charged(label).0;
        let used = [Label::Cache, Label::L2TlbHit, Label::Walk, Label::Handler].map(of);
        assert_eq!(view.ledger.total().0, used.iter().sum::<u64>());
        assert_eq!(view.counters.walk_cycles, of(Label::Walk) + of(Label::Handler));
        let missed = view.counters.l1i_tlb_misses + view.counters.l1d_tlb_misses;
        let c = &view.counters;
        assert_eq!(missed, c.walks() + c.l2_tlb_hits() + c.aux_tlb_walks_avoided);
    }

    /// Page tables are equal to the last bit of the last copy.
    fn check_tables(&self) {
        for fast in self.fast.iter().chain(&self.outlined) {
            for (table, expected) in fast.memory.tables.iter().zip(&self.slow.memory.tables) {
                table.check();
                assert_eq!(self.entries(table), self.entries(expected));
            }
        }
    }

    fn entries(&self, table: &PageTable) -> Vec<(Vpn, Option<Pte>)> {
        let mut all = Vec::new();
        for page in table.pages(Vpn(0), self.base_pages) {
            let (level, copies) = table.layout().placement(page.pte.shift());
            let span = table.layout().span(level).base_pages(table.layout().base);
            all.extend((0..copies).map(|n| page.vpn + n * span).map(|vpn| (vpn, table.lookup(vpn))));
        }
        all
    }

    /// How many searches range TLBs of 1, 2, … entries would have answered, as the unit under test counted them.
    pub fn range_hits_by_entries(&self) -> Vec<u64> {
        self.fast[0].mmu.range_hits_by_entries()
    }

    /// From now on the units under test also count what arrays of `geometries` would miss in the place of array number
    /// `array`; `seed` is the setup's. Says why not, if so.
    pub fn observe(
        &mut self,
        machine: &Machine,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<(), String> {
        let mut units = self.fast.iter_mut().chain(&mut self.outlined);
        units.try_for_each(|fast| fast.mmu.enable_curve(machine, array, geometries, seed))
    }

    /// What they have counted, which is the same for all.
    pub fn curve(&self) -> Result<CurveCounts, String> {
        let counts = |fast: &Fast| fast.mmu.curve_counts().expect("it was asked for");
        let all: Vec<_> = self.fast.iter().chain(&self.outlined).map(counts).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        all.into_iter().next().expect("there are two units")
    }

    /// What has been counted so far.
    pub fn counted(&self) -> (Counters, Ledger, Vec<CacheCounters>) {
        let View { counters, ledger, caches, .. } = self.slow.view();
        (counters, ledger, caches)
    }
}
