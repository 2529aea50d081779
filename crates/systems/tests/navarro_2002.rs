//! `navarro-2002` against its paper's description, on an Alpha with 64 MB.

use crate::common::Machine;
use reach_core::{
    Advice, Asid, Backing, Event, FileId, Kind, Label, Layout, Map, PageShift, Protection, Role, Span, ThreadId,
    VirtAddr, Vpn,
};
use reach_os::{Operation, Options};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
/// Address of the first mapping, aligned to the largest page.
const AT: u64 = 1 << 30;

fn alpha(spec: &str, memory: u64) -> Machine {
    let layout = Layout::radix(PageShift(13), vec![10, 10, 15]);
    Machine::boot(spec, Options::linux(layout, [13, 16, 19, 22].map(PageShift).to_vec(), memory))
}

fn map(machine: &mut Machine, at: u64, len: u64, role: Role) {
    machine.event(&Event::Map(Map { role, ..Map::anonymous(VirtAddr(at), len) }));
}

fn page(at: u64) -> Vpn {
    Vpn(at >> 13)
}

/// Returns the numbers of superpages mapped now: 64 KB, 512 KB, 4 MB.
fn superpages(machine: &Machine) -> [u64; 3] {
    machine.vm.check();
    [0, 1, 2].map(|size| machine.vm.counters().superpages[size].current)
}

fn size(machine: &Machine, at: u64) -> u64 {
    machine.translation(page(at)).unwrap().shift().bytes()
}

#[test]
fn promotion_proceeds_one_size_at_a_time_and_skips_sizes_that_fill_at_once() {
    let mut machine = alpha("navarro-2002", 64 * M);
    map(&mut machine, AT, 4 * M, Role::Mmap);
    assert_eq!(machine.sweep(AT, 7, Kind::Store), 7);
    assert_eq!((superpages(&machine), machine.vm.counters().reservations), ([0, 0, 0], 1));
    machine.touch(page(AT + 56 * K), Kind::Store);
    assert_eq!(superpages(&machine), [1, 0, 0]);
    machine.sweep(AT + 64 * K, 56, Kind::Store);
    assert_eq!(superpages(&machine), [0, 1, 0], "eight superpages of 64 KB form one of 512 KB");
    machine.sweep(AT + 512 * K, 512 - 64 - 1, Kind::Store);
    assert_eq!(superpages(&machine), [7, 7, 0]);
    // The last page fills all three sizes: one promotion, to the largest.
    let before = machine.vm.counters().promotions;
    machine.touch(page(AT + 4 * M - 8 * K), Kind::Store);
    assert_eq!((superpages(&machine), machine.vm.counters().promotions - before), ([0, 0, 1], 1));
    assert_eq!(machine.vm.counters().page_faults, 512);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 4 * M }));
    map(&mut machine, AT, M, Role::Mmap);
    machine.sweep(AT, 128, Kind::Store);
    assert_eq!((superpages(&machine), &machine.vm.counters().superpages_at_peak[..]), ([0, 2, 0], &[0, 0, 1][..]));
    machine.exit_all();
}

#[test]
fn only_chosen_sizes_are_used_and_absent_sizes_are_refused() {
    for (sizes, expected) in [("64K", vec![64]), ("4M", vec![1]), ("64K+4M", vec![0, 1])] {
        let mut machine = alpha(&format!("navarro-2002:sizes={sizes}"), 64 * M);
        map(&mut machine, AT, 4 * M, Role::Mmap);
        machine.sweep(AT, 512, Kind::Store);
        let current: Vec<u64> = machine.vm.counters().superpages.iter().map(|gauge| gauge.current).collect();
        assert_eq!(current, expected, "{sizes}");
        machine.vm.check();
    }
    let mut vm = reach_os::Vm::new(Options::linux(Layout::x86_64(), [12, 21].map(PageShift).to_vec(), M)).unwrap();
    let message = reach_systems::resolve("navarro-2002:sizes=64K").unwrap().build().boot(&mut vm).unwrap_err();
    assert!(message.to_string().contains("no superpages of 64K; its sizes are 2M"), "{message}");
    assert!(reach_systems::resolve("navarro-2002:sizes=64").is_err());
}

