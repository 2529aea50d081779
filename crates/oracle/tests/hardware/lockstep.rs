//! MMUs under test and their twin, run in lockstep and compared at every stop.

use crate::random_os::{Edit, Memory, RandomOs};
use crate::random_program::{PROCESSES, ProgramStep, ReferenceBuilder};
use crate::test_assist::TestAssist;
use reach_core::{
    Asid, AuxTlbOptions, Chunk, Counts, Label, Ledger, PageTable, Pte, RangeTranslation, Ref, Step, StopReason, Vpn,
    fold,
};
use reach_hardware::config::Machine;
use reach_hardware::{Access, CacheCounters, Caches, Counters, CurveCounts, Geometry, Mmu, StepRefs};
use std::ops::Range;

/// The random choices of one comparison.
#[derive(Clone, Debug)]
pub struct Setup {
    pub machine: Machine,
    pub perfect: bool,
    /// Whether references go through caches.
    pub cached: bool,
    pub aux_tlb: Option<AuxTlbOptions>,
    /// Whether there is a walk assist.
    pub assist: bool,
    /// In a guest: a monitor that shadows the page tables, and whether it is agile.
    pub monitor: Option<bool>,
    pub seed: u64,
}

/// Whether a run is cut into steps where the program says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    Heed,
    Ignore,
}

/// An MMU under test, with memory of its own.
struct Fast {
    mmu: Mmu,
    caches: Option<Caches>,
    memory: Memory,
}

/// The twin, with memory of its own.
struct Slow {
    mmu: reach_oracle::Mmu,
    caches: Option<reach_oracle::Caches>,
    memory: Memory,
}

/// All that can be observed of a side.
#[derive(Clone, Debug, PartialEq)]
struct View {
    counters: Counters,
    ledger: Ledger,
    caches: Vec<CacheCounters>,
    held: Vec<(usize, Asid, Vpn, Pte)>,
    ranges: Vec<(Asid, RangeTranslation)>,
    aux_tlb_pages: Vec<(Asid, Vpn, Pte)>,
    assist: Vec<(Vpn, Pte)>,
}

/// Sorts the contents of TLB arrays, whose order both sides are free to choose.
pub fn sorted(mut held: Vec<(usize, Asid, Vpn, Pte)>) -> Vec<(usize, Asid, Vpn, Pte)> {
    held.sort_by_key(|&(array, asid, vpn, pte)| (array, asid, vpn, pte.0));
    held
}

/// Sorts by address space, and keeps the order of use within each.
fn by_space(mut ranges: Vec<(Asid, RangeTranslation)>) -> Vec<(Asid, RangeTranslation)> {
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
        if setup.assist {
            mmu.attach_walk_assist(Box::new(TestAssist::new(setup.seed, setup.machine.sizes[0])));
        }
        if !fold {
            mmu.disable_folding();
        }
        Fast {
            mmu,
            caches: setup.cached.then(|| Caches::new(&setup.machine, setup.seed)),
            memory: Memory::shadowed(&setup.machine.layout, PROCESSES, setup.monitor),
        }
    }

    fn edit(&mut self, edit: Edit) {
        self.memory.edit(edit);
        match (edit, &mut self.caches) {
            (Edit::Shootdown(shootdown), _) => self.mmu.invalidate(&shootdown),
            (Edit::Access { at, is_store }, Some(caches)) => {
                caches.access(if is_store { Access::Store } else { Access::Load }, at);
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
            aux_tlb_pages: by_page(self.mmu.aux_tlb_pages()),
            assist: self.mmu.assist_translations(),
        }
    }
}

impl Slow {
    fn new(setup: &Setup) -> Slow {
        let mut mmu = reach_oracle::Mmu::new(&setup.machine, setup.perfect, setup.seed);
        setup.aux_tlb.into_iter().for_each(|aux_tlb| mmu.attach_aux_tlb(aux_tlb));
        if setup.assist {
            mmu.attach_walk_assist(Box::new(TestAssist::new(setup.seed, setup.machine.sizes[0])));
        }
        Slow {
            mmu,
            caches: setup.cached.then(|| reach_oracle::Caches::new(&setup.machine, setup.seed)),
            memory: Memory::shadowed(&setup.machine.layout, PROCESSES, setup.monitor),
        }
    }

