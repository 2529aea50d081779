//! Every system under random operations against the oracle: no page is lost, none is mapped that should not be, and all
//! memory is freed at the end.

use crate::common::Machine;
use proptest::prelude::*;
use reach_core::{Cycles, Label, Layout, PageShift, PageTableKind, Vpn};
use reach_oracle::address_space::{FIRST_PAGE, MappedPage, NaiveAddressSpaces, Op, PAGES};
use reach_os::{Options, Vm, soft};
use reach_systems::list;

/// Machines with small superpages, so that 32 pages hold several, by replicated entries at the leaf and by entries at the
/// next level. Roots are as small as possible, because every check reads them whole.
fn machines() -> Vec<Options> {
    let small = Layout::radix(PageShift(12), vec![3, 9, 9, 9]);
    let alpha = Layout::radix(PageShift(13), vec![10, 10, 3]);
    vec![
        Options::linux(small.clone(), [12, 15].map(PageShift).to_vec(), 2 << 20),
        Options::linux(Layout::x86_64(), [12, 14, 16].map(PageShift).to_vec(), 2 << 20),
        Options::linux(alpha.clone(), [13, 16].map(PageShift).to_vec(), 4 << 20),
        Options::linux(Layout::radix(PageShift(14), vec![11, 11, 2]), [14, 16].map(PageShift).to_vec(), 4 << 20),
        Options::linux(
            Layout { kind: PageTableKind::Cuckoo, ..small.clone() },
            [12, 15].map(PageShift).to_vec(),
            2 << 20,
        ),
        Options::linux(
            Layout { kind: PageTableKind::Flattened, ..small.clone() },
            [12, 15].map(PageShift).to_vec(),
            2 << 20,
        ),
        Options::linux(
            Layout { kind: PageTableKind::Learned, ..small.clone() },
            [12, 15].map(PageShift).to_vec(),
            2 << 20,
        ),
        Options::linux(Layout { kind: PageTableKind::Hashed, ..small }, [12, 15].map(PageShift).to_vec(), 2 << 20),
        Options::linux(Layout { kind: PageTableKind::Chained, ..alpha }, [13, 16].map(PageShift).to_vec(), 4 << 20),
    ]
}

/// Linux with huge pages and large folios of shared memory and files. BLOCK is half a huge page of the machine.
const FILES: [&str; 3] = [
    "linux-thp:shmem_enabled=always,tmpfs_huge=always,file_folios=2M",
    "linux-thp:shmem_enabled=within_size,shmem_mthp=BLOCK,exec_folio=16K,scan_sleep_millisecs=1",
    "linux-thp:shmem_enabled=always,version=7.2,scan_sleep_millisecs=1",
];

/// Online promotion with thresholds so low that it promotes early, and other designs with options by which they act early.
const ONLINE: [&str; 13] = [
    "fang-1999:policy=asap,mechanism=copy",
    "fang-1999:policy=aol,mechanism=copy,threshold=1",
    "fang-1999:policy=aol,mechanism=remap,threshold=1",
    "fang-1999:policy=online,mechanism=remap,threshold=1",
    "romer-1995:policy=asap",
    "kwon-2016-ingens:utilization=1,wake_millisecs=1",
    "jia-2023-gemini:huge_faults=off,scan_millisecs=1,preallocate_above=1",
    "panwar-2019-hawkeye:sample_millisecs=1,window_millisecs=1,huge_faults=off",
    "ram-2021-trident:scan_sleep_millisecs=1,utilization=1",
    "manocha-2023-pcc:interval_millisecs=1",
    "mansi-2022-cbmm:profile=huge:mmap:1+huge:heap:1,prezero_pages=1",
    "mansi-2022-cbmm:profile=huge:mmap:300000,zeroed_at_boot=off,promotion=on,promotion_millisecs=1,idle_processor=off",
    "ryoo-2017-pom-tlb:policy=linux-thp",
];

