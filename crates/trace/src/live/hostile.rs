//! Tests with programs that overwrite the memory of the capture, which every traced process can open.

use super::decode::Decoder;
use super::memory::SharedMemory;
use reach_core::ring::{BUFFER_BYTES, BufferKind, Message, Owner, record};
use reach_core::{Advice, Chunk, Event, Random, Span, VirtAddr};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Words of a buffer's header.
const HEAD: usize = 8;

/// Writes words to a buffer of the shared file, from word `at` of its header on.
fn overwrite(memory: &SharedMemory, buffer: u32, at: usize, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let from = (u64::from(buffer) + 1) * BUFFER_BYTES as u64 + 8 * at as u64;
    memory.file().write_all_at(&bytes, from).unwrap();
}

/// Returns a word that is worth a try: any number, or one that means something.
fn word(random: &mut Random) -> u64 {
    let any = random.below(u64::MAX);
    match random.below(10) {
        0 => any,
        1 => record::block(any as u32 % 100),
        2 => u64::MAX,
        3 => any % 10,
        4 => record::block(any as u32),
        // The head of a message of any kind.
        5..=7 => 2 << 62 | (random.below(14) << 16) | random.below(9),
        8 => 1 << 48 | any >> 20,
        _ => ((any % 8) << 32) | (any % 9000),
    }
}

fn owner(process: u32) -> Owner {
    Owner { process, image: 0, thread: process, pid: 0 }
}

/// Reads until nothing comes, at most `most` chunks, and ends the program.
fn read_all(decoder: &mut Decoder, most: usize) {
    let mut chunk = Chunk::default();
    for _ in 0..most {
        chunk.clear();
        let any = decoder.read(&mut chunk, 1 << 17);
        decoder.finish_dead(true, &mut chunk);
        assert_eq!(chunk.fetched.len(), chunk.refs.iter().filter(|r| r.0 >> 48 & 3 == 0).count());
        assert!(chunk.refs.len() <= 3 << 20, "{} references in one chunk", chunk.refs.len());
        if any.is_none() {
            break;
        }
    }
    decoder.finish(&mut chunk);
}

#[test]
fn no_words_in_the_ring_make_the_reader_panic_or_loop() {
    let mut random = Random::new(22);
    let before = Instant::now();
    for _ in 0..300 {
        let memory = SharedMemory::new().unwrap();
        let (ring, mut decoder) = (memory.ring(), Decoder::new(memory.reader(), std::process::id()));
        for number in 0..8 {
            let kind = if number == 0 { BufferKind::Dictionary } else { BufferKind::Stream };
            ring.publish(ring.acquire(kind, owner(number % 3)).unwrap());
        }
        for buffer in 0..8 {
            let words: Vec<u64> = (0..200).map(|_| word(&mut random)).collect();
            overwrite(&memory, buffer, HEAD, &words);
            let small = |random: &mut Random| random.below(10);
            // Cursor; link and kind; process and image; thread and pid; generation.
            let mut head =
                [200, small(&mut random) | ((small(&mut random) % 3) << 32), small(&mut random), small(&mut random), 1];
            if random.below(3) == 0 {
                head[random.below(5) as usize] = word(&mut random);
            }
            overwrite(&memory, buffer, 0, &head);
        }
        read_all(&mut decoder, 100);
    }
    assert!(before.elapsed() < Duration::from_secs(60), "{:?}", before.elapsed());
}

#[test]
fn a_process_that_writes_while_the_reader_reads_neither_ends_nor_delays_it() {
    let memory = SharedMemory::new().unwrap();
    let mut decoder = Decoder::new(memory.reader(), std::process::id());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            while !done.load(Ordering::Relaxed) {
                let words: Vec<u64> = (0..64).map(|_| word(&mut random)).collect();
                overwrite(&memory, random.below(8) as u32, random.below(16) as usize, &words);
                let ring = memory.ring();
                ring.publish(ring.buffer(random.below(8) as u32).unwrap());
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            let reading = Instant::now();
            read_all(&mut decoder, 2);
            assert!(reading.elapsed() < Duration::from_secs(20), "{:?}", reading.elapsed());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(decoder.losses().iter().any(|loss| loss.contains("overwritten the memory")), "{:?}", decoder.losses());
    assert!(decoder.losses().len() <= 101);
}

/// Two fences that each want the other's buffer read first.
#[test]
fn fences_that_refer_to_each_other_end() {
    let memory = SharedMemory::new().unwrap();
    let (ring, mut decoder) = (memory.ring(), Decoder::new(memory.reader(), std::process::id()));
    let buffers: Vec<_> = (0..200).map(|n| ring.acquire(BufferKind::Stream, owner(n % 2)).unwrap()).collect();
    for (at, buffer) in buffers.iter().enumerate() {
        let to = buffers[(at + 1) % buffers.len()];
        let entry =
            |cursor| reach_core::ring::FenceEntry { buffer: ring.index(to), generation: to.generation(), cursor };
        for cursor in 0..100 {
            buffer.push_all(&Message::Fence(vec![entry(cursor), entry(u32::MAX)]).encode());
        }
        ring.publish(buffer);
    }
    read_all(&mut decoder, 1000);
}

/// A program without references: only messages, for ever.
#[test]
fn a_program_of_messages_gives_chunks_of_bounded_size() {
    let memory = SharedMemory::new().unwrap();
    let (ring, mut decoder) = (memory.ring(), Decoder::new(memory.reader(), std::process::id()));
    let advice = Message::Advise(Span { start: VirtAddr(0x1000), len: 0x1000 }, Advice::WillNeed).encode();
    let mut chunk = Chunk::default();
    for _ in 0..2000 {
        while let Some(buffer) = ring.acquire(BufferKind::Stream, owner(0)) {
            while buffer.push_all(&advice) {}
            ring.publish(buffer);
        }
        if decoder.read(&mut chunk, 1 << 17) == Some(true) {
            assert!(chunk.events.len() < 1 << 20, "{} events", chunk.events.len());
            return;
        }
    }
    panic!("the chunk never ends: {} events", chunk.events.len());
}

#[test]
fn processes_are_announced_once_and_spans_lie_in_the_programs_half() {
    let memory = SharedMemory::new().unwrap();
    let (ring, mut decoder) = (memory.ring(), Decoder::new(memory.reader(), std::process::id()));
    let buffer = ring.acquire(BufferKind::Stream, owner(0)).unwrap();
    for child in [0, 5, 5] {
        buffer.push_all(&Message::Fork { child, shares_memory: false }.encode());
    }
    for (start, len) in [(0x1000, 0x1000), (u64::MAX, 2), (1 << 47, 1), (0, 1 << 48)] {
        buffer.push_all(&Message::Unmap(Span { start: VirtAddr(start), len }).encode());
    }
    ring.publish(buffer);
    let mut chunk = Chunk::default();
    decoder.read(&mut chunk, 1);
    let of = |wanted: fn(&Event) -> bool| chunk.events.iter().filter(|(_, event)| wanted(event)).count();
    assert_eq!(of(|event| matches!(event, Event::Fork { .. })), 1, "{:?}", chunk.events);
    assert_eq!(of(|event| matches!(event, Event::Unmap(_))), 1, "{:?}", chunk.events);
}

#[test]
fn no_process_can_shorten_the_memory_under_the_reader() {
    let memory = SharedMemory::new().unwrap();
    assert!(memory.file().set_len(0).is_err());
    assert!(memory.file().set_len(1 << 40).is_err());
    assert_eq!(memory.reader().in_use(), 256);
}
