//! The out-of-order core's times equal those of its naive twin, on random instructions.

use proptest::prelude::*;
use reach_core::{BlockId, Kind, Random, Ref, VirtAddr};
use reach_hardware::config::{Latencies, OooCore as Config, PageEnd, Predictor, Prefetch, RegisterFiles, Schedulers};
use reach_hardware::ooo::{
    BlockSpan, BranchKind, ByteRange, Code, FOLLOWING, Following, Inst, MemoryReference, NO_SOURCE, NO_TARGET, OooCore,
    OpClass, Renamed, RightPath, TranslationCost, WrongPathLoad, WrongPathLookup, WrongPathMemory, WrongPathWalk,
};
use reach_oracle::ooo::{DataReference, FixedMemory, InstId, NaiveOooCore, RightBlock, Squashes};

/// A core so small that each of its resources is exhausted at times.
fn config(random: &mut Random) -> Config {
    let mut up_to = |most: u64| 1 + random.below(most) as u32;
    Config {
        rob: up_to(40),
        registers: RegisterFiles { integer: 2 + up_to(30), vector: 2 + up_to(30), flags_in_integer: up_to(2) > 1 },
        schedulers: Schedulers { entries: [(); 4].map(|()| up_to(20)), of: [(); 4].map(|()| up_to(4) as u8 - 1) },
        width: up_to(6),
        load_ports: up_to(3),
        store_ports: up_to(2),
        load_queue: up_to(20),
        store_queue: up_to(12),
        l1_mshrs: up_to(6),
        l1_fill: up_to(4) - 1,
        memory: up_to(40),
        line_interval: up_to(12).saturating_sub(4),
        front_end_depth: up_to(15) - 1,
        fetch_queue: up_to(30),
        itlb_inclusion: false,
        latencies: Latencies { multiply: up_to(4), divide: up_to(30), float: up_to(5), float_divide: up_to(20) },
        itlb_replay: up_to(4) - 1,
        wrong_path: up_to(4) > 1,
        prefetch: Prefetch {
            streams: 0,
            distance: 0,
            degree: 0,
            adjacent_line: false,
            page_end: PageEnd::Stop,
            max_in_flight: 0,
        },
        predictor: Predictor { entries: 64, history: 8, return_stack: 1 },
    }
}

fn instruction(random: &mut Random) -> Inst {
    let mut register = |unused: u8| if random.below(3) == 0 { unused } else { random.below(6) as u8 };
    let address = [register(NO_SOURCE), register(NO_SOURCE)];
    let sources = [register(NO_SOURCE), register(NO_SOURCE), NO_SOURCE, NO_SOURCE];
    let targets = [register(NO_TARGET), NO_TARGET, NO_TARGET];
    let classes = [
        OpClass::Move,
        OpClass::Simple,
        OpClass::Simple,
        OpClass::Multiply,
        OpClass::Divide,
        OpClass::Float,
        OpClass::FloatDivide,
    ];
    let class = classes[random.below(7) as usize];
    let [loads, stores] = [random.below(4) / 2, random.below(4) / 3].map(|number| number as u8);
    let [integer, vector, flags] =
        [random.below(6) / 2, random.below(5) / 3, random.below(3)].map(|number| number as u8);
    let renamed = Renamed { integer, vector, only_flags: integer == 0 && flags == 0 };
    Inst { address, sources, targets, renamed, class, loads, stores, ..Inst::UNKNOWN }
}

/// Five consecutive blocks of a hundred bytes, each with any branch at its end.
fn program(random: &mut Random) -> Vec<(BlockSpan, Vec<Inst>)> {
    let mut block = |number: u64| {
        let mut insts: Vec<Inst> = (0..1 + random.below(9)).map(|_| instruction(random)).collect();
        let branches = [
            BranchKind::None,
            BranchKind::Jump,
            BranchKind::Call,
            BranchKind::Indirect,
            BranchKind::IndirectCall,
            BranchKind::Return,
        ];
        let last = insts.last_mut().unwrap();
        last.branch = branches.get(random.below(12) as usize).copied().unwrap_or(BranchKind::Conditional);
        let is_direct = matches!(last.branch, BranchKind::Jump | BranchKind::Call | BranchKind::Conditional);
        let target = is_direct.then(|| random.below(6) * 100);
        (BlockSpan { start: number * 100, end: number * 100 + 100, target }, insts)
    };
    (0..5).map(&mut block).collect()
}

