//! An array that costs host memory only where it has been written: metadata of a terabyte of frames of which a program
//! touches a few thousand.

const CHUNK: usize = 512;

/// A lazily filled array of `len` copies of `T::default()`.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Option<Box<[T]>>>,
}

impl<T: Copy + Default> Chunked<T> {
    pub(crate) fn new(len: u64) -> Self {
        Chunked { chunks: vec![None; (len as usize).div_ceil(CHUNK)] }
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> T {
        match &self.chunks[at as usize / CHUNK] {
            Some(chunk) => chunk[at as usize % CHUNK],
            None => T::default(),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u64) -> &mut T {
        let chunk = &mut self.chunks[at as usize / CHUNK];
        &mut chunk.get_or_insert_with(|| vec![T::default(); CHUNK].into_boxed_slice())[at as usize % CHUNK]
    }
}