    fn edit(&mut self, edit: Edit) {
        self.memory.edit(edit);
        match (edit, &mut self.caches) {
            (Edit::Shootdown(shootdown), _) => self.mmu.invalidate(&shootdown),
            (Edit::Access { at, is_store }, Some(caches)) => {
                caches.access(if is_store { Access::Store } else { Access::Load }, at);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View {
            counters: self.mmu.counters,
            ledger: self.mmu.ledger.clone(),
            caches: self.caches.iter().flat_map(|c| c.counters()).collect(),
            held: sorted(self.mmu.contents()),
            ranges: by_space(self.mmu.ranges()),
            aux_tlb_pages: by_page(self.mmu.aux_tlb_pages()),
            assist: self.mmu.assist_translations(),
        }
    }
}

/// Returns the step of these references of a chunk, whose folded references are `page_refs`.
pub fn step_of(refs: Range<usize>, page_refs: &[fold::PageRef]) -> Step {
    let folded = |at: usize| page_refs.partition_point(|page_ref| page_ref.index() < at);
    Step { page_refs: folded(refs.start)..folded(refs.end), refs, ..Default::default() }
}

/// Returns a chunk with the outline of `refs` as its only step.
fn outline(refs: &[Ref]) -> Chunk {
    let mut chunk = Chunk::default();
    fold::outline(refs, &mut chunk.page_refs);
    let counts = Counts { loads: refs.len() as u64, ..Counts::default() };
    chunk.outline.push(Step { page_refs: 0..chunk.page_refs.len(), counts, ..Default::default() });
    chunk
}

/// The twin and the MMUs that must behave like it.
pub struct Lockstep {
    slow: Slow,
    /// An MMU that folds references where it may, and one that never does.
    fast: [Fast; 2],
    /// An MMU that gets outlines. `None` if it cannot take them, and after one did not suffice.
    outlined: Option<Fast>,
    os: RandomOs,
    asid: Asid,
    /// The number of base pages of the address space.
    base_pages: u64,
    /// The stops so far, for messages.
    stops: u64,
}

impl Lockstep {
    pub fn new(setup: &Setup) -> Lockstep {
        let Machine { layout, sizes, .. } = &setup.machine;
        Lockstep {
            slow: Slow::new(setup),
            fast: [Fast::new(setup, true), Fast::new(setup, false)],
            outlined: Some(Fast::new(setup, true)).filter(|fast| fast.caches.is_none() && fast.mmu.takes_outlines()),
            os: RandomOs::new(layout, sizes, setup.aux_tlb.is_some() || setup.assist, setup.seed),
            asid: Asid(0),
            base_pages: 1 << (layout.address_bits() - layout.base.0),
            stops: 0,
        }
    }

    /// Runs a program as one chunk.
    pub fn run(&mut self, machine: &Machine, program: &[ProgramStep], cuts: Cuts) {
        let mut builder = ReferenceBuilder::new(machine);
        let refs = program.iter().filter_map(|step| builder.reference(step)).collect::<Vec<Ref>>();
        let chunk = Chunk::from(refs);
        let (mut start, mut at) = (0, 0);
        for step in program {
            match step {
                ProgramStep::Visit(..) | ProgramStep::Revisit(..) => {
                    at += 1;
                    continue;
                }
                ProgramStep::Cut if cuts == Cuts::Ignore => continue,
                ProgramStep::Cut | ProgramStep::Switch(_) | ProgramStep::Interfere => self.run_step(&chunk, start..at),
            }
            start = at;
            match step {
                ProgramStep::Switch(space) => self.switch(*space),
                ProgramStep::Interfere => {
                    let edits = self.os.interfere(&self.slow.memory);
                    self.edit(&edits);
                }
                _ => {}
            }
        }
        self.run_step(&chunk, start..at);
        self.check_tables();
    }

    fn switch(&mut self, asid: Asid) {
        self.asid = asid;
        self.slow.mmu.switch(asid);
        self.fast.iter_mut().chain(&mut self.outlined).for_each(|fast| fast.mmu.switch(asid));
    }

    fn edit(&mut self, edits: &[Edit]) {
        for &edit in edits {
            self.slow.edit(edit);
            self.fast.iter_mut().chain(&mut self.outlined).for_each(|fast| fast.edit(edit));
        }
    }

    /// Runs references to their end, and lets the operating system handle every stop.
    fn run_step(&mut self, chunk: &Chunk, range: Range<usize>) {
        let step = StepRefs::new(chunk, &step_of(range.clone(), &chunk.page_refs));
        let outline = outline(&chunk.refs[range.clone()]);
        let in_outline = StepRefs::new(&outline, &outline.outline[0]);
        let refs = &chunk.refs[..range.end];
        let mut cursors = [step.begin(); 2];
        let mut outline_cursor = in_outline.begin();
        let mut done = range.start;
        loop {
            let Slow { mmu, caches, memory } = &mut self.slow;
            let (stop, consumed) = mmu.run(&refs[done..], memory.table(self.asid), caches.as_mut());
            done += consumed;
            self.stops += 1;
            let at = (self.stops, done, refs.get(done), stop);
            let expected = self.slow.view();
            for (fast, cursor) in self.fast.iter_mut().zip(&mut cursors) {
                let Fast { mmu, caches, memory } = fast;
                let got = mmu.run(step, cursor, memory.table(self.asid), caches.as_mut());
                let folds = mmu.folds();
                assert_eq!((got, cursor.position()), (stop, done), "folds: {folds}, at {at:?}");
                assert_eq!(fast.view(), expected, "folds: {folds}, at {at:?}");
                fast.mmu.check(fast.memory.table(self.asid));
            }
            if let Some(fast) = &mut self.outlined {
                let got = fast.mmu.run(in_outline, &mut outline_cursor, fast.memory.table(self.asid), None);
                if got == StopReason::NeedsReferences {
                    self.outlined = None;
                } else {
                    assert_eq!((got, fast.view()), (stop, expected.clone()), "outlined, at {at:?}");
                }
            }
            self.check_ledger(&expected);
            if stop == StopReason::End {
                self.fast.iter_mut().for_each(|fast| fast.mmu.end_step(step));
                return;
            }
            let edits = self.os.handle_stop(stop, self.asid, &self.slow.memory);
            self.edit(&edits);
            if self.os.interferes() {
                let edits = self.os.interfere(&self.slow.memory);
                self.edit(&edits);
            }
        }
    }

    /// Checks that labels sum to the total, that walks cost what was counted, and that every miss is counted once.
    fn check_ledger(&self, view: &View) {
        let of = |label: Label| view.ledger.charged(label).0;
        let used = [Label::Cache, Label::L2TlbHit, Label::Walk, Label::Handler].map(of);
        assert_eq!(view.ledger.total().0, used.iter().sum::<u64>());
        let c = &view.counters;
        assert_eq!(c.walk_cycles - c.assist_hidden_cycles, of(Label::Walk) + of(Label::Handler));
        let answered = c.l2_tlb_hits() + c.aux_tlb_walks_avoided + c.assist_hits;
        assert_eq!(c.l1i_tlb_misses + c.l1d_tlb_misses, c.walks() + answered);
    }

    /// Checks that page tables are equal to the last bit of the last replicated entry.
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
            let (level, replicas) = table.layout().placement(page.pte.shift());
            let span = table.layout().span(level).base_pages(table.layout().base);
            all.extend((0..replicas).map(|n| page.vpn + n * span).map(|vpn| (vpn, table.lookup(vpn))));
        }
        all
    }

