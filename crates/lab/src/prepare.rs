//! Decode once: turns the chunks of a program into batches that any number of simulations read at the same time.

mod lookahead;

pub use lookahead::Lookahead;

use crate::attribution::returns_to;
use crate::conditions::Timing;
use reach_core::last_use::LastUses;
use reach_core::lines::LineFilter;
use reach_core::{BlockId, BlockTable, Chunk, Event, Mark, Step, StepCutter, VirtAddr};
use reach_hardware::config::Predictor;
use reach_hardware::ooo::{BranchTrainer, Code, Following, TrainedPredictor};

/// A folded chunk, and the steps in which simulations take it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The program's chunk.
    pub chunk: Chunk,
    /// The steps in order. Together they are the whole chunk.
    pub steps: Vec<Step>,
    /// The instructions of all blocks so far; empty unless the timing is out of order, or a system reads branches.
    pub code: Code,
    /// Steps before which simulation in detail begins, by their number, with one predictor of each kind, trained by the
    /// program so far.
    pub predictors: Vec<(usize, Vec<TrainedPredictor>)>,
    /// The new blocks that end in a call, and where it returns to; empty unless costs are attributed.
    pub calls: Vec<(BlockId, VirtAddr)>,
    /// The references that follow the chunk; empty unless [`Lookahead`] has added them.
    pub following: Following,
    /// Whether the program ends here.
    pub last: bool,
}

impl Batch {
    /// Returns the empty batch that ends a program.
    pub fn end() -> Batch {
        Batch { last: true, ..Batch::default() }
    }
}

/// Turns chunks into batches.
#[derive(Debug)]
pub struct Preparer {
    steps: StepCutter,
    /// The instructions of all blocks so far; `None` unless the timing is out of order, or [`Preparer::decoding`].
    code: Option<Code>,
    out_of_order: bool,
    /// One for each kind of predictor; empty unless the program is sampled.
    trainers: Vec<BranchTrainer>,
    last_uses: LastUses,
    /// Whether caches are only warmed from here on.
    warms_caches: bool,
    /// The number of the kernel's blocks, which come before the program's; `None` where its code is not simulated.
    kernel_blocks: Option<usize>,
    /// The blocks whose calls have been found; `None` where nobody needs them.
    blocks_with_calls: Option<usize>,
}

impl Preparer {
    /// Makes batches for simulations of this timing on one hardware thread, which measure all of the program.
    pub fn new(timing: Timing) -> Preparer {
        let out_of_order = timing == Timing::Ooo;
        Preparer {
            steps: StepCutter::default(),
            code: out_of_order.then(Code::default),
            out_of_order,
            trainers: Vec::new(),
            last_uses: LastUses::default(),
            warms_caches: false,
            kernel_blocks: None,
            blocks_with_calls: None,
        }
    }

    /// Decodes the program's instructions in every timing, for simulations that read branches
    /// ([`crate::Simulation::reads_branches`]). Call it before [`Preparer::with_kernel`].
    pub fn decoding(self) -> Preparer {
        Preparer { code: Some(self.code.unwrap_or_default()), ..self }
    }

    /// Cuts steps of at most `slices` instructions; `None`: of any length.
    pub fn sliced(self, slices: Option<u64>) -> Preparer {
        Preparer { steps: slices.map_or_else(StepCutter::default, StepCutter::sliced), ..self }
    }

