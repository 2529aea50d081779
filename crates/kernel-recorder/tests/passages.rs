//! What is kept of a recording. The rest of the plugin exists only inside the emulator, so its parts are named by their files.

#[path = "../src/code.rs"]
mod code;
#[path = "../src/marker.rs"]
mod marker;
#[path = "../src/passages.rs"]
mod passages;

use passages::{Entry, Passage, compact, typical};

fn access(address: u64, store: bool) -> Entry {
    Entry::Access { address, size_log2: 0, store, index: 0 }
}

/// A passage of `blocks` blocks.
fn passage(blocks: usize) -> Passage {
    Passage { entries: vec![Entry::Block(1); blocks] }
}

#[test]
fn passages_of_median_length_are_typical_the_latest_first() {
    let all: Vec<Passage> = [900, 10, 12, 11, 11, 300, 11, 10].map(passage).into();
    assert_eq!(typical(&all.iter().collect::<Vec<_>>()), [3, 4, 6]);
    assert_eq!(typical(&[&passage(70_000), &passage(70_001)]), [1], "one of long ones");
    assert_eq!(typical(&[]), [0; 0]);
}

#[test]
fn a_repeated_string_instruction_is_fetched_once_and_accesses_whole_lines() {
    let string = 7;
    let copy = (0..256).flat_map(|n| [Entry::Block(string), access(0x1000 + n, false), access(0x2000 + n, true)]);
    let entries =
        [Entry::Block(1), access(5, false), access(6, false)].into_iter().chain(copy).chain([Entry::Block(2)]);
    let all = Passage { entries: entries.collect() };
    let kept = compact(&all, |block| block == string, false);
    let lines = |from: u64, store| (0..4).map(move |n| access(from + 64 * n, store));
    let mut expected = vec![Entry::Block(1), access(5, false), access(6, false), Entry::Block(string)];
    expected.extend(lines(0x1000, false).zip(lines(0x2000, true)).flat_map(|(load, store)| [load, store]));
    expected.push(Entry::Block(2));
    assert_eq!(kept, expected);
}

#[test]
fn clearing_a_page_is_left_out_where_the_simulator_clears_it() {
    let clear = (0..4096).flat_map(|n| [Entry::Block(7), access(0x3000 + n, true)]);
    let all = Passage { entries: clear.collect() };
    let lengths = [false, true].map(|clears_pages| compact(&all, |block| block == 7, clears_pages).len());
    assert_eq!(lengths, [1 + 64, 1]);
}

#[test]
fn a_marker_is_a_no_operation_with_a_number() {
    assert_eq!(marker::number(&[0x0f, 0x1f, 0x84, 0x00, 0x2c, 0x01, 0, 0]), Some(300));
    // Compilers align code with a displacement of 0, or other lengths.
    assert_eq!(marker::number(&[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0]), None);
    assert_eq!(marker::number(&[0x0f, 0x1f, 0x44, 0x00, 0x07]), None);
}

#[test]
fn code_keeps_operations_registers_and_targets_and_loses_constants() {
    let of = |bytes: &[u8]| code::without_constants(0x1000, bytes);
    // mov rax, [rbx+0x12345678]; add ecx, 0x77; movabs rdx, …; mov dword [rsp+8], 0x55
    assert_eq!(of(&[0x48, 0x8b, 0x83, 0x78, 0x56, 0x34, 0x12]), [0x48, 0x8b, 0x83, 0, 0, 0, 0]);
    assert_eq!(of(&[0x83, 0xc1, 0x77]), [0x83, 0xc1, 0]);
    assert_eq!(of(&[0x48, 0xba, 1, 2, 3, 4, 5, 6, 7, 8]), [0x48, 0xba, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of(&[0xc7, 0x44, 0x24, 8, 0x55, 0, 0, 0]), [0xc7, 0x44, 0x24, 0, 0, 0, 0, 0]);
    // Branches: jne +0x40, call -5.
    assert_eq!(of(&[0x75, 0x40]), [0x75, 0x40]);
    assert_eq!(of(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), [0xe8, 0xfb, 0xff, 0xff, 0xff]);
}
