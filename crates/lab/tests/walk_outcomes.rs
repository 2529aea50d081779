//! Walk outcomes under out-of-order timing: walks for instructions that retire, and for those that do not (Lindsay and
//! Bhattacharjee 2024, §V-D and Table VI).

use crate::common;
use crate::common::{Pieces, count, experiment, run, script};
use reach_core::{
    Asid, Block, BlockId, BlockTable, Chunk, Event, Kind, Map, Protection, Random, Ref, ThreadId, VirtAddr,
};
use reach_hardware::Counters;
use reach_lab::{ALL, Outcome, Row, Simulation, Timing, machine};

/// Without prefetchers, whose walks do not retire either.
const SKYLAKE: &str = "skylake-e3-1240v5:ooo.prefetch.streams=0,ooo.prefetch.adjacent_line=false";
const TEXT: u64 = 1 << 32;
const ARRAYS: u64 = 1 << 33;

/// A loop that branches one of two ways in each round.
#[derive(Clone, Copy)]
struct Choices {
    /// Bytes of the array from which every round loads the value that it tests; 0: a register, known early.
    tested: u64,
    /// Bytes of each of two further arrays, one for each way.
    bytes: u64,
    /// Which way a round goes, by its number.
    goes: fn(u64, &mut Random) -> bool,
    /// Whether the ways walk their arrays page by page, not at random.
    runs: bool,
    /// Whether each load gives the address of the next one of its kind, so that no wrong path knows that.
    chained: bool,
    /// Whether one of the ways stores to the tested array instead.
    stores: bool,
}

/// Returns a loop with random branches and random addresses.
fn anywhere(bytes: u64) -> Choices {
    Choices { tested: bytes, bytes, goes: |_, random| random.below(2) == 0, runs: false, chained: false, stores: false }
}

/// Returns its blocks: the head, which tests and branches, and both ways, which load and jump back.
fn blocks(of: &Choices) -> BlockTable {
    let head: &[u8] = match (of.tested > 0, of.chained) {
        // nop; test al, 1; nop; jne
        (false, _) => &[0x0f, 0x1f, 0, 0xa8, 1, 0x66, 0x90, 0x75, 8],
        // mov rax, [rdx]; test al, 1; nop; jne
        (true, false) => &[0x48, 0x8b, 2, 0xa8, 1, 0x66, 0x90, 0x75, 8],
        // mov rdx, [rdx]; test dl, 1; nop; jne
        (true, true) => &[0x48, 0x8b, 0x12, 0xf6, 0xc2, 1, 0x90, 0x75, 8],
    };
    // mov rcx, [rbx] or mov rcx, [r9], and mov rbx, [rbx] or mov r9, [r9] in chains; nop; jmp
    let ways = if of.chained { [[0x48, 0x8b, 0x1b], [0x4d, 0x8b, 9]] } else { [[0x48, 0x8b, 0x0b], [0x49, 0x8b, 9]] };
    let ways = if of.stores { [ways[0], [0x49, 0x89, 9]] } else { ways }; // mov [r9], rcx
    let back = |at: u64| [0x0f, 0x1f, 0, 0xeb, (0u8).wrapping_sub((at + 8) as u8)];
    let mut blocks = BlockTable::default();
    let mut push = |at: u64, instructions: u16, bytes: Vec<u8>| {
        blocks.push(Block { pc: VirtAddr(TEXT + at), len: bytes.len() as u16, instructions, bytes: bytes.into() });
    };
    push(0, 4, head.to_vec());
    push(9, 3, [&ways[0][..], &back(9)].concat());
    push(17, 3, [&ways[1][..], &back(17)].concat());
    blocks
}

