//! Conversion of a machine file into the plain numbers that the simulator takes.

use super::error::Problem;
use super::file::{
    CacheSection, Class, Holds, MachineFile, MemorySection, NestedSection, OooSection, OsSection, SchedulerSection,
    TlbSection, WalkCacheSection, WalkerSection,
};
use super::tag::Tagged;
use super::value::{PageSize, Word, Words};
use super::{MonitorCosts, OsCosts, OutOfOrder};
use indexmap::IndexMap;
use reach_core::{Layout, PageShift};
use reach_hardware::config::{
    Cache, Core, Latencies, Machine, Nested, OooCore, Operation, Predictor, Prefetch, RegisterFiles, Schedulers,
    Serves, Sharing, Tlb, WalkCache, Walker,
};
use reach_os::Scatter;
use std::collections::BTreeMap;

fn shifts(sizes: &[PageSize]) -> Vec<PageShift> {
    sizes.iter().map(|size| size.0).collect()
}

fn tlb(name: &str, tlb: &TlbSection) -> Tlb {
    let serves = |class| tlb.serves.value.contains(&class);
    Tlb {
        name: name.to_owned(),
        level: tlb.level.value,
        serves: Serves { fetch: serves(Class::Fetch), load: serves(Class::Load), store: serves(Class::Store) },
        entries: tlb.entries.value,
        ways: tlb.ways.value.of(tlb.entries.value),
        sizes: shifts(&tlb.sizes.value),
        replacement: tlb.replacement.value.0,
        index: tlb.index.value.0,
        latency: tlb.latency.value,
        probe: tlb.probe.value,
        smash: tlb.smash.value,
        coalesce: tlb.coalesce.as_ref().and_then(|span| span.value.0),
    }
}

fn walk_cache(name: &str, cache: &WalkCacheSection, problems: &mut Vec<Problem>) -> WalkCache {
    let (entries, ways, within) = match (&cache.entries, &cache.ways, &cache.within) {
        (Some(entries), Some(ways), None) => (entries.value, ways.value.of(entries.value), None),
        (None, None, Some(within)) => (0, 0, Some(within.value.clone())),
        _ => {
            let what = "expected either entries and ways, or within";
            problems.push(Problem::new(format!("walker.hardware.caches.{name}"), what));
            (1, 1, None)
        }
    };
    WalkCache { name: name.to_owned(), levels: cache.levels.value.clone(), entries, ways, within }
}

fn walker(section: &WalkerSection, problems: &mut Vec<Problem>) -> Walker {
    match section {
        WalkerSection::Hardware(walker) => Walker::Hardware {
            walkers: walker.walkers.value,
            lookup: walker.lookup.value,
            cache_level: walker.cache_level.value,
            caches: walker.caches.iter().map(|(name, cache)| walk_cache(name, cache, problems)).collect(),
        },
        WalkerSection::Software(handler) => Walker::Software {
            cycles: handler.cycles.value,
            instructions: handler.instructions.value,
            loads: handler.loads.value,
            stores: handler.stores.value,
        },
    }
}

/// Returns the host below the guest. `None`: the program does not run in a guest.
fn nested(section: &NestedSection) -> Option<Nested> {
    let host_page = section.host_page.value.0?;
    Some(Nested {
        host_page,
        tlb_entries: section.tlb_entries.value,
        walk_cache_entries: section.walk_cache_entries.value.clone(),
    })
}

fn cache(name: &str, cache: &CacheSection, mhz: u32, problems: &mut Vec<Problem>) -> Cache {
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let line = narrow(cache.line.value.0);
    let lines = narrow(cache.bytes.value.0.checked_div(line.into()).unwrap_or(0));
    let holds = |kind| cache.holds.value.contains(&kind);
    if cache.holds.value.len() > 2 {
        problems.push(Problem::new(
            format!("caches.{name}.holds"),
            "names a kind twice; name instructions and data once each",
        ));
    }
    Cache {
        name: name.to_owned(),
        level: cache.level.value,
        instructions: holds(Holds::Instructions),
        data: holds(Holds::Data),
        bytes: cache.bytes.value.0,
        ways: cache.ways.value.of(lines),
        line,
        latency: cache.latency.value,
        writes: cache.writes.value.0,
        replacement: cache.replacement.value.0,
        shared: cache.shared.value,
        others: others(cache, mhz),
    }
}

