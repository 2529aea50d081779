//! The pages of a running process: this one, with memory in known states.

mod common;

use reach_live::elf::BASE;
use reach_live::host;
use reach_live::layout::SUPERPAGE;
use reach_live::pages::Pages;
use std::ptr;

/// Maps 2 MB of new memory at a multiple of 2 MB with this advice, and writes each base page for which `touch` returns true.
fn memory(advice: i32, touch: impl Fn(u64) -> bool) -> u64 {
    let (length, rights) = (2 * SUPERPAGE as usize, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice; writes stay inside it.
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
fn sizes_bloat_and_ranges_match_the_memory_of_this_process() {
    let huge = memory(libc::MADV_HUGEPAGE, |page| page.is_multiple_of(8));
    let small = memory(libc::MADV_NOHUGEPAGE, |page| page < 100);
    let pages = Pages::of(std::process::id() as i32).unwrap();
    let at = |address: u64| pages.areas.iter().find(|area| area.addresses.contains(&address)).unwrap();
    assert!(at(small).resident >= 100 * BASE && at(small).permissions.starts_with("rw-p"));
    if at(huge).superpages == 0 {
        eprintln!("skipped: the kernel allocated no anonymous superpage");
        return;
    }
    assert!(at(huge).superpages.is_multiple_of(SUPERPAGE));
    let Some(contiguity) = &pages.contiguity else {
        assert!(!host::is_root(), "frames are visible to root");
        eprintln!("skipped: page frames are visible to root only");
        return;
    };
    // 64 of the 512 base pages were written.
    assert_eq!(at(huge).bloat.unwrap() % SUPERPAGE, (512 - 64) * BASE);
    assert_eq!(at(small).bloat, Some(0));
    assert!(at(huge).by_order.unwrap()[9] >= SUPERPAGE);
    assert!(contiguity.ranges[0] >= 512, "the superpage is one range");
    let (ninety, all) = (contiguity.ranges_for(90), contiguity.ranges.len());
    assert!(0 < ninety && ninety <= contiguity.ranges_for(99) && contiguity.ranges_for(100) == all);
}

#[test]
fn a_missing_process_gives_not_found() {
    assert_eq!(Pages::of(i32::MAX).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