#[test]
fn fixed_objects_bound_reservations_and_growing_objects_bound_their_size() {
    let mut machine = alpha("navarro-2002", 64 * M);
    let held = |machine: &Machine| machine.vm.frames().reservations().unwrap().held();
    // A mapping of 600 KB: 512 KB, then 64 KB, then single pages.
    map(&mut machine, AT, 600 * K, Role::Mmap);
    machine.touch(page(AT), Kind::Store);
    assert_eq!(held(&machine), 63);
    machine.touch(page(AT + 512 * K), Kind::Store);
    assert_eq!(held(&machine), 63 + 7);
    machine.touch(page(AT + 592 * K), Kind::Store);
    assert_eq!((held(&machine), machine.vm.counters().reservations), (63 + 7, 2), "no superpage ends within 600 KB");
    // A heap of 72 KB may grow: a reservation is not larger than the heap, but may reach beyond its end.
    let heap = AT + 16 * M;
    map(&mut machine, heap, 72 * K, Role::Heap);
    machine.touch(page(heap + 64 * K), Kind::Store);
    assert_eq!((held(&machine), machine.vm.counters().reservations), (63 + 7 + 7, 3));
    // A stack grows downwards.
    let stack = AT + 32 * M;
    map(&mut machine, stack - 72 * K, 72 * K, Role::Stack);
    machine.touch(page(stack - 72 * K), Kind::Store);
    assert_eq!((held(&machine), machine.vm.counters().reservations), (63 + 7 + 7 + 7, 4));
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn a_protected_page_demotes_only_the_superpages_that_contain_it() {
    let mut machine = alpha("navarro-2002", 64 * M);
    map(&mut machine, AT, 4 * M, Role::Mmap);
    machine.sweep(AT, 512, Kind::Store);
    let span = Span { start: VirtAddr(AT + 2 * M + 64 * K), len: 8 * K };
    machine.event(&Event::Protect(span, Protection::READ));
    assert_eq!(superpages(&machine), [7, 7, 0]);
    assert_eq!((size(&machine, AT), size(&machine, AT + 2 * M)), (512 * K, 64 * K));
    assert_eq!(machine.vm.counters().demotions, 3);
    // With the right restored and the page written, the extent is promoted again.
    machine.event(&Event::Protect(span, Protection::READ_WRITE));
    machine.touch(page(span.start.0), Kind::Store);
    machine.event(&Event::Advise(span, Advice::DontNeed));
    machine.touch(page(span.start.0), Kind::Store);
    assert_eq!(superpages(&machine), [0, 0, 1]);
    assert_eq!(machine.vm.counters().reservations, 1, "the reservation kept the frame");
    machine.exit_all();
}

#[test]
fn the_first_write_demotes_a_clean_superpage_until_all_pages_are_dirty() {
    let mut machine = alpha("navarro-2002", 64 * M);
    map(&mut machine, AT, 512 * K, Role::Mmap);
    machine.sweep(AT, 64, Kind::Load);
    assert_eq!(superpages(&machine), [0, 1, 0], "clean pages are promoted, too");
    machine.touch(page(AT + 100 * K), Kind::Store);
    assert_eq!(superpages(&machine), [7, 0, 0]);
    machine.sweep(AT, 63, Kind::Store);
    assert_eq!(superpages(&machine), [7, 0, 0], "one page is still clean");
    machine.touch(page(AT + 504 * K), Kind::Store);
    assert_eq!(superpages(&machine), [0, 1, 0]);
    machine.exit_all();
}

#[test]
fn promotion_only_at_the_first_full_extent_waits_until_all_of_that_is_dirty() {
    let mut machine = alpha("navarro-2002:attempt=first", 64 * M);
    map(&mut machine, AT, 512 * K, Role::Mmap);
    machine.sweep(AT, 64, Kind::Load);
    assert_eq!(superpages(&machine), [0, 1, 0]);
    machine.sweep(AT, 63, Kind::Store);
    assert_eq!(superpages(&machine), [0, 0, 0], "512 KB are full, and one page of them is clean");
    machine.touch(page(AT + 504 * K), Kind::Store);
    assert_eq!(superpages(&machine), [0, 1, 0]);
    machine.exit_all();
}

#[test]
fn a_store_after_fork_copies_one_page_and_demotes_only_around_it() {
    let mut machine = alpha("navarro-2002", 64 * M);
    map(&mut machine, AT, 512 * K, Role::Mmap);
    machine.sweep(AT, 64, Kind::Store);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    assert_eq!(superpages(&machine), [0, 2, 0], "both map it");
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    let copied = machine.vm.counters().bytes_copied;
    machine.touch(page(AT), Kind::Store);
    assert_eq!((superpages(&machine), machine.vm.counters().bytes_copied - copied), ([7, 1, 0], 8 * K));
    // The child's copies fill a reservation of the child's and become a superpage of its own.
    machine.sweep(AT, 64, Kind::Store);
    assert_eq!((superpages(&machine), machine.vm.counters().reservations), ([0, 2, 0], 2));
    machine.exit_all();
}

#[test]
fn processes_share_the_superpages_of_a_file() {
    let mut machine = alpha("navarro-2002", 64 * M);
    let file = FileId(1);
    machine.event(&Event::File { file, path: "data".into(), len: M, in_memory: false });
    // The first mapping is unaligned; the object's reservations follow its address.
    let map = |at: u64| {
        let backing = Backing::File { file, offset: 0 };
        Event::Map(Map { backing, protection: Protection::READ, shared: true, ..Map::anonymous(VirtAddr(at), M) })
    };
    let odd = AT + 24 * K;
    machine.event(&map(odd));
    machine.sweep(odd, 128, Kind::Load);
    let first = superpages(&machine);
    assert_eq!(first, [7, 1, 0], "40 KB, seven of 64 KB, 512 KB, 24 KB");
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    machine.event(&map(odd + 8 * M));
    machine.sweep(odd + 8 * M, 128, Kind::Load);
    assert_eq!(superpages(&machine), first.map(|n| 2 * n));
    // A mapping at another offset from a superpage cannot use these superpages.
    machine.event(&Event::Switch { asid: Asid(3), thread: ThreadId(2) });
    machine.event(&map(odd + 8 * K));
    machine.sweep(odd + 8 * K, 128, Kind::Load);
    assert_eq!(superpages(&machine), first.map(|n| 2 * n));
    machine.exit_all();
}

#[test]
fn preemption_uses_all_reservations_before_memory_runs_out() {
    let mut machine = alpha("navarro-2002", 8 * M);
    for i in 0..8 {
        map(&mut machine, AT + i * 4 * M, 4 * M, Role::Mmap);
    }
    // 100 pages in each of eight objects, each of which wants to reserve 4 MB of the 8 MB.
    for round in 0..100 {
        for i in 0..8 {
            machine.touch(page(AT + i * 4 * M + round * 8 * K), Kind::Store);
        }
    }
    assert!(machine.vm.counters().preemptions > 0 && machine.vm.counters().superpage_fallbacks > 0);
    assert_eq!(machine.vm.counters().page_faults, 800);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn each_step_costs_step_cycles() {
    let cycles = |spec| {
        let mut machine = alpha(spec, 64 * M);
        map(&mut machine, AT, M, Role::Mmap);
        machine.sweep(AT, 128, Kind::Store);
        let work = machine.vm.counters().work.as_ref().unwrap();
        let all = [Operation::LookUp, Operation::Reserve, Operation::Update, Operation::Preempt, Operation::Split];
        let steps: u64 = all.into_iter().map(|operation| work.all(operation).steps).sum();
        (machine.vm.ledger().charged(Label::Fault).0, steps)
    };
    let ((charged, steps), (free, _)) = (cycles("navarro-2002:step_cycles=1000"), cycles("navarro-2002:step_cycles=0"));
    assert!(steps > 128 * 4 && charged - free == steps * 1000, "{charged} {free} {steps}");
}

/// §6.7: a file is read, every 512th page is written, and the file is closed.
#[test]
fn demotion_writes_back_dirty_pages_only_and_digests_skip_the_clean_pages_of_superpages() {
    let written = |dirty: &str| {
        let mut machine = alpha(&format!("navarro-2002:dirty={dirty}"), 64 * M);
        let file = FileId(1);
        machine.event(&Event::File { file, path: "data".into(), len: 16 * M, in_memory: false });
        let backing = Backing::File { file, offset: 0 };
        machine.event(&Event::Map(Map { backing, shared: true, ..Map::anonymous(VirtAddr(AT), 16 * M) }));
        machine.sweep(AT, 2048, Kind::Load);
        assert_eq!(superpages(&machine), [0, 0, 4]);
        for i in 0..4 {
            machine.touch(page(AT + i * 4 * M), Kind::Store);
        }
        let expected = if dirty == "demote" { [28, 28, 0] } else { [0, 0, 4] };
        assert_eq!(superpages(&machine), expected);
        let before = machine.vm.ledger().charged(Label::Daemon);
        machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 16 * M }));
        let paging = machine.vm.counters().paging.unwrap();
        let cycles = machine.vm.ledger().charged(Label::Daemon) - before;
        machine.exit_all();
        (paging.out, paging.unchanged, cycles)
    };
    let (demote, whole, digest) = (written("demote"), written("whole"), written("digest"));
    assert_eq!((demote.0, demote.1), (4, 0));
    assert_eq!((whole.0, whole.1), (4 * 512, 0));
    assert_eq!((digest.0, digest.1), (4, 4 * 511));
    assert!(whole.2 == 512 * demote.2 && demote.2 < digest.2, "{demote:?} {whole:?} {digest:?}");
}

