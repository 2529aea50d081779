//! `zhou-2023`: promotion of code in files, padding, sharing of page tables, and private copies.

use crate::common::Machine;
use reach_core::{Asid, Backing, Event, FileId, Kind, Map, PageShift, Protection, Role, Span, ThreadId, VirtAddr, Vpn};
use reach_os::{CLUSTER, Options};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const AT: u64 = 0x40_0000;

/// Boots a machine with an empty page cache and a file of `len` bytes.
fn machine(options: &str, len: u64) -> Machine {
    let sizes = vec![PageShift(12), PageShift(21), PageShift(30)];
    let layout = reach_core::Layout::x86_64();
    let options_of_vm = Options { warm: false, ..Options::linux(layout, sizes, 256 * M) };
    let mut machine = Machine::boot(&format!("zhou-2023:{options}"), options_of_vm);
    machine.event(&Event::File { file: FileId(0), path: "/bin/postgres".into(), len, in_memory: false });
    machine
}

fn map(machine: &mut Machine, at: u64, len: u64, offset: u64, protection: Protection, role: Role) {
    let backing = Backing::File { file: FileId(0), offset };
    machine.event(&Event::Map(Map { backing, protection, role, ..Map::anonymous(VirtAddr(at), len) }));
}

fn code(machine: &mut Machine, len: u64) {
    map(machine, AT, len, 0, Protection::READ_EXECUTE, Role::Image);
}

fn superpages(machine: &Machine) -> u64 {
    machine.vm.check();
    machine.vm.counters().superpages[0].current
}

fn fetch(machine: &mut Machine, at: u64) -> u64 {
    machine.touch(Vpn(at >> 12), Kind::Fetch)
}

fn run(machine: &mut Machine, asid: u32) {
    machine.event(&Event::Switch { asid: Asid(asid), thread: ThreadId(asid) });
}

#[test]
fn code_is_promoted_when_threshold_clusters_are_resident() {
    for threshold in [1, 16, 28, 32, 33] {
        let mut machine = machine(&format!("threshold={threshold},padding=off"), 4 * M);
        code(&mut machine, 4 * M);
        for clusters in 1..=32 {
            // Even clusters first, then odd ones.
            let cluster = (clusters * 2 - 2) % 32 + u64::from(clusters > 16);
            fetch(&mut machine, AT + cluster * CLUSTER);
            assert_eq!(superpages(&machine), u64::from(clusters >= threshold), "{clusters} of {threshold}");
            let read = if clusters >= threshold { 32 } else { clusters };
            assert_eq!(machine.vm.counters().bytes_read_in, read * CLUSTER);
        }
        machine.exit_all();
    }
}

/// In a program at a fixed address, code has the file's offset modulo 2 MB and data are one page further.
#[test]
fn data_touched_before_code_do_not_shift_its_reservations() {
    let mut machine = machine("threshold=1,padding=off", 6 * M);
    code(&mut machine, 4 * M);
    map(&mut machine, AT + 5 * M + 4 * K, M, 5 * M, Protection::READ_WRITE, Role::Image);
    machine.touch(Vpn((AT + 5 * M + 4 * K) >> 12), Kind::Load);
    fetch(&mut machine, AT + M);
    assert_eq!(superpages(&machine), 1);
    machine.exit_all();
}

#[test]
fn later_processes_map_the_whole_superpage_at_their_first_fault() {
    let mut machine = machine("threshold=20,padding=off", 4 * M);
    code(&mut machine, 4 * M);
    for cluster in 0..20 {
        fetch(&mut machine, AT + cluster * CLUSTER);
    }
    run(&mut machine, 2);
    code(&mut machine, 4 * M);
    assert_eq!((fetch(&mut machine, AT + 31 * CLUSTER), superpages(&machine)), (1, 2));
    assert_eq!(machine.vm.counters().promotions, 1, "the second process never mapped base pages");
    let frame = |asid: u32| machine.vm.process(Asid(asid)).unwrap().table().lookup(Vpn(AT >> 12)).unwrap().pfn();
    assert_eq!(frame(1), frame(2));
    machine.exit_all();
}

/// Table 4: code at 0x400000–0x9f4000, data from the next page of the file at 0xbf4000–0xc00000.
fn postgres(machine: &mut Machine) {
    code(machine, 0x5f_4000);
    map(machine, 0xbf_4000, 0xc000, 0x5f_4000, Protection::READ_WRITE, Role::Image);
}