    /// Trains predictors of these kinds, for simulations that measure a sample.
    pub fn training(self, predictors: impl IntoIterator<Item = Predictor>) -> Preparer {
        let mut kinds: Vec<Predictor> = Vec::new();
        for kind in predictors {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Preparer { trainers: kinds.into_iter().map(BranchTrainer::new).collect(), ..self }
    }

    /// Makes batches for simulations that also execute `kernel`, the kernel's own code: its blocks come before the program's,
    /// and system calls stay.
    pub fn with_kernel(self, kernel: &Code) -> Preparer {
        let code = self.code.map(|_| kernel.clone());
        Preparer { code, kernel_blocks: Some(kernel.blocks()), ..self }
    }

    /// Finds the calls at the ends of blocks, for simulations that attribute costs.
    pub fn with_calls(self) -> Preparer {
        Preparer { blocks_with_calls: Some(0), ..self }
    }

    /// Folds `chunk` and divides it into steps. An outline already consists of steps. `blocks` must hold every block of the
    /// chunk.
    pub fn prepare(&mut self, mut chunk: Chunk, blocks: &BlockTable) -> Batch {
        if chunk.is_outline() {
            return Batch { steps: chunk.outline.clone(), chunk, ..Batch::default() };
        }
        self.steps.learn(blocks);
        let others = self.kernel_blocks.unwrap_or(0);
        if let Some(code) = &mut self.code {
            code.learn_behind(others, blocks);
        }
        if self.kernel_blocks.is_none() {
            chunk.events.retain(|(_, event)| !matches!(event, Event::SystemCall(_)));
        }
        chunk.fold();
        let mut steps = self.steps.cut(&chunk.refs, &chunk.fetched, &chunk.events);
        chunk.fetched.iter_mut().for_each(|block| *block = BlockId(block.0 + others as u32));
        let (mut from, mut predictors) = (0, Vec::new());
        for (number, step) in steps.iter_mut().enumerate() {
            let end = from + chunk.page_refs[from..].partition_point(|entry| entry.index() < step.refs.end);
            step.page_refs = from..end;
            from = end;
            if self.takes_marks(&chunk.events[step.events.clone()]) && !self.trainers.is_empty() {
                predictors.push((number, self.trainers.iter().map(BranchTrainer::trained).collect()));
            }
            // In order, caches are warmed by the loop that also times them.
            if let Some(code) = self.code.as_ref().filter(|_| self.out_of_order) {
                let (refs, blocks) = (&chunk.refs[step.refs.clone()], &chunk.fetched[step.fetched.clone()]);
                self.trainers.iter_mut().for_each(|trainer| trainer.run(code, refs, blocks));
                if self.warms_caches {
                    self.find_last_uses(&mut chunk, step);
                }
            }
        }
        let code = self.code.clone().unwrap_or_default();
        Batch { chunk, steps, code, predictors, calls: self.new_calls(blocks), ..Batch::default() }
    }

    /// Returns the calls at the ends of the blocks that are new.
    fn new_calls(&mut self, blocks: &BlockTable) -> Vec<(BlockId, VirtAddr)> {
        let Some(known) = &mut self.blocks_with_calls else { return Vec::new() };
        let new = std::mem::replace(known, blocks.len())..blocks.len();
        let ids = new.map(|id| BlockId(id as u32));
        ids.filter_map(|id| Some((id, returns_to(blocks.get(id))?))).collect()
    }

    /// Takes the marks among the events that precede a step. Returns whether simulation in detail begins there.
    fn takes_marks(&mut self, events: &[(u32, Event)]) -> bool {
        let mut details = false;
        for (_, event) in events {
            match event {
                Event::Mark(Mark::WarmCaches) => (self.warms_caches, details) = (true, false),
                Event::Mark(Mark::WarmTlbs) => (self.warms_caches, details) = (false, false),
                Event::Mark(Mark::Detailed) => (self.warms_caches, details) = (false, true),
                _ => {}
            }
            self.trainers.iter_mut().for_each(BranchTrainer::interrupt);
        }
        details
    }

    /// Finds what functional warming needs of a step.
    fn find_last_uses(&mut self, chunk: &mut Chunk, step: &mut Step) {
        let start = chunk.last_lines.len();
        LineFilter::fold(&chunk.refs, step.refs.clone(), &mut chunk.last_lines);
        self.last_uses.of_lines(&chunk.refs, &mut chunk.last_lines, start);
        step.last_lines = start..chunk.last_lines.len();
        let start = chunk.last_pages.len();
        self.last_uses.of_pages(&chunk.page_refs[step.page_refs.clone()], &mut chunk.last_pages);
        step.last_pages = start..chunk.last_pages.len();
    }
}