    /// Returns how many look-ups range TLBs of 1, 2, … entries would have hit, as the MMU under test counted them.
    pub fn range_hits_by_entries(&self) -> Vec<u64> {
        self.fast[0].mmu.range_hits_by_entries()
    }

    /// Makes the MMUs under test count the misses of `geometries` in place of array number `array`. Call it before
    /// [`Lockstep::run`], with the setup's `seed`. The error says why there is no such curve.
    pub fn enable_curve(
        &mut self,
        machine: &Machine,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<(), String> {
        let mut mmus = self.fast.iter_mut().chain(&mut self.outlined);
        mmus.try_for_each(|fast| fast.mmu.enable_curve(machine, array, geometries, seed))
    }

    /// Returns the curve, and checks that all MMUs have the same.
    pub fn curve(&self) -> Result<CurveCounts, String> {
        let counts = |fast: &Fast| fast.mmu.curve_counts().expect("it was enabled");
        let all: Vec<_> = self.fast.iter().chain(&self.outlined).map(counts).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        all.into_iter().next().expect("there are two MMUs")
    }

    /// Returns what has been counted so far.
    pub fn counted(&self) -> (Counters, Ledger, Vec<CacheCounters>) {
        let View { counters, ledger, caches, .. } = self.slow.view();
        (counters, ledger, caches)
    }
}
