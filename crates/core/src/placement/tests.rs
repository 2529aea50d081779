use super::*;
use crate::Random;

const TOP: u64 = 0x7fff_f7ff_f000;
const BOTTOM: u64 = 0x1000_0000_0000;

/// Places and takes a mapping.
fn map(area: &mut MappingArea, len: u64, contents: Contents) -> u64 {
    let at = area.place(len, contents).unwrap();
    assert!(area.is_free(&(at..at + len)), "{at:#x}");
    area.take(at..at + len);
    at
}

/// The calls of one program in order, with the addresses that Linux 6.18.0 returned without randomisation.
#[test]
fn mappings_are_where_the_kernel_puts_them() {
    let stack_end = 0x7fff_ffff_f000;
    assert_eq!(MappingArea::top_for(stack_end, 8 << 20), TOP);
    let mut area = MappingArea::new(BOTTOM..TOP);
    // The loader, the vDSO and libc as /proc/self/maps showed them.
    area.take(0x7fff_f7fc_0000..TOP);
    area.take(0x7fff_f7dd_2000..0x7fff_f7fb_7000);
    let mib = 1 << 20;
    let file = Contents::File { offset: 0 };
    for (len, contents, kernel) in [
        (4096, Contents::Anonymous, 0x7fff_f7fb_f000),
        (2 * mib, Contents::Anonymous, 0x7fff_f7a0_0000),
        (2 * mib + 4096, Contents::Anonymous, 0x7fff_f77f_f000),
        (4 * mib, Contents::Anonymous, 0x7fff_f720_0000),
        (mib, Contents::Anonymous, 0x7fff_f7cd_2000),
        (64 * mib, Contents::Anonymous, 0x7fff_f320_0000),
        (64 * mib + 4096, Contents::Anonymous, 0x7fff_ef1f_f000),
        (2 * mib, Contents::Anonymous, 0x7fff_eee0_0000),
        (2 * mib, Contents::SharedMemory, 0x7fff_eec0_0000),
        (4 * mib, Contents::SharedMemory, 0x7fff_ee80_0000),
        (4 * mib, file, 0x7fff_ee40_0000),
        (4 * mib - 4096, file, 0x7fff_ee00_0000),
        (2 * mib - 4096, file, 0x7fff_f760_0000),
    ] {
        let at = map(&mut area, len, contents);
        assert_eq!(at, kernel, "{len:#x} bytes of {contents:?}: {at:#x}");
    }
}

/// The addresses that Linux 6.18.44 returned for shared memory without a file while `shmem_enabled` was `always`.
#[test]
fn shared_memory_that_may_have_huge_pages_is_where_the_kernel_puts_it() {
    let mut area = MappingArea::new(BOTTOM..TOP);
    area.take(0x7fff_f7fc_0000..TOP);
    area.take(0x7fff_f7dd_1000..0x7fff_f7fb_6000);
    let mib = 1 << 20;
    for (len, kernel) in [
        (4096, 0x7fff_f7fb_f000),
        (2 * mib, 0x7fff_f7a0_0000),
        (2 * mib + 4096, 0x7fff_f760_0000),
        (3 * mib, 0x7fff_f720_0000),
        (mib, 0x7fff_f7cd_1000),
        (4 * mib, 0x7fff_f6e0_0000),
        (10 * mib + 20480, 0x7fff_f620_0000),
        (2 * mib - 4096, 0x7fff_f780_1000),
    ] {
        let at = map(&mut area, len, Contents::HugeSharedMemory { offset: 0 });
        assert_eq!(at, kernel, "{len:#x} bytes: {at:#x}");
    }
    let at = map(&mut area, 8 * mib, Contents::HugeSharedMemory { offset: 0x3000 });
    assert_eq!(at % (2 * mib), 0x3000);
}

#[test]
fn huge_pages_are_aligned_and_files_congruent_to_their_offset() {
    let mut area = MappingArea::new(BOTTOM..TOP);
    assert_eq!(map(&mut area, 4096, Contents::HugePages(21)), 0x7fff_f7c0_0000);
    assert_eq!(map(&mut area, 1, Contents::HugePages(30)) % (1 << 30), 0);
    let at = map(&mut area, 8 << 20, Contents::File { offset: 0x3000 });
    assert_eq!(at % (2 << 20), 0x3000);
    // The file's first multiple of 2 MB is too near to the end of the mapping for a huge page.
    let at = map(&mut area, (2 << 20) + 0x1000, Contents::File { offset: 0x3000 });
    assert_ne!(at % (2 << 20), 0x3000);
}

#[test]
fn a_full_area_gives_none() {
    let mut area = MappingArea::new(0x1000..0x10_0000);
    assert_eq!(area.place(0x10_0000, Contents::Anonymous), None);
    assert_eq!(area.place(u64::MAX, Contents::Anonymous), None);
    assert_eq!(area.place(u64::MAX - 4096, Contents::File { offset: u64::MAX - 4096 }), None);
    assert_eq!(map(&mut area, 0xf_f000, Contents::Anonymous), 0x1000);
    assert_eq!(area.place(1, Contents::Anonymous), None);
    area.release(0x5000..0x6000);
    assert_eq!(area.place(1, Contents::Anonymous), Some(0x5000));
    assert!(!area.is_free(&(0x4000..0x6000)) && area.is_free(&(0x5000..0x6000)));
}

/// Against a bitmap of pages, for random operations on a small area.
#[test]
fn gaps_are_those_of_a_bitmap() {
    let mut random = Random::new(7);
    let pages = 64;
    for _ in 0..200 {
        let (mut area, mut bitmap) = (MappingArea::new(0..pages * PAGE), vec![false; pages as usize]);
        for _ in 0..60 {
            let (from, to) = (random.below(pages + 8), random.below(pages + 8));
            let taken = random.below(3) > 0;
            let span = from.min(to) * PAGE..from.max(to) * PAGE;
            if taken {
                area.take(span.clone())
            } else {
                area.release(span.clone())
            }
            for page in from.min(to)..from.max(to).min(pages) {
                bitmap[page as usize] = taken;
            }
            let len = 1 + random.below(9);
            let free = |at: u64| (at..at + len).all(|page| !bitmap[page as usize]);
            let expected = (0..=pages - len).rev().find(|&at| free(at)).map(|at| at * PAGE);
            assert_eq!(area.place(len * PAGE, Contents::SharedMemory), expected);
            assert!(area.taken.iter().zip(area.taken.iter().skip(1)).all(|((_, end), (start, _))| end < start));
        }
    }
}