/// Returns `rounds` rounds, after every page has been touched.
fn choices(of: Choices, rounds: u64) -> Pieces {
    let (blocks, mut program, mut random) = (blocks(&of), Chunk::default(), Random::new(9));
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    program
        .push_event(Event::Map(Map { protection: Protection::READ_EXECUTE, ..Map::anonymous(VirtAddr(TEXT), 4096) }));
    program.push_event(Event::Map(Map::anonymous(VirtAddr(ARRAYS), of.tested + 2 * of.bytes)));
    let fetch = |program: &mut Chunk, id: u32| program.push_fetch(BlockId(id), blocks.get(BlockId(id)));
    for page in 0..(of.tested + 2 * of.bytes) / 4096 {
        fetch(&mut program, 0);
        program.refs.push(Ref::store(VirtAddr(ARRAYS + page * 4096)));
        fetch(&mut program, 2);
    }
    let mut next = [0; 2];
    for round in 0..rounds {
        let way = usize::from((of.goes)(round, &mut random));
        fetch(&mut program, 0);
        if of.tested > 0 {
            program.refs.push(Ref::load(VirtAddr(ARRAYS + random.below(of.tested / 8) * 8)));
        }
        fetch(&mut program, 1 + way as u32);
        next[way] += 4096 + 64;
        let within = if of.runs { next[way] % of.bytes } else { random.below(of.bytes / 8) * 8 };
        program.refs.push(match way {
            1 if of.stores => Ref::store(VirtAddr(ARRAYS + within)),
            _ => Ref::load(VirtAddr(ARRAYS + of.tested + way as u64 * of.bytes + within)),
        });
    }
    Pieces::new("choices", blocks.clone(), program)
}

fn simulate(machine: &str, system: &str, of: Choices, rounds: u64) -> Outcome {
    let experiment = experiment(&[machine], &[system], Timing::Ooo);
    run(&experiment, &mut choices(of, rounds).cut(vec![100_000])).outcomes.remove(0)
}

/// Returns the counts of 60,000 rounds after the first 20,000.
fn counted(machine: &str, system: &str, of: Choices) -> Counters {
    let all = simulate(machine, system, of, 80_000).total.hardware;
    all.since(&simulate(machine, system, of, 20_000).total.hardware)
}

fn not_retired(c: &Counters) -> u64 {
    c.walks_aborted + c.walks_wrong_path
}

#[test]
fn walks_not_retired_grow_with_the_footprint_and_shrink_with_superpages() {
    let of = |bytes, system| counted(SKYLAKE, system, anywhere(bytes));
    let sizes = [64 << 10, 8 << 20, 64 << 20];
    let small: Vec<Counters> = sizes.iter().map(|&bytes| of(bytes, "base")).collect();
    assert_eq!(not_retired(&small[0]), 0, "the TLB holds all pages");
    assert!(small.windows(2).all(|two| not_retired(&two[0]) < not_retired(&two[1])), "{small:?}");
    let share = |c: &Counters| not_retired(c) as f64 / c.walks_data as f64;
    assert!(share(&small[2]) > 0.1, "{:?}", small[2]);
    let large = of(sizes[2], "hugetlb-2m");
    assert!(not_retired(&large) * 10 < not_retired(&small[2]), "{large:?}, {:?}", small[2]);
}

#[test]
fn a_well_predicted_program_retires_all_walks() {
    for machine in [SKYLAKE, "zenplus-2700x:ooo.prefetch.streams=0", "sapphire-rapids:ooo.prefetch.streams=0"] {
        let of = Choices { goes: |_, _| true, ..anywhere(64 << 20) };
        let outcome = simulate(machine, "base", of, 20_000);
        let c = outcome.total.hardware;
        assert!(c.walks_retired > 30_000, "{machine}: {c:?}");
        assert_eq!((c.mispredictions, c.squashed, not_retired(&c), c.walks_fetch_aborted), (0, 0, 0, 0), "{machine}");
        assert_eq!(c.walks_retired, c.walks_data, "{machine}");
    }
}

