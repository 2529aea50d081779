use super::*;
use crate::{Advice, Backing, FileId, Kind, Map, Protection, Ref, Remap, Span, VirtAddr};
use std::collections::VecDeque;

fn reader(buffers: usize, ready: usize) -> (Ring, Reader) {
    let ring = Ring::create(Memory::private(buffers));
    (ring.clone(), Reader::new(ring, ready))
}

fn owner(thread: u32) -> Owner {
    Owner { process: 0, image: 0, thread, pid: 1 }
}

#[test]
fn buffers_arrive_in_the_order_of_publication_and_acquisition_fails_when_none_is_free() {
    let (ring, mut reader) = reader(4, 3);
    let taken: Vec<_> = (0..3).map(|thread| ring.acquire(BufferKind::Stream, owner(thread)).unwrap()).collect();
    assert!(ring.acquire(BufferKind::Stream, owner(3)).is_none());
    for i in [1, 0, 2] {
        ring.publish(taken[i]);
    }
    let mut order = VecDeque::from([99]);
    reader.take_published(&mut order).unwrap();
    assert_eq!(order.pop_front(), Some(99));
    let threads: Vec<_> = order.iter().map(|&index| ring.buffer(index).unwrap().owner().thread).collect();
    assert_eq!(threads, [1, 0, 2]);
    reader.release(order[0]);
    assert!(ring.acquire(BufferKind::Stream, owner(9)).is_some());
    assert_eq!((reader.grow(5), reader.grow(5)), (1, 0));
    assert!(ring.acquire(BufferKind::Dictionary, owner(9)).is_some());
}

#[test]
fn a_buffer_accepts_words_until_it_is_full() {
    let (ring, _) = reader(1, 1);
    let buffer = ring.acquire(BufferKind::Stream, owner(0)).unwrap();
    for word in 0..BUFFER_WORDS as u64 - 2 {
        assert!(buffer.push(word));
    }
    assert!(!buffer.push_all(&[1, 2, 3]));
    assert!(buffer.push_all(&[1, 2]));
    assert!(!buffer.push(3));
    assert_eq!(buffer.cursor(), BUFFER_WORDS);
    assert_eq!(buffer.words(7, 9).iter().map(|w| w.load(Ordering::Relaxed)).collect::<Vec<_>>(), [7, 8]);
    assert!(!Buffer::full().push(1));
    // A hostile process has written the cursor.
    buffer.cursor.store(u64::MAX, Ordering::Relaxed);
    assert!(!buffer.push(3) && !buffer.push_all(&[1, 2]));
    assert_eq!(buffer.cursor(), BUFFER_WORDS);
}

