//! Reading, laying out and aligning ELF files, valid and corrupt.

mod common;

use common::{Linked, folder, program};
use proptest::prelude::*;
use reach_live::align::{self, AlignError};
use reach_live::elf::{Elf, ElfError, Kind};
use reach_live::layout::{self, Congruence, Fit, SUPERPAGE};
use std::fs;
use std::path::Path;

/// Returns an ELF file of `size` bytes with one segment for each (vaddr, offset, file size, memory size, permissions).
fn image(kind: u16, segments: &[(u64, u64, u64, u64, u32)], size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0\0\x3e\0");
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[20] = 1;
    bytes[32] = 64;
    bytes[52..58].copy_from_slice(&[64, 0, 56, 0, segments.len() as u8, 0]);
    for (i, &(vaddr, offset, file, memory, rights)) in segments.iter().enumerate() {
        let header = &mut bytes[64 + 56 * i..][..56];
        header[..4].copy_from_slice(&1u32.to_le_bytes());
        header[4..8].copy_from_slice(&rights.to_le_bytes());
        for (at, value) in [(8, offset), (16, vaddr), (24, vaddr), (32, file), (40, memory), (48, 4096)] {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

const MB: u64 = 1 << 20;
const R: u32 = 4;
const RX: u32 = 5;
const RW: u32 = 6;

#[test]
fn each_kind_of_invalid_file_has_its_own_error() {
    let good = image(3, &[(0, 0, 4096, 4096, RX)], 4096);
    assert_eq!(Elf::read(&good[..]).unwrap().kind, Kind::Library);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: [(Vec<u8>, &str); 14] = [
        (vec![], "is empty"),
        (b"#!/bin/sh -e\nexit".to_vec(), "is a script; name its interpreter instead: /bin/sh"),
        (b"MZ".to_vec(), "no ELF file"),
        (changed(4, 1), "32-bit"),
        (changed(18, 183), "for another processor (ELF machine 183)"),
        (changed(5, 2), "for another processor"),
        (changed(16, 1), "neither a program nor a shared library"),
        (good[..40].to_vec(), "is truncated: the header ends at byte 64 of 40"),
        (good[..100].to_vec(), "is truncated: the table of segments ends at byte 120 of 100"),
        (good[..4095].to_vec(), "is truncated: a segment ends at byte 4096 of 4095"),
        (changed(68, 4), "has no executable segment"),
        (changed(64 + 48, 3), "alignment of a segment is no power of two"),
        (changed(64 + 16, 1), "differ modulo the page size"),
        (changed(64 + 23, 0xff), "beyond all user addresses"),
    ];
    for (bytes, part) in cases {
        let error = Elf::read(&bytes[..]).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let overlapping = image(3, &[(0, 0, 8192, 8192, RX), (4096, 4096, 4096, 4096, RW)], 8192);
    assert_eq!(Elf::read(&overlapping[..]), Err(ElfError::Corrupt("segments overlap or are out of order")));
}

#[test]
fn regions_say_how_they_can_become_superpages() {
    // As from a linker with 2 MB pages, except for one segment whose offsets prevent padding in a copy.
    let bytes = image(
        3,
        &[
            (0, 0, 4096, 4096, R),
            (2 * MB, 2 * MB, 5 * MB, 5 * MB, RX),
            (8 * MB, 8 * MB, 4096, 4096, RX),
            (8 * MB + 8192, 8 * MB + 4096, 4096, 4096, R),
            (10 * MB, 9 * MB, MB, MB, RX),
            (12 * MB, 10 * MB, 4096, 4096, RX),
            (12 * MB + 4096, 10 * MB + 4096, 4096, MB, RW),
        ],
        11 * MB as usize,
    );
    let elf = Elf::read(&bytes[..]).unwrap();
    let regions: Vec<_> = layout::regions(&elf).iter().map(|region| (region.vaddr / MB, region.fit)).collect();
    let expected = [
        (2, Fit::Whole),
        (4, Fit::Whole),
        (6, Fit::PadInCopy),
        (8, Fit::PadAtRun),
        (10, Fit::PadAtRun),
        (12, Fit::Writable),
    ];
    assert_eq!(regions, expected);
    assert_eq!(layout::promotable(&elf).len(), 2);
    assert_eq!(layout::residual(&elf.segments[1], &layout::regions(&elf)), [None, Some((MB, Fit::PadInCopy))]);
    assert_eq!(layout::congruence(&elf, &elf.segments[1]), Congruence::WhereLoaded);
    assert_eq!(layout::congruence(&elf, &elf.segments[4]), Congruence::Never);
}

#[test]
fn align_moves_segments_whose_addresses_and_offsets_disagree() {
    // As from lld: the difference of address and offset grows by a page with each segment.
    let mut bytes = image(
        3,
        &[
            (0, 0, 0x11bbc, 0x11bbc, R),
            (0x12bc0, 0x11bc0, 5 * MB, 5 * MB, RX),
            (8 * MB + 0xbc0, 6 * MB + 0xbc0, 4096, MB, RW),
        ],
        8 * MB as usize,
    );
    for (i, byte) in bytes.iter_mut().enumerate().skip(0x1000) {
        *byte = (i / 4096) as u8 ^ i as u8;
    }
    let original = Elf::read(&bytes[..]).unwrap();
    assert_eq!(layout::congruence(&original, &original.segments[1]), Congruence::Never);
    let (copy, changes) = align::align(&bytes, true).unwrap();
    assert!(changes.moved && changes.aligned == 1 && changes.padded > 0);
    let elf = Elf::read(&copy[..]).unwrap();
    assert!(elf.code().all(|segment| layout::congruence(&elf, segment) == Congruence::Always));
    assert_eq!(layout::promotable(&elf).len(), 3);
    assert_eq!(align::align(&copy, true), Err(AlignError::Nothing));
}

#[test]
fn compiled_programs_are_read_and_aligned() {
    let folder = folder();
    for linked in [Linked::Aligned, Linked::AsUsual, Linked::Static] {
        let Some(path) = program(folder.path(), "real", 4, linked) else { return };
        let bytes = fs::read(path).unwrap();
        let elf = Elf::read(&bytes[..]).unwrap();
        assert_eq!(elf.is_static(), linked == Linked::Static);
        assert_eq!(elf.kind, if linked == Linked::Static { Kind::Fixed } else { Kind::Pie });
        assert!(layout::code_bytes(&elf) > 4 * MB && !layout::promotable(&elf).is_empty());
        let (copy, _) = align::align(&bytes, true).unwrap();
        let aligned = Elf::read(&copy[..]).unwrap();
        assert!(aligned.code().all(|segment| layout::congruence(&aligned, segment) == Congruence::Always));
        assert!(layout::promotable(&aligned).len() >= layout::promotable(&elf).len());
    }
    let own = Elf::read(&fs::read("/proc/self/exe").unwrap()[..]).unwrap();
    assert!(own.interpreter.as_ref().is_some_and(|loader| Path::new(&loader).exists()) || own.is_static());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No content of a file causes a panic, and an aligned copy can promote at least as many regions.
    #[test]
    fn corrupt_files_are_refused_or_read(
        segments in prop::collection::vec((0u64..24, 0u64..8, 0u64..5, 0u64..3, prop::sample::select(vec![R, RX, RW])), 1..6),
        changes in prop::collection::vec((0usize..420, any::<u8>()), 0..4),
    ) {
        let piece = SUPERPAGE / 4;
        let segments: Vec<_> = segments
            .iter()
            .map(|&(vaddr, offset, size, more, rights)| {
                (vaddr * piece, offset * piece, size * piece, (size + more) * piece, rights)
            })
            .collect();
        let mut bytes = image(3, &segments, 4 * SUPERPAGE as usize);
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(elf) = Elf::read(&bytes[..]) {
            let regions = layout::regions(&elf);
            prop_assert!(regions.windows(2).all(|pair| pair[0].vaddr < pair[1].vaddr));
            prop_assert!(regions.iter().all(|region| region.code > 0 && region.vaddr.is_multiple_of(SUPERPAGE)));
            if let Ok((copy, _)) = align::align(&bytes, true) {
                let aligned = Elf::read(&copy[..]).unwrap();
                prop_assert!(layout::promotable(&aligned).len() >= layout::promotable(&elf).len());
            }
        }
    }
}
