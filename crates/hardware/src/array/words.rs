//! Searching and reordering the ways of a set: short runs of words, a few vectors long.
//!
//! The loops run over whole vectors and hold no branch on where a word is found: that position is unpredictable, and a
//! misprediction costs more than the spare work. Each function has a portable form for builds without AVX2.

/// The tag of a free way. No entry has it.
pub(crate) const EMPTY: u64 = 0;

/// A word that an array can keep with each tag.
pub(crate) trait Word: Copy + Default {
    /// Puts `first` in front and moves the words before number `way` back by one, which overwrites that word.
    fn push_front(words: &mut [Self], way: usize, first: Self);
}

/// Returns the index of `tag`, comparing all ways at once.
#[inline(always)]
pub(super) fn find_in_set<const WAYS: usize>(tags: &[u64; WAYS], tag: u64) -> Option<usize> {
    let mut hits = 0u32;
    let (fours, rest) = tags.as_chunks::<4>();
    for (i, four) in fours.iter().enumerate() {
        hits |= equal_mask(four, tag) << (4 * i);
    }
    for (i, &t) in rest.iter().enumerate() {
        hits |= u32::from(t == tag) << (4 * fours.len() + i);
    }
    if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
}

/// Returns the index of `tag`, comparing sixteen ways at a time.
#[inline(always)]
pub(crate) fn find_in_slice(tags: &[u64], tag: u64) -> Option<usize> {
    let (chunks, rest) = tags.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        if let Some(way) = find_in_set(chunk, tag) {
            return Some(16 * i + way);
        }
    }
    rest.iter().position(|&t| t == tag).map(|way| 16 * chunks.len() + way)
}

/// Returns the index of `tag` and that of the first [`EMPTY`] word, in one pass.
#[inline(always)]
pub(crate) fn find_tag_and_hole(tags: &[u64], tag: u64) -> (Option<usize>, Option<usize>) {
    let first =
        |found: Option<usize>, bits: u32, at| found.or((bits != 0).then(|| at + bits.trailing_zeros() as usize));
    let (mut found, mut empty) = (None, None);
    for (chunk, at) in tags.chunks(16).zip((0..).step_by(16)) {
        let (fours, rest) = chunk.as_chunks::<4>();
        let bits = |tag| {
            let rest = rest.iter().enumerate().map(|(i, &t)| u32::from(t == tag) << (4 * fours.len() + i));
            fours
                .iter()
                .enumerate()
                .map(|(i, four)| equal_mask(four, tag) << (4 * i))
                .chain(rest)
                .fold(0, |all, some| all | some)
        };
        (found, empty) = (first(found, bits(tag), at), first(empty, bits(EMPTY), at));
    }
    (found, empty)
}