/// Returns the bytes that others bring into `cache` in 1,024 cycles.
fn others(cache: &CacheSection, mhz: u32) -> u32 {
    let each_second = cache.others.as_ref().map_or(0, |others| u64::from(others.value));
    u32::try_from(each_second * 1024 / u64::from(mhz.max(1))).unwrap_or(u32::MAX)
}

/// Returns the hardware that `file` describes, and the errors that the simulator's types cannot express.
pub(super) fn hardware(file: &MachineFile) -> (Machine, Vec<Problem>) {
    let mut problems = Vec::new();
    let mhz = file.core.mhz.value;
    let memory = file.memory.latency.value.at(mhz);
    let machine = Machine {
        layout: Layout::radix(file.page_table.base.value.0, file.page_table.bits.value.clone()),
        sizes: shifts(&file.page_table.sizes.value),
        tlbs: file.tlb.iter().map(|(name, section)| tlb(name, section)).collect(),
        walker: walker(&file.walker, &mut problems),
        nested: file.nested.as_ref().and_then(nested),
        caches: file.caches.iter().map(|(name, section)| cache(name, section, mhz, &mut problems)).collect(),
        memory: u32::try_from(memory).unwrap_or(u32::MAX),
        core: Core {
            millicycles_per_instruction: file.core.millicycles_per_instruction.value,
            hertz: u64::from(mhz) * 1_000_000,
            walk_access: file.core.walk_access.value,
            invalidate: file.core.invalidate.value,
            asids: file.core.asids.value,
        },
    };
    (machine, problems)
}

/// Returns what a monitor costs that shadows a guest's page tables. `None`: the program does not run in a guest, or the file does not
/// tell.
fn monitor(file: &MachineFile) -> Option<MonitorCosts> {
    let nested = file.nested.as_ref().filter(|nested| nested.host_page.value.0.is_some())?;
    let interval = u64::from(nested.interval_ms.as_ref()?.value) * u64::from(file.core.mhz.value) * 1000;
    Some(MonitorCosts { trap: nested.trap.as_ref()?.value, interval: interval.max(1) })
}

/// Returns the costs of the operating system's own work, and the errors.
pub(super) fn os(file: &MachineFile) -> (OsCosts, Option<Problem>) {
    let os: &OsSection = &file.os;
    let (scatter, problem) = scatter(os.frame_groups.as_ref(), os.frame_jumps.as_ref());
    let costs = OsCosts {
        trap: os.trap.value,
        fault: os.fault.value,
        file_fault: os.file_fault.value,
        fault_around_page: os.fault_around_page.value,
        zero_per_byte: os.zero_per_byte.value,
        copy_per_byte: os.copy_per_byte.value,
        pte_write: os.pte_write.value,
        shootdown: os.shootdown.value,
        interrupt: os.interrupt.as_ref().map_or(0, |cost| cost.value),
        fork: os.fork.value,
        fork_per_pte: os.fork_per_pte.value,
        exit_per_pte: os.exit_per_pte.value,
        free_page: os.free_page.as_ref().map_or(0, |cost| cost.value),
        table_page: os.table_page.value,
        file_read: os.file_read.value,
        file_read_per_byte: os.file_read_per_byte.value,
        scan_per_page: os.scan_per_page.value,
        syscall: os.syscall.value,
        scatter,
        monitor: monitor(file),
    };
    (costs, problem)
}

/// Returns how scattered frames are, and the error.
fn scatter(groups: Option<&Tagged<u32>>, jumps: Option<&Tagged<u32>>) -> (Option<Scatter>, Option<Problem>) {
    let outside = |name: &str, value: u32, least: u32| {
        let expected = format!("{value}: expected {least} (contiguous frames) to 1000 (scattered ones)");
        (!(least..=1000).contains(&value)).then(|| Problem::new(name, expected))
    };
    let jumps = jumps.map(|jumps| jumps.value);
    let Some(groups) = groups.map(|groups| groups.value) else {
        let alone = jumps.map(|_| Problem::new("os.frame_jumps", "expected os.frame_groups, too"));
        return (None, alone);
    };
    let problem = outside("os.frame_groups", groups, 125).or_else(|| outside("os.frame_jumps", jumps?, 1));
    let share = |of_1000: u32| f64::from(of_1000) / 1000.0;
    (Some(Scatter { groups: share(groups), jumps: jumps.map(share) }), problem)
}