fn seen(vm: &Vm) -> Vec<MappedPage> {
    let mut seen = Vec::new();
    for (asid, process) in vm.processes() {
        for entry in process.table().pages(Vpn(FIRST_PAGE), PAGES) {
            let zero = vm.kind_of(entry.pte) == reach_os::FrameKind::Zero;
            let pages = entry.pte.shift().base_pages(vm.base());
            seen.extend((0..pages).map(|i| MappedPage {
                asid,
                vpn: entry.vpn.0 + i,
                pfn: if zero { vm.zero_page().0 } else { entry.pte.pfn().0 + i },
                writable: entry.pte.writable(),
            }));
        }
    }
    seen
}

fn run(spec: &str, mut options: Options, words: &[u64]) {
    let base = options.base();
    // Faults map one page only, so that the oracle knows what is mapped.
    options.implicit_region = base.bytes();
    let mut machine = Machine::boot(spec, options);
    let mut twin = NaiveAddressSpaces::default();
    twin.apply(Op::Switch { asid: 1 });
    for (i, &word) in words.iter().enumerate() {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        machine.apply(op);
        twin.apply(op);
        machine.vm.check();
        // With 4 KB base pages and no copies ahead of use, pages are shared exactly as on Linux.
        if base == PageShift(12) && !spec.starts_with("hugetlb") {
            let difference = twin.difference(&seen(&machine.vm), machine.vm.zero_page().0, true);
            assert_eq!(difference, None, "{spec} after {op:?}");
        } else {
            let now = machine.system.next_tick().unwrap_or(Cycles(i as u64));
            machine.system.tick(now, &mut machine.vm).unwrap();
            machine.vm.check();
        }
    }
    // Every superpage that may be split can be demoted to base pages.
    let asid = machine.vm.current();
    let extents = machine.vm.process(asid).map(|process| process.table().pages(Vpn(0), 1 << 34)).unwrap_or_default();
    for entry in extents.into_iter().filter(|entry| entry.pte.soft() & soft::WHOLE == 0) {
        machine.vm.demote(asid, entry.vpn, base, Label::Remap).unwrap();
    }
    machine.vm.check();
    machine.exit_all();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_system_agrees_with_the_oracle_and_frees_all_memory(words in proptest::collection::vec(any::<u64>(), 1..80)) {
        // Elastic translations need page sizes of Arm, and have a machine of their own below.
        let anywhere = list().iter().map(|description| description.name).filter(|name| !name.contains("elastic"));
        let names = anywhere.chain(ONLINE);
        // Mappings are short here, so ranges must be allowed to be.
        let ranges = [
            "karakostas-2015-rmm:min_range=1,copy_on_write=split",
            "karakostas-2015-rmm:min_range=2,max_fragmentation=1000,round_up=on,sorted_free_lists=on",
            "basu-2013-direct-segment:kind=ideal",
        ];
        for name in names.chain(ranges).chain(FILES) {
            for options in machines() {
                let huge = options.sizes.iter().filter(|size| size.0 <= 21).max().expect("a base page");
                run(&name.replace("BLOCK", &PageShift(huge.0 - 1).to_string()), options, &words);
            }
        }
        let arm = Options::linux(Layout::x86_64(), [12, 16, 21, 25].map(PageShift).to_vec(), 64 << 20);
        run("psomadakis-2024-elastic:interval_millisecs=1", arm, &words);
    }
}

/// With base pages larger than the program's, a mapping that moves next to another lies partly in a base page of the
/// other, which is in a range already.
#[test]
fn a_mapping_may_move_to_a_page_that_is_in_a_range() {
    let map = |at, len, backing, shared| Op::Map { at, len, backing, shared, write: true };
    let ops = [
        map(19, 2, 0, false),
        map(9, 8, 2, true),
        Op::Touch { at: 28, store: true },
        Op::Remap { from: 19, len: 1, to: 11, new_len: 2 },
        Op::Remap { from: 28, len: 2, to: 11, new_len: 8 },
    ];
    let mut machine = Machine::boot("karakostas-2015-rmm:min_range=1", machines().swap_remove(2));
    for op in ops {
        machine.apply(op);
        machine.vm.check();
    }
}
