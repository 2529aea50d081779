//! An array that costs host memory only where it holds something: metadata of a terabyte of frames of which a program
//! touches a few thousand, or of whose free blocks there are few.

const CHUNK: usize = 512;

#[derive(Clone, Debug)]
struct Chunk<T> {
    items: Box<[T]>,
    /// How many are not the default, as far as [`Chunked::set`] was told.
    filled: u16,
}

/// A lazily filled array of `len` copies of `T::default()`.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Option<Chunk<T>>>,
}

impl<T: Copy + Default + PartialEq> Chunked<T> {
    pub(crate) fn new(len: u64) -> Self {
        Chunked { chunks: vec![None; (len as usize).div_ceil(CHUNK)] }
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> T {
        match &self.chunks[at as usize / CHUNK] {
            Some(chunk) => chunk.items[at as usize % CHUNK],
            None => T::default(),
        }
    }

    /// For changes after which the item is the default if and only if it was before.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u64) -> &mut T {
        &mut self.chunk(at).items[at as usize % CHUNK]
    }

    /// Puts `item` in place of what was there, which is returned. Whatever holds nothing but defaults costs nothing again.
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

    /// How many items there is memory for.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.chunks.iter().flatten().map(|chunk| chunk.items.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_again_costs_nothing_again() {
        let mut array = Chunked::<u8>::new(10_000);
        assert_eq!((array.get(9_999), array.held()), (0, 0));
        assert_eq!((array.set(700, 1), array.set(701, 2), array.set(9_999, 3)), (0, 0, 0));
        assert_eq!(array.held(), 2 * CHUNK);
        *array.get_mut(701) = 9;
        assert_eq!((array.set(700, 0), array.held()), (1, 2 * CHUNK));
        assert_eq!((array.set(701, 0), array.held()), (9, CHUNK));
        assert_eq!((array.get(700), array.get(701), array.get(9_999)), (0, 0, 3));
    }
}