/// §6.6: each replicated entry is visited three times on the way up and three times on the way down.
#[test]
fn replicated_entries_are_rewritten_once_for_each_size_up_and_down() {
    let cycles = |spec: &str| {
        let mut machine = alpha(spec, 64 * M);
        map(&mut machine, AT, 4 * M, Role::Mmap);
        let before = machine.vm.ledger().clone();
        machine.sweep(AT, 512, Kind::Store);
        let up = machine.vm.ledger().since(&before).charged(Label::Remap).0;
        let before = machine.vm.ledger().clone();
        machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 4 * M }));
        let down = machine.vm.ledger().since(&before).charged(Label::Fault).0;
        let peaks: Vec<u64> = machine.vm.counters().superpages.iter().map(|gauge| gauge.peak).collect();
        assert!(peaks.iter().zip([8, 8, 1]).all(|(&peak, max)| peak <= max), "demotion makes no superpages: {peaks:?}");
        (up, down, machine.vm.counters().promotions, machine.vm.counters().demotions)
    };
    let costs = reach_os::Costs::ESTIMATE;
    // The last 64 KB of each 512 KB are promoted to 512 KB at once, and the last of those to 4 MB.
    let entries = 8 * 7 * 8 + 7 * 64 + 512;
    assert_eq!(
        cycles("navarro-2002:step_cycles=0"),
        (
            entries * costs.pte_write + 64 * costs.shootdown,
            4 * 512 * costs.pte_write + 74 * costs.shootdown + costs.free_page,
            64,
            73
        )
    );
    // `promote=off` charges the promotions without making superpages.
    let (up, down, promotions, demotions) = cycles("navarro-2002:step_cycles=0,promote=off");
    assert_eq!((up, promotions, demotions), (entries * costs.pte_write, 0, 0));
    assert_eq!(down, 512 * (costs.pte_write + costs.free_page) + costs.shootdown);
}
