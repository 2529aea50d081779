//! Which windows of 2 MB can be moved.

use crate::maps::{File, Mapping};

/// The superpage, in bytes.
pub const SUPERPAGE: usize = 2 << 20;

/// What a window consists of: mappings of one file, cut to the window. What lies between them is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub start: usize,
    pub pieces: Vec<Mapping>,
}

/// Windows that hold code of a file other than `own`, and nothing else but, with `padding`, read-only parts of the same
/// file or nothing. All of it is as in the file, so that it can be put back.
pub fn windows(maps: &[Mapping], own: Option<File>, padding: bool) -> Vec<Window> {
    let code = |mapping: &&Mapping| mapping.execute && mapping.inode != 0 && Some(mapping.file()) != own;
    let mut windows: Vec<Window> = Vec::new();
    for mapping in maps.iter().filter(code) {
        let mut start = mapping.start & !(SUPERPAGE - 1);
        while start < mapping.end {
            if windows.last().is_none_or(|last| last.start < start) {
                windows.extend(window(maps, mapping.file(), start, padding));
            }
            start += SUPERPAGE;
        }
    }
    windows
}

fn window(maps: &[Mapping], file: File, start: usize, padding: bool) -> Option<Window> {
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
    fits.then_some(Window { start, pieces })
}

/// The part of a mapping that lies in a window.
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
        windows(maps, Some((8, 1, 99)), padding).iter().map(|window| window.start / MB).collect()
    }

    #[test]
    fn whole_windows_and_those_that_can_be_padded() {
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
    fn windows_with_other_things_stay() {
        let code = mapping(4 * MB, 7 * MB, "rx", 1);
        assert_eq!(starts(&[code.clone(), mapping(7 * MB, 8 * MB, "rw", 1)], true), [4]);
        assert_eq!(starts(&[code.clone(), mapping(7 * MB, 8 * MB, "r", 2)], true), [4]);
        assert_eq!(starts(&[code.clone(), Mapping { changed: true, ..mapping(7 * MB, 8 * MB, "r", 1) }], true), [4]);
        assert_eq!(starts(&[Mapping { private: false, ..code.clone() }], true), []);
        assert_eq!(starts(&[Mapping { read: false, ..code }], true), []);
    }

    #[test]
    fn pieces_know_their_place_in_the_file() {
        let maps = [mapping(3 * MB, 9 * MB, "rx", 1)];
        let window = &windows(&maps, None, false)[1];
        assert_eq!((window.start, window.pieces[0].start, window.pieces[0].offset), (6 * MB, 6 * MB, 6 * MB as u64));
    }
}
