//! The pages of a live process: this one, with memory that it knows.

mod common;

use reach_live::elf::BASE;
use reach_live::host;
use reach_live::layout::SUPERPAGE;
use reach_live::pages::Pages;
use std::ptr;

/// New memory of 2 MB at a multiple of that, with this advice; each base page that `touch` names is written.
fn memory(advice: i32, touch: impl Fn(u64) -> bool) -> u64 {
    let (length, rights) = (2 * SUPERPAGE as usize, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new memory at an address of the kernel's choice, of which a part is used.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), length, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let aligned = (start as u64).next_multiple_of(SUPERPAGE);
        libc::madvise(aligned as *mut libc::c_void, SUPERPAGE as usize, advice);
        for page in (0..SUPERPAGE / BASE).filter(|&page| touch(page)) {
            ptr::write_volatile((aligned + page * BASE) as *mut u8, 1);
        }
        aligned
    }
}

#[test]
fn sizes_bloat_and_ranges_of_memory_are_seen() {
    let huge = memory(libc::MADV_HUGEPAGE, |page| page.is_multiple_of(8));
    let small = memory(libc::MADV_NOHUGEPAGE, |page| page < 100);
    let pages = Pages::of(std::process::id() as i32).unwrap();
    let at = |address: u64| pages.areas.iter().find(|area| area.addresses.contains(&address)).unwrap();
    assert!(at(small).resident >= 100 * BASE && at(small).permissions.starts_with("rw-p"));
    if at(huge).superpages == 0 {
        eprintln!("skipped: no anonymous superpages to be had");
        return;
    }
    assert!(at(huge).superpages.is_multiple_of(SUPERPAGE));
    let Some(contiguity) = &pages.contiguity else {
        assert!(!host::is_root(), "frames are shown to root");
        eprintln!("skipped: frames are shown to root only");
        return;
    };
    // Of 512 base pages, 64 were written.
    assert_eq!(at(huge).bloat.unwrap() % SUPERPAGE, (512 - 64) * BASE);
    assert_eq!(at(small).bloat, Some(0));
    assert!(at(huge).by_order.unwrap()[9] >= SUPERPAGE);
    assert!(contiguity.ranges[0] >= 512, "the superpage is one range");
    let (ninety, all) = (contiguity.ranges_for(90), contiguity.ranges.len());
    assert!(0 < ninety && ninety <= contiguity.ranges_for(99) && contiguity.ranges_for(100) == all);
}

#[test]
fn processes_that_are_not_there_are_named_so() {
    assert_eq!(Pages::of(i32::MAX).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
