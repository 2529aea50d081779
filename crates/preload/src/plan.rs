//! Finds the regions that can be moved.

use crate::maps::{File, Mapping};

/// Bytes of a superpage.
pub const SUPERPAGE: usize = 2 << 20;

/// A region: 2 MB of addresses at a multiple of 2 MB, with mappings of one file, cut to the region. The rest is
/// unmapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    pub start: usize,
    pub pieces: Vec<Mapping>,
}

/// Returns the regions that hold code of a file other than `own` and nothing else. With `padding`, they may also hold
/// read-only parts of the same file, and unmapped pages. All pages are as in the file, so that they can be mapped from
/// it again.
pub fn regions(maps: &[Mapping], own: Option<File>, padding: bool) -> Vec<Region> {
    let code = |mapping: &&Mapping| mapping.execute && mapping.inode != 0 && Some(mapping.file()) != own;
    let mut regions: Vec<Region> = Vec::new();
    for mapping in maps.iter().filter(code) {
        let mut start = mapping.start & !(SUPERPAGE - 1);
        while start < mapping.end {
            if regions.last().is_none_or(|last| last.start < start) {
                regions.extend(region(maps, mapping.file(), start, padding));
            }
            start += SUPERPAGE;
        }
    }
    regions
}

fn region(maps: &[Mapping], file: File, start: usize, padding: bool) -> Option<Region> {
    let end = start + SUPERPAGE;
    let pieces: Vec<Mapping> = maps
        .iter()
        .filter(|mapping| mapping.start < end && mapping.end > start)
        .map(|mapping| cut(mapping, start, end))
        .collect();
    let movable = |piece: &Mapping| {
        piece.file() == file && piece.private && piece.read && !piece.write && !piece.changed && !piece.path.is_empty()
    };
    let whole = matches!(&pieces[..], [only] if only.execute && only.end - only.start == SUPERPAGE);
    let fits = start != 0 && pieces.iter().all(movable) && (whole || padding);
    fits.then_some(Region { start, pieces })
}

/// Returns the part of a mapping between `start` and `end`.
fn cut(mapping: &Mapping, start: usize, end: usize) -> Mapping {
    let from = mapping.start.max(start);
    Mapping {
        start: from,
        end: mapping.end.min(end),
        offset: mapping.offset + (from - mapping.start) as u64,
        ..mapping.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn mapping(start: usize, end: usize, rights: &str, inode: u64) -> Mapping {
        Mapping {
            start,
            end,
            read: true,
            write: rights.contains('w'),
            execute: rights.contains('x'),
            private: true,
            offset: start as u64,
            device: (8, 1),
            inode,
            path: "/lib/x.so".into(),
            changed: false,
            huge: 0,
        }
    }

    fn starts(maps: &[Mapping], padding: bool) -> Vec<usize> {
        regions(maps, Some((8, 1, 99)), padding).iter().map(|region| region.start / MB).collect()
    }

    #[test]
    fn regions_are_whole_or_padded_with_read_only_data() {
        let maps = [
            mapping(2 * MB, 3 * MB, "r", 1),
            mapping(3 * MB, 9 * MB, "rx", 1),
            mapping(11 * MB, 12 * MB, "rw", 1),
            mapping(12 * MB, 15 * MB, "rx", 99),
        ];
        assert_eq!(starts(&maps, false), [4, 6]);
        assert_eq!(starts(&maps, true), [2, 4, 6, 8]);
    }

    #[test]
    fn regions_with_writable_foreign_or_changed_pages_are_left_out() {
        let code = mapping(4 * MB, 7 * MB, "rx", 1);
        assert_eq!(starts(&[code.clone(), mapping(7 * MB, 8 * MB, "rw", 1)], true), [4]);
        assert_eq!(starts(&[code.clone(), mapping(7 * MB, 8 * MB, "r", 2)], true), [4]);
        assert_eq!(starts(&[code.clone(), Mapping { changed: true, ..mapping(7 * MB, 8 * MB, "r", 1) }], true), [4]);
        assert_eq!(starts(&[Mapping { private: false, ..code.clone() }], true), []);
        assert_eq!(starts(&[Mapping { read: false, ..code }], true), []);
    }

    #[test]
    fn pieces_keep_their_offsets_in_the_file() {
        let maps = [mapping(3 * MB, 9 * MB, "rx", 1)];
        let region = &regions(&maps, None, false)[1];
        assert_eq!((region.start, region.pieces[0].start, region.pieces[0].offset), (6 * MB, 6 * MB, 6 * MB as u64));
    }
}
