//! Follows a chain with the loop that the probe times: `kernel PAGES LAPS` visits one line of each of PAGES pages, LAPS times.
//!
//! It is compiled by the test, for any x86-64 processor: an emulator may lack the extensions that the workspace is built for.

#[path = "../../src/native/follow.rs"]
#[allow(dead_code)]
mod follow;

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (pages, laps) = (numbers[0], numbers[1]);
    let mut memory = vec![0usize; (pages + 1) * 512];
    let aligned = memory.as_mut_ptr().map_addr(|at| at.next_multiple_of(4096));
    // SAFETY: a page of 512 words is left for alignment, so that all places lie within the vector.
    let place = |page: usize| unsafe { aligned.add(page * 512 + page % 64 * 8) };
    // All pages in an order without a pattern: 31 has no factor in common with the numbers of pages that the test uses.
    let order: Vec<usize> = (0..pages).map(|i| i * 31 % pages).collect();
    for (i, &page) in order.iter().enumerate() {
        // SAFETY: as above, and nothing else refers to the place.
        unsafe { place(page).cast::<*mut usize>().write(place(order[(i + 1) % pages])) };
    }
    let end = follow::chains(&[place(0).cast_const().cast()], (pages * laps) as u64);
    assert_eq!(end[0], place(0).cast_const().cast());
}