/// Memory whose every answer is a hash of the address and of this seed.
#[derive(Clone, Copy)]
struct HashedMemory(u64);

impl HashedMemory {
    /// A number below `limit`; `question` tells apart what is asked about address `at`.
    fn below(self, question: u64, at: u64, limit: u64) -> u64 {
        Random::new(self.0 ^ question << 32 ^ at).below(limit)
    }
}

impl FixedMemory for HashedMemory {
    fn page(&self, at: u64) -> u64 {
        at / 64
    }
    fn is_mapped(&self, at: u64) -> bool {
        self.below(1, at / 64, 4) > 0
    }
    fn look_up(&self, kind: Kind, at: u64, within: u64) -> WrongPathLookup {
        let latency = self.below(2, at / 64, 2) * 7;
        match self.below(3, at / 64 * 4 + kind as u64, 8) {
            0 => WrongPathLookup::Unusable,
            _ if latency > within => WrongPathLookup::Unusable,
            1..3 => WrongPathLookup::Miss(latency),
            _ => WrongPathLookup::Hit(latency),
        }
    }
    fn walk(&self, kind: Kind, at: u64, within: u64) -> WrongPathWalk {
        let cycles = 1 + self.below(4, at / 64 * 4 + kind as u64, 60);
        let translated = cycles <= within && FixedMemory::is_mapped(self, at);
        WrongPathWalk { cycles: cycles.min(within), translated }
    }
    fn is_in_l1(&self, at: u64) -> bool {
        self.below(5, at / 64, 2) == 0
    }
    fn load(&self, at: u64) -> WrongPathLoad {
        let miss = [12, 200, 1500][self.below(6, at / 64, 3) as usize];
        let latency = if FixedMemory::is_in_l1(self, at) { 4 } else { miss };
        WrongPathLoad { line: at / 64, l1_latency: 4, latency }
    }
    fn fetch(&self, bytes: ByteRange) -> u64 {
        self.below(7, bytes.start + bytes.end, 20).saturating_sub(12)
    }
}

impl WrongPathMemory for HashedMemory {
    fn page(&self, at: u64) -> u64 {
        FixedMemory::page(self, at)
    }
    fn page_end(&self, at: u64) -> u64 {
        (at / 64 + 1) * 64
    }
    fn is_mapped(&self, at: u64) -> bool {
        FixedMemory::is_mapped(self, at)
    }
    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathLookup {
        FixedMemory::look_up(self, kind, at, within)
    }
    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathWalk {
        FixedMemory::walk(self, kind, at, within)
    }
    fn is_in_l1(&self, at: u64) -> bool {
        FixedMemory::is_in_l1(self, at)
    }
    fn load(&mut self, _: &mut OooCore, at: u64, _: u64) -> WrongPathLoad {
        FixedMemory::load(self, at)
    }
    fn fetch(&mut self, bytes: ByteRange) -> u64 {
        FixedMemory::fetch(self, bytes)
    }
}

/// A translation that misses the first-level TLB about twice in `period` times.
fn translation(random: &mut Random, period: u64) -> TranslationCost {
    let tlb = if random.below(period) == 0 { 7 } else { 0 };
    let walk = if random.below(period) == 0 { 1 + random.below(80) as u32 } else { 0 };
    let memory_reads = if walk > 0 { random.below(3) as u32 } else { 0 };
    let l1_miss_cycles = random.below(u64::from(walk) + 1) as u32;
    // Some walks verify a prediction.
    let (walk, hidden_walk) = if random.below(4) == 0 { (0, walk) } else { (walk, 0) };
    let data_ahead = walk > 0 && random.below(4) == 0;
    TranslationCost { tlb, walk, memory_reads, l1_miss_cycles, handler: 0, hidden_walk, data_ahead }
}

