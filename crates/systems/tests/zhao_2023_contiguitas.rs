//! Contiguitas: memory that cannot move, in a region of its own.

use reach_core::{Asid, Event, Fault, FaultCause, Kind, Layout, Map, PageShift, Pfn, ThreadId, VirtAddr, Vpn};
use reach_os::{Fragmentation, FrameKind, Options, Vm};
use reach_systems::{System, resolve};

const MEMORY: u64 = 256 << 20;
const AT: u64 = 0x7f00_0000_0000;
/// Frames of a block of 2 MB.
const BLOCK: u64 = 512;

/// Boots a system in memory in which the kernel holds an eighth of each block of 2 MB.
fn boot(system: &str) -> (Box<dyn System>, Vm) {
    let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12), PageShift(21)], MEMORY)).unwrap();
    let recipe = Fragmentation { order: 9, scattered: 1.0, hold: 0.125, grain: 0, first: false, stay: None, seed: 1 };
    recipe.apply(vm.frames_mut()).unwrap();
    let mut system = resolve(system).unwrap().build();
    system.boot(&mut vm).unwrap();
    (system, vm)
}

/// Returns the blocks of 2 MB in which the kernel holds a frame for good.
fn unmovable_blocks(vm: &Vm) -> Vec<u64> {
    let held = |at: u64| vm.frames().get(Pfn(at)).kind == FrameKind::Wired;
    (0..MEMORY >> 21).filter(|block| (block * BLOCK..(block + 1) * BLOCK).any(held)).collect()
}

#[test]
fn unmovable_memory_lies_at_the_end_and_is_as_much_as_before() {
    let held = |vm: &Vm| (0..MEMORY >> 12).filter(|&at| vm.frames().get(Pfn(at)).kind == FrameKind::Wired).count();
    let (_, linux) = boot("linux-thp");
    let (_, confined) = boot("zhao-2023-contiguitas");
    assert_eq!(held(&confined), held(&linux));
    assert!(unmovable_blocks(&linux).len() > 120);
    let blocks = unmovable_blocks(&confined);
    assert!(blocks.len() <= 17 && blocks.last() == Some(&127), "{blocks:?}");
    assert!(blocks.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one region: {blocks:?}");
    confined.check();
}

#[test]
fn huge_pages_are_found_where_linux_finds_none() {
    for (system, huge) in [("linux-thp", 0), ("zhao-2023-contiguitas", 32)] {
        let (mut system, mut vm) = boot(system);
        system.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }, &mut vm).unwrap();
        system.event(&Event::Map(Map::anonymous(VirtAddr(AT), 64 << 20)), &mut vm).unwrap();
        for block in 0..32 {
            let vpn = Vpn((AT >> 12) + block * BLOCK);
            system.fault(Fault { vpn, kind: Kind::Store, cause: FaultCause::NotPresent }, &mut vm).unwrap();
        }
        assert_eq!(vm.counters().superpages[0].current, huge, "{}", system.name());
    }
}