/// Returns which of four words equal `word`, as bits. Written with intrinsics because compilers turn the plain loop into
/// twenty instructions rather than these three.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(always)]
pub(crate) fn equal_mask(four: &[u64; 4], word: u64) -> u32 {
    use std::arch::x86_64::{
        _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_set1_epi64x,
    };
    // SAFETY: AVX2 is enabled for this whole build; the load reads the 32 bytes that `four` refers to.
    unsafe {
        let four = _mm256_loadu_si256(four.as_ptr().cast());
        let same = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(word as i64));
        _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
#[inline(always)]
pub(crate) fn equal_mask(four: &[u64; 4], word: u64) -> u32 {
    four.iter().enumerate().map(|(i, &w)| u32::from(w == word) << i).sum()
}

impl Word for bool {
    /// Handles eight flags at a time, as the bytes of one word.
    #[inline(always)]
    fn push_front(words: &mut [bool], way: usize, first: bool) {
        let (eights, rest) = words.as_chunks_mut::<8>();
        let beyond = 8 * eights.len();
        let mut carry = u64::from(first);
        for (i, eight) in eights.iter_mut().enumerate() {
            let old = u64::from_le_bytes(eight.map(u8::from));
            let moved = (way + 1).saturating_sub(8 * i).min(8);
            let unmoved = u64::MAX.checked_shl(8 * moved as u32).unwrap_or(0);
            *eight = ((old << 8 | carry) & !unmoved | old & unmoved).to_le_bytes().map(|byte| byte != 0);
            carry = old >> 56;
        }
        push_front_scalar(rest, (way + 1).saturating_sub(beyond), carry != 0);
    }
}

/// Moves the first `ways` of a few words back by one and puts `carry` in front, one word at a time.
#[inline(always)]
fn push_front_scalar<T: Copy>(words: &mut [T], ways: usize, mut carry: T) {
    for (i, word) in words.iter_mut().enumerate() {
        let old = *word;
        *word = if i < ways { carry } else { old };
        carry = old;
    }
}

impl Word for u64 {
    /// Handles four words at a time. It rewrites every vector, because `way` is unpredictable.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    fn push_front(words: &mut [u64], way: usize, first: u64) {
        use std::arch::x86_64::{
            __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
            _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_storeu_si256,
        };
        let (fours, rest) = words.as_chunks_mut::<4>();
        let beyond = fours.len();
        // SAFETY: AVX2 is enabled for this whole build; every load and store covers the 32 bytes of one four.
        let carry = unsafe {
            let positions = _mm256_setr_epi64x(0, 1, 2, 3);
            let mut carry = _mm256_set1_epi64x(first as i64);
            for (i, four) in fours.iter_mut().enumerate() {
                let at: *mut __m256i = four.as_mut_ptr().cast();
                let old = _mm256_loadu_si256(at);
                let rotated = _mm256_permute4x64_epi64::<0b10_01_00_11>(old);
                let moved = _mm256_blend_epi32::<0b11>(rotated, carry);
                carry = rotated;
                let within = _mm256_cmpgt_epi64(_mm256_set1_epi64x(way as i64 + 1 - 4 * i as i64), positions);
                _mm256_storeu_si256(at, _mm256_blendv_epi8(old, moved, within));
            }
            std::arch::x86_64::_mm256_extract_epi64::<0>(carry) as u64
        };
        push_front_scalar(rest, (way + 1).saturating_sub(4 * beyond), carry);
    }

    #[inline(always)]
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    fn push_front(words: &mut [u64], way: usize, first: u64) {
        words.copy_within(0..way, 1);
        words[0] = first;
    }
}

/// Removes word number `way`: the words behind it move forward by one, and the last becomes [`EMPTY`]. Handles four words
/// at a time, starting with the vector of `way`.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
pub(crate) fn remove_way(words: &mut [u64], way: usize) {
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_storeu_si256,
    };
    let (fours, rest) = words.as_chunks_mut::<4>();
    let mut behind = EMPTY;
    for (i, word) in rest.iter_mut().enumerate().rev() {
        let old = *word;
        *word = if 4 * fours.len() + i < way { old } else { behind };
        behind = old;
    }
    // SAFETY: AVX2 is enabled for this whole build; every load and store covers the 32 bytes of one four.
    unsafe {
        let positions = _mm256_setr_epi64x(0, 1, 2, 3);
        let mut carry = _mm256_set1_epi64x(behind as i64);
        for (i, four) in fours.iter_mut().enumerate().skip(way / 4).rev() {
            let at: *mut __m256i = four.as_mut_ptr().cast();
            let old = _mm256_loadu_si256(at);
            let rotated = _mm256_permute4x64_epi64::<0b00_11_10_01>(old);
            let moved = _mm256_blend_epi32::<0b1100_0000>(rotated, carry);
            carry = rotated;
            let unmoved = _mm256_cmpgt_epi64(_mm256_set1_epi64x(way as i64 - 4 * i as i64), positions);
            _mm256_storeu_si256(at, _mm256_blendv_epi8(moved, old, unmoved));
        }
    }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub(crate) fn remove_way(words: &mut [u64], way: usize) {
    let last = words.len() - 1;
    words.copy_within(way + 1.., way);
    words[last] = EMPTY;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remove_way_closes_the_gap_at_every_width_and_way() {
        for width in 1..40 {
            for way in 0..width {
                let mut words: Vec<u64> = (1..=width as u64).collect();
                let mut expected = words.clone();
                assert_eq!(find_tag_and_hole(&words, way as u64 + 1), (Some(way), None));
                remove_way(&mut words, way);
                expected.remove(way);
                expected.push(EMPTY);
                assert_eq!(words, expected, "way {way} of {width}");
                assert_eq!(find_tag_and_hole(&words, way as u64 + 1), (None, Some(width - 1)));
            }
        }
    }
}
