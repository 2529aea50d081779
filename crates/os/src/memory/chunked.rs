//! An array that takes host memory only where it holds something. A terabyte of simulated memory has 268 million frames, of
//! which a program may touch a few thousand.

const CHUNK: usize = 512;

#[derive(Clone, Debug)]
struct Chunk<T> {
    items: Box<[T]>,
    /// Items that [`Chunked::set`] has made other than the default.
    filled: u16,
}

/// An array of `T::default()` whose chunks are allocated on the first write.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Option<Chunk<T>>>,
}

impl<T: Copy + Default + PartialEq> Chunked<T> {
    /// Returns an array of `len` defaults.
    pub(crate) fn new(len: u64) -> Self {
        Chunked { chunks: vec![None; (len as usize).div_ceil(CHUNK)] }
    }

    /// Returns the item at `at`.
    #[inline]
    pub(crate) fn get(&self, at: u64) -> T {
        match &self.chunks[at as usize / CHUNK] {
            Some(chunk) => chunk.items[at as usize % CHUNK],
            None => T::default(),
        }
    }

    /// Returns the item at `at`, for changes after which it is the default if and only if it was before.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u64) -> &mut T {
        &mut self.chunk(at).items[at as usize % CHUNK]
    }

    /// Replaces the item at `at`, which is returned. Frees the chunk if only defaults remain.
    #[inline]
    pub(crate) fn set(&mut self, at: u64, item: T) -> T {
        let chunk = self.chunk(at);
        let old = std::mem::replace(&mut chunk.items[at as usize % CHUNK], item);
        chunk.filled = chunk.filled + u16::from(item != T::default()) - u16::from(old != T::default());
        if chunk.filled == 0 {
            self.chunks[at as usize / CHUNK] = None;
        }
        old
    }

    #[inline]
    fn chunk(&mut self, at: u64) -> &mut Chunk<T> {
        self.chunks[at as usize / CHUNK]
            .get_or_insert_with(|| Chunk { items: vec![T::default(); CHUNK].into_boxed_slice(), filled: 0 })
    }

    /// Returns the number of items that are allocated.
    #[cfg(test)]
    fn allocated(&self) -> usize {
        self.chunks.iter().flatten().map(|chunk| chunk.items.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_of_defaults_takes_no_memory() {
        let mut array = Chunked::<u8>::new(10_000);
        assert_eq!((array.get(9_999), array.allocated()), (0, 0));
        assert_eq!((array.set(700, 1), array.set(701, 2), array.set(9_999, 3)), (0, 0, 0));
        assert_eq!(array.allocated(), 2 * CHUNK);
        *array.get_mut(701) = 9;
        assert_eq!((array.set(700, 0), array.allocated()), (1, 2 * CHUNK));
        assert_eq!((array.set(701, 0), array.allocated()), (9, CHUNK));
        assert_eq!((array.get(700), array.get(701), array.get(9_999)), (0, 0, 3));
    }
}
