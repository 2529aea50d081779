use super::*;
use crate::{Advice, Backing, FileId, Kind, Map, Protection, Ref, Remap, Span, VirtAddr};
use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;

fn ring(buffers: usize, ready: usize) -> Ring {
    let layout = Layout::from_size_align(Ring::bytes(buffers), BUFFER_BYTES).unwrap();
    // SAFETY: the layout is not empty, and the memory is never freed, so the ring may use it for ever.
    unsafe { Ring::create(alloc_zeroed(layout), buffers, ready) }
}

fn owner(thread: u32) -> Owner {
    Owner { process: 0, image: 0, thread, pid: 1 }
}

#[test]
fn buffers_arrive_in_the_order_of_publication_and_acquisition_fails_when_none_is_free() {
    let ring = ring(4, 3);
    let taken: Vec<_> = (0..3).map(|thread| ring.acquire(BufferKind::Stream, owner(thread)).unwrap()).collect();
    assert!(ring.acquire(BufferKind::Stream, owner(3)).is_none());
    for i in [1, 0, 2] {
        ring.publish(taken[i]);
    }
    let mut order = VecDeque::from([99]);
    ring.take_published(&mut order);
    assert_eq!(order.pop_front(), Some(99));
    let threads: Vec<_> = order.iter().map(|&index| ring.buffer(index).unwrap().owner().thread).collect();
    assert_eq!(threads, [1, 0, 2]);
    ring.release(order[0]);
    assert!(ring.acquire(BufferKind::Stream, owner(9)).is_some());
    assert_eq!((ring.grow(5), ring.grow(5)), (1, 0));
    assert!(ring.acquire(BufferKind::Dictionary, owner(9)).is_some());
}

#[test]
fn a_buffer_accepts_words_until_it_is_full() {
    let ring = ring(1, 1);
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
}

#[test]
fn the_reader_receives_every_word_in_order_under_contention() {
    const EACH: u64 = 40_000;
    let ring = ring(4, 4);
    let writers: Vec<_> = (0..3u32)
        .map(|thread| {
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
                        if mine.cursor() < 1000 && mine.push(word) {
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
        ring.take_published(&mut order);
        while let Some(index) = order.pop_front() {
            let buffer = ring.buffer(index).unwrap();
            for word in buffer.words(0, buffer.cursor()) {
                let thread = buffer.owner().thread as usize;
                assert_eq!(word.load(Ordering::Relaxed), next[thread]);
                next[thread] += 1;
            }
            ring.release(index);
        }
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn attaching_finds_the_ring_and_its_options() {
    let ring = ring(2, 2);
    assert!(ring.set_options(b"nineteen characters"));
    assert!(!ring.set_options(&[0; OPTION_BYTES + 1]));
    let base = ring.header() as *const Header as *mut u8;
    // SAFETY: this is the memory of `ring`, which is never freed.
    let again = unsafe { Ring::attach(base, Ring::bytes(2)) }.unwrap();
    assert_eq!(again.options(), b"nineteen characters");
    // SAFETY: the same memory; the length is shorter than it is.
    assert!(unsafe { Ring::attach(base, Ring::bytes(1)) }.is_none());
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