#[test]
fn the_reader_receives_every_word_in_order_under_contention() {
    const EACH: u64 = if cfg!(miri) { 12 } else { 40_000 };
    const WORDS: usize = if cfg!(miri) { 5 } else { 1000 };
    let (ring, mut reader) = reader(4, 4);
    let writers: Vec<_> = (0..3u32)
        .map(|thread| {
            let ring = ring.clone();
            std::thread::spawn(move || {
                let mut buffer = None;
                for word in 0..EACH {
                    loop {
                        let mine = match buffer {
                            Some(mine) => mine,
                            None => match ring.acquire(BufferKind::Stream, owner(thread)) {
                                Some(fresh) => fresh,
                                None => {
                                    std::thread::yield_now();
                                    continue;
                                }
                            },
                        };
                        buffer = Some(mine);
                        if mine.cursor() < WORDS && mine.push(word) {
                            break;
                        }
                        ring.publish(mine);
                        buffer = None;
                    }
                }
                if let Some(last) = buffer {
                    ring.publish(last);
                }
            })
        })
        .collect();
    let mut next = [0; 3];
    let mut order = VecDeque::new();
    while next != [EACH; 3] {
        reader.take_published(&mut order).unwrap();
        while let Some(index) = order.pop_front() {
            let buffer = ring.buffer(index).unwrap();
            for word in buffer.words(0, buffer.cursor()) {
                let thread = buffer.owner().thread as usize;
                assert_eq!(word.load(Ordering::Relaxed), next[thread]);
                next[thread] += 1;
            }
            reader.release(index);
        }
        std::thread::yield_now();
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn a_cycle_of_links_or_a_number_beyond_the_ring_ends_the_reading() {
    for hostile in 0..4 {
        let (ring, mut reader) = reader(8, 3);
        let taken: Vec<_> = (0..3).map(|thread| ring.acquire(BufferKind::Stream, owner(thread)).unwrap()).collect();
        taken.iter().for_each(|buffer| ring.publish(buffer));
        let first = ring.index(taken[0]);
        match hostile {
            // The oldest leads to the newest, and to itself.
            0 => taken[0].link.store(ring.index(taken[2]) + 1, Ordering::Relaxed),
            1 => taken[0].link.store(first + 1, Ordering::Relaxed),
            2 => taken[0].link.store(u32::MAX, Ordering::Relaxed),
            // A buffer that was never free.
            _ => taken[0].link.store(8, Ordering::Relaxed),
        }
        let mut order = VecDeque::new();
        assert_eq!(reader.take_published(&mut order), Err(Corrupted), "attack {hostile}");
        assert_eq!(order.len(), 3);
        // The same buffers, published again and again, are not taken again before they are released.
        for _ in 0..3 {
            ring.publish(taken[0]);
            assert_eq!(reader.take_published(&mut order), Err(Corrupted));
        }
        assert_eq!(order.len(), 3);
        reader.release(first);
        taken[0].link.store(0, Ordering::Relaxed);
        ring.header().published.0.store(first + 1, Ordering::Relaxed);
        assert_eq!((reader.take_published(&mut order), order.len()), (Ok(()), 4));
    }
}

#[test]
fn a_ring_of_another_size_or_layout_is_refused() {
    let (ring, _) = reader(2, 2);
    drop(ring);
    assert!(Ring::attach(Memory::private(2)).is_none(), "memory without a ring");
}

#[cfg(not(miri))]
#[test]
fn attaching_finds_the_ring_of_another_mapping() {
    let mut file = tempfile::tempfile().unwrap();
    assert!(Memory::map(&file).is_err(), "too short for a header");
    file.set_len(Ring::bytes(2) as u64).unwrap();
    let ring = Ring::create(Memory::map(&file).unwrap());
    let mut reader = Reader::new(ring, 2);
    let again = Ring::attach(Memory::map(&file).unwrap()).unwrap();
    again.publish(again.acquire(BufferKind::Stream, owner(5)).unwrap());
    let mut order = VecDeque::new();
    reader.take_published(&mut order).unwrap();
    assert_eq!(reader.ring().buffer(order[0]).unwrap().owner(), owner(5));
    // The file says that it has more buffers than it is long.
    std::io::Write::write_all(&mut file, &[MAGIC.to_le_bytes(), 9u64.to_le_bytes()].concat()).unwrap();
    assert!(Ring::attach(Memory::map(&file).unwrap()).is_none());
}

#[test]
fn records_and_messages_decode_to_what_was_encoded() {
    let store = Ref::data(Kind::Store, VirtAddr(0x7fff_0000), 3, 17);
    assert_eq!(record::decode(store.0), Some(record::Record::Data(store)));
    let load = Ref::data(Kind::Load, VirtAddr(0x7fff_0000), 3, 17);
    assert_eq!(record::decode(store.0 | load.0), Some(record::Record::LoadStore(load)));
    assert_eq!(record::decode(record::block(u32::MAX)), Some(record::Record::Block(u32::MAX)));
    assert_eq!(record::decode(0), None);
    for (word, number) in [(store.0, Some(0)), (load.0, Some(0)), (record::block(9), Some(9)), (0, None)] {
        assert_eq!(record::block_or_data(word), number);
    }
    assert_eq!(record::block_or_data(store.0 | load.0), None);
    assert_eq!(record::block_or_data(record::block(0)), None);
    assert_eq!(record::block_or_data(Message::Exit.encode()[0]), None);

    let span = Span { start: VirtAddr(0x1000), len: 0x3000 };
    let file = FileKey { device: 1, inode: 2, len: 3, path: "/usr/lib/libc.so.6".into(), in_memory: true };
    let map = Map { huge_shift: 21, populate: true, ..Map::anonymous(VirtAddr(0x5000), 0x1000) };
    let of_file = Map { backing: Backing::File { file: FileId(0), offset: 0x2000 }, shared: true, ..map };
    let messages = [
        Message::Begin { path: "/bin/true".into() },
        Message::Map { map, file: None },
        Message::Map { map: of_file, file: Some(file) },
        Message::Unmap(span),
        Message::Protect(span, Protection::READ_EXECUTE),
        Message::Remap(Remap { from: span, to: span, keep: true }),
        Message::Advise(span, Advice::WillNeed),
        Message::Fork { child: 4, shares_memory: false },
        Message::Fork { child: 5, shares_memory: true },
        Message::Forked { child: 4, pid: 12345 },
        Message::Reaped { pid: 12345 },
        Message::SystemCall(202),
        Message::Exit,
        Message::Fence(vec![FenceEntry { buffer: 3, generation: 1 << 40, cursor: 77 }; 2]),
        Message::Notice(String::new()),
    ];
    for message in messages {
        let words = message.encode();
        let Some(record::Record::Message { code, words: count }) = record::decode(words[0]) else {
            panic!("{message:?}")
        };
        assert_eq!(count as usize, words.len() - 1);
        assert_eq!(Message::decode(code, &words[1..]), Some(message));
    }
    assert_eq!(Message::decode(1, &[u64::MAX]), None);
}

#[test]
fn blocks_decode_to_what_was_defined() {
    for bytes in [&[0x90; 11][..], &[]] {
        let words: Vec<_> =
            define_block(5, VirtAddr(0x40_1000), 11, 11, bytes).into_iter().map(AtomicU64::new).collect();
        let (number, block, used) = read_block(&words).unwrap();
        assert_eq!(
            (number, block.pc, block.len, &*block.bytes, used),
            (5, VirtAddr(0x40_1000), 11, bytes, words.len())
        );
        assert!(read_block(&words[..words.len() - 1]).is_none());
    }
}
