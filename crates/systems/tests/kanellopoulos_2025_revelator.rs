//! Revelator's hashed frames, and the data that its hardware reads.

use crate::common::Machine;
use reach_core::{Asid, AssistAnswer, Event, Kind, Map, PageShift, Pfn, TlbMiss, VirtAddr, Vpn};
use reach_oracle::assist::{Asked, Bench};

const AT: u64 = 0x7f00_0000_0000;

fn vpn(page: u64) -> Vpn {
    Vpn((AT >> 12) + page)
}

/// Returns what a miss of page `page`, 72 bytes into it, asks for.
fn asked(machine: &Machine, page: u64, kind: Kind) -> Vec<Asked> {
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = Bench::new(PageShift(12), 1);
    let miss = TlbMiss { asid: Asid(1), vpn: vpn(page), kind, instruction: 0, offset: 72 };
    assert_eq!(assist.search(miss, &mut bench), AssistAnswer::Walk);
    bench.asked
}

/// Returns the frames from which such a miss reads data.
fn frames_read(machine: &Machine, page: u64) -> Vec<Pfn> {
    let frame = |asked| match asked {
        Asked::Data(frame, 72) => Some(frame),
        _ => None,
    };
    asked(machine, page, Kind::Load).into_iter().filter_map(frame).collect()
}

/// Touches 16 MB in 64 MB of memory, and returns for how many of its pages a miss reads from the right frame.
fn right(system: &str) -> usize {
    let mut machine = Machine::x86(system, 64 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 << 20)));
    (0..4096).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    machine.vm.check();
    let is_right = |&page: &u64| frames_read(&machine, page).contains(&machine.translation(vpn(page)).unwrap().pfn());
    let right = (0..4096).filter(is_right).count();
    machine.exit_all();
    right
}

#[test]
fn a_miss_reads_the_last_entry_and_data_from_the_frames_that_hashes_give() {
    let machine = Machine::x86("kanellopoulos-2025-revelator", 64 << 20);
    let [hasten, data @ ..] = &asked(&machine, 5, Kind::Store)[..] else { panic!("it asks for something") };
    assert_eq!(*hasten, Asked::Hasten(vpn(5), 0));
    assert_eq!(data.len(), 3);
    assert!(data.iter().all(|asked| matches!(asked, Asked::Data(frame, 72) if frame.0 < 1 << 14)), "{data:?}");
    assert_eq!(asked(&machine, 5, Kind::Fetch), [Asked::Hasten(vpn(5), 0)]);
    assert_ne!(frames_read(&machine, 5), frames_read(&machine, 6));
}

#[test]
fn each_hash_catches_pages_whose_earlier_frames_were_taken() {
    // A quarter of memory fills up. On average, an eighth of first frames is taken, both of the first two for one page in 48, and all
    // three for one in 256.
    let one = right("kanellopoulos-2025-revelator:hashes=1");
    let two = right("kanellopoulos-2025-revelator:hashes=2");
    let three = right("kanellopoulos-2025-revelator");
    assert!((3400..3750).contains(&one), "{one}");
    assert!((3950..4070).contains(&two), "{two}");
    assert!((4065..=4096).contains(&three), "{three}");
}

#[test]
fn pages_beyond_the_frames_that_are_read_are_predicted_wrongly() {
    let first_only = right("kanellopoulos-2025-revelator:reads=1");
    assert!((3400..3750).contains(&first_only), "{first_only}");
    assert_eq!(right("kanellopoulos-2025-revelator:reads=0"), 0);
}