#[test]
fn walks_abort_only_if_the_branch_resolves_before_they_end() {
    let of = |machine: &str, tested| counted(machine, "base", Choices { tested, ..anywhere(64 << 20) });
    // The branch resolves early: before any wrong-path walk ends, if the walker starts at once, and before any begins,
    // if it takes its time.
    let early = of(&format!("{SKYLAKE},tlb.l2.latency=0,tlb.l2_1g.latency=0,walker.hardware.lookup=1"), 0);
    assert!(early.walks_aborted > 1000 && early.walks_wrong_path == 0, "{early:?}");
    assert_eq!(not_retired(&of(SKYLAKE, 0)), 0);
    // The tested value comes from memory after a walk of its own.
    let late = of(SKYLAKE, 64 << 20);
    assert!(late.walks_wrong_path > 5000 && late.walks_aborted < late.walks_wrong_path, "{late:?}");
    let off = counted(&format!("{SKYLAKE},ooo.wrong_path=false"), "base", anywhere(64 << 20));
    assert_eq!((not_retired(&off), off.squashed), (0, 0));
}

/// Lines that the wrong path loads prefetch for the right path if that comes to them, and delay its misses if not.
#[test]
fn wrong_path_loads_help_if_the_program_needs_them_later_and_hurt_if_not() {
    let cycles = |option: &str, of: Choices, wrong_path: bool| {
        let machine = format!("{SKYLAKE},{option},ooo.wrong_path={wrong_path}");
        let each = |rounds| simulate(&machine, "base", of, rounds).total.ledger.total().0;
        each(80_000) - each(20_000)
    };
    let runs = Choices { runs: true, ..anywhere(64 << 20) };
    let (with, without) = (cycles("ooo.l1_mshrs=12", runs, true), cycles("ooo.l1_mshrs=12", runs, false));
    assert!((with as f64) < 0.97 * without as f64, "{with} {without}");
    // Wrong-path misses take the few miss registers from useful misses.
    let few = |wrong_path| cycles("ooo.l1_mshrs=2", Choices { chained: true, ..anywhere(64 << 20) }, wrong_path);
    let (with, without) = (few(true), few(false));
    assert!(with as f64 > 1.1 * without as f64, "{with} {without}");
}

/// A wrong-path store fills the first-level array of stores only. The one of loads may hold its page already.
#[test]
fn wrong_path_stores_that_auxiliary_tlbs_translate_fill_no_page_twice() {
    for system in ["karakostas-2015-rmm", "pham-2012-colt"] {
        let of = Choices { stores: true, ..anywhere(64 << 20) };
        let counters = simulate("sapphire-rapids", system, of, 20_000).total.hardware;
        assert!(counters.squashed_stores > 1000 && counters.aux_tlb_hits > 1000, "{system}: {counters:?}");
    }
}