/// A reference to eight bytes within the first `words` words.
fn data_reference(random: &mut Random, is_store: bool, words: u64) -> DataReference {
    let start = random.below(words) * 8 + random.below(8);
    let latency = match random.below(4) {
        0 => 12,
        1 if random.below(4) == 0 => 1500,
        1 => 200,
        _ if is_store => 0,
        _ => 4,
    };
    let bytes = ByteRange { start, end: start + 8 };
    let (line, page, translation) = (start / 64, start / 256, translation(random, 8));
    DataReference { is_store, reference: MemoryReference { bytes, line, page, translation, l1_latency: 4, latency } }
}

/// One execution of a block: its number, the cost of its fetch and of its lines, whether the operating system acts before it,
/// and the references of each instruction.
struct Step {
    number: usize,
    fetch: TranslationCost,
    line_delay: u32,
    serialise: bool,
    references: Vec<Vec<DataReference>>,
}

fn step(random: &mut Random, blocks: &[(BlockSpan, Vec<Inst>)], words: u64, run: &mut u64) -> Step {
    let number = random.below(5) as usize;
    let fetch = translation(random, 12);
    let line_delay = if random.below(10) == 0 { 1 + random.below(30) as u32 } else { 0 };
    let serialise = random.below(20) == 0;
    let mut of_instruction = |inst: &Inst| {
        // As many references as the instruction makes, or one more or fewer.
        let odd = random.below(8);
        let loads = u64::from(inst.loads).saturating_sub(u64::from(odd == 0)) + u64::from(odd == 1);
        let stores = u64::from(inst.stores).saturating_sub(u64::from(odd == 2)) + u64::from(odd == 3);
        let mut references: Vec<DataReference> =
            (0..loads + stores).map(|number| data_reference(random, number >= loads, words)).collect();
        for DataReference { reference, .. } in &mut references {
            // Half of the references come from one run of addresses, so that some instructions see a constant step.
            if random.below(2) == 0 {
                *run += 8;
                let start = *run % (words * 8);
                reference.bytes = ByteRange { start, end: start + 8 };
            }
        }
        references
    };
    let references = blocks[number].1.iter().map(&mut of_instruction).collect();
    Step { number, fetch, line_delay, serialise, references }
}

/// The program as references, for the core, and from reference number `from` on as blocks, for its twin.
struct Future {
    refs: Vec<Ref>,
    fetched: Vec<BlockId>,
    blocks: Vec<RightBlock>,
    /// References after this one belong to the next piece.
    piece: usize,
}

impl Future {
    fn of(steps: &[Step], blocks: &[(BlockSpan, Vec<Inst>)], piece: usize) -> Future {
        let mut future = Future { refs: Vec::new(), fetched: Vec::new(), blocks: Vec::new(), piece };
        for Step { number, references, .. } in steps {
            future.refs.push(Ref::fetch(VirtAddr(blocks[*number].0.start), 100));
            future.fetched.push(BlockId((number << 10) as u32));
            let mut block = RightBlock { block: Some(*number), references: Vec::new() };
            for (index, references) in references.iter().enumerate() {
                for &DataReference { is_store, reference } in references {
                    let kind = if is_store { Kind::Store } else { Kind::Load };
                    future.refs.push(Ref::data(kind, VirtAddr(reference.bytes.start), 3, index as u16));
                    block.references.push((index, is_store, reference.bytes.start));
                }
            }
            future.blocks.push(block);
        }
        future
    }

    /// The references that follow the piece.
    fn following(&self) -> Following {
        let behind = &self.refs[self.piece.min(self.refs.len())..];
        let refs = behind[..behind.len().min(FOLLOWING)].to_vec();
        Following { refs, fetched: self.fetched[self.fetches(self.piece)..].to_vec() }
    }

    /// How many fetches precede reference number `at`.
    fn fetches(&self, at: usize) -> usize {
        self.refs.iter().take(at).filter(|r| r.kind() == Kind::Fetch).count()
    }

    /// The program from reference number `at` on, in two pieces where the first is not over yet.
    fn path<'a>(&'a self, at: usize, following: &'a Following) -> RightPath<'a> {
        let (end, following) =
            if at <= self.piece { (self.piece.min(self.refs.len()), Some(following)) } else { (self.refs.len(), None) };
        RightPath::new(self.refs.get(at..end).unwrap_or_default(), &self.fetched[self.fetches(at)..], following)
    }