/// Returns the cycles between two lines of the last cache that arrive at `bandwidth` million bytes a second, rounded to
/// the nearest.
fn line_interval(bandwidth: u32, machine: &Machine) -> u32 {
    let line = machine.caches.iter().max_by_key(|cache| cache.level).map_or(64, |cache| u64::from(cache.line));
    let (cycles, bandwidth) = (line * (machine.core.hertz / 1_000_000), u64::from(bandwidth.max(1)));
    u32::try_from((cycles + bandwidth / 2) / bandwidth).unwrap_or(u32::MAX)
}

/// Returns the schedulers. Each kind of operation needs exactly one.
fn schedulers(sections: &IndexMap<String, SchedulerSection>, problems: &mut Vec<Problem>) -> Schedulers {
    let mut schedulers = Schedulers::unified(1);
    if sections.len() > Schedulers::MOST {
        let what = format!("{}: expected at most {}", sections.len(), Schedulers::MOST);
        problems.push(Problem::new("ooo.schedulers", what));
        return schedulers;
    }
    for (number, (name, section)) in sections.iter().enumerate() {
        let entries = section.entries.value;
        if !(1..1 << 16).contains(&entries) {
            let what = format!("{entries}: expected 1 to {}", u16::MAX);
            problems.push(Problem::new(format!("ooo.schedulers.{name}.entries"), what));
        }
        schedulers.entries[number] = entries;
    }
    for &(word, operation) in Operation::WORDS {
        let serves = |section: &SchedulerSection| section.serves.value.contains(&Word(operation));
        let mut serving = (0..).zip(sections.values()).filter(|(_, section)| serves(section));
        match (serving.next(), serving.next()) {
            (Some((number, _)), None) => schedulers.of[operation as usize] = number,
            _ => problems.push(Problem::new("ooo.schedulers", format!("expected exactly one that serves {word:?}"))),
        }
    }
    schedulers
}