/// Under every system that runs on each of several machines with an out-of-order core.
#[test]
fn walk_outcomes_partition_all_walks() {
    let programs = [script::program(3, 60), script::program(4, 60), choices(anywhere(4 << 20), 3000)];
    let machines = ["skylake-e3-1240v5", "zen4", "sapphire-rapids:nested.host_page=4K", "alpha-21264"];
    let mut sums = [0; 4];
    for machine in machines {
        let names = reach_systems::list().iter().map(|system| system.name);
        let conditions = reach_lab::Conditions { memory: 256 << 20, ..common::conditions(Timing::Ooo) };
        let boots = |system: &&str| {
            let (machine, system) = (machine::resolve(machine).unwrap(), reach_systems::resolve(system).unwrap());
            Simulation::new(&machine, &system, &conditions).is_ok()
        };
        let systems: Vec<&str> = names.filter(boots).collect();
        assert!(systems.len() > 1);
        let experiment =
            reach_lab::Experiment { conditions: conditions.clone(), ..experiment(&[machine], &systems, Timing::Ooo) };
        for program in &programs {
            let report = run(&experiment, &mut program.cut(vec![700]));
            let all = report.rows();
            for outcome in &report.outcomes {
                let at = format!("{machine} {} {}", outcome.system, program.len());
                let rows: Vec<Row> = all.iter().filter(|row| row.system == outcome.system).cloned().collect();
                let processes: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.process.as_str()).collect();
                for process in processes {
                    let count = |metric| count(&rows, process, metric);
                    assert_eq!(count("walks.initiated"), count("walks.completed") + count("walks.aborted"), "{at}");
                    assert_eq!(count("walks.completed"), count("walks.retired") + count("walks.wrong_path"), "{at}");
                    assert_eq!(count("walks.initiated"), count("walks.data"), "{at}");
                    let fetch = count("walks.fetch.aborted") + count("walks.fetch.wrong_path");
                    assert!(fetch <= count("walks.fetch"), "{at}");
                }
                let count = |metric| count(&rows, ALL, metric);
                if outcome.aux_tlb.is_none() {
                    let misses = count("l1i_tlb_misses") + count("l1d_tlb_misses");
                    let assisted = rows.iter().any(|row| row.metric == "walk_assist.hits");
                    let hits = if assisted { count("walk_assist.hits") } else { 0 };
                    assert_eq!(misses, count("l2_tlb_hits") + hits + count("walks"), "{at}");
                }
                let outcomes = ["walks.aborted", "walks.wrong_path", "machine_clears.memory_ordering", "walks.retired"];
                sums.iter_mut().zip(outcomes).for_each(|(sum, metric)| *sum += count(metric));
            }
        }
    }
    assert!(sums.iter().all(|&sum| sum > 0), "{sums:?}");
}

/// Returns a program whose load reads, every `every` rounds, what the store before it writes; the store's address is known
/// late. 0: it never does.
fn conflicts(every: u64, rounds: u64) -> Pieces {
    // imul rsi, rsi; imul rsi, rsi; imul rsi, rsi; mov [rsi], rax; mov rcx, [rdi]; jmp
    let mut bytes = [0x48, 0x0f, 0xaf, 0xf6].repeat(3);
    bytes.extend([0x48, 0x89, 6, 0x48, 0x8b, 0x0f, 0xeb, (0u8).wrapping_sub(20)]);
    let (mut blocks, mut program) = (BlockTable::default(), Chunk::default());
    let id = blocks.push(Block { pc: VirtAddr(TEXT), len: 20, instructions: 6, bytes: bytes.into() });
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    program
        .push_event(Event::Map(Map { protection: Protection::READ_EXECUTE, ..Map::anonymous(VirtAddr(TEXT), 4096) }));
    program.push_event(Event::Map(Map::anonymous(VirtAddr(ARRAYS), 1 << 16)));
    for round in 0..rounds {
        program.push_fetch(id, blocks.get(id));
        let at = VirtAddr(ARRAYS + round % 512 * 8);
        program.refs.push(Ref::data(Kind::Store, at, 3, 3));
        let load = if every > 0 && round % every == 0 { at } else { VirtAddr(ARRAYS + 8192 + round % 512 * 8) };
        program.refs.push(Ref::data(Kind::Load, load, 3, 4));
    }
    Pieces::new("conflicts", blocks, program)
}

#[test]
fn loads_that_pass_a_conflicting_store_are_repeated_and_trusted_again_later() {
    let clears = |every| {
        let experiment = experiment(&[SKYLAKE], &["base"], Timing::Ooo);
        let outcome = run(&experiment, &mut conflicts(every, 20_000).cut(vec![1000])).outcomes.remove(0);
        (outcome.total.hardware.memory_ordering_clears, outcome.total.ledger.total().0)
    };
    let [never, often, seldom] = [0, 8, 100].map(clears);
    assert_eq!(never.0, 0);
    assert_eq!(often.0, 0, "the load is never trusted");
    // One clear for each conflict, as the load is trusted again after fifteen rounds without one.
    assert!((190..=200).contains(&seldom.0), "{seldom:?}");
    assert!(seldom.1 > never.1 + 190 * 10, "{seldom:?} {never:?}");
}
