//! Copies the bytes of a file with its holes, and compares them.

use crate::image::Image;
use crate::layout::SUPERPAGE;
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a write. The page cache makes folios of 2 MB of such pieces.
const PIECE: u64 = 2 * SUPERPAGE;

/// Copies the bytes of a file to an empty one. Holes stay holes, where the file system reports them.
pub(crate) fn copy_bytes(image: &Image, copy: &File) -> io::Result<()> {
    let size = image.elf.size;
    copy.set_len(size)?;
    let mut piece = vec![0; PIECE as usize];
    let mut offset = 0;
    while let Some(data) = next_data(&image.file, offset, size)? {
        offset = data.start;
        while offset < data.end {
            // Pieces start at multiples of their size, whatever the holes.
            let end = data.end.min((offset + 1).next_multiple_of(PIECE));
            let bytes = &mut piece[..(end - offset) as usize];
            image.file.read_exact_at(bytes, offset)?;
            copy.write_all_at(bytes, offset)?;
            offset = end;
        }
    }
    Ok(())
}

/// Returns the first range of data at or after `offset`. `None` if there is none below `size`.
fn next_data(file: &File, offset: u64, size: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // A file system that knows no holes.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => offset,
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
    Ok((start < end).then_some(start..end))
}

/// Returns whether two files have the same bytes.
pub(crate) fn same_bytes(a: &File, b: &File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; SUPERPAGE as usize], vec![0; SUPERPAGE as usize]);
    let size = a.metadata()?.len();
    if size != b.metadata()?.len() {
        return Ok(false);
    }
    for offset in (0..size).step_by(left.len()) {
        let length = left.len().min((size - offset) as usize);
        a.read_exact_at(&mut left[..length], offset)?;
        b.read_exact_at(&mut right[..length], offset)?;
        if left[..length] != right[..length] {
            return Ok(false);
        }
    }
    Ok(true)
}