#[test]
fn residual_code_is_padded_with_the_data_that_follow() {
    for (padding, expected, padded) in [("off", 2, 0), ("on", 3, 0xc000)] {
        let mut machine = machine(&format!("threshold=1,padding={padding}"), 0x60_0000);
        postgres(&mut machine);
        for at in (AT..0x9f_4000).step_by(2 << 20) {
            fetch(&mut machine, at);
        }
        assert_eq!((superpages(&machine), machine.vm.counters().padded_bytes), (expected, padded));
        // The data's page is both in the code's superpage and in the data segment, where a store copies it.
        let before = machine.vm.counters().bytes_read_in;
        machine.touch(Vpn(0xbf_4000 >> 12), Kind::Load);
        let read = machine.vm.counters().bytes_read_in - before;
        assert_eq!(read, if padding == "on" { 0 } else { CLUSTER });
        machine.touch(Vpn(0xbf_4000 >> 12), Kind::Store);
        assert_eq!((superpages(&machine), machine.vm.counters().cow_faults > 0), (expected, true));
        machine.exit_all();
    }
}

#[test]
fn residual_code_is_padded_with_no_ops_beyond_the_file() {
    let mut machine = machine("threshold=1", 2 * M + 300 * K);
    code(&mut machine, 2 * M + 300 * K);
    fetch(&mut machine, AT + 2 * M);
    assert_eq!((superpages(&machine), machine.vm.counters().bytes_read_in), (1, 300 * K));
    assert_eq!(machine.vm.counters().padded_bytes, 2 * M - 300 * K);
    // A later mapping in the padding demotes the superpage.
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + 3 * M), 64 * K)));
    machine.touch(Vpn((AT + 3 * M) >> 12), Kind::Store);
    assert_eq!((superpages(&machine), fetch(&mut machine, AT + 2 * M)), (0, 0));
    machine.exit_all();
}

#[test]
fn padding_stops_at_writable_and_other_mappings() {
    let mut machine = machine("threshold=1", 8 * M);
    code(&mut machine, M);
    map(&mut machine, AT + M, M, M, Protection::READ_WRITE, Role::Image);
    map(&mut machine, AT + 2 * M, M, 2 * M, Protection::READ_EXECUTE, Role::Image);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + 3 * M), 64 * K)));
    fetch(&mut machine, AT);
    fetch(&mut machine, AT + 2 * M);
    assert_eq!((superpages(&machine), machine.vm.counters().padded_bytes), (0, 0));
    machine.exit_all();
}

#[test]
fn options_decide_on_libraries_and_generated_code() {
    for (options, library, jit) in [
        ("libraries=on", 1, 1),
        ("libraries=off", 0, 1),
        ("file=postgres", 1, 1),
        ("file=gres", 0, 1),
        ("threshold=33", 0, 0),
        ("copy_code=on", 2, 1),
    ] {
        let mut machine = machine(options, 4 * M);
        map(&mut machine, AT, 4 * M, 0, Protection::READ_EXECUTE, Role::Mmap);
        fetch(&mut machine, AT);
        assert_eq!(superpages(&machine), library, "{options}");
        let protection = Protection { read: true, write: true, execute: true };
        machine.event(&Event::Map(Map { protection, ..Map::anonymous(VirtAddr(1 << 30), 2 * M) }));
        machine.sweep(1 << 30, 512, Kind::Store);
        assert_eq!(superpages(&machine), library + jit, "{options}");
        machine.exit_all();
    }
}

#[test]
fn private_memory_is_promoted_when_full_at_first_touch_or_never() {
    for (data, touched, expected) in [("full", 511, 0), ("full", 512, 1), ("first-touch", 1, 1), ("none", 512, 0)] {
        let mut machine = machine(&format!("data={data}"), 4 * M);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(1 << 30), 2 * M)));
        machine.sweep(1 << 30, touched, Kind::Store);
        assert_eq!(superpages(&machine), expected, "{data}, {touched} pages");
        machine.exit_all();
    }
}

#[test]
fn private_copies_are_made_for_each_process_and_inherited_by_children() {
    let mut machine = machine("copy_code=on", 5 * M);
    code(&mut machine, 5 * M);
    assert_eq!((superpages(&machine), machine.vm.counters().bytes_copied), (2, 4 * M));
    assert_eq!(fetch(&mut machine, AT + M), 0);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    run(&mut machine, 2);
    assert_eq!((fetch(&mut machine, AT + M), superpages(&machine)), (0, 4));
    assert_eq!(machine.vm.counters().bytes_copied, 4 * M, "children inherit the copies");
    run(&mut machine, 3);
    code(&mut machine, 5 * M);
    assert_eq!(
        (superpages(&machine), machine.vm.counters().bytes_copied),
        (6, 8 * M),
        "unrelated processes copy again"
    );
    machine.exit_all();
}