    /// The program from reference number `at` on.
    fn blocks(&self, at: usize) -> Vec<RightBlock> {
        let mut first = 0;
        let mut blocks = Vec::new();
        for block in &self.blocks {
            let end = first + 1 + block.references.len();
            if at <= first {
                blocks.push(block.clone());
            } else if at < end {
                blocks.push(RightBlock { block: None, references: block.references[at - first - 1..].to_vec() });
            }
            first = end;
        }
        blocks
    }
}

/// Runs a random program on a random core and on its twin. Returns what did not retire.
fn run_both(seed: u64) -> Result<Squashes, TestCaseError> {
    let mut random = Random::new(seed);
    let config = config(&mut random);
    let walkers = 1 + random.below(3) as u32;
    let blocks = program(&mut random);
    let code = Code::of_instructions(&blocks);
    let mut memory = HashedMemory(random.below(u64::MAX));
    let (mut core, mut twin) = (OooCore::new(config, walkers), NaiveOooCore::new(config, walkers, blocks.clone()));
    let (mut run, words) = (0, 32 << random.below(8));
    let steps: Vec<Step> = (0..150).map(|_| step(&mut random, &blocks, words, &mut run)).collect();
    let future = Future::of(&steps, &blocks, random.below(2000) as usize);
    let following = future.following();
    let (mut last, mut next) = (None, 0);
    for (turn, Step { number, fetch, line_delay, serialise, references }) in steps.iter().enumerate() {
        let (number, start) = (*number, blocks[*number].0.start);
        core.end_block(core.instructions(&code));
        prop_assert_eq!(core.now(), twin.now(), "before block {} of seed {}", turn, seed);
        if *serialise {
            core.serialise(&code, true);
            twin.serialise();
            last = None;
        }
        if let Some(misprediction) = core.resolve_branch(&code, start) {
            core.run_wrong_path(&code, &misprediction, future.path(next, &following), &mut memory);
            core.resume_fetch(&misprediction);
        }
        if let Some(last) = last {
            twin.resolve_branch(last, start, &future.blocks(next), &memory);
        }
        next += 1;
        core.fetch_page(start, *fetch, None);
        core.fetch_lines(*line_delay);
        twin.fetch(*fetch, *line_delay);
        let id = BlockId((number << 10) as u32);
        core.start_block(&code, id, ByteRange { start, end: start + 100 });
        twin.start_block(number);
        last = Some(number);
        for (index, references) in references.iter().enumerate() {
            let first = next;
            for &DataReference { is_store, reference } in references {
                next += 1;
                core.advance_to(core.instructions(&code), index as u32);
                let kind = if is_store { Kind::Store } else { Kind::Load };
                core.begin_reference(kind);
                let times = if is_store { core.store(reference) } else { core.load(reference) };
                if let Some(clear) = times.clear {
                    core.run_until_clear(&code, clear, future.path(next, &following), &mut memory);
                    core.repeat_load(reference.bytes, clear, reference.l1_latency);
                }
                let missed = reference.translation != TranslationCost::default();
                core.end_reference(kind, reference.bytes.start, missed);
            }
            let right = |reference: usize| future.blocks(first + reference + 1);
            twin.execute(InstId { block: number, index }, references, right, &memory);
        }
    }
    core.serialise(&code, true);
    prop_assert_eq!(core.now(), twin.now());
    prop_assert_eq!(core.take_ledger().total().0, twin.now(), "every cycle has a label");
    let counted = core.take_statistics();
    let squashes = Squashes { instructions: counted.squashed, repeated_loads: counted.memory_order_clears };
    prop_assert_eq!(squashes, twin.squashes);
    Ok(squashes)
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn times_equal_those_of_the_twin(seed in any::<u64>()) {
        run_both(seed)?;
    }
}

/// The differential test above exercises the wrong path and machine clears.
#[test]
fn random_programs_leave_the_right_path_and_repeat_loads() {
    let all: Vec<Squashes> = (0..200).map(|seed| run_both(seed).unwrap()).collect();
    let squashed: u64 = all.iter().map(|squashes| squashes.instructions).sum();
    let repeated: u64 = all.iter().map(|squashes| squashes.repeated_loads).sum();
    assert!(squashed > 5000 && repeated > 20, "{squashed} {repeated}");
}