/// Returns the out-of-order core, and the errors in its section and in `memory.bandwidth`.
pub(super) fn ooo(ooo: &OooSection, memory: &MemorySection, machine: &Machine) -> (OutOfOrder, Vec<Problem>) {
    let mut problems = Vec::new();
    let line_interval = memory.bandwidth.as_ref().map_or(0, |bandwidth| line_interval(bandwidth.value, machine));
    if line_interval > 1 << 16 || memory.bandwidth.as_ref().is_some_and(|bandwidth| bandwidth.value == 0) {
        problems.push(Problem::new("memory.bandwidth", "too low; expected millions of bytes a second, such as 51200"));
    }
    let mut smt: BTreeMap<String, Sharing> = BTreeMap::new();
    let threads = ooo.threads.value;
    let l1_fill = ooo.l1_fill.as_ref().map_or(0, |cycles| cycles.value);
    for (key, value) in [
        ("rob", ooo.rob.value),
        ("width", ooo.width.value),
        ("load_ports", ooo.load_ports.value),
        ("store_ports", ooo.store_ports.value),
        ("load_queue", ooo.load_queue.value),
        ("store_queue", ooo.store_queue.value),
        ("fetch_queue", ooo.fetch_queue.value),
        ("latency.multiply", ooo.latency.multiply.value),
        ("latency.divide", ooo.latency.divide.value),
        ("latency.float", ooo.latency.float.value),
        ("latency.float_divide", ooo.latency.float_divide.value),
        ("predictor.return_stack", ooo.predictor.return_stack.value),
        ("l1_mshrs", ooo.l1_mshrs.value),
        ("threads", threads),
    ] {
        if value == 0 {
            problems.push(Problem::new(format!("ooo.{key}"), "0: expected at least 1"));
        }
    }
    for (key, value, max) in [
        ("rob", ooo.rob.value, 1 << 16),
        ("load_queue", ooo.load_queue.value, 1 << 16),
        ("store_queue", ooo.store_queue.value, 1 << 16),
        ("fetch_queue", ooo.fetch_queue.value, 1 << 16),
        ("l1_mshrs", ooo.l1_mshrs.value, 1 << 16),
        ("l1_fill", l1_fill, 64),
        ("registers.integer", ooo.registers.integer.value, 1 << 16),
        ("registers.vector", ooo.registers.vector.value, 1 << 16),
        ("width", ooo.width.value, 255),
        ("predictor.return_stack", ooo.predictor.return_stack.value, 1 << 16),
        ("prefetch.streams", ooo.prefetch.streams.value, 1 << 10),
        ("prefetch.distance", ooo.prefetch.distance.value, 1 << 10),
        ("prefetch.degree", ooo.prefetch.degree.value, 64),
        ("prefetch.max_in_flight", ooo.prefetch.max_in_flight.value, 1 << 16),
    ] {
        if value > max {
            problems.push(Problem::new(format!("ooo.{key}"), format!("{value}: expected at most {max}")));
        }
    }
    for (key, registers) in [("integer", &ooo.registers.integer), ("vector", &ooo.registers.vector)] {
        let (value, least) = (registers.value, RegisterFiles::LEAST);
        if value < least {
            problems.push(Problem::new(format!("ooo.registers.{key}"), format!("{value}: expected at least {least}")));
        }
    }
    let entries = ooo.predictor.entries.value;
    if !entries.is_power_of_two() || !(64..=1 << 20).contains(&entries) {
        let what = format!("{entries} entries: expected a power of two from 64 to 1048576");
        problems.push(Problem::new("ooo.predictor.entries", what));
    }
    let history = ooo.predictor.history.value;
    if !(8..=255).contains(&history) {
        problems.push(Problem::new("ooo.predictor.history", format!("{history} branches: expected 8 to 255")));
    }
    for (name, sharing) in ooo.smt.iter().flatten() {
        let sharing = sharing.value.0;
        let Some(tlb) = machine.tlbs.iter().find(|tlb| tlb.name == *name) else {
            problems.push(Problem::new(format!("ooo.smt.{name}"), "no TLB array has this name; [tlb] lists them"));
            continue;
        };
        if sharing == Sharing::Partitioned && tlb.entries % threads.max(1) != 0 {
            let what = format!("{} entries do not divide evenly among {threads} threads", tlb.entries);
            problems.push(Problem::new(format!("ooo.smt.{name}"), what));
        }
        smt.insert(name.clone(), sharing);
    }
    if threads > 1 {
        for tlb in machine.tlbs.iter().filter(|tlb| !smt.contains_key(&tlb.name)) {
            let what = format!(
                "{} is missing: expected shared, partitioned or replicated, as {threads} threads use it",
                tlb.name
            );
            problems.push(Problem::new("ooo.smt", what));
        }
    }
    let schedulers = schedulers(&ooo.schedulers, &mut problems);
    let core = OooCore {
        rob: ooo.rob.value,
        schedulers,
        registers: RegisterFiles {
            integer: ooo.registers.integer.value,
            vector: ooo.registers.vector.value,
            flags_in_integer: ooo.registers.flags_in_integer.value,
        },
        width: ooo.width.value,
        load_ports: ooo.load_ports.value,
        store_ports: ooo.store_ports.value,
        load_queue: ooo.load_queue.value,
        store_queue: ooo.store_queue.value,
        l1_mshrs: ooo.l1_mshrs.value,
        l1_fill,
        memory: machine.memory,
        line_interval,
        itlb_inclusion: ooo.itlb_inclusion.value,
        itlb_replay: ooo.itlb_replay.value,
        front_end_depth: ooo.front_end_depth.value,
        fetch_queue: ooo.fetch_queue.value,
        wrong_path: ooo.wrong_path.value,
        latencies: Latencies {
            multiply: ooo.latency.multiply.value,
            divide: ooo.latency.divide.value,
            float: ooo.latency.float.value,
            float_divide: ooo.latency.float_divide.value,
        },
        predictor: Predictor { entries, history, return_stack: ooo.predictor.return_stack.value },
        prefetch: Prefetch {
            streams: ooo.prefetch.streams.value,
            distance: ooo.prefetch.distance.value,
            degree: ooo.prefetch.degree.value,
            adjacent_line: ooo.prefetch.adjacent_line.value,
            page_end: ooo.prefetch.page_end.value.0,
            max_in_flight: ooo.prefetch.max_in_flight.value,
        },
    };
    (OutOfOrder { core, threads, smt }, problems)
}