/// Fetches from every page of `len` bytes of code and returns the number of faults.
fn fetch_all(machine: &mut Machine, len: u64) -> u64 {
    (AT..AT + len).step_by(4096).map(|at| fetch(machine, at)).sum()
}

/// Returns the page-table bytes of all processes, and the entries of both processes' code without accessed bits.
fn tables(machine: &Machine) -> (u64, Vec<Option<reach_core::Pte>>) {
    machine.vm.check();
    let process = |asid: u32| machine.vm.process(Asid(asid)).unwrap().table();
    let plain = |pte: reach_core::Pte| pte.with_accessed(false);
    let held = [1, 2].map(|asid| (AT..AT + 8 * M).step_by(4096).map(move |at| (asid, at)));
    let held = held.into_iter().flatten().map(|(asid, at)| process(asid).lookup(Vpn(at >> 12)).map(plain));
    (machine.vm.frames().table_bytes(), held.collect())
}

#[test]
fn processes_that_map_a_file_alike_share_leaf_tables() {
    let run_two = |share: &str| {
        let mut machine = machine(&format!("threshold=33,share_tables={share}"), 8 * M);
        code(&mut machine, 8 * M);
        let first = fetch_all(&mut machine, 8 * M);
        run(&mut machine, 2);
        code(&mut machine, 8 * M);
        let second = fetch_all(&mut machine, 8 * M);
        (machine, first, second)
    };
    let ((mut shared, first, second), (mut alone, first_alone, second_alone)) = (run_two("on"), run_two("off"));
    assert_eq!((first, first_alone, second_alone), (128, 128, 128), "one fault for each cluster");
    assert_eq!(second, 4, "one fault for each table");
    let ((bytes, held), (bytes_alone, held_alone)) = (tables(&shared), tables(&alone));
    assert_eq!(bytes_alone - bytes, 4 * 4096);
    assert!(held == held_alone && held.iter().all(Option::is_some));
    assert_eq!(shared.vm.counters().tables_shared, 4);
    let leaf = |machine: &Machine, asid: u32, at: u64| machine.vm.leaf_table(Asid(asid), Vpn((AT + at) >> 12));
    for table in 0..4 {
        let at = table * 2 * M;
        assert_eq!(leaf(&shared, 1, at), leaf(&shared, 2, at));
        assert_ne!(leaf(&alone, 1, at), leaf(&alone, 2, at));
    }
    // A process that changes an entry gets a copy of the table; others keep theirs.
    let before = leaf(&shared, 1, 0);
    for machine in [&mut shared, &mut alone] {
        machine.event(&Event::Protect(Span { start: VirtAddr(AT + 64 * K), len: 4096 }, Protection::READ_WRITE));
        machine.touch(Vpn((AT + 64 * K) >> 12), Kind::Store);
    }
    assert_eq!(leaf(&shared, 1, 0), before);
    assert_ne!(leaf(&shared, 2, 0), before);
    assert_eq!(leaf(&shared, 1, 2 * M), leaf(&shared, 2, 2 * M));
    let plain = |machine: &Machine| {
        tables(machine).1.iter().map(|pte| pte.map(|pte| (pte.writable(), pte.executable()))).collect::<Vec<_>>()
    };
    assert!(plain(&shared) == plain(&alone));
    // The first process exits, and the second keeps all its entries.
    run(&mut shared, 1);
    shared.event(&Event::Exit);
    run(&mut shared, 2);
    shared.vm.check();
    assert_eq!(
        fetch_all(&mut shared, 64 * K) + fetch_all(&mut shared, 8 * M),
        1,
        "only the page that lost its execute permission faults"
    );
    shared.exit_all();
    alone.exit_all();
}

#[test]
fn a_fault_of_one_process_fills_the_shared_table_for_all() {
    let mut machine = machine("threshold=33,share_tables=on", 4 * M);
    code(&mut machine, 4 * M);
    fetch(&mut machine, AT);
    run(&mut machine, 2);
    code(&mut machine, 4 * M);
    assert_eq!(fetch(&mut machine, AT), 1, "the fault maps the shared table");
    assert_eq!(fetch(&mut machine, AT + M), 1, "no process has faulted on that cluster yet");
    run(&mut machine, 1);
    assert_eq!(fetch(&mut machine, AT + M), 0);
    machine.vm.check();
    // A child maps its parent's tables at its first fault, and fork copies nothing.
    machine.event(&Event::Fork { child: Asid(3), shares_memory: false });
    assert_eq!(machine.vm.counters().entries_copied, 0);
    run(&mut machine, 3);
    assert_eq!((fetch(&mut machine, AT), fetch(&mut machine, AT + M)), (1, 0));
    // A mapping with another offset has tables of its own.
    run(&mut machine, 4);
    map(&mut machine, AT, 2 * M, 2 * M, Protection::READ_EXECUTE, Role::Image);
    fetch(&mut machine, AT);
    let leaf = |asid: u32| machine.vm.leaf_table(Asid(asid), Vpn(AT >> 12));
    assert!(leaf(1).is_some() && leaf(1) == leaf(2) && leaf(1) == leaf(3) && leaf(1) != leaf(4));
    machine.event(&Event::Exit);
    machine.exit_all();
}

/// §9, Table 6: fork, exec and exit take time in proportion to entries and tables.
#[test]
fn superpages_make_fork_exec_and_exit_cheaper() {
    let cycles = |threshold: &str| {
        let mut machine = machine(&format!("threshold={threshold},padding=off"), 8 * M);
        code(&mut machine, 8 * M);
        for at in (AT..AT + 8 * M).step_by(4096) {
            fetch(&mut machine, at);
        }
        let entries = machine.vm.process(Asid(1)).unwrap().table().pages(Vpn(0), 1 << 36).len() as u64;
        let fault = |machine: &Machine| machine.vm.ledger().charged(reach_core::Label::Fault).0;
        let before = fault(&machine);
        machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
        assert_eq!(machine.vm.counters().entries_copied, entries);
        let forked = fault(&machine);
        run(&mut machine, 2);
        assert_eq!(fetch(&mut machine, AT + 5 * M), 0, "the child has its parent's entries");
        machine.event(&Event::Exec { path: "/bin/other".into() });
        assert_eq!(machine.vm.counters().entries_torn_down, entries);
        let executed = fault(&machine);
        machine.event(&Event::Exit);
        run(&mut machine, 1);
        machine.event(&Event::Exit);
        assert_eq!(machine.vm.counters().entries_torn_down, 2 * entries);
        let costs = machine.vm.options().costs.clone();
        assert!(forked - before >= costs.fork + entries * (costs.fork_per_pte + costs.pte_write));
        assert!(executed - forked >= entries * (costs.exit_per_pte + costs.pte_write));
        (entries, fault(&machine) - before)
    };
    let (none, all) = (cycles("33"), cycles("1"));
    assert_eq!((none.0, all.0), (2048, 4));
    assert!(none.1 > 2 * all.1, "{none:?} {all:?}");
}

#[test]
fn protection_and_unmapping_demote_code_superpages() {
    let mut machine = machine("threshold=1", 8 * M);
    code(&mut machine, 8 * M);
    for at in 0..4 {
        fetch(&mut machine, AT + at * 2 * M);
    }
    assert_eq!(superpages(&machine), 4);
    machine.event(&Event::Protect(Span { start: VirtAddr(AT), len: 64 * K }, Protection::READ_WRITE));
    machine.touch(Vpn(AT >> 12), Kind::Store);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT + 3 * M), len: 64 * K }));
    assert_eq!(superpages(&machine), 2);
    machine.exit_all();
}

#[test]
fn unaligned_libraries_get_superpages_where_whole_extents_are_mapped() {
    let mut machine = machine("threshold=1,padding=off", 8 * M);
    let at = 0x7f00_0000_7000;
    map(&mut machine, at, M, 0, Protection::READ, Role::Mmap);
    map(&mut machine, at + M, 6 * M, M, Protection::READ_EXECUTE, Role::Mmap);
    // Linkers leave one page before data, which relocation touches first.
    map(&mut machine, at + 7 * M + 4 * K, M - 4 * K, 7 * M, Protection::READ_WRITE, Role::Mmap);
    machine.touch(Vpn((at + 7 * M + 4 * K) >> 12), Kind::Store);
    fetch(&mut machine, at + 2 * M);
    assert_eq!(superpages(&machine), 1);
    // A load promotes code as well.
    machine.touch(Vpn((at + 4 * M) >> 12), Kind::Load);
    assert_eq!(superpages(&machine), 2);
    machine.exit_all();
}
